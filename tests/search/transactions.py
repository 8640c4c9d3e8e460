"""The transactions of the model by name: what may be asked of the control plane.

Each takes a `Turn` and two numbers. `RefusedError` means that the code refuses
it, or that it cannot happen in this state.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from forewarn.protocol.events import EventStatus
from forewarn.protocol.lifecycle import (
    VIEW_STEPS,
    EventInput,
    OperationInput,
    RequestInput,
    ViewInput,
    ViewState,
    look_up,
)
from forewarn.protocol.operations import Action, TargetKind, Verb
from tests.search.model import EVENT_TABLE, Model
from tests.search.state import (
    DOWN,
    GONE,
    IMPACTING,
    MADE,
    NO_CALL,
    READY,
    RECOVERING,
    RETRY,
    RUNS,
    UNKNOWN,
    UNMADE,
    Label,
    Op,
    State,
    bits,
    place_of,
)
from tests.search.turn import SCHEDULED, STARTED, Log, Turn


class RefusedError(Exception):
    """It cannot be done in this state."""


def need(*, so: bool) -> None:
    """Refuse unless `so`."""
    if not so:
        raise RefusedError


# Orders


def order(turn: Turn, group: int, _second: int) -> None:
    """Make a request with its operations (`verbs`)."""
    model = turn.model
    slots = model.group[group]
    need(so=all(turn.ops[slot] is None for slot in slots))
    drafts: list[tuple[int, int, int]] = []
    for slot in slots:
        here = model.slots[slot]
        if here.kind is TargetKind.HOST:
            _check_host(turn, here.target)
            vms = _on_host(turn, here.target)
            drafts.append((slot, vms, here.target))
        else:
            _check_vm(turn, here.target, here.verb)
            host = turn.vms[here.target].host
            need(so=here.verb is not Verb.REBOOT or not turn.down >> host & 1)
            drafts.append((slot, 1 << here.target, host))
    verb = model.slots[slots[0]].verb
    notice = model.setting.notice
    if verb is Verb.TERMINATE and not any(
        model.scopes(vms) & model.announced[slot] for slot, vms, _ in drafts
    ):
        notice = 0
    for slot, vms, host in drafts:
        approved = _approved_already(turn, verb, vms)
        turn.make(slot, vms, left=notice, host=host, approved=approved)
    turn.publish(slots)


def _on_host(turn: Turn, host: int) -> int:
    return sum(
        1 << number
        for number, vm in enumerate(turn.vms)
        if vm.host == host and vm.how != GONE
    )


def _check_host(turn: Turn, host: int) -> None:
    need(so=not turn.down >> host & 1)
    for slot in turn.open():
        op = turn.op(slot)
        need(so=not (op.host == host and turn.model.is_host_bound[slot]))
        need(
            so=not op.has_started
            or all(place_of(op.places, vm) != host for vm in bits(op.todo))
        )


def _check_vm(turn: Turn, vm: int, verb: Verb) -> None:
    need(so=turn.vms[vm].how != GONE)
    for slot in turn.open(1 << vm):
        op, other = turn.op(slot), turn.model.slots[slot]
        same = other.verb is verb and op.is_waiting
        need(so=not same and other.verb is not Verb.TERMINATE)
        need(so=op.state != IMPACTING or other.action is Action.NONE)


def _approved_already(turn: Turn, verb: Verb, vms: int) -> int:
    """Return -1 if somebody approves in place of the VMs, else 0."""
    if verb is Verb.MAINTAIN:
        return 0
    if verb is not Verb.TERMINATE and all(
        turn.vms[vm].how == DOWN for vm in bits(vms)
    ):
        return -1
    return 0 if turn.model.scopes(vms) & turn.listening else -1


def cancel(turn: Turn, slot: int, _second: int) -> None:
    """Cancel an operation that waits (`verbs.cancel`)."""
    op = turn.ops[slot]
    if op is None or not op.is_waiting:
        raise RefusedError
    turn.finish(slot, OperationInput.CANCEL)


def cancel_all(turn: Turn, group: int, _second: int) -> None:
    """Cancel what has not started of a request."""
    slots = [s for s in turn.siblings(turn.model.group[group][0])]
    waiting = [slot for slot in slots if turn.op(slot).is_waiting]
    need(so=bool(waiting))
    if turn.requests[group] == 0:
        turn.step_request(group, RequestInput.CANCEL)
    for slot in waiting:
        turn.finish(slot, OperationInput.CANCEL)


# What VMs do


def approve(turn: Turn, scope: int, slot: int) -> None:
    """Approve the event of an operation as a VM of `scope` (`approvals`)."""
    op = turn.ops[slot]
    if op is None or not turn.listening >> scope & 1:
        raise RefusedError
    approved = turn.model.approvable(op, scope)
    need(so=bool(approved))
    EVENT_TABLE.step(SCHEDULED if op.is_waiting else STARTED, EventInput.APPROVE)
    if op.is_waiting and approved & ~op.approved:
        turn.ops[slot] = op._replace(approved=op.approved | approved)
        turn.let_go(slot)


def enable(turn: Turn, scope: int, _second: int) -> None:
    """Enable a scope: its first document has what is under way (7.1)."""
    asked = ViewState.ENABLED if turn.listening >> scope & 1 else ViewState.DISABLED
    need(so=asked is ViewState.DISABLED)
    need(so=any(turn.vms[vm].how != GONE for vm in bits(turn.model.members[scope])))
    assert look_up(VIEW_STEPS, asked, ViewInput.ASKED) is ViewState.ENABLED
    turn.listening |= 1 << scope
    if turn.model.content(turn.ops, scope):
        turn.log.raised |= 1 << scope


def disable(turn: Turn, scope: int, _second: int) -> None:
    """Disable a scope that has been silent (7.3)."""
    need(so=bool(turn.listening >> scope & 1))
    silent = look_up(VIEW_STEPS, ViewState.ENABLED, ViewInput.SILENT)
    assert silent is ViewState.DISABLED
    turn.listening &= ~(1 << scope)


# Failures


def fail_host(turn: Turn, host: int, _second: int) -> None:
    """Note that a host is down (`failures.fail_host`)."""
    need(so=not turn.down >> host & 1)
    here = _on_host(turn, host)
    slots = [slot for slot in turn.open() if turn.op(slot).host == host]
    turn.down |= 1 << host
    for slot in slots:
        turn.overtake(slot, here)
    turn.begin_failure(TargetKind.HOST, host, host, here)


def restore_host(turn: Turn, host: int, _second: int) -> None:
    """Note that a host is up again, and its VMs with it."""
    need(so=bool(turn.down >> host & 1))
    turn.down &= ~(1 << host)
    for vm in bits(_on_host(turn, host)):
        if turn.vms[vm].how == DOWN:
            turn.vm_runs_again(vm)
    slot = turn.model.failure_of[TargetKind.HOST, host]
    if turn.ops[slot] is not None:
        turn.finish(slot, OperationInput.FINISH)


def fail_vm(turn: Turn, vm: int, _second: int) -> None:
    """Note that one VM is down (`failures.fail_vm`)."""
    need(so=turn.vms[vm].how == RUNS)
    for slot in turn.open(1 << vm):
        if turn.model.slots[slot].kind is TargetKind.VM:
            turn.overtake(slot, 1 << vm)
    turn.begin_failure(TargetKind.VM, vm, turn.vms[vm].host, 1 << vm)


def restore_vm(turn: Turn, vm: int, _second: int) -> None:
    """Note that a VM runs again."""
    need(so=turn.vms[vm].how == DOWN and not turn.down >> turn.vms[vm].host & 1)
    turn.vm_runs_again(vm)


# What the driver says


def _called(turn: Turn, slot: int, call: int = MADE) -> Op:
    op = turn.ops[slot]
    if op is None or op.state != IMPACTING or op.call != call:
        raise RefusedError
    return op


def done(turn: Turn, slot: int, _second: int) -> None:
    """Take over that a call was done, unless its destination is down."""
    op = _called(turn, slot)
    model = turn.model
    current = model.current(slot, op)
    hosts = {vm: place_of(op.places, vm) for vm in bits(current)}
    if not any(host >= 0 and turn.down >> host & 1 for host in hosts.values()):
        turn.call_done(slot)
        return
    # Control does not believe it, but takes over where the VMs were seen.
    for vm, host in hosts.items():
        if host not in {-1, turn.vms[vm].host}:
            turn.move_vm(vm, host, besides=slot)
            if turn.vms[vm].how == DOWN:
                turn.vm_runs_again(vm)
    turn.give_up(slot, 0)


def failed(turn: Turn, slot: int, down: int) -> None:
    """Take over that a call failed and left these VMs down."""
    op = _called(turn, slot)
    need(so=not down & ~turn.model.current(slot, op))
    if turn.model.slots[slot].action is Action.DELETE:
        need(so=not down)
    turn.call_failed(slot, down)


def lose_sight(turn: Turn, slot: int, _second: int) -> None:
    """Note that nobody knows what became of a call."""
    turn.ops[slot] = _called(turn, slot)._replace(call=UNKNOWN)


def resolve_done(turn: Turn, slot: int, _second: int) -> None:
    """Settle on an operator's word that it was done."""
    _called(turn, slot, UNKNOWN)
    turn.call_done(slot)


