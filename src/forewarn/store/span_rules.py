"""Rules of the spans: the intervals in the lives of VMs."""

from collections.abc import Iterator

from forewarn.fleet.model import Span, SpanKind, Vm, VmState
from forewarn.protocol.operations import OperationState
from forewarn.store.contents import Contents, first_of

INSTANT_DIGITS = 17
"""Digits of the instant in a span's ID, at which the span was first written."""


def open_spans(contents: Contents) -> Iterator[str]:
    """Report open spans that do not match the state of the VM."""
    for name in sorted(contents.open_spans.keys() - contents.vms.keys()):
        yield f"VM {name} does not exist but has an open span"
    for vm in contents.vms.values():
        spans = contents.open_spans[vm.name]
        lives = [span for span in spans if not span.is_outage]
        outages = [span for span in spans if span.is_outage]
        if vm.state is VmState.DELETED:
            if spans:
                yield f"VM {vm.name} was deleted but has an open span"
            continue
        if [(life.scope, life.tenant) for life in lives] != [(vm.scope, vm.tenant)]:
            yield f"VM {vm.name} does not have exactly one open span in scope {vm.scope}"
        yield from _wrong_outages(contents, vm, outages)


def _wrong_outages(contents: Contents, vm: Vm, outages: list[Span]) -> Iterator[str]:
    if len(outages) > 1:
        yield f"VM {vm.name} has {len(outages)} open outages at the same time"
    if vm.state is VmState.DOWN:
        if [span.kind for span in outages] != [SpanKind.FAILURE]:
            yield f"VM {vm.name} is down but has no open span of a failure"
        return
    for span in outages:
        operation = contents.operations.get(span.operation)
        if operation is None or operation.state is not OperationState.IMPACTING:
            yield f"VM {vm.name} runs but has an open outage"


def wrong_span(span: Span, contents: Contents) -> str:
    """Return the problem of one span, or nothing.

    The spans of a VM are read in the order of their IDs, which is that of their
    beginnings. Two open spans cannot be of the same sort. After the wall clock was set
    back, ended spans may overlap and be out of order.
    """
    last = contents.last_spans.get(span.is_outage, span)
    contents.last_spans[span.is_outage] = span
    written = span.span_id[len(span.vm) + 1 :][:INSTANT_DIGITS]
    is_twice = last.vm == span.vm and last.is_open and span.is_open
    me = f"span {span.span_id} of VM {span.vm}"
    return first_of(
        (
            not span.span_id.startswith(f"{span.vm}/"),
            f"{me} has the ID of another VM",
        ),
        (span.ended and span.ended < span.began, f"{me} ends before it begins"),
        (
            f"{span.began:0{INSTANT_DIGITS}d}" < written,
            f"{me} begins before it was written",
        ),
        (
            is_twice and last is not span,
            f"spans {last.span_id} and {span.span_id} of VM {span.vm} overlap",
        ),
    )
