"""An independent watcher of campaigns, written from the rules of campaigns (K1 to K10).

It shares no code with the runner: it reads the rows of each commit, and counts by itself.
K1: no host is announced unless every budget is free, a window fits, and its VMs have
reserved places; `announced` judges the guard for all rollouts. K2: no more hosts are in flight than allowed. K3: a halted campaign announces and starts nothing. K4: a
failed host is not a destination. K5: a host is in one campaign. K6: each pause stays
until it is ended. K7: each host ends or is listed. K9: no start outside the windows. K8
is about whole lives that are lived twice, in `tests/property/test_campaign_planted.py`.
K10 is what these rules are: none of them asks for an order of equal hosts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import Host, HostState, Vm
from forewarn.fleet.windows import Window
from forewarn.instants import DAY, MINUTE, SECOND, Micros
from forewarn.protocol.actors import campaign_actor
from forewarn.protocol.operations import (
    ENDED_STATES,
    Operation,
    OperationState,
)
from forewarn.protocol.visits import STUCK_VISITS, Visit, VisitState
from forewarn.store.unplanned import UnplannedPage
from tests.support import campaign_beside, campaign_terms
from tests.support.campaign_beside import LossWatcher
from tests.support.campaign_terms import number
from tests.support.moments import Moment

UNTOLD = {OperationState.PLANNED, *ENDED_STATES}
"""States of an operation that is not, or not any more, announced or in work."""

SLACK_SECONDS = 1.0
"""A soak may end so much earlier: clocks are compared by different sums."""


@dataclass(slots=True)
class Course:
    """The watcher's own counts of one campaign."""

    ramp: int = 1
    ramp_done: int = 0
    outcomes: str = ""
    """`d` and `f` for the hosts that ended since the start or the last resumption."""
    ended_at: float = 0.0
    """When the last host was done or skipped, on the monotonic clock."""