def resolve_failed(turn: Turn, slot: int, down: int) -> None:
    """Settle on an operator's word that it failed and left these VMs down."""
    op = _called(turn, slot, UNKNOWN)
    need(so=not down & ~op.vms)
    turn.give_up(slot, down)


# Timers


def look(turn: Turn, slot: int, _second: int) -> None:
    """Look again at an operation that waits (`release.look_again`)."""
    turn.let_go(slot)


def anew(turn: Turn, slot: int, _second: int) -> None:
    """Start what was held too long, or tell the tenants again (`renotice`)."""
    op = turn.op(slot)
    hold = turn.model.setting.hold
    need(so=op.state == READY and op.left <= -hold < 0)
    turn.let_go(slot)
    op = turn.op(slot)
    if op.state == READY and op.events:
        notice = turn.model.setting.notice
        turn.finish(slot, OperationInput.CANCEL)
        turn.requests[turn.model.slots[slot].group] = turn.old.requests[
            turn.model.slots[slot].group
        ]
        turn.make(slot, op.vms, left=notice, host=op.host, approved=0)
        turn.publish([slot])


def recovered(turn: Turn, slot: int, _second: int) -> None:
    """End an operation whose recovery time is over."""
    op = turn.ops[slot]
    if op is None or op.state != RECOVERING or op.left > 0:
        raise RefusedError
    turn.finish(slot, OperationInput.FINISH)


