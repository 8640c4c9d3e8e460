"""Run the control plane on a virtual clock until a campaign ends.

The plane, its rules and the store's records are those of the service. A simulation leaves
out only what decides nothing: documents of VMs, webhooks, and the deletion of old
records. Tenants approve in the transaction of the last approval of an operation, because
earlier ones alone start nothing.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from forewarn.campaigns.model import Campaign
from forewarn.campaigns.plan_progress import (
    Part,
    Progress,
    ReportProgress,
    ignore_progress,
)
from forewarn.campaigns.record import CampaignRecord
from forewarn.campaigns.simulated import TIMES_SLOW_MAX, Assumptions, Chances
from forewarn.campaigns.text import CampaignText
from forewarn.clock import VirtualClock
from forewarn.control.gateway import BusyError
from forewarn.control.plane import Plane
from forewarn.control.requests import approvals, campaign_starts, campaigns
from forewarn.control.rules import campaign_gate
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.blackouts import coming
from forewarn.ids import RandomIds
from forewarn.instants import DAY, HOUR, Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.host_steps import NO_STEPS, StepRules
from forewarn.protocol.operations import Operation, OperationState, Request
from forewarn.protocol.published import Publication
from forewarn.reporting.campaign_simulations import (
    Played,
    notices_of,
    simulation_report,
)
from forewarn.service.simulation.fleet_copy import FleetCopy
from forewarn.service.simulation.hosts import (
    SimulatedHosts,
    patient,
    times_of,
)
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.texts import json_text

STUCK_AFTER: Micros = 2 * DAY
"""Time without progress, after a soak, after which a campaign is stuck: no host was
announced and none has ended. Waiting hosts are looked at every hour, and a held one is
announced again after a day."""

STUCK_IN_WINDOWS_AFTER: Micros = 8 * DAY
"""The same time if the campaign or a scope has windows, which recur every week."""

KEPT: Micros = 3_650 * DAY
"""Retention in a simulation: nothing is deleted before the report."""

ACTOR = Who(actor=operator("simulation"), reason="simulated")
"""The operator who starts the campaign."""

APPROVER = Who(actor=operator("simulated approver"), reason="simulated")
"""Another person, who approves its events and stages."""

_ANNOUNCED = frozenset({OperationState.ANNOUNCED, OperationState.READY})


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationRequest:
    """A campaign file to simulate."""

    text: CampaignText
    assumed: Assumptions
    policy: Policy
    now: Micros
    hosts_max: int
    """Maximum hosts in the report."""
    host_steps: StepRules = NO_STEPS
    """The host steps of the driver: with some, a reboot of the host is usual."""


def play(
    copied: FleetCopy,
    request: SimulationRequest,
    *,
    is_over: Callable[[], bool] = lambda: False,
    report: ReportProgress = ignore_progress,
) -> Played:
    """Play a campaign on a fleet; `report` gets the progress.

    Raises CampaignFileError and RefusedError as the planner does, and BusyError when
    `is_over` returns true.
    """
    return _Play(copied, request, is_over).run(report)


def simulated(
    copied: FleetCopy,
    request: SimulationRequest,
    *,
    is_over: Callable[[], bool] = lambda: False,
    report: ReportProgress = ignore_progress,
) -> str:
    """Play a campaign on a fleet; return what happened as JSON text.

    The arguments and errors are those of `play`.
    """
    played = play(copied, request, is_over=is_over, report=report)
    return json_text(simulation_report(played, hosts_max=request.hosts_max))


class _Play:
    """One campaign on a virtual clock. It is the listener of its plane."""

    def __init__(
        self,
        copied: FleetCopy,
        request: SimulationRequest,
        is_over: Callable[[], bool],
    ) -> None:
        self._request = request
        self._is_over = is_over
        self._left_out = copied.left_out
        store = self._store = copied.store()
        self._chances = Chances(request.assumed)
        self._clock = VirtualClock(request.now)
        self._changed: dict[str, None] = {}
        self._announced: dict[str, Micros] = {}
        self._approved: set[str] = set()
        self._approvals: list[tuple[Micros, str]] = []
        planned = campaign_starts.plan_request(
            request.text,
            request.policy,
            now=request.now,
            host_steps=request.host_steps,
        )
        self._plan = store.read(
            lambda reader: campaign_starts.plan_of(reader, planned, past=copied.past)
        )
        self._notices = notices_of(self._plan, request.assumed)
        has_windows = self._plan.campaign.windows or store.read(
            lambda reader: reader.select(kinds.SCOPES_WITH_WINDOW, limit=1)
        )
        self._stuck_after = STUCK_IN_WINDOWS_AFTER if has_windows else STUCK_AFTER
        self._stuck_after += sum(
            clash.ends - clash.begins
            for clash in coming(self._plan.all_blackouts, request.now, request.now)
        )

    def run(self, report: ReportProgress) -> Played:
        """Play to the end, and report how many hosts have ended."""
        request = self._request
        self._plane = self._begin(self._plan.campaign)
        campaign_id = self._start()
        record, is_cut = self._record(campaign_id), False
        while not self._has_ended(record):
            ended = record.hosts - record.left
            report(Progress(part=Part.PLAYING, done=ended, of=record.hosts))
            self._read_announced()
            due = self._next()
            moved = max(record.moved_at, record.soaks_until)
            is_late = due is not None and due > moved + self._stuck_after
            if due is None or (is_late and self._may_announce(record)):
                is_cut = True
                break
            self._clock.advance_to(max(due, self._now))
            self._approve_due()
            self._settle()
            record = self._approve_stage(self._record(campaign_id))
        return Played(
            plan=self._plan,
            record=record,
            store=self._store,
            assumed=request.assumed,
            announced=self._announced,
            approved=frozenset(self._approved),
            ended=record.moved_at if is_cut else self._now,
            stopped=self._now,
            is_cut=is_cut,
            left_out=self._left_out,
        )

    # The listener of the plane

    def publish(self, publication: Publication) -> None:
        """Serve nothing: no VM asks."""

    def changed(self, operations: Sequence[str]) -> None:
        """Remember which operations changed."""
        self._changed.update(dict.fromkeys(operations))

    # The campaign

    @property
    def _now(self) -> Micros:
        return self._clock.now()

    def _begin(self, campaign: Campaign) -> Plane:
        policy = self._request.policy
        longest = TIMES_SLOW_MAX * campaign.expect.slow + HOUR
        driver = SimulatedHosts(
            self._chances,
            times_of(campaign, self._plan.measured, policy),
            steps=patient(campaign.steps, longest),
            vms_of=lambda operation_id: len(self._operation(operation_id).moves),
        )
        plane = Plane(
            store=self._store,
            driver=driver,
            policy=replace(
                policy,
                subscribers=(),
                retention=KEPT,
                ended_max=0,
                disable_after=KEPT,
                driver_timeout=max(policy.driver_timeout, longest),
            ),
            ids=RandomIds(self._request.assumed.seed),
            listener=self,
        )
        plane.read_clocks(now=self._now, monotonic=self._clock.monotonic())
        plane.start(now=self._now)
        return plane

    def _start(self) -> str:
        prepared = self._store.read(
            lambda reader: campaign_starts.prepared_of(
                reader, self._plan, self._request.text
            )
        )
        # A simulation runs no check: each passes.
        prepared = replace(prepared, checks=())
        started = self._order(ACTOR, lambda work: campaigns.start(work, prepared))
        self._settle()
        return started.campaign_id

    def _order(
        self, who: Who, decide: Callable[[Work], CampaignRecord]
    ) -> CampaignRecord:
        return self._plane.order(who, decide, now=self._now)

    def _record(self, campaign_id: str) -> CampaignRecord:
        record = self._store.read(
            lambda reader: reader.get(CampaignRecord, campaign_id)
        )
        assert record is not None
        return record

    def _operation(self, operation_id: str) -> Operation:
        operation = self._store.read(lambda reader: reader.get(Operation, operation_id))
        assert operation is not None
        return operation

    def _has_ended(self, record: CampaignRecord) -> bool:
        """Return whether nothing more happens without an operator."""
        if record.has_ended:
            return True
        if record.halt is None and (record.left > 0 or not record.failed):
            return False
        request = self._store.read(lambda reader: reader.get(Request, record.request))
        return request is not None and not request.in_flight

    def _may_announce(self, record: CampaignRecord) -> bool:
        """Return whether windows and blackouts let the campaign announce now, or never.

        Only at such a time do its hosts know what else they wait for.
        """
        hours = self._store.read(lambda reader: campaign_gate.hours_of(reader, record))
        return hours.next_notice(self._now, record.notice) in {None, self._now}

    def _approve_stage(self, record: CampaignRecord) -> CampaignRecord:
        """Approve the next stage as soon as the current one ends."""
        stage = record.stages[record.stage - 1]
        waits = stage.approval and not record.is_approved and record.halt is None
        if not waits or record.stage_left > 0 or record.is_last_stage:
            return record
        number = record.stage + 1
        approved = self._order(
            APPROVER,
            lambda work: campaigns.approve(work, record.campaign_id, number),
        )
        self._settle()
        return approved

    # Time

    def _next(self) -> Micros | None:
        due = self._plane.next_due()
        if not self._approvals:
            return due
        approval = self._approvals[0][0]
        return approval if due is None else min(due, approval)

    def _settle(self) -> None:
        """Do everything that is due now."""
        if self._is_over():
            raise BusyError("the service is stopping", hint="Try again later.")
        self._plane.read_clocks(now=self._now, monotonic=self._clock.monotonic())
        while self._plane.advance(now=self._now):
            pass

    # Tenants

    def _read_announced(self) -> None:
        """Find the operations that were announced, and when they will be approved."""
        changed, self._changed = self._changed, {}
        for operation_id in changed:
            if operation_id in self._announced:
                continue
            operation = self._operation(operation_id)
            if operation.state is OperationState.PLANNED:
                continue
            self._announced[operation_id] = self._now
            if operation.state in _ANNOUNCED:
                self._expect(operation)

    def _expect(self, operation: Operation) -> None:
        """Note when the last scope of an operation approves, if all of them do."""
        passes = self._passes(operation) if operation.scopes else None
        if passes is not None and self._now + passes < operation.not_before:
            at = self._now + passes
            heapq.heappush(self._approvals, (at, operation.operation_id))

    def _passes(self, operation: Operation) -> Micros | None:
        """Return the time until all scopes of an operation approve; None: one does not."""
        chances = self._chances
        if self._notices:
            return chances.passes(operation.host, self._notices)
        if not all(map(chances.approves, operation.scopes)):
            return None
        after = max(
            chances.approval_after(scope, operation.host) for scope in operation.scopes
        )
        return round(after * (operation.not_before - self._now))

    def _approve_due(self) -> None:
        """Approve all events of the operations whose tenants are ready now."""
        while self._approvals and self._approvals[0][0] <= self._now:
            _, operation_id = heapq.heappop(self._approvals)
            self._plane.order(
                APPROVER,
                lambda work, op=operation_id: _approve(work, op),
                now=self._now,
            )
            self._approved.add(operation_id)


def _approve(work: Work, operation_id: str) -> None:
    events = list(every(work.tx, kinds.EVENTS_OF_OPERATION, operation_id))
    for event in events:
        if event.awaits_approval:
            approvals.approve_for(work, event.event_id)
