"""The questions of a campaign's model to the product: the real code decides.

A state is translated into the record that the code reads, and the answer is translated
back and remembered. The code that is run: `campaigns.gate` (whether a host may be
announced, whether a stage ends), `campaigns.progress` (the counts, the ramp, and what
halts), `campaigns.lifecycle` (the table), `campaigns.hours` (windows) and
`control.rules.campaign_hosts` (whether another campaign may have a host).
"""

from collections.abc import Callable
from typing import Any

from forewarn.campaigns import gate, progress
from forewarn.campaigns.gate import Gate, Standing
from forewarn.campaigns.hours import Hours
from forewarn.campaigns.lifecycle import CampaignInput, CampaignState, step
from forewarn.campaigns.model import Impact
from forewarn.campaigns.record import CampaignRecord, Halt, HaltCause, Pause
from forewarn.control.rules import campaign_hosts
from forewarn.instants import Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import (
    Action,
    Operation,
    OperationState,
    Request,
    RequestState,
    TargetKind,
    Verb,
)
from forewarn.sim.engine import START
from tests.search.campaigns.settings import HOSTS, OPERATORS, Setting
from tests.search.campaigns.state import (
    ANNOUNCED,
    READY,
    RECOVERING,
    WAITING,
    WORKING,
    Course,
    State,
)
from tests.search.rows import Rows
from tests.search.state import bits

STATES = {
    WAITING: OperationState.PLANNED,
    ANNOUNCED: OperationState.ANNOUNCED,
    READY: OperationState.READY,
    WORKING: OperationState.IMPACTING,
    RECOVERING: OperationState.RECOVERING,
}
"""The states of the open operation of a host."""
ACTORS = tuple(operator(name) for name in OPERATORS)
REQUEST = "rq"
Decided = Callable[[CampaignRecord], CampaignRecord]