def call_again(turn: Turn, slot: int, _second: int) -> None:
    """Make the next attempt of a failed call."""
    op = turn.ops[slot]
    if op is None or op.call != RETRY or op.left > 0:
        raise RefusedError
    turn.issue(slot, tries=op.tries + 1)


Transaction: TypeAlias = Callable[[Turn, int, int], None]

TRANSACTIONS: Mapping[str, Transaction] = {
    "order": order,
    "approve": approve,
    "look": look,
    "recovered": recovered,
    "call again": call_again,
    "anew": anew,
    "done": done,
    "failed": failed,
    "lose sight": lose_sight,
    "resolve done": resolve_done,
    "resolve failed": resolve_failed,
    "cancel": cancel,
    "cancel all": cancel_all,
    "fail host": fail_host,
    "restore host": restore_host,
    "fail vm": fail_vm,
    "restore vm": restore_vm,
    "enable": enable,
    "disable": disable,
}


def transact(
    model: Model, state: State, label: Label, slots: Sequence[int] = ()
) -> tuple[State, Log]:
    """Run a transaction; without crashes its calls are made at once.

    Raises RefusedError.
    """
    turn = Turn(model, state, slots)
    TRANSACTIONS[label.what](turn, label.first, label.second)
    after = turn.end()
    if not model.setting.crashes:
        for slot in turn.log.calls:
            after = begin(after, slot, turn.log)
    return after, turn.log


def begin(state: State, slot: int, log: Log) -> State:
    """Have the driver begin a call that is durable."""
    log.begun.append((slot, state))
    ops = list(state.ops)
    op = ops[slot]
    if op is not None and op.call == UNMADE:
        ops[slot] = op._replace(call=MADE)
    return state._replace(ops=tuple(ops))


def ticked(model: Model, state: State) -> State:
    """Let a tick pass: every timer comes nearer, none falls below its end."""
    hold = model.setting.hold
    ops: list[Op | None] = []
    for slot, op in enumerate(state.ops):
        held = hold and op is not None and op.state == READY
        least = -hold if held and model.slots[slot].routine else 0
        if op is not None and op.left > least:
            op = op._replace(left=op.left - 1)  # noqa: PLW2901
        ops.append(op)
    return state._replace(ops=tuple(ops))


assert list(EventStatus)[SCHEDULED] is EventStatus.SCHEDULED
assert NO_CALL == 0
