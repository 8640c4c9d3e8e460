"""The coming work on the VMs of a tenant: which, with which impact, and when.

It is the only part of a waiting rollout that a tenant sees. Work that is not announced has
no ID and no host, and the times depend on the windows and deferrals of the tenant alone.
If those of another tenant on the host count too, there is no latest time. So the list
shows neither others nor that the work is part of a campaign.

The cost depends on the VMs that a page looks at and on the VMs on their hosts, not on the
fleet or on the hosts that wait.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from forewarn.campaigns import upcoming
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.redaction.tenant_filter import TenantFilter
from forewarn.control.rules import (
    campaign_gate,
    holds,
    implied_campaigns,
    rolling,
    shared_limit,
    wide_blackouts,
)
from forewarn.control.rules.brake import why_braked
from forewarn.control.rules.holds import HeldTimes
from forewarn.control.transactions.named import need
from forewarn.fleet.calendars import free_times
from forewarn.fleet.model import Vm
from forewarn.fleet.windows import Opening
from forewarn.instants import Micros, cut_to_second
from forewarn.protocol.blockers import (
    AnyBlocker,
    BudgetUsed,
    Deferred,
    InBlackout,
    OutsideWindow,
    ScopeInUse,
    ScopeReserved,
    StageWaits,
    WindowClosed,
)
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.operations import (
    WAITING_STATES,
    Action,
    Operation,
    OperationState,
    Request,
)
from forewarn.protocol.turn_blockers import BudgetKind, CampaignStopped
from forewarn.protocol.verbs import Verb
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.questions import Query, Record

R = TypeVar("R", bound=Record)

VMS_LOOKED_MAX = 200
"""Maximum VMs that one page looks at. Each can be on a host of its own, whose VMs are read
for their windows: some 20 rows each, and 100 ms in all."""

LOOKS_MAX = 20_000
"""Openings of windows after which a page ends: some 50 ms."""

_PASSING = (
    *(ScopeInUse, ScopeReserved, WindowClosed, Deferred),
    *(BudgetUsed, StageWaits, OutsideWindow, InBlackout),
)
"""Blockers that the progress of the rollout or time ends. An end of the others, such as a
missing place for a VM, cannot be estimated."""


class WhyUnknown(Enumeration):
    """Why there is no latest time. The causes of others and of operators look alike."""

    HELD = "held"
    """The platform holds it: an operator must act, something is missing, or another tenant
    makes it later."""
    NO_ESTIMATE = "no estimate"
    """The pace is not known yet, or it is too far ahead."""
    NO_OPENING = "no opening"
    """The maintenance windows have no common opening."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcoming:
    """Coming work on one VM of a tenant."""

    work: str
    """It names this work for the tenant, before and after its announcement."""
    vm: str
    scope: str
    action: Action
    state: OperationState
    operation: str
    """The tenant's alias of the operation; empty: it is not announced."""
    description: str
    """The text of the operator for tenants, which is that of its events."""
    earliest: Micros | None
    """The work does not begin before, unless approvals start it; None: unknown. A time
    that has passed: it can begin at any time, after its notice."""
    latest: Micros | None
    """The work is expected to begin by this time; None: unknown."""
    why_unknown: WhyUnknown | None
    """Why there is no latest time; None: there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The coming work on some VMs of a tenant."""

    work: tuple[Upcoming, ...]
    next: str
    """Where the next page begins; empty: this is the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """The state of a rollout, which all its waiting hosts share."""

    campaign: CampaignRecord
    first: int
    """The lowest position of a host that waits."""
    is_known: bool
    """Whether the rollout goes on without an operator, so that its end can be estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    earliest: Micros | None
    latest: Micros | None
    why_unknown: WhyUnknown | None = None