@dataclass(slots=True)
class CampaignWatcher:
    """Judges each commit of a life with campaigns."""

    monotonic: Callable[[], float]
    courses: dict[str, Course] = field(default_factory=dict[str, Course])
    is_reset: bool = False
    """The clock was set while the service was down, so that soaks can be shorter."""
    losses: LossWatcher = field(init=False)

    def __post_init__(self) -> None:
        self.losses = LossWatcher(self.monotonic)

    def committed(self, moment: Moment) -> None:
        """Judge a commit."""
        records = {
            change.after.campaign_id: (change.before, change.after)
            for change in moment.changes
            if isinstance(change.after, CampaignRecord)
        }
        for before, after in records.values():
            assert before is None or isinstance(before, CampaignRecord)
            self._record(moment, before, after)
        for before, after in moment.changed():
            campaign_beside.emergency_waits_for_no_time(after)
            if _is_announced(before, after):
                campaign_terms.reserve_is_kept(moment, after)
                campaign_beside.expedited_first(moment, after)
            campaign = _campaign_of(moment, after)
            if campaign is not None:
                was, _ = records.get(campaign.campaign_id, (campaign, campaign))
                is_old = isinstance(was, CampaignRecord)
                self._operation(
                    moment,
                    before,
                    after,
                    campaign,
                    was_halted=is_old and was.state is CampaignState.HALTED,
                )
        _k4_destinations(moment)
        _k5_one_campaign(moment)
        campaign_terms.drift_is_marked(moment)
        campaign_terms.brake_halts_all(moment)
        campaign_terms.k3_no_work_after_a_halt(moment)
        self.losses.is_reset = self.is_reset
        self.losses.committed(moment)
        for campaign in moment.mirror.table(CampaignRecord).values():
            _k7_counts(moment, campaign)

    def _record(
        self, moment: Moment, before: CampaignRecord | None, after: CampaignRecord
    ) -> None:
        # All that `maintain` ordered can be in flight at once, steered or not.
        ramp = int(after.budget.in_flight) if not after.text else 1
        course = self.courses.setdefault(after.campaign_id, Course(ramp=ramp))
        _k6_pauses(before, after)
        if before is None:
            campaign_terms.k1_tenant_limits(moment, after)
            campaign_beside.emergency_starts(moment, after)
            return
        campaign_terms.hosts_are_added(moment, before, after)
        new = set(after.failed) - set(before.failed)
        done, skipped = after.done - before.done, after.skipped - before.skipped
        assert 0 <= done <= 1 or len(moment.changes) > 1, after
        # A host of a later stage can be skipped meanwhile; it ends nothing of this one.
        if (done or skipped) and after.stage_left < before.stage_left:
            course.ended_at = self.monotonic()
        course.outcomes += "d" * done + "f" * len(new)
        for _ in range(done):
            course.ramp_done += 1
            if course.ramp_done >= course.ramp:
                course.ramp, course.ramp_done = 2 * course.ramp, 0
        if new:
            self._failed(moment, before, after, {host for host, _ in new})
        self._approval(moment, before, after)
        if after.stage != before.stage:
            self._stage(moment, before, after)
        stopped = {CampaignState.PAUSED, CampaignState.HALTED}
        if before.state in stopped and after.state is CampaignState.RUNNING:
            self.courses[after.campaign_id] = Course(ended_at=course.ended_at)
        elif before.halt is not None and after.halt is None:
            course.outcomes, course.ramp, course.ramp_done = "", 1, 0

    def _failed(
        self,
        moment: Moment,
        before: CampaignRecord,
        after: CampaignRecord,
        hosts: set[str],
    ) -> None:
        """2.6: canaries tolerate nothing, and N tolerated means that N + 1 halt."""
        owner = f"campaign {after.name}"
        for name in hosts:
            host = moment.mirror.hosts.get(name)
            owners = {cordon.by.name for cordon in host.cordons} if host else {owner}
            assert owner in owners, f"K4: {name} failed, and takes VMs"
        if before.halt is not None or before.has_ended or after.has_ended:
            return
        assert not after.is_approved, f"2.6: approved before its failure: {after}"
        last = self.courses[after.campaign_id].outcomes[-after.tolerance.of_last :]
        in_a_row = len(last) - len(last.rstrip("f"))
        is_canary = before.stage < len(before.stages)
        is_over = (
            last.count("f") > after.tolerance.failures
            or in_a_row > after.tolerance.in_a_row
        )
        if is_canary or is_over:
            assert after.state is CampaignState.HALTED, f"2.6: {last}: {after}"

    def _stage(
        self, moment: Moment, before: CampaignRecord, after: CampaignRecord
    ) -> None:
        """2.6: a stage begins when the one before it is done, soaked and approved."""
        assert after.stage == before.stage + 1, after
        assert before.state is CampaignState.RUNNING, f"K3: {before}"
        term = before.stages[before.stage - 1]
        assert before.is_approved or not term.approval, f"2.6: not approved: {before}"
        passed = self.monotonic() - self.courses[after.campaign_id].ended_at
        is_soaked = passed >= term.soak / SECOND - SLACK_SECONDS
        assert is_soaked or self.is_reset, f"2.6: soaked {passed} s of {term}"
        left = _left_until(moment, before)
        assert not left, f"2.6: {left} of an earlier stage wait"
        course = self.courses[after.campaign_id]
        course.ramp, course.ramp_done = 1, 0

    def _approval(
        self, moment: Moment, before: CampaignRecord, after: CampaignRecord
    ) -> None:
        """2.6: a stage is approved for a result that is there, and that is still good."""
        if after.is_approved and not before.is_approved:
            left = _left_until(moment, after)
            left += [host for host in after.failed_hosts if host not in left]
            assert not left, f"2.6: approved, and {left} have no result: {after}"
        if after.halt is not None and before.halt is None:
            why = f"2.6: approved before its halt: {after}"
            assert not after.is_approved, why

    def _operation(
        self,
        moment: Moment,
        before: Operation | None,
        after: Operation,
        campaign: CampaignRecord,
        *,
        was_halted: bool,
    ) -> None:
        has_started = after.started_at and not (before and before.started_at)
        if _is_announced(before, after):
            assert campaign.state is CampaignState.RUNNING, f"K3: {after}, {campaign}"
            self._announced(moment, after, campaign)
        if has_started:
            is_stopped = was_halted and campaign.halt is not None
            assert not is_stopped, f"K3: {after} started, and {campaign} is halted"
            if campaign.windows:
                # A start can be up to a minute late for its work to fit.
                end = moment.now + campaign.slow - MINUTE
                openings = _openings(campaign.windows, moment.now)
                fits = any(end <= closes for _, closes in openings)
                assert fits, f"K9: {after} does not end in a window"
            campaign_terms.k9_blackouts(moment, after, campaign)

    def _announced(
        self, moment: Moment, operation: Operation, campaign: CampaignRecord
    ) -> None:
        """K1, K2: every budget was free, and the work fits a window."""
        hosts = _in_flight(moment, campaign)
        most = self._most(campaign)
        assert len(hosts) <= most, f"K2: {hosts} in flight, and {most} may be"
        _k2_shared(moment, campaign)
        end = sum(stage.hosts for stage in campaign.stages[: campaign.stage])
        assert operation.position <= end, f"K1: {operation} is of a later stage"
        _k1_groups(moment, operation, campaign, hosts | _failed(moment))
        _k1_unavailable(moment, operation, campaign)
        campaign_terms.k1_tenants(moment, operation, campaign)
        campaign_terms.k1_places(moment, operation)
        campaign_terms.k1_blackouts(moment, operation, campaign)
        campaign_beside.goes_first(moment, campaign, partial(self._slots, moment))
        campaign_beside.expedited_before(moment, operation, campaign)
        campaign_beside.emergency_is_named(moment, operation)
        if campaign.windows and moment.mirror.events_of(operation.operation_id):
            starts = operation.not_before
            ends = starts + campaign.slow
            fits = any(
                closes >= ends for _, closes in _openings(campaign.windows, starts)
            )
            assert fits, f"K1: {operation} misses the windows"

    def _most(self, campaign: CampaignRecord) -> int:
        """Return how many hosts can be in flight in addition to the failed ones."""
        most = min(
            self.courses[campaign.campaign_id].ramp,
            number(campaign.budget.in_flight, campaign.hosts),
        )
        return max(1, most - len(campaign.failed))

    def _slots(self, moment: Moment, campaign: CampaignRecord) -> int:
        """Return how many hosts more can be in flight; rather too few."""
        request = moment.mirror.requests[campaign.request]
        used = max(request.in_flight, len(_in_flight(moment, campaign)))
        return self._most(campaign) - used

    def fits_blackouts(self, moment: Moment, campaign: CampaignRecord) -> None:
        """Judge what is announced after a blackout was added."""
        operations = _operations(moment, campaign)
        campaign_terms.k1_fits_blackouts(moment, campaign, operations)


