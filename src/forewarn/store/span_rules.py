"""What must hold of the times of VMs that are kept for history."""

from collections.abc import Iterator

from forewarn.fleet.model import Vm, VmState
from forewarn.fleet.spans import Span, SpanKind
from forewarn.protocol.operations import OperationState
from forewarn.store.contents import Contents, first_of

INSTANT_DIGITS = 17
"""Of a time's id, behind its VM: the instant at which it was first written."""


def open_spans(contents: Contents) -> Iterator[str]:
    """Tell where what goes on of a VM is not how the VM is."""
    for name in sorted(contents.open_spans.keys() - contents.vms.keys()):
        yield f"vm {name} is not there, and a time of it goes on"
    for vm in contents.vms.values():
        spans = contents.open_spans[vm.name]
        lives = [span for span in spans if not span.is_outage]
        outages = [span for span in spans if span.is_outage]
        if vm.state is VmState.DELETED:
            if spans:
                yield f"vm {vm.name} was deleted, and a time of it goes on"
            continue
        if [(life.scope, life.tenant) for life in lives] != [(vm.scope, vm.tenant)]:
            yield f"it is not noted once that vm {vm.name} is in scope {vm.scope}"
        yield from _wrong_outages(contents, vm, outages)


def _wrong_outages(contents: Contents, vm: Vm, outages: list[Span]) -> Iterator[str]:
    if len(outages) > 1:
        yield f"vm {vm.name} has {len(outages)} interruptions at once"
    if vm.state is VmState.DOWN:
        if [span.kind for span in outages] != [SpanKind.FAILURE]:
            yield f"vm {vm.name} is down, and it is not noted since when"
        return
    for span in outages:
        operation = contents.operations.get(span.operation)
        if operation is None or operation.state is not OperationState.IMPACTING:
            yield f"vm {vm.name} runs, and an interruption of it goes on"


def wrong_span(span: Span, contents: Contents) -> str:
    """Return what is wrong with one time of a VM, or nothing.

    The times of a VM are read in the order of their ids, which is that of their
    beginnings. Two that go on cannot be of the same sort. After a step of the wall
    clock back, times that are over may overlap, and stand in another order than they
    came.
    """
    last = contents.last_spans.get(span.is_outage, span)
    contents.last_spans[span.is_outage] = span
    written = span.span_id[len(span.vm) + 1 :][:INSTANT_DIGITS]
    is_twice = last.vm == span.vm and last.is_open and span.is_open
    me = f"time {span.span_id} of vm {span.vm}"
    return first_of(
        (
            not span.span_id.startswith(f"{span.vm}/"),
            f"{me} is not where its vm's belong",
        ),
        (span.ended and span.ended < span.began, f"{me} ends before it begins"),
        (
            f"{span.began:0{INSTANT_DIGITS}d}" < written,
            f"{me} begins before it was written",
        ),
        (
            is_twice and last is not span,
            f"times {last.span_id} and {span.span_id} of vm {span.vm} are at once",
        ),
    )