class Decisions:
    """The product's decisions about one campaign, remembered."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.notice = setting.notice * setting.tick
        self._records: dict[tuple[Course, int], CampaignRecord] = {}
        self._changed: dict[object, Course] = {}
        self._gates: dict[object, Gate] = {}
        self._free: dict[object, bool] = {}

    def now(self, hour: int) -> Micros:
        """Return the instant of a state."""
        return START + hour * self.setting.tick

    def record(self, course: Course, hour: int) -> CampaignRecord:
        """Return the stored record of a campaign."""
        campaign = self._records.get((course, hour))
        if campaign is None:
            campaign = self._records[course, hour] = self._record(course, hour)
        return campaign

    def _record(self, course: Course, hour: int) -> CampaignRecord:
        setting, now = self.setting, self.now(hour)
        halt = None
        if course.halt:
            halt = Halt(cause=HaltCause(course.halt), by=ACTORS[0], at=now)
        return CampaignRecord(
            campaign_id="ca",
            name="bios",
            reason="CVE",
            impact=Impact.REBOOT,
            state=CampaignState(course.state),
            request=REQUEST,
            actor=ACTORS[0],
            created=START,
            digest="",
            text="",
            hosts=HOSTS,
            stages=setting.terms,
            budget=setting.budget,
            tolerance=setting.tolerance,
            windows=setting.windows,
            fleet_hosts=HOSTS,
            slow=setting.slow * setting.tick,
            notice=self.notice,
            ended=now if course.has_ended else 0,
            stage=course.stage,
            stage_left=course.stage_left,
            soaks_until=0 if course.soak < 0 else now + course.soak * setting.tick,
            is_approved=course.is_approved,
            is_asked=course.is_asked,
            ramp=course.ramp,
            ramp_done=course.ramp_done,
            outcomes=course.outcomes,
            done=course.done,
            skipped=course.skipped,
            skipped_ahead=course.ahead,
            failed=tuple((f"h{host}", f"op{host}") for host in bits(course.failed)),
            pauses=tuple(
                Pause(by=ACTORS[actor], reason="a reason", at=now)
                for actor in bits(course.pauses)
            ),
            halt=halt,
            due_at=0 if course.due < 0 else now + course.due * setting.tick,
        )

    def course(self, record: CampaignRecord, hour: int) -> Course:
        """Return the part of a record that changes."""
        now, tick = self.now(hour), self.setting.tick
        return Course(
            state=record.state.value,
            stage=record.stage,
            stage_left=record.stage_left,
            soak=max(0, record.soaks_until - now) // tick if record.soaks_until else -1,
            is_approved=record.is_approved,
            is_asked=record.is_asked,
            ramp=record.ramp,
            ramp_done=record.ramp_done,
            outcomes=record.outcomes,
            done=record.done,
            skipped=record.skipped,
            ahead=record.skipped_ahead,
            failed=sum(1 << int(host[1:]) for host, _ in record.failed),
            pauses=sum(1 << ACTORS.index(pause.by) for pause in record.pauses),
            halt="" if record.halt is None else record.halt.cause.value,
            due=max(0, record.due_at - now) // tick if record.due_at else -1,
        )

    def change(
        self, course: Course, hour: int, key: tuple[Any, ...], decide: Decided
    ) -> Course:
        """Return a course after a decision of the product; `key` names the decision."""
        known = course, hour, key
        changed = self._changed.get(known)
        if changed is None:
            campaign = decide(self.record(course, hour))
            changed = self._changed[known] = self.course(campaign, hour)
        return changed

    # Decisions

    def step(self, course: Course, given: CampaignInput) -> Course:
        """Take a step of the table."""
        state = step(CampaignState(course.state), given)
        return course._replace(state=state.value)

    def done(self, course: Course, hour: int) -> Course:
        now = self.now(hour)
        return self.change(
            course, hour, ("done",), lambda record: progress.host_done(record, now=now)
        )

    def skipped(self, course: Course, hour: int, host: int, stage: int) -> Course:
        now, name = self.now(hour), f"h{host}"
        return self.change(
            course,
            hour,
            ("skipped", host, stage),
            lambda record: progress.host_skipped(record, name, stage=stage, now=now),
        )

    def failed(self, course: Course, hour: int, host: int) -> Course:
        """Count a failed host; the campaign halts if that is too many."""
        now, name = self.now(hour), f"h{host}"

        def decide(campaign: CampaignRecord) -> CampaignRecord:
            failed = progress.host_failed(campaign, name, f"op{host}", now=now)
            why = progress.why_halt(failed, name, by=ACTORS[0], now=now)
            if why is None or failed.halt is not None or failed.has_ended:
                return failed
            return progress.halted(failed, why)

        return self.change(course, hour, ("failed", host), decide)

    def retried(self, course: Course, hour: int, host: int) -> Course:
        name = f"h{host}"
        return self.change(
            course,
            hour,
            ("retried", host),
            lambda record: progress.host_retried(record, name),
        )

    def resumed(self, course: Course, hour: int) -> Course:
        return self.change(course, hour, ("resumed",), progress.resumed)

    def next_stage(self, course: Course, hour: int) -> Course:
        return self.change(
            course,
            hour,
            ("next stage",),
            lambda record: progress.next_stage(record, fleet_hosts=HOSTS),
        )

    def is_stage_over(self, course: Course, hour: int) -> bool:
        record = self.record(course, hour)
        return gate.is_stage_over(record) and not record.is_last_stage

    def may_advance(self, course: Course, hour: int) -> bool:
        return gate.may_advance(self.record(course, hour), now=self.now(hour))

    def needs_approval(self, course: Course, hour: int) -> bool:
        return gate.needs_approval(self.record(course, hour), now=self.now(hour))

    def vms_down_max(self, course: Course, hour: int) -> int | None:
        return progress.vms_down_max(self.record(course, hour))

    def gate(self, state: State, course: Course) -> Gate:
        """Return whether the campaign may announce its next host."""
        away = self.away(state) if self.setting.unavailable else 0
        key = course, state.hour, state.in_flight, away
        decided = self._gates.get(key)
        if decided is None:
            standing = Standing(
                now=self.now(state.hour),
                in_flight=state.in_flight,
                at_once=self.setting.in_flight,
                notice=self.notice,
                hours=self.hours,
                away=away,
                away_max=self.setting.unavailable or None,
            )
            record = self.record(course, state.hour)
            decided = self._gates[key] = gate.decide(record, standing)
        return decided

    @property
    def hours(self) -> Hours:
        """Return the windows that count."""
        setting = self.setting
        return Hours(
            campaign="bios", work=setting.slow * setting.tick, windows=setting.windows
        )

    def away(self, state: State) -> int:
        """Return how many hosts are announced, in work, cordoned or down."""
        return sum(
            item.is_in_flight or bool((state.cordons | state.down) >> host & 1)
            for host, item in enumerate(state.items)
        )

    def first_start(self, hour: int) -> int:
        """Return the ticks until a host that is announced now may start."""
        now = self.now(hour)
        return (self.hours.first_start(now, self.notice) - now) // self.setting.tick

    def why_held(self, course: Course, hour: int) -> bool:
        """Return whether an approved host is held: a halt, or a closed window."""
        record = self.record(course, hour)
        is_stopped = record.halt is not None and gate.why_stopped(record) is not None
        return is_stopped or self.hours.why_held(self.now(hour)) is not None

    def may_have(self, state: State, host: int) -> bool:
        """Return whether another campaign may start with a host."""
        opened = tuple(item.how if item.is_open else -1 for item in state.items)
        key = state.course.failed, state.course.has_ended, opened, host
        is_free = self._free.get(key)
        if is_free is None:
            rows = Rows([self.record(state.course, 0), _request(), *_open(opened)])
            try:
                campaign_hosts.check_free(rows, {f"h{host}"})
            except RefusedError:
                is_free = False
            else:
                is_free = True
            self._free[key] = is_free
        return is_free


def _request() -> Request:
    return Request(
        request_id=REQUEST,
        verb=Verb.MAINTAIN,
        actor=ACTORS[0],
        reason="",
        state=RequestState.OPEN,
        together=False,
        is_rollout=True,
        created=START,
        campaign="ca",
    )


def _open(how: tuple[int, ...]) -> list[Operation]:
    """Return the open operations of the hosts."""
    return [
        Operation(
            operation_id=f"op{host}",
            request=REQUEST,
            verb=Verb.MAINTAIN,
            action=Action.REBOOT,
            target_kind=TargetKind.HOST,
            target=f"h{host}",
            host=f"h{host}",
            state=STATES[state],
            routine=True,
            not_before=0,
            moves=(),
            scopes=(),
            duration_seconds=0,
            description="",
            created=0,
        )
        for host, state in enumerate(how)
        if state >= 0
    ]
