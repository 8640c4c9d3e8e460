"""The transition tables for the stages of a task and the states of the lock.

Only here does a stage or state change. A transition that a table lacks cannot happen,
and raises IllegalStepError. Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from forewarn.agent.core.model import Stage, Task
from forewarn.agent.core.permits import LockState

S = TypeVar("S", bound=enum.Enum)
G = TypeVar("G", bound=enum.Enum)


class Given(enum.Enum):
    """The inputs of a task's stage."""

    BEGIN = "begin"
    """Its preparation begins."""
    NOTHING = "nothing to prepare"
    """No handler has to prepare for the event."""
    READY = "ready"
    """Every required handler has prepared."""
    FALL_SHORT = "fall short"
    """A required handler has not prepared, and will not."""
    LEAVE = "leave"
    """The event ended."""
    CLEAR = "clear"
    """No recovery is pending."""
    REAPPEAR = "reappear"
    """The event had not ended, and no recovery has started."""
    COME_BACK = "come back"
    """The event returned after its recovery started: a new round."""
    CONCERN = "concern"
    """The event now names this VM: a new round, by the rules for its own events."""


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
    """The inputs of the lock's state."""

    NEED = "need"
    """An event needs the lock for its approval."""
    SPARE = "spare"
    """No event needs the lock any longer."""
    TAKEN = "taken"
    """The server granted the lock to this VM, or confirmed that this VM holds it."""
    REFUSED = "refused"
    """Other VMs hold all slots of the lock."""
    TROUBLE = "trouble"
    """There was no usable answer. The request may have taken effect."""
    RELEASED = "released"
    """The server confirmed the release."""
    EXPIRE = "expire"
    """The lock was not confirmed in time, so another VM may hold it."""
    DUE = "due"
    """The pause ended."""
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
    # The lock was needed again while it was being released.
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
    # Answers to requests from before the release.
    (LockState.RELEASING, LockGiven.TAKEN): LockState.RELEASING,
    (LockState.RELEASING, LockGiven.REFUSED): LockState.RELEASING,
    (LockState.RELEASING, LockGiven.MOVE): LockState.UNKNOWN,
}


class IllegalStepError(Exception):
    """A state got an input that cannot occur in it: a bug in the agent."""


def follow(table: Mapping[tuple[S, G], S], state: S, given: G, sentence: str) -> S:
    """Return the next state in a table; raises IllegalStepError.

    `sentence` has placeholders for the state and for the impossible input.
    """
    try:
        return table[state, given]
    except KeyError:
        raise IllegalStepError(sentence.format(state.value, given.value)) from None


def step(task: Task, given: Given) -> Task:
    """Return the task in its next stage."""
    return replace(
        task, stage=follow(TABLE, task.stage, given, "a task that is {} cannot {}")
    )


def lock_step(state: LockState, given: LockGiven) -> LockState:
    """Return the next state of the lock.

    The lock limits how many VMs are approved at the same time. This agent has one slot
    in it, for any number of events.
    """
    return follow(LOCK_TABLE, state, given, "a lock that is {} cannot meet {}")
