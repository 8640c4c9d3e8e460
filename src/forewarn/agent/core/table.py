"""The stages of a task, and the only place where one follows another.

What is not in `TABLE` cannot happen, and raises IllegalStageError. Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import replace

from forewarn.agent.core.model import Stage, Task


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


class IllegalStageError(Exception):
    """A stage met what cannot happen in it: a bug of ours."""


def step(task: Task, given: Given) -> Task:
    """Return the task in its next stage; raises IllegalStageError."""
    try:
        stage = TABLE[task.stage, given]
    except KeyError:
        raise IllegalStageError(
            f"a task that is {task.stage.value} cannot {given.value}"
        ) from None
    return replace(task, stage=stage)