def _is_announced(before: Operation | None, after: Operation) -> bool:
    was_told = before is not None and before.state is not OperationState.PLANNED
    return after.state not in UNTOLD and not was_told


def _campaign_of(moment: Moment, operation: Operation) -> CampaignRecord | None:
    request = moment.mirror.requests.get(operation.request)
    if request is None or not request.campaign:
        return None
    return moment.mirror.table(CampaignRecord)[request.campaign]


def _operations(moment: Moment, campaign: CampaignRecord) -> list[Operation]:
    return [
        operation
        for operation in moment.mirror.operations.values()
        if operation.request == campaign.request
    ]


def _left_until(moment: Moment, campaign: CampaignRecord) -> list[str]:
    """Return the hosts that wait or are worked on, up to the current stage."""
    end = sum(stage.hosts for stage in campaign.stages[: campaign.stage])
    return [
        operation.host
        for operation in _operations(moment, campaign)
        if operation.position <= end
        and (
            _is_worked_on(moment, operation)
            if _is_visited(moment, operation)
            else operation.state not in ENDED_STATES
        )
    ]


def _is_worked_on(moment: Moment, operation: Operation) -> bool:
    visit = moment.mirror.table(Visit)[operation.visit]
    return not visit.ended_at and visit.state not in STUCK_VISITS


def _visits(moment: Moment, campaign: CampaignRecord) -> list[Visit]:
    visits = moment.mirror.table(Visit).values()
    return [visit for visit in visits if visit.request == campaign.request]


def _in_flight(moment: Moment, campaign: CampaignRecord) -> set[str]:
    """2.3: from the notice until the host is done; failed ones are counted besides."""
    # A visited host is in work until its visit ends.
    hosts = {
        operation.host
        for operation in _operations(moment, campaign)
        if operation.state not in UNTOLD and not _is_visited(moment, operation)
    }
    visited = {
        visit.host
        for visit in _visits(moment, campaign)
        if not visit.ended_at and visit.state is not VisitState.WAITING
    }
    return (hosts | visited) - {host for host, _ in campaign.failed}


def _k2_shared(moment: Moment, campaign: CampaignRecord) -> None:
    """All campaigns together keep to the limit of the service."""
    if campaign.shared_most:
        running = moment.mirror.table(CampaignRecord).values()
        hosts = [
            host
            for operation in running
            if not operation.ended
            for host in _in_flight(moment, operation)
        ]
        most = campaign.shared_most
        assert len(hosts) <= most, f"K2: {hosts} of all campaigns, and {most} may be"


def _is_visited(moment: Moment, operation: Operation) -> bool:
    visit = moment.mirror.table(Visit).get(operation.visit)
    return visit is not None and visit.state is not VisitState.WAITING


def _failed(moment: Moment) -> set[str]:
    """Return the failed hosts of all campaigns."""
    return {
        host
        for campaign in moment.mirror.table(CampaignRecord).values()
        if not campaign.ended
        for host, _ in campaign.failed
    }


def _k1_groups(
    moment: Moment, operation: Operation, campaign: CampaignRecord, hosts: set[str]
) -> None:
    rows = moment.mirror.hosts
    row = rows.get(operation.host)
    for label, amount in campaign.budget.by:
        place = _place(row, label)
        those = sorted(
            x for x in hosts if place and _place(rows.get(x), label) == place
        )
        assert len(those) <= int(amount), f"K1: {those} of {label} {place}"


