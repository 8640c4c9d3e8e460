"""The figures of a campaign's report for people: hosts per hour, and each tenant's part.

Single fields are read, as in `campaign_sums`. For operators only.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import SpanKind
from forewarn.instants import MINUTE, Micros, format_instant
from forewarn.protocol.actors import Actor, ActorKind
from forewarn.protocol.operations import OperationState
from forewarn.reporting.uptime import seconds
from forewarn.store import kinds
from forewarn.store.port import Reader, columns
from forewarn.store.questions import Query

Json: TypeAlias = dict[str, Any]

HOUR: Micros = 60 * MINUTE


@dataclass(slots=True)
class _Tenant:
    """The part of one tenant in a campaign."""

    asked: int = 0
    approved: int = 0
    by_operator: int = 0
    waits: list[Micros] = field(default_factory=list[Micros])
    """From each announcement to its approval by the tenant's side."""
    planned: Micros = 0
    unplanned: Micros = 0
    longest: Micros = 0
    longest_vm: str = ""
    vms: set[str] = field(default_factory=set[str])

    def add_event(self, created: Micros, approver: Actor | None, at: Micros) -> None:
        """Add an event with its approver, if it has one, and the time of the approval."""
        self.asked += 1
        if approver is None:
            return
        self.approved += 1
        if approver.kind is ActorKind.OPERATOR:
            self.by_operator += 1
        else:
            self.waits.append(at - created)

    def add_span(self, vm: str, kind: SpanKind, length: Micros) -> None:
        """Add a time in which a VM did not run."""
        self.vms.add(vm)
        if kind is SpanKind.FAILURE:
            self.unplanned += length
        else:
            self.planned += length
        if length > self.longest:
            self.longest, self.longest_vm = length, vm

    def report(self, tenant: str) -> Json:
        """Return the figures of this tenant."""
        return {
            "tenant": tenant,
            "asked": self.asked,
            "approved": self.approved,
            "by_operator": self.by_operator,
            "median_seconds": seconds(round(median(self.waits)))
            if self.waits
            else None,
            "vms_down": len(self.vms),
            "planned_down_seconds": seconds(self.planned),
            "unplanned_down_seconds": seconds(self.unplanned),
            "longest_down_seconds": seconds(self.longest),
            "longest_down_vm": self.longest_vm or None,
        }


def campaign_figures(reader: Reader, campaign: CampaignRecord, *, now: Micros) -> Json:
    """Return the hosts done in each hour, and the figures of each tenant.

    The tenants with the longest downtime come first.
    """
    one = (campaign.request, campaign.request)
    names: set[str] = set()
    hours = Counter[Micros]()
    wanted = ("operation_id", "state", "ended_at")
    for name, state, ended in _rows(reader, kinds.OPERATIONS_OF_REQUEST, wanted, one):
        names.add(name)
        if state is OperationState.DONE:
            hours[ended - ended % HOUR] += 1
    span = (min(names, default=""), max(names, default=""))
    tenants: dict[str, _Tenant] = {}
    of_event = ("operation", "tenant", "created", "approver", "approved_at")
    for name, tenant, *event in _rows(
        reader, kinds.EVENTS_OF_OPERATION, of_event, span
    ):
        if name in names:
            tenants.setdefault(tenant, _Tenant()).add_event(*event)
    of_span = ("operation", "tenant", "vm", "kind", "began", "ended")
    for name, tenant, vm, kind, began, ended in _rows(
        reader, kinds.SPANS_OF_OPERATION, of_span, span
    ):
        if name in names:
            length = (ended or now) - began
            tenants.setdefault(tenant, _Tenant()).add_span(vm, kind, length)

    def worst_first(tenant: str) -> tuple[Micros, Micros, int, str]:
        of = tenants[tenant]
        return -of.unplanned, -of.planned, -of.asked, tenant

    return {
        "hours": {format_instant(each): hours[each] for each in sorted(hours)},
        "tenants": [
            tenants[each].report(each) for each in sorted(tenants, key=worst_first)
        ],
    }


def _rows(
    reader: Reader,
    query: Query[Any],
    names: tuple[str, ...],
    between: tuple[str, str],
) -> Iterator[tuple[Any, ...]]:
    for page in columns(reader, query, names, between=between):
        yield from zip(*page, strict=True)
