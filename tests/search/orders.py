"""The orders of operators and users, and failures: `verbs` and `failures`."""

from forewarn.protocol.lifecycle import OperationInput, RequestInput
from forewarn.protocol.operations import Action, TargetKind, Verb
from tests.search import falling
from tests.search.state import DOWN, GONE, IMPACTING, READY, RUNS, bits, place_of
from tests.search.turn import Turn


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
            so=op.is_waiting
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
    """Return -1 if an operator approves instead of the VMs, else 0."""
    if verb is Verb.MAINTAIN:
        return 0
    if verb is not Verb.TERMINATE and all(turn.vms[vm].how == DOWN for vm in bits(vms)):
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
    slots = turn.siblings(turn.model.group[group][0])
    waiting = [slot for slot in slots if turn.op(slot).is_waiting]
    need(so=bool(waiting))
    if turn.requests[group] == 0:
        turn.step_request(group, RequestInput.CANCEL)
    for slot in waiting:
        turn.finish(slot, OperationInput.CANCEL)


# Failures


def fail_host(turn: Turn, host: int, _second: int) -> None:
    """Note that a host is down (`failures.fail_host`)."""
    need(so=not turn.down >> host & 1)
    here = _on_host(turn, host)
    slots = [slot for slot in turn.open() if turn.op(slot).host == host]
    turn.down |= 1 << host
    own = _own_failures(turn, here)
    for slot in slots:
        model = turn.model
        if not (model.is_failure[slot] and model.slots[slot].kind is TargetKind.VM):
            falling.overtake(turn, slot, here)
    falling.begin_failure(turn, TargetKind.HOST, host, host, here & ~own)


def restore_host(turn: Turn, host: int, _second: int) -> None:
    """Note that a host is up again, and its VMs with it."""
    need(so=bool(turn.down >> host & 1))
    turn.down &= ~(1 << host)
    for slot in turn.open():
        if turn.op(slot).state == READY:
            turn.revisit(slot)
    here = _on_host(turn, host)
    for vm in bits(here & ~_own_failures(turn, here)):
        if turn.vms[vm].how == DOWN:
            turn.vm_runs_again(vm)
    slot = turn.model.failure_of[TargetKind.HOST, host]
    if turn.ops[slot] is not None:
        turn.finish(slot, OperationInput.FINISH)


def _own_failures(turn: Turn, vms: int) -> int:
    """Return those of the VMs that have a failure of their own."""
    slots = {vm: turn.model.failure_of.get((TargetKind.VM, vm)) for vm in bits(vms)}
    return sum(
        1 << vm
        for vm, slot in slots.items()
        if slot is not None and turn.ops[slot] is not None
    )


def fail_vm(turn: Turn, vm: int, _second: int) -> None:
    """Note that one VM is down (`failures.fail_vm`)."""
    need(so=turn.vms[vm].how == RUNS)
    for slot in turn.open(1 << vm):
        if turn.model.slots[slot].kind is TargetKind.VM:
            falling.overtake(turn, slot, 1 << vm)
    falling.begin_failure(turn, TargetKind.VM, vm, turn.vms[vm].host, 1 << vm)


def restore_vm(turn: Turn, vm: int, _second: int) -> None:
    """Note that a VM runs again."""
    need(so=turn.vms[vm].how == DOWN and not turn.down >> turn.vms[vm].host & 1)
    turn.vm_runs_again(vm)
