"""The stages of a task, the states of the lock, and what follows what.

Only here does one follow another. What a table lacks cannot happen, and raises
IllegalStepError. Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from forewarn.agent.core.lock import LockState
from forewarn.agent.core.model import Stage, Task

S = TypeVar("S", bound=enum.Enum)
G = TypeVar("G", bound=enum.Enum)


class Given(enum.Enum):
    """What moves a task on."""

    BEGIN = "begin"
    """Its preparation begins."""
    NOTHING = "nothing to prepare"
    """No handler has anything to do before it."""
    READY = "ready"
    """All that is required was prepared."""
    FALL_SHORT = "fall short"
    """Something required was not, and will not be."""
    LEAVE = "leave"
    """The event is gone."""
    CLEAR = "clear"
    """Nothing is owed any more."""
    REAPPEAR = "reappear"
    """It had not gone after all: nothing was recovered yet."""
    COME_BACK = "come back"
    """It is there again after its recovery began: a new round."""
    CONCERN = "concern"
    """It names this VM after all: a new round, by the rules for its own events."""


TABLE: Mapping[tuple[Stage, Given], Stage] = {
    (Stage.SEEN, Given.BEGIN): Stage.PREPARING,
    (Stage.SEEN, Given.NOTHING): Stage.PREPARED,
    (Stage.SEEN, Given.LEAVE): Stage.RECOVERING,
    (Stage.PREPARING, Given.READY): Stage.PREPARED,
    (Stage.PREPARING, Given.FALL_SHORT): Stage.WITHHELD,
    (Stage.PREPARING, Given.LEAVE): Stage.RECOVERING,
    (Stage.PREPARING, Given.CONCERN): Stage.SEEN,
    (Stage.PREPARED, Given.LEAVE): Stage.RECOVERING,
    (Stage.PREPARED, Given.CONCERN): Stage.SEEN,
    (Stage.WITHHELD, Given.LEAVE): Stage.RECOVERING,
    (Stage.WITHHELD, Given.CONCERN): Stage.SEEN,
    (Stage.RECOVERING, Given.CLEAR): Stage.FINISHED,
    (Stage.RECOVERING, Given.REAPPEAR): Stage.PREPARING,
    (Stage.RECOVERING, Given.COME_BACK): Stage.SEEN,
    (Stage.FINISHED, Given.COME_BACK): Stage.SEEN,
}


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


LOCK_TABLE: Mapping[tuple[LockState, LockGiven], LockState] = {
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


class IllegalStepError(Exception):
    """A state met what cannot happen in it: a bug of ours."""


def follow(table: Mapping[tuple[S, G], S], state: S, given: G, sentence: str) -> S:
    """Return the state that a table has next; raises IllegalStepError.

    `sentence` has places for the state and for what cannot happen in it.
    """
    try:
        return table[state, given]
    except KeyError:
        raise IllegalStepError(sentence.format(state.value, given.value)) from None


def step(task: Task, given: Given) -> Task:
    """Return the task in its next stage."""
    stage = follow(TABLE, task.stage, given, "a task that is {} cannot {}")
    return replace(task, stage=stage)


def lock_step(state: LockState, given: LockGiven) -> LockState:
    """Return the next state of the lock.

    The lock limits how many VMs are approved at the same time. This agent has one place
    in it, whatever the number of its events.
    """
    return follow(LOCK_TABLE, state, given, "a lock that is {} cannot meet {}")
