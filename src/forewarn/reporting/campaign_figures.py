"""The figures of a campaign's report for people: hosts per hour, and each tenant's part.

They come from the same rows as the sums, so that each is read once. For operators only.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeAlias

from forewarn.fleet.model import SpanKind
from forewarn.instants import MINUTE, Micros, format_instant
from forewarn.protocol.actors import Actor, ActorKind
from forewarn.protocol.events import EventStatus
from forewarn.protocol.operations import TenantWait
from forewarn.reporting.uptime import seconds
from forewarn.reporting.waiting_causes import Wait

Json: TypeAlias = dict[str, Any]

HOUR: Micros = 60 * MINUTE


@dataclass(slots=True)
class _Tenant:
    """The part of one tenant in a campaign."""

    asked: int = 0
    deferrals: int = 0
    hosts_deferred: int = 0
    approved: int = 0
    by_operator: int = 0
    open: int = 0
    """Events that still wait for an approval."""
    affected: int = 0
    """VMs of attempts that have started."""
    moved: int = 0
    waits: list[Micros] = field(default_factory=list[Micros])
    """From each announcement to its approval by the tenant's side."""
    planned: Micros = 0
    unplanned: Micros = 0
    longest: Micros = 0
    longest_vm: str = ""
    vms: set[str] = field(default_factory=set[str])

    def add_event(
        self, created: Micros, approver: Actor | None, at: Micros, status: EventStatus
    ) -> None:
        """Add an event with its approver, if it has one, and the time of the approval."""
        self.asked += 1
        if approver is None:
            self.open += status is EventStatus.SCHEDULED
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
            "open": self.open,
            "deferrals": self.deferrals,
            "hosts_deferred": self.hosts_deferred,
            "vms": self.affected,
            "vms_moved": self.moved,
            "median_seconds": seconds(round(median(self.waits)))
            if self.waits
            else None,
            "vms_down": len(self.vms),
            "planned_down_seconds": seconds(self.planned),
            "unplanned_down_seconds": seconds(self.unplanned),
            "longest_down_seconds": seconds(self.longest),
            "longest_down_vm": self.longest_vm or None,
        }


class CampaignFigures:
    """The figures of a campaign, from the rows that `campaign_sums` reads.

    Rows are given as columns of its own operations.
    """

    EVENT_FIELDS = ("approver", "status")
    """Fields of events that are needed besides those of the sums."""
    SPAN_FIELDS = ("tenant", "vm", "kind", "scope")
    """Fields of spans that are needed besides those of the sums."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.waits: list[Wait] = []
        self.operations: Collection[str] = ()
        """The operations of the campaign."""
        self.down_scopes: set[str] = set()
        """The scopes of the VMs that did not run."""
        self.stage_ends: dict[int, list[Micros]] = {}
        self._hours = Counter[Micros]()
        self._tenants: defaultdict[str, _Tenant] = defaultdict(_Tenant)

    def add_done(self, ended: Micros) -> None:
        """Add the end of an attempt that was done."""
        self._hours[ended - ended % HOUR] += 1

    def add_events(
        self,
        tenants: Sequence[str],
        created: Sequence[Micros],
        approved: Sequence[Micros],
        approvers: Sequence[Actor | None],
        states: Sequence[EventStatus],
    ) -> None:
        """Add events with their approvers, the times of the approvals, and their states."""
        events = zip(tenants, created, approvers, approved, states, strict=True)
        for tenant, begun, approver, at, status in events:
            self._tenants[tenant].add_event(begun, approver, at, status)

    def add_vms(
        self, names: Sequence[str], tenants: Sequence[str], moved: Collection[str]
    ) -> None:
        """Add VMs of attempts that have started; `moved` has those that moved."""
        for name, tenant in zip(names, tenants, strict=True):
            self._tenants[tenant].affected += 1
            self._tenants[tenant].moved += name in moved

    def add_wait(
        self,
        stage: int,
        begins: Micros,
        ends: Micros,
        over: Micros,
        *,
        has_failed: bool,
        by_tenants: Sequence[TenantWait],
    ) -> None:
        """Add the time for which an attempt waited, and its end; 0: it has not ended."""
        self.waits.append(Wait(begins, ends, has_failed, by_tenants))
        if over:
            self.stage_ends.setdefault(stage, []).append(over)

    def add_deferrals(self, times: Mapping[str, int], hosts: Mapping[str, int]) -> None:
        """Add how often each tenant has deferred work, and on how many hosts."""
        for tenant in times.keys() | hosts.keys():
            self._tenants[tenant].deferrals += times.get(tenant, 0)
            self._tenants[tenant].hosts_deferred += hosts.get(tenant, 0)

    def add_spans(
        self,
        tenants: Sequence[str],
        vms: Sequence[str],
        spans: Sequence[SpanKind],
        scopes: Sequence[str],
        lengths: Iterable[Micros],
    ) -> None:
        """Add times in which VMs did not run."""
        self.down_scopes.update(scopes)
        for tenant, vm, kind, length in zip(tenants, vms, spans, lengths, strict=True):
            self._tenants[tenant].add_span(vm, kind, length)

    def report(self) -> Json:
        """Return the hosts done in each hour, and the figures of each tenant.

        The tenants with the longest downtime come first.
        """

        def worst_first(tenant: str) -> tuple[Micros, Micros, int, str]:
            of = self._tenants[tenant]
            return -of.unplanned, -of.planned, -of.asked, tenant

        return {
            "hours": {
                format_instant(hour): self._hours[hour] for hour in sorted(self._hours)
            },
            "tenants": [
                self._tenants[tenant].report(tenant)
                for tenant in sorted(self._tenants, key=worst_first)
            ],
        }
