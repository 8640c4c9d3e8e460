"""A state of the model: small integers only, so that millions fit.

Instants are kept as the ticks that are left, generations and identifiers not at
all: what matters about them is checked where it changes. Sets of VMs and scopes
are bits.
"""

from collections.abc import Sequence
from typing import NamedTuple

from forewarn.protocol.operations import OperationState

STATES = tuple(OperationState)
ANNOUNCED = STATES.index(OperationState.ANNOUNCED)
READY = STATES.index(OperationState.READY)
IMPACTING = STATES.index(OperationState.IMPACTING)
RECOVERING = STATES.index(OperationState.RECOVERING)
DONE = STATES.index(OperationState.DONE)
CANCELLED = STATES.index(OperationState.CANCELLED)
FAILED = STATES.index(OperationState.FAILED)

RUNS, DOWN, GONE = range(3)
"""How a VM is."""

NO_CALL, UNMADE, MADE, RETRY, UNKNOWN = range(5)
"""The driver call of an operation: none; durable and not made; made and under
way; failed and to be made again; unknown."""


class Vm(NamedTuple):
    """A VM: how it is, and where."""

    how: int
    host: int


class Op(NamedTuple):
    """An open operation; its slot says what is static about it."""

    state: int
    left: int
    """Ticks until its timer: NotBefore, the end of the recovery, the next call.
    Below zero: how long it has been held."""
    events: int
    """Scopes that have a live event of it."""
    approved: int
    """Scopes whose event is approved; nothing of it matters after the start."""
    todo: int
    """VMs that are still to be done."""
    done: int
    call: int
    tries: int
    places: int
    """The destinations of its VMs: three bits for each, 0 is nowhere."""
    host: int
    scopes: int
    """The scopes that it had at its beginning."""
    notice: int = 0
    """Ticks of its notice that have to pass on the monotonic clock, while it is
    noticed; only worlds whose clock is stepped count them."""

    @property
    def vms(self) -> int:
        """Return its VMs."""
        return self.todo | self.done

    @property
    def is_keeping(self) -> bool:
        """Return whether it keeps places for VMs that are still to be done."""
        return self.state <= IMPACTING

    @property
    def is_waiting(self) -> bool:
        """Return whether it can still be cancelled."""
        return self.state in {ANNOUNCED, READY}

    @property
    def has_started(self) -> bool:
        """Return whether it is past the point of no return."""
        return self.state in {IMPACTING, RECOVERING}


class State(NamedTuple):
    """Everything that is durable, and what was not published yet."""

    vms: tuple[Vm, ...]
    ops: tuple[Op | None, ...]
    requests: tuple[int, ...]
    """The state of each group's request while it has open operations."""
    down: int
    """Hosts that have failed."""
    listening: int
    """Scopes that are enabled."""
    unpublished: int
    """Scopes whose documents were committed and are not served yet."""
    ahead: int = 0
    """1 while the wall clock is ahead of where the world began."""


class Label(NamedTuple):
    """A step, for a trace: what happens, and to whom."""

    what: str
    first: int = -1
    second: int = -1


def bits(mask: int) -> tuple[int, ...]:
    """Return the numbers of the bits that are set, lowest first."""
    return _BITS[mask]


_BITS = tuple(tuple(bit for bit in range(8) if mask >> bit & 1) for mask in range(256))


def place_of(places: int, vm: int) -> int:
    """Return the host that a VM goes to, or -1."""
    return (places >> 3 * vm & 7) - 1


def goes_to(ops: Sequence[Op | None], vm: int) -> int:
    """Return the host that keeps a place for a VM, or -1."""
    for op in ops:
        if op is not None and op.is_keeping and op.todo >> vm & 1:
            host = place_of(op.places, vm)
            if host >= 0:
                return host
    return -1


def placed(places: int, vm: int, host: int) -> int:
    """Return the places with one more; host -1 takes it out."""
    return places & ~(7 << 3 * vm) | host + 1 << 3 * vm
