"""The requests that are possible in a state, and the timers that are due."""

from collections.abc import Iterator

from forewarn.protocol.operations import Action
from tests.search.model import Model
from tests.search.state import (
    DOWN,
    GONE,
    IMPACTING,
    MADE,
    READY,
    RECOVERING,
    RETRY,
    UNKNOWN,
    Label,
    State,
    bits,
)


def labels(model: Model, state: State) -> Iterator[Label]:
    """Yield what operators, VMs and drivers may do, allowed or not."""
    yield from _orders(model, state)
    yield from _approvals(model, state)
    yield from _failures(model, state)
    yield from _reports(model, state)
    yield from _clocks(model, state)


def _orders(model: Model, state: State) -> Iterator[Label]:
    for group in model.setting.orders:
        slots = model.group[group]
        is_open = any(state.ops[slot] for slot in slots)
        if not is_open:
            if not model.must_wait(state, group):
                yield Label("order", group)
        elif model.setting.cancels and len(slots) > 1:
            yield Label("cancel all", group)


def _approvals(model: Model, state: State) -> Iterator[Label]:
    setting = model.setting
    scopes = range(len(setting.scopes))
    for slot, op in enumerate(state.ops):
        if op is None or model.is_failure[slot]:
            continue
        for scope in scopes:
            yield Label("approve", scope, slot)
        if setting.cancels and op.state <= READY:
            yield Label("cancel", slot)
    for scope in scopes:
        if not state.listening >> scope & 1:
            yield Label("enable", scope)
        elif setting.listeners_change:
            yield Label("disable", scope)


def _failures(model: Model, state: State) -> Iterator[Label]:
    for host in model.setting.hosts_fail:
        down = state.down >> host & 1
        yield Label("restore host" if down else "fail host", host)
    for vm, where in enumerate(state.vms):
        if where.how == DOWN and not state.down >> where.host & 1:
            yield Label("restore vm", vm)
        elif vm in model.setting.vms_fail and where.how != GONE:
            yield Label("fail vm", vm)


def _reports(model: Model, state: State) -> Iterator[Label]:
    setting = model.setting
    for slot, op in enumerate(state.ops):
        if op is None or op.call not in {MADE, UNKNOWN}:
            continue
        is_unknown = op.call == UNKNOWN
        yield Label("resolve done" if is_unknown else "done", slot)
        if setting.driver_fails or is_unknown:
            fails = "resolve failed" if is_unknown else "failed"
            yield Label(fails, slot, 0)
            current = model.current(slot, op)
            keeps = model.slots[slot].action is not Action.DELETE
            if setting.leaves_down and current and keeps:
                yield Label(fails, slot, current)
                if len(bits(current)) > 1:
                    yield Label(fails, slot, current & -current)
        if setting.forgets and not is_unknown:
            yield Label("lose sight", slot)


def _clocks(model: Model, state: State) -> Iterator[Label]:
    if model.setting.clock_step:
        way = "back" if state.ahead else "forward"
        yield Label(f"clock {way}")
        yield Label(f"restart, clock {way}")
        yield Label("restart")


def timers(model: Model, state: State) -> Iterator[Label]:
    """Yield what the ticker, or a wake-up that came late, may do."""
    for slot, op in enumerate(state.ops):
        if op is None:
            if model.stale(state.ops, slot) is not None:
                yield Label("look", slot)
            continue
        if op.state <= READY:
            yield Label("look", slot)
        elif op.state == RECOVERING and op.left <= 0:
            yield Label("recovered", slot)
        elif op.call == RETRY and op.left <= 0:
            yield Label("call again", slot)


def due(model: Model, state: State, slot: int) -> Label | None:
    """Return what is due of an operation as a tick has passed."""
    op = state.ops[slot]
    if op is None:
        return None
    if op.state == READY:
        # An operation that is held is rechecked once a minute, which is a tick.
        return Label("look", slot)
    if max(op.left, op.notice) > 0:
        return None
    if op.state < READY:
        return Label("look", slot)
    if op.state == RECOVERING:
        return Label("recovered", slot)
    if op.state == IMPACTING and op.call == RETRY:
        return Label("call again", slot)
    return None
