"""The transactions of the model by name: what may be asked of the control plane.

Each takes a `Turn` and two numbers. `RefusedError` means that the code refuses
it, or that it cannot happen in this state.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from forewarn.protocol.lifecycle import (
    VIEW_STEPS,
    EventInput,
    OperationInput,
    ViewInput,
    ViewState,
    look_up,
)
from forewarn.protocol.operations import Action
from tests.search import clocks, falling, orders
from tests.search.ledger import SCHEDULED, STARTED, Log
from tests.search.model import Model
from tests.search.orders import RefusedError, need
from tests.search.state import (
    GONE,
    IMPACTING,
    MADE,
    READY,
    RECOVERING,
    RETRY,
    UNKNOWN,
    UNMADE,
    Label,
    Op,
    State,
    bits,
)
from tests.search.tables import EVENT_TABLE
from tests.search.turn import Turn

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
        turn.start_if_ready(slot)


def enable(turn: Turn, scope: int, _second: int) -> None:
    """Enable a scope: its first document has what is under way (7.1)."""
    state = ViewState.ENABLED if turn.listening >> scope & 1 else ViewState.DISABLED
    need(so=state is ViewState.DISABLED)
    need(so=any(turn.vms[vm].how != GONE for vm in bits(turn.model.members[scope])))
    assert look_up(VIEW_STEPS, state, ViewInput.ASKED) is ViewState.ENABLED
    turn.listening |= 1 << scope
    if turn.model.content(turn.ops, scope):
        turn.log.raised |= 1 << scope


def disable(turn: Turn, scope: int, _second: int) -> None:
    """Disable a scope that has been silent (7.3)."""
    need(so=bool(turn.listening >> scope & 1))
    silent = look_up(VIEW_STEPS, ViewState.ENABLED, ViewInput.SILENT)
    assert silent is ViewState.DISABLED
    turn.listening &= ~(1 << scope)


# Reports of the driver


def _called(turn: Turn, slot: int, call: int = MADE) -> Op:
    op = turn.ops[slot]
    if op is None or op.state != IMPACTING or op.call != call:
        raise RefusedError
    return op


def done(turn: Turn, slot: int, _second: int) -> None:
    """Take over that a call was done; a VM may have met a host that is down."""
    current = turn.model.current(slot, _called(turn, slot))
    turn.call_done(slot)
    falling.fall(turn, falling.stranded(turn, current))


def failed(turn: Turn, slot: int, down: int) -> None:
    """Take over that a call failed and left these VMs down."""
    op = _called(turn, slot)
    need(so=not down & ~turn.model.current(slot, op))
    if turn.model.slots[slot].action is Action.DELETE:
        need(so=not down)
    falling.call_failed(turn, slot, down)


def mark_unknown(turn: Turn, slot: int, _second: int) -> None:
    """Note that the outcome of a call is unknown."""
    turn.ops[slot] = _called(turn, slot)._replace(call=UNKNOWN)


def resolve_done(turn: Turn, slot: int, _second: int) -> None:
    """Settle on an operator's word that it was done."""
    current = turn.model.current(slot, _called(turn, slot, UNKNOWN))
    turn.call_done(slot)
    falling.fall(turn, falling.stranded(turn, current))


def resolve_failed(turn: Turn, slot: int, down: int) -> None:
    """Settle on an operator's word that it failed and left these VMs down."""
    op = _called(turn, slot, UNKNOWN)
    need(so=not down & ~op.vms)
    falling.give_up(turn, slot, down)


# Timers


def look(turn: Turn, slot: int, _second: int) -> None:
    """Look again at an operation that waits (`again.recheck`).

    If it was held for too long and still cannot start, its tenants are notified again.
    """
    before, hold = turn.ops[slot], turn.model.setting.hold
    turn.start_if_ready(slot)
    op = turn.ops[slot]
    is_held = before is not None and before.state == READY and op is not None
    if not is_held or op is None or op.state != READY or not op.events:
        return
    if turn.model.slots[slot].routine and op.left <= -hold < 0:
        _announce_again(turn, slot, op)


def _announce_again(turn: Turn, slot: int, op: Op) -> None:
    group = turn.model.slots[slot].group
    turn.finish(slot, OperationInput.CANCEL)
    turn.requests[group] = turn.old.requests[group]
    carried = turn.model.carried(op)
    notice = turn.model.setting.notice
    turn.make(slot, op.vms, left=notice, host=op.host, approved=carried)
    turn.publish([slot])


def recovered(turn: Turn, slot: int, _second: int) -> None:
    """End an operation whose recovery time has elapsed."""
    op = turn.ops[slot]
    if op is None or op.state != RECOVERING or op.left > 0:
        raise RefusedError
    turn.finish(slot, OperationInput.FINISH)


def call_again(turn: Turn, slot: int, _second: int) -> None:
    """Make the next attempt of a failed call."""
    op = turn.ops[slot]
    if op is None or op.call != RETRY or op.left > 0:
        raise RefusedError
    tries = op.tries + 1
    if not turn.issue(slot, tries=tries) and tries >= turn.model.setting.attempts:
        # Worlds with moves have no driver that leaves VMs down.
        falling.give_up(turn, slot, 0)


Transaction: TypeAlias = Callable[[Turn, int, int], None]

TRANSACTIONS: Mapping[str, Transaction] = {
    "order": orders.order,
    "approve": approve,
    "look": look,
    "recovered": recovered,
    "call again": call_again,
    "done": done,
    "failed": failed,
    "lose sight": mark_unknown,
    "resolve done": resolve_done,
    "resolve failed": resolve_failed,
    "cancel": orders.cancel,
    "cancel all": orders.cancel_all,
    "fail host": orders.fail_host,
    "restore host": orders.restore_host,
    "fail vm": orders.fail_vm,
    "restore vm": orders.restore_vm,
    "enable": enable,
    "disable": disable,
    **clocks.CLOCK_LABELS,
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
        if op is not None and op.state <= READY:
            # So much may come again when the clock is set back.
            least -= clocks.offset(model, state)
        if op is not None and op.left > least:
            op = op._replace(left=op.left - 1)  # noqa: PLW2901
        if op is not None and op.notice > 0:
            op = op._replace(notice=op.notice - 1)  # noqa: PLW2901
        ops.append(op)
    return state._replace(ops=tuple(ops))