def _place(host: Host | None, label: str) -> str:
    return str(getattr(host, label)) if host is not None else ""


def _k1_unavailable(
    moment: Moment, operation: Operation, campaign: CampaignRecord
) -> None:
    """2.3: away for any cause: announced, in work, failed, cordoned or down.

    A failed host that is tried again is away already, by the cordon of its campaign.
    """
    host = moment.mirror.hosts.get(operation.host)
    own_actor = campaign_actor(campaign.name)
    is_again = host is not None and any(
        cordon.by.is_same_as(own_actor) for cordon in host.cordons
    )
    if not campaign.budget.unavailable or is_again:
        return
    most = number(campaign.budget.unavailable, len(moment.mirror.hosts))
    away = {
        name
        for name, host in moment.mirror.hosts.items()
        if host.state is HostState.DOWN or host.cordons
    }
    away.update(
        open_operation.host
        for open_operation in moment.open()
        if open_operation.state not in UNTOLD
        and _campaign_of(moment, open_operation) is not None
    )
    away.discard(operation.host)
    assert len(away) < most, f"K1: {sorted(away)} are away, and {most} may be"


def _k4_destinations(moment: Moment) -> None:
    failed = {
        host
        for campaign in moment.mirror.table(CampaignRecord).values()
        if not campaign.has_ended
        for host, _ in campaign.failed
    }
    for change in moment.changes:
        vm, old = change.after, change.before
        if not isinstance(vm, Vm) or not vm.moving_to or vm.moving_to not in failed:
            continue
        is_new = not isinstance(old, Vm) or old.moving_to != vm.moving_to
        # A person can have opened the host.
        is_closed = bool(moment.mirror.hosts[vm.moving_to].cordons)
        assert not (is_new and is_closed), f"K4: {vm} moves to a failed host"


def _k5_one_campaign(moment: Moment) -> None:
    """A steered rollout has the hosts that `maintain` was ordered for in any case.

    An emergency can have hosts of a routine campaign, which it takes over.
    """
    of: dict[tuple[str, bool], str] = {}
    for campaign in moment.mirror.table(CampaignRecord).values():
        if campaign.has_ended or not campaign.text:
            continue
        for host in _left(moment, campaign) | {host for host, _ in campaign.failed}:
            other = of.setdefault((host, campaign.is_emergency), campaign.campaign_id)
            assert other == campaign.campaign_id, f"K5: {host} is in two campaigns"


def _left(moment: Moment, campaign: CampaignRecord) -> set[str]:
    """Return the hosts that have neither ended nor failed."""
    unplanned = {
        host
        for page in moment.mirror.table(UnplannedPage).values()
        if page.request == campaign.request
        for _, host in page.hosts
    }
    at_work = {
        operation.host
        for operation in _operations(moment, campaign)
        if operation.state not in ENDED_STATES and not _is_visited(moment, operation)
    }
    visited = {
        visit.host
        for visit in _visits(moment, campaign)
        if not visit.ended_at and visit.state not in STUCK_VISITS
    }
    left = at_work | visited | unplanned
    return left - {host for host, _ in campaign.failed}


def _k6_pauses(before: CampaignRecord | None, after: CampaignRecord) -> None:
    is_stopped = bool(after.pauses) or after.halt is not None
    if after.state is CampaignState.RUNNING:
        assert not is_stopped, f"K6: it runs, and somebody stops it: {after}"
    elif not after.has_ended:
        assert is_stopped, f"K6: nobody stops it: {after}"
        is_halted = after.state is CampaignState.HALTED
        assert is_halted == (after.halt is not None), f"K6: {after}"
    if before is not None and before.has_ended:
        assert after.state is before.state, f"K7: it had ended: {before}, {after}"


def _k7_counts(moment: Moment, campaign: CampaignRecord) -> None:
    """Each host is in one place, and a host that counts as done was done, once."""
    failed = {host for host, _ in campaign.failed}
    ended = campaign.done + campaign.skipped + len(failed)
    left = _left(moment, campaign)
    if campaign.state is CampaignState.DONE:
        assert ended == campaign.hosts, f"K7: hosts are missing: {campaign}"
        assert not failed | left, f"K7: {failed | left} are left: {campaign}"
    elif not campaign.has_ended:
        total = ended + len(left)
        assert total == campaign.hosts, f"K7: {total} hosts: {left}, {campaign}"


def _openings(
    windows: tuple[Window, ...], at: Micros
) -> Iterator[tuple[Micros, Micros]]:
    """Yield the openings at an instant; the windows of lives are in UTC, and apart."""
    for window in windows:
        assert window.timezone == "UTC"
        for day in range(at // DAY - 1, at // DAY + 1):
            opens = day * DAY + window.start * MINUTE
            if (day + 3) % 7 in window.days and opens <= at < opens + window.length:
                yield opens, opens + window.length
