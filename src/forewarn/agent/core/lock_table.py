"""The states of the lock, and the only place where one follows another.

The lock limits how many VMs are approved at the same time. This agent has one place in
it, whatever the number of its events. A pair that `TABLE` lacks cannot happen, and
raises IllegalLockError. Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from forewarn.agent.core.lock import LockState


class LockGiven(enum.Enum):
    """What moves the lock on."""

    NEED = "need"
    """An event is to be approved with it."""
    SPARE = "spare"
    """No event needs it any longer."""
    TAKEN = "taken"
    """The lock's server gave it to this VM, or confirmed that it has it."""
    REFUSED = "refused"
    """Others have all its places."""
    TROUBLE = "trouble"
    """There was no usable answer: the server may have done what it was asked."""
    RELEASED = "released"
    """The server has it back."""
    EXPIRE = "expire"
    """It was not confirmed for so long that another VM may have it."""
    DUE = "due"
    """The pause is over."""
    MOVE = "move"
    """The settings name another lock, or another ID in it."""


TABLE: Mapping[tuple[LockState, LockGiven], LockState] = {
    (LockState.UNKNOWN, LockGiven.NEED): LockState.WANTED,
    (LockState.UNKNOWN, LockGiven.SPARE): LockState.RELEASING,
    (LockState.UNKNOWN, LockGiven.MOVE): LockState.UNKNOWN,
    (LockState.FREE, LockGiven.NEED): LockState.WANTED,
    (LockState.FREE, LockGiven.MOVE): LockState.UNKNOWN,
    (LockState.WANTED, LockGiven.TAKEN): LockState.HELD,
    (LockState.WANTED, LockGiven.REFUSED): LockState.WANTED,
    (LockState.WANTED, LockGiven.TROUBLE): LockState.WANTED,
    # It was needed again while it was given back.
    (LockState.WANTED, LockGiven.RELEASED): LockState.WANTED,
    (LockState.WANTED, LockGiven.SPARE): LockState.RELEASING,
    (LockState.WANTED, LockGiven.MOVE): LockState.UNKNOWN,
    (LockState.HELD, LockGiven.TAKEN): LockState.HELD,
    (LockState.HELD, LockGiven.REFUSED): LockState.WANTED,
    (LockState.HELD, LockGiven.TROUBLE): LockState.HELD,
    (LockState.HELD, LockGiven.EXPIRE): LockState.WANTED,
    (LockState.HELD, LockGiven.SPARE): LockState.PAUSING,
    (LockState.HELD, LockGiven.MOVE): LockState.UNKNOWN,
    (LockState.PAUSING, LockGiven.NEED): LockState.HELD,
    (LockState.PAUSING, LockGiven.TAKEN): LockState.PAUSING,
    (LockState.PAUSING, LockGiven.REFUSED): LockState.FREE,
    (LockState.PAUSING, LockGiven.TROUBLE): LockState.PAUSING,
    (LockState.PAUSING, LockGiven.EXPIRE): LockState.RELEASING,
    (LockState.PAUSING, LockGiven.DUE): LockState.RELEASING,
    (LockState.PAUSING, LockGiven.MOVE): LockState.UNKNOWN,
    (LockState.RELEASING, LockGiven.NEED): LockState.WANTED,
    (LockState.RELEASING, LockGiven.RELEASED): LockState.FREE,
    (LockState.RELEASING, LockGiven.TROUBLE): LockState.RELEASING,
    # Answers to what was asked before it was to be given back.
    (LockState.RELEASING, LockGiven.TAKEN): LockState.RELEASING,
    (LockState.RELEASING, LockGiven.REFUSED): LockState.RELEASING,
    (LockState.RELEASING, LockGiven.MOVE): LockState.UNKNOWN,
}


class IllegalLockError(Exception):
    """The lock met an input that cannot come in its state: a bug in the agent."""


def step(state: LockState, given: LockGiven) -> LockState:
    """Return the next state; raises IllegalLockError."""
    try:
        return TABLE[state, given]
    except KeyError:
        raise IllegalLockError(
            f"a lock that is {state.value} cannot meet {given.value}"
        ) from None
