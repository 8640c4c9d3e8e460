"""The static half of the model: what one world is, and who may be put in place.

A planted bug is a subclass that decides or does one thing otherwise.
"""

from collections.abc import Sequence

from forewarn.protocol.blockers import Blocker
from forewarn.protocol.operations import MOVING_ACTIONS, Action, TargetKind
from tests.search.decisions import Decisions
from tests.search.settings import Setting
from tests.search.state import (
    ANNOUNCED,
    IMPACTING,
    RECOVERING,
    RETRY,
    UNMADE,
    Op,
    State,
    Vm,
)


class Model:
    """One world: its constants as numbers, and the decisions of the product."""

    renders_on_start = True
    """Whether the service renders all documents again when it starts."""
    publishes_first = True
    """Whether calls wait until what was committed is served."""
    moves_timers = True
    """Whether the ends of durations move with a step of the wall clock."""
    takes_over = True
    """Whether a place for a VM replaces the one that another operation keeps."""
    wakes = True
    """Whether the end of something has those looked at that wait in its scopes."""

    def __init__(self, setting: Setting) -> None:
        # The code goes by names, the model by numbers.
        for named in (setting.scopes, setting.vms):
            names = [entity.name for entity in named]
            assert names == sorted(names), names
        self.setting = setting
        self.slots = setting.slots
        self.decisions = Decisions(setting)
        self.announced = [self.decisions.announced(slot) for slot in setting.slots]
        self.members = [
            sum(1 << vm for vm, plan in enumerate(setting.vms) if plan.scope == scope)
            for scope in range(len(setting.scopes))
        ]
        self.scope_of = [plan.scope for plan in setting.vms]
        self.domain_of = [plan.fault_domain for plan in setting.vms]
        groups = 1 + max(slot.group for slot in setting.slots)
        self.group = [
            tuple(n for n, slot in enumerate(setting.slots) if slot.group == group)
            for group in range(groups)
        ]
        self.is_failure = [slot.is_failure for slot in setting.slots]
        self.is_migration = [
            slot.action is Action.LIVE_MIGRATE for slot in setting.slots
        ]
        self.is_moving = [slot.action in MOVING_ACTIONS for slot in setting.slots]
        self.is_host_bound = [slot.kind is TargetKind.HOST for slot in setting.slots]
        self.failure_of = {
            (slot.kind, slot.target): number
            for number, slot in enumerate(setting.slots)
            if slot.is_failure
        }
        self._scopes: dict[int, int] = {}

    def first(self) -> State:
        """Return the state in which the world begins."""
        return State(
            vms=tuple(Vm(0, plan.host) for plan in self.setting.vms),
            ops=(None,) * len(self.slots),
            requests=(0,) * len(self.group),
            down=0,
            listening=self.setting.listening,
            unpublished=0,
        )

    def scopes(self, vms: int) -> int:
        """Return the scopes that VMs are in."""
        known = self._scopes.get(vms)
        if known is None:
            known = self._scopes[vms] = sum(
                1 << scope
                for scope, members in enumerate(self.members)
                if members & vms
            )
        return known

    def current(self, slot: int, op: Op) -> int:
        """Return the VMs of the call under way: all that are to be done, or one."""
        return op.todo & -op.todo if self.is_migration[slot] else op.todo

    def content(
        self, ops: Sequence[Op | None], scope: int
    ) -> tuple[tuple[int, bool, int], ...]:
        """Return what a scope's document shows: slot, Started, resources."""
        return tuple(
            (slot, op.state >= IMPACTING, op.vms & self.members[scope])
            for slot, op in enumerate(ops)
            if op is not None and op.events >> scope & 1
        )

    # Decisions, which a planted bug may replace

    def is_released(self, ops: Sequence[Op | None], slot: int) -> bool:
        """Return whether a noticed operation is ready."""
        op = ops[slot]
        if op is not None and op.notice > op.left:
            # `release.start_if_ready` asks as if NotBefore were the end of the notice.
            ops = [*ops[:slot], op._replace(left=op.notice), *ops[slot + 1 :]]
        return self.decisions.is_released(ops, slot)

    def is_early_again(self, ops: Sequence[Op | None], slot: int) -> bool:
        """Return whether NotBefore let a held operation go, and is still to come."""
        op = ops[slot]
        is_early = self.setting.clock_step and op is not None and op.left > 0
        return bool(is_early) and not self.decisions.is_released(ops, slot)

    def restarted(self, op: Op) -> Op:
        """Return an operation as the next process takes it: the wall clock rules."""
        longest = self.longest(op)
        if longest is not None:
            return op._replace(left=min(op.left, longest))
        return op._replace(notice=max(op.left, 0) if op.state == ANNOUNCED else 0)

    def longest(self, op: Op) -> int | None:
        """Return how long the operation's timer runs at most; None: no duration."""
        if op.state == RECOVERING:
            return self.setting.recovery
        return 1 if op.call == RETRY else None

    def blocked(
        self, vms: Sequence[Vm], ops: Sequence[Op | None], down: int, slot: int
    ) -> Sequence[Blocker]:
        """Return what keeps a ready operation from starting."""
        return self.decisions.blocked(vms, ops, down, slot)

    def renewed(
        self,
        vms: Sequence[Vm],
        ops: Sequence[Op | None],
        down: int,
        slot: int,
        called: int,
    ) -> tuple[int, bool]:
        """Return the places when VMs are to be moved, and whether each has one."""
        return self.decisions.renewed(vms, ops, down, slot, called)

    def must_wait(self, state: State, group: int) -> bool:
        """Return whether maintenance would wait for VMs that only its host can take.

        The service does not announce the host then, and the model has no such state.
        """
        return any(
            self.is_host_bound[slot]
            and not self.decisions.can_give_up_places(
                state.vms, state.ops, state.down, self.slots[slot].target
            )
            for slot in self.group[group]
        )

    def companions(self, ops: Sequence[Op | None], slot: int) -> tuple[int, ...]:
        """Return the operations that become ready together with this one."""
        if not self.slots[slot].together:
            return (slot,)
        return tuple(
            sibling
            for sibling in self.group[self.slots[slot].group]
            if (op := ops[sibling]) is not None and op.state == ANNOUNCED
        )

    def approvable(self, op: Op, scope: int) -> int:
        """Return the scopes whose event a VM of `scope` approves; 0: refused."""
        return op.events & 1 << scope

    def calls_again(self, op: Op) -> bool:
        """Return whether a restart makes the call of an operation again."""
        return op.call == UNMADE

    def kept(self, state: State) -> State:
        """Return what a crash leaves of a state: all but what is derived."""
        return state._replace(unpublished=0)

    def carried(self, op: Op) -> int:
        """Return the approvals that a new notice takes over from the old one."""
        del op
        return 0

    def stale(self, ops: Sequence[Op | None], slot: int) -> Op | None:
        """Return what a look finds in a slot whose operation has ended."""
        del ops, slot
        return None
