"""One transaction of the model: the twin of `control.work` and what uses it.

The names are those of the code: `let_go` is `release.let_go`, `impact_over` is
`ending.impact_over`, and so on. The conformance walks compare the two after
every step; every decision in between is the product's own (`decisions`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from forewarn.protocol.lifecycle import EventInput, OperationInput, RequestInput
from forewarn.protocol.operations import (
    KEEPING_ACTIONS,
    MOVING_ACTIONS,
    Action,
    TargetKind,
)
from tests.search.model import EVENT_TABLE, OPERATION_TABLE, REQUEST_TABLE, Model
from tests.search.state import (
    DOWN,
    GONE,
    IMPACTING,
    NO_CALL,
    NOTICED,
    READY,
    RECOVERING,
    RETRY,
    RUNS,
    UNMADE,
    Op,
    State,
    Vm,
    bits,
    place_of,
    placed,
)

NEW, SCHEDULED, STARTED, REMOVED = range(4)
"""The statuses of an event, in the order of the table."""


@dataclass(slots=True)
class Log:
    """What a transaction did that its end does not show; invariants read it."""

    raised: int = 0
    """Scopes whose incarnation rose."""
    born: list[int] = field(default_factory=list[int])
    ended: list[tuple[int, int, Op]] = field(default_factory=list[tuple[int, int, Op]])
    """Slot, last state, and the operation as it was before."""
    released: list[tuple[int, tuple[int, ...], State]] = field(
        default_factory=list[tuple[int, tuple[int, ...], State]]
    )
    """Who was let go, with whom, and the state that decided it."""
    started: list[tuple[int, State]] = field(default_factory=list[tuple[int, State]])
    """Who started, and the state that decided it."""
    calls: list[int] = field(default_factory=list[int])
    """Driver calls that were made durable, a new generation each."""
    begun: list[tuple[int, State]] = field(default_factory=list[tuple[int, State]])
    """Driver calls that were made, and the state before."""
    freed: list[int] = field(default_factory=list[int])
    revisits: list[int] = field(default_factory=list[int])


class Turn:
    """What one transaction reads and changes."""

    def __init__(self, model: Model, state: State, order: Sequence[int] = ()) -> None:
        """Begin; `order` ranks the slots as their operations' ids are sorted."""
        self.model = model
        self.old = state
        self.vms = list(state.vms)
        self.ops = list(state.ops)
        self.requests = list(state.requests)
        self.down = state.down
        self.listening = state.listening
        self.log = Log()
        self.touched = 0
        self.order = order or range(len(self.ops))

    def end(self) -> State:
        """Render the documents that were touched; return the state."""
        model, old = self.model, self.old
        changed = 0
        for scope in bits(self.touched & self.listening):
            if scope in bits(old.listening):
                before = model.content(old.ops, scope)
                after = model.content(self.ops, scope)
                # An event that takes the place of another in its slot is new.
                if before != after or any(
                    op is not None and op.events >> scope & 1
                    for op in map(self.ops.__getitem__, self.log.born)
                ):
                    changed |= 1 << scope
        self.log.raised |= changed
        fresh = changed | (self.listening ^ old.listening)
        return State(
            tuple(self.vms),
            tuple(self.ops),
            tuple(self.requests),
            self.down,
            self.listening,
            fresh if model.setting.crashes else 0,
        )

    def now(self) -> State:
        """Return the state in the middle of the transaction."""
        return State(
            tuple(self.vms),
            tuple(self.ops),
            tuple(self.requests),
            self.down,
            self.listening,
            0,
        )

    # Rows

    def op(self, slot: int) -> Op:
        """Return the open operation of a slot."""
        op = self.ops[slot]
        assert op is not None, f"{self.model.slots[slot].name} is not open"
        return op

    def open(self, vms: int = -1) -> list[int]:
        """Return the slots with open operations of any of the VMs, by their ids."""
        return [
            slot
            for slot in self.order
            if (op := self.ops[slot]) is not None and (vms == -1 or op.vms & vms)
        ]

    def siblings(self, slot: int) -> list[int]:
        """Return the open operations of the same request, by their ids."""
        group = self.model.group[self.model.slots[slot].group]
        return [each for each in self.order if each in group and self.ops[each]]

    def step(self, slot: int, given: OperationInput) -> Op:
        """Take an operation a step through the table."""
        op = self.op(slot)
        op = op._replace(state=OPERATION_TABLE.step(op.state, given))
        self.ops[slot] = op
        return op

    def step_request(self, group: int, given: RequestInput) -> None:
        """Take a request a step through the table."""
        self.requests[group] = REQUEST_TABLE.step(self.requests[group], given)

    def touch(self, scopes: int, status: int, given: Enum) -> None:
        """Take the events of these scopes a step through the table."""
        if scopes:
            EVENT_TABLE.step(status, given)
            self.touched |= scopes

    def free(self, scopes: int) -> None:
        """Have what waits in these scopes looked at."""
        self.log.freed += [s for s in bits(scopes) if s not in self.log.freed]

    def revisit(self, slot: int) -> None:
        """Have an operation looked at."""
        if slot not in self.log.revisits:
            self.log.revisits.append(slot)

    # admission

    def make(self, slot: int, vms: int, *, left: int, host: int, approved: int) -> None:
        """Make an operation with its events; `let_go` and `publish` follow."""
        scopes = self.model.scopes(vms)
        events = scopes & self.model.announced[slot]
        state = OPERATION_TABLE.step(0, OperationInput.NOTICE)
        self.ops[slot] = Op(
            state, left, events, approved & events, vms, 0, NO_CALL, 0, 0, host, scopes
        )
        self.log.born.append(slot)

    def publish(self, slots: Sequence[int]) -> None:
        """Let new operations go as far as they may, and publish their events."""
        for slot in slots:
            self.let_go(slot)
        for slot in slots:
            op = self.ops[slot]
            if op is not None and op.is_waiting:
                self.touch(op.events, NEW, EventInput.PUBLISH)

    # release

    def let_go(self, slot: int) -> None:
        """Take the operation, and those that go with it, as far as allowed."""
        op = self.ops[slot]
        if op is None:
            return
        if op.state == NOTICED:
            if not self.model.is_released(self.ops, slot):
                return
            companions = self.model.companions(self.ops, slot)
            self.log.released.append((slot, companions, self.now()))
            for companion in sorted(companions, key=self.order.index):
                op = self.step(companion, OperationInput.RELEASE)
                if not (self.model.setting.hold and self.model.slots[slot].routine):
                    self.ops[companion] = op._replace(left=0)
                self.start_if_allowed(companion)
        elif op.state == READY:
            self.start_if_allowed(slot)

    def start_if_allowed(self, slot: int) -> None:
        """Start a ready operation, unless something is in its way."""
        blockers, places = self.model.blocked(self.vms, self.ops, self.down, slot)
        if not blockers:
            self.start(slot, dict(places))

    # impact

    def start(self, slot: int, places: dict[int, int]) -> None:
        """Make a ready operation Started, with its events and its driver call."""
        self.log.started.append((slot, self.now()))
        op = self.step(slot, OperationInput.START)
        status = NEW if slot in self.log.born else SCHEDULED
        kept = op.places
        if self.model.slots[slot].action in MOVING_ACTIONS:
            for vm, host in places.items():
                kept = placed(kept, vm, host)
        EVENT_TABLE.step(status, EventInput.START)
        if self.model.renders_on_start:
            self.touched |= op.events
        self.ops[slot] = op._replace(left=0, approved=0, places=kept)
        if self.model.slots[slot].action is Action.NONE:
            return
        if op.vms:
            self.issue(slot, tries=1)
        else:
            self.impact_over(slot)

    def issue(self, slot: int, *, tries: int) -> None:
        """Make the next driver call durable."""
        self.ops[slot] = self.op(slot)._replace(call=UNMADE, tries=tries, left=0)
        self.log.calls.append(slot)

    def call_done(self, slot: int) -> None:
        """Take over what a successful call has done; go on with what is left."""
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
        if action in MOVING_ACTIONS and host >= 0:
            self.move_vm(vm, host, besides=slot)
        if self.vms[vm].how == DOWN and action not in KEEPING_ACTIONS:
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
        siblings = [each for each in self.siblings(slot) if each != slot]
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
            given = OperationInput.CANCEL if op.is_waiting else OperationInput.FINISH
            self.finish(slot, given)
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
            elif op.is_waiting and not bound:
                self.ops[slot] = op._replace(host=host)
        self.free(1 << self.model.scope_of[vm])

    def vm_runs_again(self, vm: int) -> None:
        """Note that a VM runs; its failures let go of it."""
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
        if all(self.vms[each].how == GONE for each in bits(self.model.members[scope])):
            self.listening &= ~(1 << scope)
        self.free(1 << scope)

    # failures

    def begin_failure(self, kind: TargetKind, target: int, host: int, vms: int) -> None:
        """Give VMs that are down an event of their own."""
        slot = self.model.failure_of[kind, target]
        assert self.ops[slot] is None, f"{self.model.slots[slot].name} is open"
        for vm in bits(vms):
            self.vms[vm] = Vm(DOWN, self.vms[vm].host)
        self.make(slot, vms, left=0, host=host, approved=-1)
        self.publish([slot])

    def overtake(self, slot: int, vms: int) -> None:
        """End an operation that a failure has overtaken; deletions go on."""
        op = self.ops[slot]
        if op is None:
            return
        if op.is_waiting:
            if self.model.slots[slot].action is not Action.DELETE:
                self.finish(slot, OperationInput.CANCEL)
        elif self.model.is_failure[slot]:
            for vm in bits(op.vms & vms):
                self.leave(slot, vm)
        elif any(
            not (op.done >> vm & 1 and place_of(op.places, vm) >= 0)
            for vm in bits(op.vms & vms)
        ):
            self.fail(slot)

    def call_failed(self, slot: int, down: int) -> None:
        """Make a failed call again, or give it up."""
        op = self.op(slot)
        places = [place_of(op.places, v) for v in bits(self.model.current(slot, op))]
        lost = any(host >= 0 and self.down >> host & 1 for host in places)
        if op.tries < self.model.setting.attempts and not lost:
            self.ops[slot] = op._replace(call=RETRY, left=1)
        else:
            self.give_up(slot, down)

    def give_up(self, slot: int, down: int) -> None:
        """End a failed operation; what it left down fails by itself."""
        current = self.model.current(slot, self.op(slot))
        for vm in bits(current):
            if self.vms[vm].how != GONE and self.down >> self.vms[vm].host & 1:
                down |= 1 << vm
        self.fail(slot)
        for vm in bits(down):
            if self.vms[vm].how == RUNS:
                host = self.vms[vm].host
                self.begin_failure(TargetKind.VM, vm, host, 1 << vm)


assert (IMPACTING, RECOVERING) == (3, 4), "content and states are compared by number"
