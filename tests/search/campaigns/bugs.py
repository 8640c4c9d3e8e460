"""Planted bugs of campaigns: what the search must catch, or it proves nothing.

Each is a model that decides or does one thing otherwise, the world that it is planted in,
and the rule that must break first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.campaigns.gate import Gate
from forewarn.protocol.blockers import AnyBlocker
from forewarn.protocol.turn_blockers import (
    BudgetKind,
    BudgetUsed,
    CampaignStopped,
    OutsideWindow,
)
from tests.search.campaigns import worlds
from tests.search.campaigns.model import Model
from tests.search.campaigns.settings import Setting
from tests.search.campaigns.state import WAITING, Course, State


class _Open(Model):
    """A gate that does not see some reasons."""

    def is_unseen(self, blocker: AnyBlocker) -> bool:
        """Return whether the gate does not see a reason."""
        raise NotImplementedError

    def gate(self, state: State, course: Course) -> Gate:
        gate = super().gate(state, course)
        is_unseen = gate.blocker is not None and self.is_unseen(gate.blocker)
        return Gate() if is_unseen else gate


class NoBudget(_Open):
    """The hosts in flight are not counted."""

    def is_unseen(self, blocker: AnyBlocker) -> bool:
        return (
            isinstance(blocker, BudgetUsed) and blocker.budget is BudgetKind.IN_FLIGHT
        )


class FleetIgnored(_Open):
    """The hosts that are away are not counted."""

    def is_unseen(self, blocker: AnyBlocker) -> bool:
        unavailable = BudgetKind.UNAVAILABLE
        return isinstance(blocker, BudgetUsed) and blocker.budget is unavailable


class PausedAnnounces(_Open):
    """A paused campaign announces hosts."""

    def is_unseen(self, blocker: AnyBlocker) -> bool:
        return isinstance(blocker, CampaignStopped)


class WindowMissed(_Open):
    """Hosts are announced for times at which the window is closed, or too short."""

    def is_unseen(self, blocker: AnyBlocker) -> bool:
        return isinstance(blocker, OutsideWindow)

    def first_start(self, hour: int) -> int:
        return self.setting.notice


class RackIgnored(Model):
    """The budget of a rack is not asked."""

    def is_over_group(self, state: State, host: int) -> bool:
        return False


class StagesMixed(Model):
    """Hosts of later stages are announced, too."""

    def in_turn(self, state: State, course: Course) -> list[int]:
        return [host for host in state.queue if state.items[host].how == WAITING]


class NumberedTurns(Model):
    """Only the host with the lowest number is looked at, and only in the first place."""

    def in_turn(self, state: State, course: Course) -> list[int]:
        hosts = super().in_turn(state, course)
        return hosts if hosts[:1] == sorted(hosts)[:1] else []


class NothingWithdrawn(Model):
    """A halted campaign withdraws nothing."""

    withdraws = False


class StartsWhileHalted(Model):
    """An approved host starts although the campaign is halted."""

    def is_held(self, state: State) -> bool:
        return super().is_held(state._replace(course=state.course._replace(halt="")))


class StartsUnderBrake(Model):
    """An approved host starts although the brake is on."""

    def is_held(self, state: State) -> bool:
        return super().is_held(state._replace(brake=0))


class StartsOutsideWindow(Model):
    """An early approval starts a host before the window opens."""

    def is_held(self, state: State) -> bool:
        return bool(state.course.halt)


class NotCordoned(Model):
    """A failed host takes new VMs."""

    cordons = False


class FailedIsFree(Model):
    """Another campaign may start with a host that has failed here."""

    def may_have(self, state: State, host: int) -> bool:
        return super().may_have(
            state._replace(course=state.course._replace(failed=0)), host
        )


class RampKept(Model):
    """A resumed campaign continues with as many hosts as before."""

    def resumed(self, course: Course, hour: int) -> Course:
        resumed = super().resumed(course, hour)
        return resumed._replace(ramp=course.ramp, ramp_done=course.ramp_done)


class AllPausesEnd(Model):
    """One operator ends the pause of another one."""

    def pauses_left(self, pauses: int, by: int) -> int:
        return 0


class SkippedUncounted(Model):
    """A skipped host is not counted."""

    def skipped(self, course: Course, hour: int, host: int, stage: int) -> Course:
        return course


class NoTurns(Model):
    """A verb of an operator does not let the campaign continue."""

    takes_turns = False


class NoWakes(Model):
    """What became free is not checked by those that wait for it."""

    wakes = False


class SoakForgotten(Model):
    """A crash forgets how long a stage still soaks."""

    def restarted(self, state: State) -> State:
        soak = min(state.course.soak, 0)
        forgotten = state._replace(course=state.course._replace(soak=soak))
        return super().restarted(forgotten)


class NoSoak(Model):
    """A stage begins before the one before it has soaked."""

    def may_advance(self, course: Course, hour: int) -> bool:
        return super().may_advance(course._replace(soak=min(course.soak, 0)), hour)


class NoApproval(Model):
    """A stage begins without its approval."""

    def may_advance(self, course: Course, hour: int) -> bool:
        return super().may_advance(course._replace(is_approved=True), hour)


class ApprovedEarly(Model):
    """A stage is approved before the one before it has its result."""

    approves_results = False


class ApprovalKept(Model):
    """A halt keeps the approval of the next stage."""

    keeps_approval = True


class AllTolerated(Model):
    """Failures never halt the campaign."""

    def failed(self, course: Course, hour: int, host: int) -> Course:
        failed = super().failed(course, hour, host)
        return failed._replace(state=course.state, halt=course.halt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A bug, where it is planted, and what must catch it."""

    model: type[Model]
    setting: Setting
    caught_by: str


def _planted(setting: Setting, *bugs: tuple[type[Model], str]) -> Sequence[Planted]:
    return [
        Planted(model=model, setting=setting, caught_by=rule) for model, rule in bugs
    ]


PLANTED = (
    *_planted(
        worlds.STEERED,
        (NoBudget, "K2"),
        (PausedAnnounces, "K3"),
        (NothingWithdrawn, "K3"),
        (StartsWhileHalted, "K3"),
        (RampKept, "K2"),
        (AllPausesEnd, "K6"),
        (NoTurns, "K7"),
        (NumberedTurns, "K10"),
    ),
    *_planted(
        worlds.STAGES,
        (SkippedUncounted, "K7"),
        (SoakForgotten, "K8"),
        (NoSoak, "2.6"),
        (NoApproval, "2.6"),
        (ApprovedEarly, "2.6"),
    ),
    *_planted(worlds.APPROVALS, (ApprovalKept, "2.6")),
    *_planted(
        worlds.FAILURES,
        (StagesMixed, "K1"),
        (NotCordoned, "K4"),
        (FailedIsFree, "K5"),
        (AllTolerated, "2.6"),
    ),
    *_planted(
        worlds.BUDGETS, (RackIgnored, "K1"), (FleetIgnored, "K1"), (NoWakes, "K7")
    ),
    *_planted(worlds.BRAKES, (StartsUnderBrake, "K3")),
    *_planted(worlds.WINDOWS, (WindowMissed, "K1"), (StartsOutsideWindow, "K9")),
)
