"""The values by which the model and a world are compared, as the model has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from forewarn.protocol.operations import (
    CallState,
    RequestState,
)
from tests.search.model import Model
from tests.search.settings import Setting
from tests.search.state import (
    GONE,
    IMPACTING,
    READY,
    RETRY,
    STATES,
    Op,
    State,
    bits,
    goes_to,
    place_of,
)
from tests.search.translation import HOW

CALLS = (
    CallState.NONE,
    CallState.ISSUED,
    CallState.ISSUED,
    CallState.RETRY,
    CallState.UNKNOWN,
)
REQUESTS = tuple(RequestState)
Told: TypeAlias = tuple[str, tuple[str, ...], bool]
"""An event: its status, the VMs that it names, whether it is approved."""
Shown: TypeAlias = Mapping[str, tuple[str, tuple[str, ...]]]
"""A document: of each operation's event, its status and resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPicture:
    """The progress of an open operation."""

    state: str
    left: int | None
    moves: Mapping[str, tuple[str, bool]]
    """The destination of each VM, and whether its move is done."""
    call: str
    host: str
    request: str
    events: Mapping[str, Told]


@dataclass(frozen=True, slots=True, kw_only=True)
class VmPicture:
    """How a VM is."""

    state: str
    host: str
    started: frozenset[str]
    moving_to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything that the model and a world can be compared by."""

    ops: Mapping[str, OpPicture]
    vms: Mapping[str, VmPicture]
    down: frozenset[str]
    documents: Mapping[str, tuple[int, Shown] | None]
    """The document of each VM: incarnation and content, or nothing yet."""


def of_model(model: Model, state: State, incarnations: Mapping[int, int]) -> Picture:
    """Return what the model says."""
    setting = model.setting
    open_ops = {
        model.slots[slot].name: _op_of(model, state, slot, op)
        for slot, op in enumerate(state.ops)
        if op is not None
    }
    vms: dict[str, VmPicture] = {}
    documents: dict[str, tuple[int, Shown] | None] = {}
    for number, vm in enumerate(state.vms):
        name = setting.vms[number].name
        if vm.how == GONE:
            continue
        begun = [
            (model.slots[slot].name, op)
            for slot, op in enumerate(state.ops)
            if op is not None and op.has_started and op.vms >> number & 1
        ]
        goes = goes_to(state.ops, number)
        vms[name] = VmPicture(
            state=HOW[vm.how].value,
            host=f"h{vm.host}",
            started=frozenset(slot for slot, _ in begun),
            moving_to=f"h{goes}" if goes >= 0 else "",
        )
        scope = model.scope_of[number]
        documents[name] = None
        if state.listening >> scope & 1:
            documents[name] = incarnations[scope], _shown(model, state, scope)
    return Picture(
        ops=open_ops,
        vms=vms,
        down=frozenset(f"h{host}" for host in bits(state.down)),
        documents=documents,
    )


def _op_of(model: Model, state: State, slot: int, op: Op) -> OpPicture:
    setting = model.setting
    names = [vm.name for vm in setting.vms]
    held = op.state == READY and setting.hold and model.slots[slot].routine
    timed = op.state not in {READY, IMPACTING} or held or op.call == RETRY
    return OpPicture(
        state=STATES[op.state].value,
        left=shown_left(setting, op.left) if timed else None,
        moves={
            names[vm]: (
                f"h{host}" if (host := place_of(op.places, vm)) >= 0 else "",
                bool(op.done >> vm & 1),
            )
            for vm in bits(op.vms)
        },
        call=CALLS[op.call].value,
        host=f"h{op.host}",
        request=REQUESTS[state.requests[model.slots[slot].group]].value,
        events={
            setting.scopes[scope].name: (
                "Scheduled" if op.is_waiting else "Started",
                _named(model, op, scope),
                op.is_waiting and bool(op.approved >> scope & 1),
            )
            for scope in bits(op.events)
        },
    )


def shown_left(setting: Setting, left: int) -> int:
    """Return the ticks until a timer, as far as model and world agree on them.

    How long ago NotBefore was, the model forgets where the clock is stepped.
    """
    return max(left, 0) if setting.clock_step else left


def _named(model: Model, op: Op, scope: int) -> tuple[str, ...]:
    plans = model.setting.vms
    return tuple(plans[vm].name for vm in bits(op.vms & model.members[scope]))


def _shown(model: Model, state: State, scope: int) -> Shown:
    return {
        model.slots[slot].name: (
            "Started" if started else "Scheduled",
            tuple(model.setting.vms[vm].name for vm in bits(vms)),
        )
        for slot, started, vms in model.content(state.ops, scope)
    }
