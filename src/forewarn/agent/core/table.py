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


class StageInput(enum.Enum):
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


TABLE: Mapping[tuple[Stage, StageInput], Stage] = {
    (Stage.SEEN, StageInput.BEGIN): Stage.PREPARING,
    (Stage.SEEN, StageInput.NOTHING): Stage.PREPARED,
    (Stage.SEEN, StageInput.LEAVE): Stage.RECOVERING,
    (Stage.PREPARING, StageInput.READY): Stage.PREPARED,
    (Stage.PREPARING, StageInput.FALL_SHORT): Stage.WITHHELD,
    (Stage.PREPARING, StageInput.LEAVE): Stage.RECOVERING,
    (Stage.PREPARING, StageInput.CONCERN): Stage.SEEN,
    (Stage.PREPARED, StageInput.LEAVE): Stage.RECOVERING,
    (Stage.PREPARED, StageInput.CONCERN): Stage.SEEN,
    (Stage.WITHHELD, StageInput.LEAVE): Stage.RECOVERING,
    (Stage.WITHHELD, StageInput.CONCERN): Stage.SEEN,
    (Stage.RECOVERING, StageInput.CLEAR): Stage.FINISHED,
    (Stage.RECOVERING, StageInput.REAPPEAR): Stage.PREPARING,
    (Stage.RECOVERING, StageInput.COME_BACK): Stage.SEEN,
    (Stage.FINISHED, StageInput.COME_BACK): Stage.SEEN,
}


class LockInput(enum.Enum):
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


LOCK_TABLE: Mapping[tuple[LockState, LockInput], LockState] = {
    (LockState.UNKNOWN, LockInput.NEED): LockState.WANTED,
    (LockState.UNKNOWN, LockInput.SPARE): LockState.RELEASING,
    (LockState.UNKNOWN, LockInput.MOVE): LockState.UNKNOWN,
    (LockState.FREE, LockInput.NEED): LockState.WANTED,
    (LockState.FREE, LockInput.MOVE): LockState.UNKNOWN,
    (LockState.WANTED, LockInput.TAKEN): LockState.HELD,
    (LockState.WANTED, LockInput.REFUSED): LockState.WANTED,
    (LockState.WANTED, LockInput.TROUBLE): LockState.WANTED,
    # The lock was needed again while it was being released.
    (LockState.WANTED, LockInput.RELEASED): LockState.WANTED,
    (LockState.WANTED, LockInput.SPARE): LockState.RELEASING,
    (LockState.WANTED, LockInput.MOVE): LockState.UNKNOWN,
    (LockState.HELD, LockInput.TAKEN): LockState.HELD,
    (LockState.HELD, LockInput.REFUSED): LockState.WANTED,
    (LockState.HELD, LockInput.TROUBLE): LockState.HELD,
    (LockState.HELD, LockInput.EXPIRE): LockState.WANTED,
    (LockState.HELD, LockInput.SPARE): LockState.PAUSING,
    (LockState.HELD, LockInput.MOVE): LockState.UNKNOWN,
    (LockState.PAUSING, LockInput.NEED): LockState.HELD,
    (LockState.PAUSING, LockInput.TAKEN): LockState.PAUSING,
    (LockState.PAUSING, LockInput.REFUSED): LockState.FREE,
    (LockState.PAUSING, LockInput.TROUBLE): LockState.PAUSING,
    (LockState.PAUSING, LockInput.EXPIRE): LockState.RELEASING,
    (LockState.PAUSING, LockInput.DUE): LockState.RELEASING,
    (LockState.PAUSING, LockInput.MOVE): LockState.UNKNOWN,
    (LockState.RELEASING, LockInput.NEED): LockState.WANTED,
    (LockState.RELEASING, LockInput.RELEASED): LockState.FREE,
    (LockState.RELEASING, LockInput.TROUBLE): LockState.RELEASING,
    # Answers to requests from before the release.
    (LockState.RELEASING, LockInput.TAKEN): LockState.RELEASING,
    (LockState.RELEASING, LockInput.REFUSED): LockState.RELEASING,
    (LockState.RELEASING, LockInput.MOVE): LockState.UNKNOWN,
}


class IllegalStepError(Exception):
    """A state got an input that cannot occur in it: a bug in the agent."""


def follow(table: Mapping[tuple[S, G], S], state: S, event: G, sentence: str) -> S:
    """Return the next state in a table; raises IllegalStepError.

    `sentence` has placeholders for the state and for the impossible input.
    """
    try:
        return table[state, event]
    except KeyError:
        raise IllegalStepError(sentence.format(state.value, event.value)) from None


def step(task: Task, event: StageInput) -> Task:
    """Return the task in its next stage."""
    return replace(
        task, stage=follow(TABLE, task.stage, event, "a task that is {} cannot {}")
    )


def lock_step(state: LockState, event: LockInput) -> LockState:
    """Return the next state of the lock.

    The lock limits how many VMs are approved at the same time. This agent has one slot
    in it, for any number of events.
    """
    return follow(LOCK_TABLE, state, event, "a lock that is {} cannot meet {}")