class UpcomingWork:
    """Finds the coming work on the VMs of one tenant, for one read."""

    def __init__(self, reader: Reader, share: TenantFilter, *, now: Micros) -> None:
        """Read the whole store from `reader`, and show the part of `share`."""
        self._reader = reader
        self._share = share
        self._now = now
        self._courses: dict[str, _Course] = {}
        self._free: dict[tuple[str, tuple[str, ...]], tuple[Opening, ...]] = {}
        self._times: dict[str, _Times] = {}
        self._looks = 0
        """How many openings of windows were looked at."""

    def page(self, *, scope: str, vm: str, after: str, limit: int) -> Page:
        """Return the work on the next VMs, in the order of their scopes.

        `scope` and `vm` narrow it; empty: all. It looks at `limit` VMs at most, and a page
        can have less work than that.
        """
        limit = min(limit, VMS_LOOKED_MAX)
        work: list[Upcoming] = []
        last = ""
        for looked, (place, record) in enumerate(self._vms(scope, vm, after)):
            if looked == limit or self._looks >= LOOKS_MAX:
                return Page(work=tuple(work), next=last)
            if record is not None:
                work += self._of_vm(record)
            last = place
        return Page(work=tuple(work), next="")

    # The VMs of the tenant

    def _vms(self, scope: str, vm: str, after: str) -> Iterator[tuple[str, Vm | None]]:
        """Yield the tenant's VMs after a cursor, each with its own cursor.

        A scope without a VM yields one too, so that a page is bounded.
        """
        if vm:
            record = self._reader.get(Vm, vm)
            is_own = record is not None and self._share.of(record) is not None
            if record is not None and is_own and scope in {"", record.scope}:
                yield "", record
            return
        first, _, behind = after.partition("/")
        for name in self._scopes(scope, first):
            start = behind if name == first else ""
            if name != first:
                yield f"{name}/", None
            for vm_ in self._rest(kinds.VMS_OF_SCOPE, name, start):
                yield f"{name}/{vm_.name}", vm_

    def _scopes(self, scope: str, first: str) -> Iterator[str]:
        """Yield the scopes of the tenant from a name on, or the only one."""
        for name in (scope or first,):
            if name and self._share.is_own_scope(name):
                yield name
        if not scope:
            tenant = self._share.tenant
            for scope_ in self._rest(kinds.SCOPES_OF_TENANT, tenant, first):
                yield scope_.name

    def _rest(self, query: Query[R], value: str, after: str) -> Iterator[R]:
        return every(self._reader, query, value, after=after, page=VMS_LOOKED_MAX)

    # The work on one VM

    def _of_vm(self, vm: Vm) -> Iterator[Upcoming]:
        for operation in every(self._reader, kinds.OPEN_OPERATIONS_OF_VM, vm.name):
            is_announced = operation.state in WAITING_STATES
            if is_announced and self._share.of(operation) is not None:
                yield self._upcoming(vm, operation)
        for operation in every(self._reader, kinds.OPEN_OPERATIONS_OF_HOST, vm.host):
            if (
                operation.state is OperationState.PLANNED
                and operation.verb is Verb.MAINTAIN
                and operation.action is not Action.NONE
            ):
                yield self._upcoming(vm, operation)

    def _upcoming(self, vm: Vm, operation: Operation) -> Upcoming:
        is_planned = operation.state is OperationState.PLANNED
        key = operation.operation_id
        if key not in self._times:
            find = self._of_planned if is_planned else self._of_announced
            self._times[key] = find(operation)
        return Upcoming(
            work=self._share.aliases.of_work(vm.name, operation.request),
            vm=vm.name,
            scope=vm.scope,
            action=operation.action,
            state=operation.state,
            operation="" if is_planned else self._share.aliases.of(key),
            description=operation.description,
            earliest=self._times[key].earliest,
            latest=self._times[key].latest,
            why_unknown=self._times[key].why_unknown,
        )

    def _of_announced(self, operation: Operation) -> _Times:
        """Return when an announced operation starts, if its approvals do not start it."""
        vms = [vm for name in operation.vms if (vm := self._reader.get(Vm, name))]
        at = max(self._now, operation.not_before)
        own, held = self._held(operation, vms, at)
        start = self._start(operation, own, at)
        is_due = start == self._now
        is_held = (
            is_due
            or self._start(operation, held, at) != start
            or (operation.routine and why_braked(self._reader, operation.verb))
            or self._is_halted(operation)
        )
        self._looks += own.looks + held.looks
        # It is due since its NotBefore, whenever it is looked at.
        earliest = operation.not_before if is_due else start
        return _times(earliest, WhyUnknown.HELD if is_held else start)

    def _of_planned(self, operation: Operation) -> _Times:
        """Return when a host that is not announced may begin."""
        vms = rolling.vms_of(self._reader, operation)
        course = self._course(operation.request)
        campaign = course.campaign
        soaks = 0
        if campaign.stage_of(operation.position) > campaign.stage:
            soaks = campaign.soaks_until
        floor = max(operation.not_before, soaks)
        at = max(self._now + campaign.notice, floor)
        own, held = self._held(operation, vms, at)
        earliest = self._start(operation, own, at)
        latest = self._begins_by(course, operation)
        if earliest is not None and not isinstance(latest, WhyUnknown):
            begins = max(latest, earliest)
            start = self._start(operation, own, begins)
            is_same = self._start(operation, held, begins) == start
            latest = start if is_same else WhyUnknown.HELD
        if earliest == at:
            # Only its turn is missing. The time must not slide with each look.
            earliest = max(operation.created + campaign.notice, floor)
        self._looks += own.looks + held.looks
        return _times(earliest, latest)

    def _held(
        self, operation: Operation, vms: Sequence[Vm], at: Micros
    ) -> tuple[HeldTimes, HeldTimes]:
        """Return the holds of the tenant, and those of all tenants on the host, from an
        instant on."""
        held = holds.holds_of(self._reader, operation, vms)
        # Blackouts of the service have no tenant, and count like those of the campaign.
        own = tuple(hold for hold in held if hold.tenant in {"", self._share.tenant})
        times = HeldTimes(held, at)
        return times if own == held else HeldTimes(own, at), times

    def _start(
        self, operation: Operation, held: HeldTimes, at: Micros
    ) -> Micros | None:
        return campaign_gate.common_start(self._reader, operation, held, at)

    def _is_halted(self, operation: Operation) -> bool:
        blockers = campaign_gate.why_held(self._reader, operation, now=self._now)
        return any(isinstance(blocker, CampaignStopped) for blocker in blockers)

    def _begins_by(self, course: _Course, operation: Operation) -> Micros | WhyUnknown:
        """Return by when a waiting host is expected to begin, or why it is unknown."""
        campaign = course.campaign
        soaks = upcoming.soaks_before(
            campaign, campaign.stage_of(operation.position), now=self._now
        )
        is_stuck = any(
            not isinstance(blocker, _PASSING) for blocker in operation.held_by
        )
        if not course.is_known or is_stuck or soaks is None:
            return WhyUnknown.HELD
        at_once = campaign_gate.at_once(campaign) - len(campaign.failed)
        is_measured = not implied_campaigns.is_implied(campaign)
        ahead = upcoming.Ahead(
            hosts=max(0, operation.position - course.first),
            slots=max(1, at_once),
            ramps=1 + campaign.stage_of(operation.position) - campaign.stage,
            soaks=soaks,
            work=campaign.notice + campaign.slow if campaign.slow else 0,
        )
        pace = upcoming.Pace(
            done=campaign.done if is_measured else course.first - 1,
            elapsed=self._now - campaign.created,
        )
        free = self._free_of(course, operation)
        by = upcoming.begins_by(ahead, pace, free, now=self._now)
        return WhyUnknown.NO_ESTIMATE if by is None else by

    def _free_of(self, course: _Course, operation: Operation) -> tuple[Opening, ...]:
        """Return the times in which a rollout may work on a host.

        Hosts that stand elsewhere go before it in a blackout of a part of the fleet, and
        those at its places have only these times too.
        """
        wide = wide_blackouts.over(self._reader, operation)
        key = operation.request, tuple(blackout.name for blackout in wide)
        if key not in self._free:
            campaign = course.campaign
            self._free[key] = tuple(
                free_times(
                    campaign.windows,
                    (*campaign.blackouts, *wide),
                    self._now,
                    self._now + upcoming.AHEAD_MAX,
                )
            )
        return self._free[key]

    def _course(self, request_id: str) -> _Course:
        if request_id not in self._courses:
            self._courses[request_id] = self._course_of(
                need(self._reader, Request, request_id)
            )
        return self._courses[request_id]

    def _course_of(self, request: Request) -> _Course:
        campaign = campaign_gate.gate_record(self._reader, request)
        first = self._reader.ranked(
            kinds.PLANNED_BY_POSITION, request.request_id, limit=1, lowest=True
        )
        blocker = shared_limit.ask(
            self._reader, request, campaign, now=self._now
        ).blocker
        is_known = not why_braked(self._reader, request.verb) and _passes(blocker)
        return _Course(
            campaign=campaign,
            first=first[0].position if first else 1,
            is_known=is_known,
        )


def _passes(blocker: AnyBlocker | None) -> bool:
    """Return whether time and the progress of the rollout end a blocker of its gate.

    An approval, lost hosts of the fleet, and other campaigns have no known end.
    """
    if isinstance(blocker, BudgetUsed):
        return blocker.budget is BudgetKind.IN_FLIGHT
    if isinstance(blocker, StageWaits):
        return not blocker.needs_approval and not blocker.failed
    return blocker is None or isinstance(blocker, _PASSING)


def _times(earliest: Micros | None, latest: Micros | WhyUnknown | None) -> _Times:
    if earliest is None or latest is None:
        latest = WhyUnknown.NO_OPENING
    if isinstance(latest, WhyUnknown):
        return _Times(
            earliest=None if earliest is None else cut_to_second(earliest),
            latest=None,
            why_unknown=latest,
        )
    return _Times(
        earliest=cut_to_second(earliest or 0), latest=upcoming.end_of_day(latest)
    )
