"""Downtime of VMs as JSON: a page of VMs, and their total.

Durations are seconds, exact to the microsecond. The totals of pages add up. The rules
are in `fleet.availability`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from forewarn.control.transactions.named import need
from forewarn.fleet import availability
from forewarn.fleet.availability import Availability, Period, VmAvailability
from forewarn.fleet.model import Scope, Span, SpanKind, Tenant, Vm
from forewarn.instants import SECOND, Micros, format_instant
from forewarn.store import kinds
from forewarn.store.port import PAGE_ROWS, Reader, every
from forewarn.store.questions import Query

Json: TypeAlias = dict[str, Any]

PAGE_ROWS_MAX = 20 * PAGE_ROWS
"""Maximum records that one page reads, so that a long history of many VMs does not
delay other requests; the records of one VM are never split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanSelection:
    """The VMs and the period that a request asks for; an empty name selects all VMs."""

    period: Period
    vm: str = ""
    scope: str = ""
    tenant: str = ""
    is_placed: Callable[[str], bool] | None = None
    """Whether a VM, by its name, is at the selected place now; None: everywhere."""

    def selects(self, vm: str) -> bool:
        """Return whether a VM is at the selected place."""
        return self.is_placed is None or self.is_placed(vm)

    def matches(self, span: Span) -> bool:
        """Return whether a record is in the period."""
        return (
            self.vm in {"", span.vm}
            and self.scope in {"", span.scope}
            and self.tenant in {"", span.tenant}
        )

    @property
    def narrowest(self) -> tuple[Query[Span], str]:
        """Return the query that reads the fewest records."""
        if self.vm:
            return kinds.SPANS_OF_VM, self.vm
        if self.scope:
            return kinds.SPANS_OF_SCOPE, self.scope
        if self.tenant:
            return kinds.SPANS_OF_TENANT, self.tenant
        return kinds.ALL_SPANS, ""


def page(reader: Reader, selection: SpanSelection, *, after: str, limit: int) -> Json:
    """Return up to `limit` VMs after the key `after`, and where the next page begins.

    Raises NotFoundError for a name that is neither in the fleet nor in its history.
    """
    rows_of_page: list[VmAvailability] = []
    following = last = ""
    rows = 0
    for vm, spans in _by_vm(reader, selection, after):
        if len(rows_of_page) >= limit or rows >= PAGE_ROWS_MAX:
            following = last
            break
        rows += len(spans)
        last = spans[-1].key
        matching = [span for span in spans if selection.matches(span)]
        if not matching or not selection.selects(vm):
            continue
        row = availability.of_vm(vm, matching, selection.period)
        if selection.vm or row.was_there:
            rows_of_page.append(row)
    if not rows_of_page and not after and not following:
        _check_names(reader, selection)
    total = Availability()
    for row in rows_of_page:
        total = total.plus(row.total)
    return {
        "since": format_instant(selection.period.since),
        "until": format_instant(selection.period.until),
        "vms": [
            {"vm": row.vm, "scope": row.scope, "tenant": row.tenant} | report(row.total)
            for row in rows_of_page
        ],
        "total": {"vms": total.vms} | report(total),
        "several_domains_down_seconds": (
            None if after else _several_domains(reader, selection)
        ),
        "next": following or None,
    }


def report(total: Availability) -> Json:
    """Return the totals of a period."""
    return {
        "percent": total.percent,
        "existed_seconds": seconds(total.existed),
        "unknown_seconds": seconds(total.unknown),
        "down_seconds": seconds(total.planned + total.unplanned),
        "planned_seconds": seconds(total.planned),
        "unplanned_seconds": seconds(total.unplanned),
        "by_kind": {
            kind.value: seconds(total.down[kind])
            for kind in SpanKind
            if kind in total.down
        },
        "at_most_seconds": seconds(total.at_most),
        "interruptions": total.interruptions,
        "longest_seconds": seconds(total.longest),
        "down_now": total.down_now,
    }


def seconds(duration: Micros) -> float:
    """Return a duration in seconds, with microseconds in JSON."""
    return duration / SECOND


def _by_vm(
    reader: Reader, selection: SpanSelection, after: str
) -> Iterator[tuple[str, list[Span]]]:
    query, value = selection.narrowest

    def spans() -> Iterator[Span]:
        behind = after
        while True:
            rows = reader.select(query, value, after=behind)
            yield from rows
            if len(rows) < PAGE_ROWS:
                return
            behind = rows[-1].key

    for vm, group in groupby(spans(), key=lambda span: span.vm):
        yield vm, list(group)


def _several_domains(reader: Reader, selection: SpanSelection) -> float | None:
    """Return how long several fault domains of the scope were down at once.

    None without a scope, because domains of different scopes are independent, and for a
    part of a scope.
    """
    if not selection.scope or selection.vm or selection.is_placed is not None:
        return None
    spans = every(reader, kinds.SPANS_OF_SCOPE, selection.scope)
    matching = (span for span in spans if selection.matches(span))
    return seconds(availability.several_domains_down(matching, selection.period))


def _check_names(reader: Reader, selection: SpanSelection) -> None:
    """Raise NotFoundError for a name that does not exist and never existed."""
    for kind, query, name in (
        (Vm, kinds.SPANS_OF_VM, selection.vm),
        (Scope, kinds.SPANS_OF_SCOPE, selection.scope),
        (Tenant, kinds.SPANS_OF_TENANT, selection.tenant),
    ):
        if name and not reader.select(query, name, limit=1):
            need(reader, kind, name)
