"""Planted bugs: what the search must catch, or it proves nothing.

Each is a model that decides or does one thing otherwise, the world that it is
planted in, and the invariants of which one must break first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forewarn.protocol.blockers import (
    Blocker,
    FaultDomainDown,
    MigrationUnderWay,
    SharedHost,
    VmBusy,
)
from forewarn.protocol.operations import Action
from tests.search import worlds
from tests.search.model import Model
from tests.search.settings import Setting, freeze, ordered
from tests.search.state import (
    ANNOUNCED,
    MADE,
    NO_CALL,
    READY,
    UNMADE,
    Op,
    State,
    Vm,
)


class AnyApproval(Model):
    """On a shared host, the approval of one tenant releases the operation."""

    def is_released(self, ops: Sequence[Op | None], slot: int) -> bool:
        op = ops[slot]
        return bool(op and op.approved) or super().is_released(ops, slot)


class NotBeforeIgnored(Model):
    """No operation waits for NotBefore."""

    def is_released(self, ops: Sequence[Op | None], slot: int) -> bool:
        return True


class SilenceHolds(Model):
    """Only approvals release an operation, not NotBefore."""

    def is_released(self, ops: Sequence[Op | None], slot: int) -> bool:
        op = ops[slot]
        return op is not None and not op.events & ~op.approved


class BatchSplit(Model):
    """Deletions of one request do not wait for each other."""

    def companions(self, ops: Sequence[Op | None], slot: int) -> tuple[int, ...]:
        return (slot,)

    def is_released(self, ops: Sequence[Op | None], slot: int) -> bool:
        alone = [op if number == slot else None for number, op in enumerate(ops)]
        return super().is_released(alone, slot)


class _Unguarded(Model):
    """Does not see blockers of one kind."""

    unseen: type[Blocker]

    def blocked(
        self, vms: Sequence[Vm], ops: Sequence[Op | None], down: int, slot: int
    ) -> Sequence[Blocker]:
        blockers = super().blocked(vms, ops, down, slot)
        return [blocker for blocker in blockers if not isinstance(blocker, self.unseen)]


class NoHold(_Unguarded):
    """No operation is held while another fault domain is down."""

    unseen = FaultDomainDown


class TwoMigrations(_Unguarded):
    """A scope has several live migrations at a time."""

    unseen = MigrationUnderWay

    def blocked(
        self, vms: Sequence[Vm], ops: Sequence[Op | None], down: int, slot: int
    ) -> Sequence[Blocker]:
        if self.is_migration[slot]:
            # Both of them are in one fault domain, which the guard lets pass.
            return super().blocked(vms, ops, down, slot)
        return Model.blocked(self, vms, ops, down, slot)


class Together(_Unguarded):
    """Maintenance of a host takes down all fault domains that a hypervisor put there."""

    unseen = SharedHost


class TwoHands(_Unguarded):
    """The driver is called for a VM that it works on already."""

    unseen = VmBusy


class FailureHeld(Model):
    """A failure waits like maintenance."""

    def blocked(
        self, vms: Sequence[Vm], ops: Sequence[Op | None], down: int, slot: int
    ) -> Sequence[Blocker]:
        others = (op for number, op in enumerate(ops) if number != slot)
        if self.is_failure[slot] and any(op and op.has_started for op in others):
            held = FaultDomainDown(scope="app", fault_domain=0, causes=())
            return (held,)
        return super().blocked(vms, ops, down, slot)


class ApprovalCrosses(Model):
    """An approval covers the events of all tenants on the host."""

    def approvable(self, op: Op, scope: int) -> int:
        return op.events


class NumberStays(Model):
    """The incarnation does not rise when an event starts."""

    renders_on_start = False


class StartedAfterRemoval(Model):
    """A check uses a list that was read before its operation ended."""

    def stale(self, ops: Sequence[Op | None], slot: int) -> Op | None:
        group = self.group[self.slots[slot].group]
        others = [op for other in group if other != slot and (op := ops[other])]
        # Its companions are open, so it was ordered and has ended.
        return others[0]._replace(state=READY) if others else None


class CalledTwice(Model):
    """A restart makes every call again without asking the driver."""

    def calls_again(self, op: Op) -> bool:
        return op.call in {UNMADE, MADE}


class DestinationStays(Model):
    """A later call uses the destination of the first."""

    def renewed(
        self,
        vms: Sequence[Vm],
        ops: Sequence[Op | None],
        down: int,
        slot: int,
        called: int,
    ) -> tuple[int, bool]:
        op = ops[slot]
        assert op is not None
        if op.call != NO_CALL or op.done:
            return op.places, True
        return super().renewed(vms, ops, down, slot, called)


class TwoPlaces(Model):
    """A redeploy reserves a second place for a VM of an announced host."""

    takes_over = False


class CallLost(Model):
    """A restart treats a call that was stored as a call that was made."""

    def kept(self, state: State) -> State:
        ops = tuple(
            op._replace(call=NO_CALL) if op and op.call == UNMADE else op
            for op in state.ops
        )
        return super().kept(state._replace(ops=ops))


class ApprovalLost(Model):
    """Approvals are kept in memory only."""

    def kept(self, state: State) -> State:
        ops = tuple(
            op._replace(approved=0) if op and op.state == ANNOUNCED else op
            for op in state.ops
        )
        return super().kept(state._replace(ops=ops))


class CalledBeforeServed(Model):
    """The driver is called before Started is published."""

    publishes_first = False


class OldApprovalCounts(Model):
    """An operation that is announced again keeps the approvals of the old event."""

    def carried(self, op: Op) -> int:
        return op.approved


class NobodyWakes(Model):
    """The end of an operation wakes no waiting operation."""

    wakes = False


class StepEatsNotice(Model):
    """A clock step forward shortens a notice."""

    def is_released(self, ops: Sequence[Op | None], slot: int) -> bool:
        return self.decisions.is_released(ops, slot)


class LetGoForGood(Model):
    """After the clock is set back, an operation that NotBefore released starts before NotBefore."""

    def is_early_again(self, ops: Sequence[Op | None], slot: int) -> bool:
        return False


class TimersAreInstants(Model):
    """A clock step does not move the end of a recovery."""

    moves_timers = False


class FarTimersStay(Model):
    """A restart keeps a timer that is further away than its full length."""

    def longest(self, op: Op) -> int | None:
        longest = super().longest(op)
        return None if longest is None else longest + self.setting.clock_step


class ApprovalWaitsForClock(Model):
    """Approvals release no operation while a notice continues after a clock step."""

    def is_released(self, ops: Sequence[Op | None], slot: int) -> bool:
        op = ops[slot]
        is_late = op is not None and op.notice > max(op.left, 0)
        return not is_late and super().is_released(ops, slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A bug, where it is planted, and what must catch it."""

    model: type[Model]
    setting: Setting
    caught_by: frozenset[str]


