"""Hosts and VMs that go down: the twin of `failures` and of bad reports."""

from forewarn.protocol.lifecycle import OperationInput
from forewarn.protocol.operations import Action, TargetKind
from tests.search.state import DOWN, GONE, RETRY, Vm, bits, place_of
from tests.search.turn import Turn


def begin_failure(
    turn: Turn, kind: TargetKind, target: int, host: int, vms: int
) -> None:
    """Give VMs that are down an event of their own."""
    slot = turn.model.failure_of[kind, target]
    assert turn.ops[slot] is None, f"{turn.model.slots[slot].name} is open"
    for vm in bits(vms):
        turn.vms[vm] = Vm(DOWN, turn.vms[vm].host)
    turn.make(slot, vms, left=0, host=host, approved=-1)
    turn.publish([slot])
    turn.free(turn.model.scopes(vms))


def overtake(turn: Turn, slot: int, vms: int) -> None:
    """End an operation that a failure has overtaken; deletions continue."""
    op = turn.ops[slot]
    if op is None:
        return
    if op.is_waiting:
        if turn.model.slots[slot].action is not Action.DELETE:
            turn.finish(slot, OperationInput.CANCEL)
    elif turn.model.is_failure[slot]:
        for vm in bits(op.vms & vms):
            turn.leave(slot, vm)
    elif any(
        not (op.done >> vm & 1 and place_of(op.places, vm) >= 0)
        for vm in bits(op.vms & vms)
    ):
        turn.fail(slot)


def call_failed(turn: Turn, slot: int, down: int) -> None:
    """Make a failed call again, or give it up."""
    op = turn.op(slot)
    if op.tries < turn.model.setting.attempts:
        turn.ops[slot] = op._replace(call=RETRY, left=1)
    else:
        give_up(turn, slot, down)


def give_up(turn: Turn, slot: int, down: int) -> None:
    """End a failed operation; what it left down fails by itturn."""
    down |= stranded(turn, turn.model.current(slot, turn.op(slot)))
    turn.fail(slot)
    fall(turn, down)


def stranded(turn: Turn, vms: int) -> int:
    """Return those of the VMs that are on hosts that are down."""
    return sum(
        1 << vm
        for vm in bits(vms)
        if turn.vms[vm].how != GONE and turn.down >> turn.vms[vm].host & 1
    )


def fall(turn: Turn, vms: int) -> None:
    """Give those of the VMs that no failure names an event of their own."""
    for vm in bits(vms):
        is_named = any(turn.model.is_failure[slot] for slot in turn.open(1 << vm))
        if turn.vms[vm].how != GONE and not is_named:
            host = turn.vms[vm].host
            begin_failure(turn, TargetKind.VM, vm, host, 1 << vm)
