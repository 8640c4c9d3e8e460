"""L2 and L3: an operation that is ready, and has nothing in the way, starts at once.

L1, that everything ends, is a property of the whole graph; `explore` has it.
"""

from forewarn.protocol.operations import MOVING_ACTIONS, TargetKind
from tests.search.invariants import BrokenError, unsteady
from tests.search.model import Model
from tests.search.state import ANNOUNCED, GONE, READY, Op, State, bits
from tests.search.steps import Step


class Liveness:
    """The operations that must not wait, in one world."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.asked = 0
        # Whether there is room for who moves is not said here.
        self._stays = [slot.action not in MOVING_ACTIONS for slot in model.slots]

    def of_state(self, state: State) -> None:
        """Raise BrokenError if a steady world has left something waiting."""
        if not self.model.setting.steady:
            return
        for slot, op in enumerate(state.ops):
            if op is not None and op.state <= READY:
                self._judge(state, slot, op)

    def of_step(self, state: State, step: Step) -> None:
        """Raise BrokenError if a look at a free operation does not start it."""
        label = step.label
        if label.what == "look":
            op, after = state.ops[label.first], step.after.ops[label.first]
            if op is not None and after is not None and after.state <= READY:
                self._judge(state, label.first, op)

    def _judge(self, state: State, slot: int, op: Op) -> None:
        """Raise BrokenError if a waiting operation has nothing to wait for."""
        self.asked += 1
        if not self._stays[slot]:
            return
        if op.state == ANNOUNCED:
            due, approved = self._let_go(state, slot)
        else:
            due = op.left <= 0
            # The clock may have been set back after NotBefore let it go.
            is_early = self.model.setting.clock_step and op.events & ~op.approved
            approved = op.left > 0 and not is_early
        if (due or approved) and self._is_clear(state, slot, op):
            name = self.model.slots[slot].name
            if due:
                raise BrokenError("L3", f"{name} waits although NotBefore has come")
            raise BrokenError("L2", f"{name} waits although everybody has approved")

    def _let_go(self, state: State, slot: int) -> tuple[bool, bool]:
        """Return whether NotBefore has come, and whether everybody has approved."""
        here = self.model.slots[slot]
        group = self.model.group[here.group] if here.together else (slot,)
        counted = [op for n in group if (op := state.ops[n]) and op.state <= READY]
        due = all(max(op.left, op.notice) <= 0 for op in counted)
        return due, all(not op.events & ~op.approved for op in counted)

    def _is_clear(self, state: State, slot: int, op: Op) -> bool:
        """Return whether every VM of its scopes is steady, and its hosts are up."""
        if self._takes_domains_together(state, slot, op):
            return False
        members = 0
        for scope in bits(self.model.scopes(op.vms)):
            members |= self.model.members[scope]
        return not any(True for _ in unsteady(state, slot, members))

    def _takes_domains_together(self, state: State, slot: int, op: Op) -> bool:
        """Return whether maintenance would affect two fault domains on its host (6.3)."""
        here = self.model.slots[slot]
        if not here.routine or here.kind is not TargetKind.HOST:
            return False
        return any(
            len(
                {
                    self.model.domain_of[vm]
                    for vm in bits(self.model.members[scope])
                    if state.vms[vm].how != GONE and state.vms[vm].host == here.target
                }
            )
            > 1
            for scope in bits(self.model.scopes(op.vms))
        )