NEIGHBOURS = ordered(
    replace(
        worlds.MIGRATIONS,
        name="two hosts of one fault domain, and a spare one",
        vms=tuple(replace(vm, fault_domain=0) for vm in worlds.SPREAD),
        hosts_fail=(),
        forgets=False,
    ),
    freeze(0, impact=Action.LIVE_MIGRATE),
    freeze(1, impact=Action.LIVE_MIGRATE),
)


TOGETHER = ordered(
    replace(worlds.LATE_HOLDS, name="operations of one order that end together"),
    freeze(0, 1),
    freeze(2),
)
"""The service announces the hosts of a rollout one after the other. The model may
announce them together, so that one failure ends several operations at once."""


def _planted(model: type[Model], setting: Setting, *caught_by: str) -> Planted:
    return Planted(model=model, setting=setting, caught_by=frozenset(caught_by))


PLANTED = (
    _planted(AnyApproval, worlds.CRASHES, "S3"),
    _planted(NoHold, worlds.CRASHES, "S1", "S2"),
    _planted(StartedAfterRemoval, TOGETHER, "S7"),
    _planted(NotBeforeIgnored, worlds.CRASHES, "S3"),
    _planted(ApprovalCrosses, worlds.CRASHES, "S4"),
    _planted(BatchSplit, worlds.DELETIONS, "S3"),
    _planted(NumberStays, worlds.CRASHES, "S8"),
    _planted(FailureHeld, worlds.CRASHES, "S12"),
    _planted(SilenceHolds, worlds.CRASHES, "L3"),
    _planted(TwoMigrations, NEIGHBOURS, "S1b"),
    _planted(Together, worlds.PUT_TOGETHER, "S1"),
    _planted(TwoHands, worlds.CRASHES, "S11"),
    _planted(CalledTwice, worlds.CRASHES, "S11"),
    _planted(DestinationStays, worlds.MIGRATIONS, "S10"),
    _planted(TwoPlaces, worlds.MIGRATIONS, "S13"),
    _planted(CallLost, worlds.CRASHES, "S10", "S11"),
    _planted(ApprovalLost, worlds.CRASHES, "S11"),
    _planted(CalledBeforeServed, worlds.CRASHES, "S10"),
    _planted(OldApprovalCounts, worlds.HOLDS, "S6"),
    _planted(NobodyWakes, worlds.HOLDS, "L2", "L3"),
    _planted(StepEatsNotice, worlds.CLOCKS, "S3"),
    _planted(LetGoForGood, worlds.CLOCKS, "S3"),
    _planted(TimersAreInstants, worlds.CLOCKS, "S14"),
    _planted(FarTimersStay, worlds.CLOCKS, "S14"),
    _planted(ApprovalWaitsForClock, worlds.CLOCKS, "L2"),
)
