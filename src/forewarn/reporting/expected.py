"""When hosts of a running campaign are expected to begin and end, for operators.

The cost depends on the windows that are looked at, and not on the number of hosts.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice

from forewarn.campaigns import gate, pace
from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.pace import PACE_HOSTS, Line, Pace, Sample
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules import brake, campaign_gate
from forewarn.fleet.calendars import free_times
from forewarn.fleet.windows import Opening
from forewarn.instants import DAY, Micros
from forewarn.protocol.operations import Operation, OperationState, Request
from forewarn.protocol.visits import Visit, VisitState
from forewarn.reporting import campaign_courses
from forewarn.reporting.campaign_courses import Attempt, attempt_of, visit_of
from forewarn.reporting.campaigns import HELD_HOSTS_MAX, deferred_count, end_of
from forewarn.store import kinds
from forewarn.store.port import Reader, every

AHEAD_MAX: Micros = 90 * DAY
"""Maximum time that is looked ahead: each day can have windows to compute."""

SAMPLED_MAX = 3 * PACE_HOSTS
"""Maximum ended operations that are looked at: some of them failed or were withdrawn."""


class Expected:
    """The expectations for a campaign at one instant; each fact is read once."""

    def __init__(
        self, reader: Reader, campaign: CampaignRecord, request: Request, *, now: Micros
    ) -> None:
        """Read what is needed from `reader`; `request` is the campaign's rollout."""
        self.reader, self.campaign, self.request = reader, campaign, request
        self.now = now

    @cached_property
    def pace(self) -> Pace | None:
        """Return the usual times of a host; None: no host is done."""
        newest = self.reader.ranked(
            kinds.ENDED_OF_REQUEST, self.campaign.request, limit=SAMPLED_MAX
        )
        samples = (_sample(self.reader, operation) for operation in newest)
        return pace.pace_of(
            [sample for sample in samples if sample is not None][:PACE_HOSTS]
        )

    @cached_property
    def pace_of_hosts(self) -> Pace | None:
        """Return the times by which single hosts are forecast; None: unknown.

        Until the first host is done, they are those that the file of the campaign expects,
        as in its plan.
        """
        if self.pace is not None or not self.campaign.text:
            return self.pace
        # The reader of files is needed only here.
        from forewarn.campaigns.file import read_campaign  # noqa: PLC0415
        from forewarn.campaigns.text import CampaignFileError  # noqa: PLC0415

        try:
            described = read_campaign(self.campaign.text, name=self.campaign.name)
        except CampaignFileError:  # the file of an older version
            return None
        work = max(1, described.expect.typical)
        return Pace(hosts=0, turn=self.campaign.notice + work, work=work)

    @cached_property
    def line(self) -> Line:
        """Return the hosts that are left, and how many can be in flight."""
        campaign, in_flight = self.campaign, self.request.in_flight
        deferred = deferred_count(self.reader, campaign)
        return Line(
            waiting=max(0, campaign.left - in_flight - deferred),
            in_flight=in_flight,
            slots=self.slots,
        )

    @cached_property
    def slots(self) -> int:
        """Return how many hosts can be in flight when the stage runs at full speed."""
        most = campaign_gate.at_once(self.campaign)
        return max(1, most - len(self.campaign.failed))

    @cached_property
    def unplanned(self) -> Mapping[str, Attempt]:
        """Return the hosts whose operations are not created yet, by name."""
        attempts = campaign_courses.unplanned(self.reader, self.campaign)
        return {attempt.host: attempt for attempt in attempts}

    @cached_property
    def is_moving(self) -> bool:
        """Return whether the campaign announces hosts, so that it has an end."""
        return (
            self.campaign.state is CampaignState.RUNNING
            and not self.campaign.has_ended
            and not gate.is_only_failed(self.campaign)
            and not list(brake.why_braked(self.reader, self.request.verb))
        )

    @cached_property
    def held(self) -> Mapping[int, Micros]:
        """Return until when waiting hosts are held one by one, by their positions.

        A tenant has deferred them, its windows are closed, or they are tried again later.
        Of a long campaign, these are the first of its waiting hosts.
        """
        waiting = every(self.reader, kinds.PLANNED_OF_REQUEST, self.campaign.request)
        held_until = {
            operation.position: max(map(end_of, operation.held_by), default=0)
            for operation in islice(waiting, HELD_HOSTS_MAX)
        }
        return {place: until for place, until in held_until.items() if until > self.now}

    def end(self) -> Micros | None:
        """Return when the last host is expected to be done; None: unknown."""
        if self.pace is None or not self.is_moving:
            return None
        end = pace.spent(self._free(), pace.end_after(self.line, self.pace))
        last = max(self.held.values(), default=0)
        if end is None or (after_last := self._turn_from(last, self.pace)) is None:
            return None
        return max(end + self.soaks_before(len(self.campaign.stages)), after_last)

    def _turn_from(self, held: Micros, usual: Pace) -> Micros | None:
        """Return when the turn of a host ends that is held until then; 0: none is."""
        return pace.spent(self._free(held), usual.turn) if held else 0

    def stage_begins(self, stage: int) -> Micros | None:
        """Return when a later stage is expected to begin; None: unknown."""
        if self.pace is None or not self.is_moving:
            return None
        hosts = max(0, self.campaign.stage_left)
        ahead = sum(
            terms.hosts - dict(self.campaign.skipped_ahead).get(number, 0)
            for number, terms in enumerate(self.campaign.stages, start=1)
            if self.campaign.stage < number < stage
        )
        waiting = max(0, hosts + ahead - self.line.in_flight)
        line = Line(
            waiting=waiting, in_flight=min(hosts, self.line.in_flight), slots=self.slots
        )
        begins = pace.spent(self._free(), pace.end_after(line, self.pace))
        last = max(
            (
                until
                for position, until in self.held.items()
                if self.campaign.stage_of(position) < stage
            ),
            default=0,
        )
        if begins is None or (after_last := self._turn_from(last, self.pace)) is None:
            return None
        return max(begins, after_last) + self.soaks_before(stage)

    def host_begins(self, position: int) -> Micros | None:
        """Return when a waiting host is expected to be announced; None: unknown.

        Hosts are announced in their order, so all those that are left come before it that
        are not behind it.
        """
        usual = self.pace_of_hosts
        if usual is None or not self.is_moving:
            return None
        behind = self.campaign.hosts - position
        if position in self.held:
            return pace.spent(self._free(self.held[position]), 0)
        ahead = max(0, self.line.waiting - 1 - behind)
        after = pace.turn_after(self.line, usual, ahead)
        begins = pace.spent(self._free(), after)
        if begins is None:
            return None
        return begins + self.soaks_before(self.campaign.stage_of(position))

    def _free(self, start: Micros = 0) -> Iterator[Opening]:
        """Yield the times in which hosts may be worked on, from `start` or now on.

        No host begins whose work could outlast its window, so the last one of a window
        begins earlier, and usually ends before it closes.
        """
        hours = campaign_gate.hours_of(self.reader, self.campaign)
        closed = (*hours.blackouts, *hours.wide)
        first = max(start, self.now)
        usual = self.pace_of_hosts
        unused = max(0, hours.work - (usual.turn if usual else 0))
        for free in free_times(hours.windows, closed, first, first + AHEAD_MAX):
            if free.opens < free.closes - unused:
                yield Opening(free.opens, free.closes - unused)

    def soaks_before(self, stage: int) -> Micros:
        """Return the soaks before a stage begins, as if it were approved at once."""
        as_approved = self.campaign
        total: Micros = 0
        for number in range(as_approved.stage, stage):
            terms = as_approved.stages[number - 1]
            is_running = number == as_approved.stage and as_approved.soaks_until
            left = as_approved.soaks_until - self.now
            total += max(0, left) if is_running else terms.lasts
        return total


def expected_of(reader: Reader, campaign: CampaignRecord, *, now: Micros) -> Expected:
    """Return the expectations for a campaign."""
    request = reader.get(Request, campaign.request)
    assert request is not None, f"{campaign.campaign_id} has no rollout"
    return Expected(reader, campaign, request, now=now)


def announced_at(reader: Reader, operation: Operation) -> Micros:
    """Return when an operation was announced; 0: it was not, or it has no VMs."""
    if operation.state is OperationState.PLANNED:
        return 0
    first = reader.select(kinds.EVENTS_OF_OPERATION, operation.key, limit=1)
    return first[0].created if first else 0


def is_done(operation: Operation, visit: Visit | None) -> bool:
    """Return whether a host was done, with all its steps if it has some."""
    is_good = visit is None or visit.state is VisitState.DONE
    return is_good and operation.state is OperationState.DONE


def _sample(reader: Reader, operation: Operation) -> Sample | None:
    """Return the times of a host that was done; None: it was not."""
    visit = visit_of(reader, operation)
    attempt = attempt_of(operation, visit)
    if not is_done(operation, visit) or not attempt.started:
        return None
    announced = announced_at(reader, operation) or attempt.started
    return Sample(announced, attempt.started, attempt.over or operation.ended_at)
