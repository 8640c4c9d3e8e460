"""The model of a campaign: one world, and what a planted bug may put in place."""

from collections.abc import Sequence

from forewarn.campaigns.gate import Gate
from forewarn.campaigns.lifecycle import CampaignState
from tests.search.campaigns.decisions import Decisions
from tests.search.campaigns.settings import HOSTS, RACKS, Setting
from tests.search.campaigns.state import (
    READY,
    TAKE_TURN,
    TURN,
    WAITING,
    Course,
    Item,
    State,
    call,
    look,
)
from tests.search.state import bits


class Model:
    """One world that uses the real decisions.

    Each planted bug is a subclass that changes one decision or action.
    """

    withdraws = True
    """Whether a halted campaign withdraws what it has announced."""
    cordons = True
    """Whether a failed host takes no new VM."""
    wakes = True
    """Whether something that became free is checked by those that wait for it."""
    takes_turns = True
    """Whether a verb of an operator lets the campaign continue."""
    approves_results = True
    """Whether a stage is approved only when the one before it has its result."""
    keeps_approval = False
    """Whether a halt keeps the approval of the next stage."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.decisions = Decisions(setting)
        self._stages = [setting.stage_of(host) for host in range(HOSTS)]

    def stage_of(self, host: int) -> int:
        """Return the stage of a host, from 1."""
        return self._stages[host]

    def first(self) -> State:
        """Return the state after the start of the campaign."""
        return State(
            course=Course(
                state=CampaignState.RUNNING.value,
                stage=1,
                stage_left=self.setting.stages[0].hosts,
            ),
            items=(Item(WAITING),) * HOSTS,
            queue=tuple(range(HOSTS)),
            hour=0,
            pending=TAKE_TURN,
        )

    # Decisions, which a planted bug may replace

    def gate(self, state: State, course: Course) -> Gate:
        """Return whether the campaign may announce its next host."""
        return self.decisions.gate(state, course)

    def may_advance(self, course: Course, hour: int) -> bool:
        """Return whether the next stage begins."""
        return self.decisions.may_advance(course, hour)

    def in_turn(self, state: State, course: Course) -> list[int]:
        """Return the hosts that may be announced, in their order."""
        return [
            host
            for host in state.queue
            if (item := state.items[host]).how == WAITING
            and item.waits == TURN
            and self.stage_of(host) == course.stage
        ]

    def is_over_group(self, state: State, host: int) -> bool:
        """Return whether the rack of a host has no place in its budget."""
        most = self.setting.rack_most
        used = sum(
            item.is_in_flight or bool((state.course.failed | state.down) >> other & 1)
            for other, item in enumerate(state.items)
            if RACKS[other] == RACKS[host]
        )
        return bool(most) and used >= most

    def is_held(self, state: State) -> bool:
        """Return whether an approved host may not start now."""
        return bool(state.brake) or self.decisions.why_held(state.course, state.hour)

    def first_start(self, hour: int) -> int:
        """Return the ticks until a host that is announced now may start."""
        return self.decisions.first_start(hour)

    def failed(self, course: Course, hour: int, host: int) -> Course:
        """Count a failed host, and halt if that is too many."""
        return self.decisions.failed(course, hour, host)

    def skipped(self, course: Course, hour: int, host: int, stage: int) -> Course:
        """Count a skipped host."""
        return self.decisions.skipped(course, hour, host, stage)

    def resumed(self, course: Course, hour: int) -> Course:
        """End a halt or the last pause."""
        return self.decisions.resumed(course, hour)

    def pauses_left(self, pauses: int, by: int) -> int:
        """Return the pauses that remain when an operator resumes."""
        return pauses & ~(1 << by)

    def may_have(self, state: State, host: int) -> bool:
        """Return whether another campaign may start with a host."""
        return self.decisions.may_have(state, host)

    def restarted(self, state: State) -> State:
        """Crash, and start again: all that was remembered is found in the store."""
        pending = TAKE_TURN
        for host, item in enumerate(state.items):
            if item.how == WAITING and (item.waits != TURN or item.is_braked):
                pending |= call(host)
            elif item.how == READY:
                pending |= look(host)
        return state._replace(pending=pending | self.overdue(state))

    def overdue(self, state: State) -> int:
        """Return the steps of timers that are due."""
        pending = TAKE_TURN if state.course.due == 0 else 0
        for host, item in enumerate(state.items):
            if item.is_in_flight and item.left == 0 and item.how != READY:
                pending |= look(host)
        return pending


def names(hosts: int | Sequence[int]) -> str:
    """Return hosts for a message."""
    numbers = bits(hosts) if isinstance(hosts, int) else hosts
    return ", ".join(f"h{host}" for host in numbers)
