"""One transaction of the model: the twin of what uses `control.transactions.work`.

The names are those of the code: `start_if_ready` is `release.start_if_ready`, `impact_over` is
`ending.impact_over`, and so on. The conformance walks compare the two after
every step; every decision in between is the product's own (`decisions`).
"""

from collections.abc import Sequence

from forewarn.protocol.lifecycle import EventInput, OperationInput, RequestInput
from forewarn.protocol.operations import (
    KEEPING_ACTIONS,
    Action,
)
from tests.search.ledger import NEW, SCHEDULED, STARTED, Ledger
from tests.search.state import (
    ANNOUNCED,
    DOWN,
    GONE,
    NO_CALL,
    READY,
    RETRY,
    RUNS,
    UNMADE,
    Op,
    Vm,
    bits,
    goes_to,
    place_of,
    placed,
)
from tests.search.tables import EVENT_TABLE, OPERATION_TABLE


class Turn(Ledger):
    """The decisions and effects of one transaction."""

    # admission

    def make(self, slot: int, vms: int, *, left: int, host: int, approved: int) -> None:
        """Make an operation with its events; `start_if_ready` and `publish` follow."""
        scopes = self.model.scopes(vms)
        events = scopes & self.model.announced[slot]
        state = OPERATION_TABLE.step(0, OperationInput.NOTICE)
        fresh = Op(
            state, left, events, approved & events, vms, 0, NO_CALL, 0, 0, host, scopes
        )
        if self.model.setting.clock_step:
            fresh = fresh._replace(notice=left)
        self.ops[slot] = fresh
        self.log.born.append(slot)
        if self.model.is_host_bound[slot]:
            self.give_up_places(slot, host)
            if self.model.is_moving[slot]:
                self.reserve_places(slot, vms)

    def give_up_places(self, besides: int, host: int) -> None:
        """Find other places for the VMs that would come to a host that is announced."""
        keepers = {
            slot: sum(
                1 << vm for vm in bits(op.todo) if place_of(op.places, vm) == host
            )
            for slot in self.open()
            if slot != besides and (op := self.op(slot)).is_waiting
        }
        for slot in sorted(keepers, key=lambda slot: keepers[slot] & -keepers[slot]):
            if keepers[slot]:
                self.find_places(slot, keepers[slot])

    def reserve_places(self, slot: int, vms: int) -> None:
        """Keep a place for each VM of a host, or for none of them.

        A VM that is being moved already keeps the place of that move.
        """
        for vm in bits(vms):
            if goes_to(self.ops, vm) >= 0:
                vms &= ~(1 << vm)
        whole = self.op(slot)
        self.ops[slot] = whole._replace(todo=vms)
        if not vms or not self.find_places(slot, vms):
            self.ops[slot] = whole
        else:
            self.ops[slot] = whole._replace(places=self.op(slot).places)

    def find_places(self, slot: int, vms: int) -> bool:
        """Replace unsuitable places of these VMs; return whether each has one."""
        op = self.op(slot)
        places, found = self.model.renewed(self.vms, self.ops, self.down, slot, vms)
        self.ops[slot] = op._replace(places=places)
        for vm in bits(op.todo):
            new = place_of(places, vm)
            if new >= 0 and new != place_of(op.places, vm) and self.model.takes_over:
                self.take_over(slot, vm)
        return found

    def take_over(self, besides: int, vm: int) -> None:
        """Free the place that another operation keeps for a VM."""
        for slot in self.open(1 << vm):
            op = self.op(slot)
            if slot != besides and op.todo >> vm & 1:
                self.ops[slot] = op._replace(places=placed(op.places, vm, -1))

    def publish(self, slots: Sequence[int]) -> None:
        """Let new operations go as far as they may, and publish their events."""
        for slot in slots:
            self.start_if_ready(slot)
        for slot in slots:
            op = self.ops[slot]
            if op is not None and op.is_waiting:
                self.touch(op.events, NEW, EventInput.PUBLISH)

    # release

    def start_if_ready(self, slot: int) -> None:
        """Take the operation, and those that go with it, as far as allowed."""
        op = self.ops[slot]
        if op is None:
            self.ops[slot] = op = self.model.stale(self.ops, slot)
        if op is None:
            return
        if op.state == ANNOUNCED:
            if not self.model.is_released(self.ops, slot):
                return
            companions = self.model.companions(self.ops, slot)
            self.log.released.append((slot, companions, self.now()))
            for companion in sorted(companions, key=self.order.index):
                op = self.step(companion, OperationInput.RELEASE)
                if not self.keeps_not_before(slot, op):
                    op = op._replace(left=0)
                self.ops[companion] = op._replace(notice=0)
                self.start_if_allowed(companion)
        elif op.state == READY and not self.model.is_early_again(self.ops, slot):
            self.start_if_allowed(slot)

    def keeps_not_before(self, slot: int, op: Op) -> bool:
        """Return whether NotBefore matters to an operation that is ready."""
        setting = self.model.setting
        may_come_again = setting.clock_step and op.events & ~op.approved
        is_bounded = setting.hold and self.model.slots[slot].routine
        return bool(may_come_again or is_bounded)

    def start_if_allowed(self, slot: int) -> None:
        """Start a ready operation, unless something is in its way."""
        if not self.model.blocked(self.vms, self.ops, self.down, slot):
            self.start(slot)

    # impact

    def start(self, slot: int) -> None:
        """Make a ready operation Started, with its events and its driver call."""
        self.log.started.append((slot, self.now()))
        if self.model.is_moving[slot]:
            self.find_places(slot, self.op(slot).todo)
        op = self.step(slot, OperationInput.START)
        status = NEW if slot in self.log.born else SCHEDULED
        EVENT_TABLE.step(status, EventInput.START)
        if self.model.renders_on_start:
            self.touched |= op.events
        self.ops[slot] = op._replace(left=0, notice=0, approved=0)
        if self.model.slots[slot].action is Action.NONE:
            return
        if op.vms:
            self.issue_first(slot, tries=1)
        else:
            self.impact_over(slot)

    def issue(self, slot: int, *, tries: int) -> bool:
        """Make the next driver call durable, if its VMs have places."""
        current = self.model.current(slot, self.op(slot))
        may_issue = not self.model.is_moving[slot] or self.find_places(slot, current)
        if may_issue:
            self.issue_first(slot, tries=tries)
        else:
            self.ops[slot] = self.op(slot)._replace(call=RETRY, tries=tries, left=1)
        return may_issue

    def issue_first(self, slot: int, *, tries: int) -> None:
        """Make a driver call durable; its places were chosen just now."""
        self.ops[slot] = self.op(slot)._replace(call=UNMADE, tries=tries, left=0)
        self.log.calls.append(slot)

    def call_done(self, slot: int) -> None:
        """Take over what a successful call has done; continue with the rest."""
        for vm in bits(self.model.current(slot, self.op(slot))):
            self.vm_done(slot, vm)
        op = self.op(slot)
        finished = self.model.current(slot, op)
        op = op._replace(
            call=NO_CALL, tries=0, todo=op.todo & ~finished, done=op.done | finished
        )
        self.ops[slot] = op
        if op.todo:
            self.issue(slot, tries=1)
        else:
            self.impact_over(slot)

    def vm_done(self, slot: int, vm: int) -> None:
        """Take over what a call has done to one VM."""
        action = self.model.slots[slot].action
        if self.vms[vm].how == GONE:
            return
        if action is Action.DELETE:
            self.delete_vm(vm, besides=slot)
            return
        host = place_of(self.op(slot).places, vm)
        if self.model.is_moving[slot] and host >= 0:
            self.move_vm(vm, host, besides=slot)
        is_host_up = not self.down >> self.vms[vm].host & 1
        if self.vms[vm].how == DOWN and action not in KEEPING_ACTIONS and is_host_up:
            self.vm_runs_again(vm)

    # ending

    def impact_over(self, slot: int) -> None:
        """End the impact; the events stay for the recovery time."""
        recovery = self.model.setting.recovery
        if self.model.slots[slot].action is Action.DELETE or not recovery:
            self.finish(slot, OperationInput.FINISH)
            return
        op = self.step(slot, OperationInput.IMPACT_OVER)
        self.ops[slot] = op._replace(left=recovery)
        self.free(op.scopes)

    def finish(self, slot: int, given: OperationInput) -> None:
        """End an operation: its events go, and others may start."""
        op = self.op(slot)
        if op.is_waiting:
            self.touch(op.events, SCHEDULED, EventInput.CANCEL)
        else:
            self.touch(op.events, STARTED, EventInput.FINISH)
        self.ops[slot] = None
        self.log.ended.append((slot, OPERATION_TABLE.step(op.state, given), op))
        self.free(op.scopes)
        self.close_request(slot)

    def close_request(self, slot: int) -> None:
        """Close a request whose operations have all ended."""
        group = self.model.slots[slot].group
        siblings = self.siblings(slot)
        if not siblings:
            self.step_request(group, RequestInput.ALL_ENDED)
            self.requests[group] = 0
        elif self.model.slots[slot].together:
            for sibling in siblings:
                if self.op(sibling).is_waiting:
                    self.revisit(sibling)

    def fail(self, slot: int) -> None:
        """End a started operation badly; a rollout stops with it."""
        siblings = [sibling for sibling in self.siblings(slot) if sibling != slot]
        self.step_request(self.model.slots[slot].group, RequestInput.OPERATION_FAILED)
        self.finish(slot, OperationInput.FAIL)
        if self.model.slots[slot].rollout:
            for sibling in siblings:
                if self.op(sibling).is_waiting:
                    self.finish(sibling, OperationInput.CANCEL)

    # leaving

    def leave(self, slot: int, vm: int) -> None:
        """Take one VM out of an operation and its events."""
        op = self.op(slot)
        in_hand = self.model.current(slot, op) >> vm & 1
        scope = self.model.scope_of[vm]
        rest = op.vms & ~(1 << vm)
        gone = op.events & 1 << scope
        if gone and rest & self.model.members[scope]:
            self.touched |= gone
            gone = 0
        elif op.is_waiting:
            self.touch(gone, SCHEDULED, EventInput.CANCEL)
        else:
            self.touch(gone, STARTED, EventInput.FINISH)
        op = op._replace(
            todo=op.todo & rest,
            done=op.done & rest,
            events=op.events & ~gone,
            approved=op.approved & ~gone,
            places=placed(op.places, vm, -1),
        )
        self.ops[slot] = op
        if not rest:
            step_input = (
                OperationInput.CANCEL if op.is_waiting else OperationInput.FINISH
            )
            self.finish(slot, step_input)
        elif in_hand and self.model.is_migration[slot] and op.call != NO_CALL:
            if op.todo:
                self.issue(slot, tries=1)
            else:
                self.ops[slot] = op._replace(call=NO_CALL, tries=0)
                self.impact_over(slot)
        elif op.is_waiting:
            self.revisit(slot)

    def move_vm(self, vm: int, host: int, *, besides: int) -> None:
        """Put a VM on another host; it leaves what is bound to the old one."""
        old = self.vms[vm].host
        self.vms[vm] = Vm(self.vms[vm].how, host)
        for slot in self.open(1 << vm):
            op = self.op(slot)
            bound = self.model.is_host_bound[slot]
            failure = self.model.is_failure[slot]
            if (
                slot != besides
                and op.host == old
                and bound
                and (op.is_waiting or failure)
            ):
                self.leave(slot, vm)
            elif (op.is_waiting or failure) and not bound:
                self.ops[slot] = op._replace(host=host)
        self.free(1 << self.model.scope_of[vm])

    def vm_runs_again(self, vm: int) -> None:
        """Note that a VM runs; its failures release it."""
        self.vms[vm] = Vm(RUNS, self.vms[vm].host)
        for slot in self.open(1 << vm):
            if self.model.is_failure[slot]:
                self.leave(slot, vm)
        self.free(1 << self.model.scope_of[vm])

    def delete_vm(self, vm: int, *, besides: int) -> None:
        """Make a VM a tombstone: it leaves all operations."""
        for slot in self.open(1 << vm):
            if slot != besides:
                self.leave(slot, vm)
        self.vms[vm] = Vm(GONE, self.vms[vm].host)
        scope = self.model.scope_of[vm]
        if all(
            self.vms[member].how == GONE for member in bits(self.model.members[scope])
        ):
            self.listening &= ~(1 << scope)
        self.free(1 << scope)
