"""What an agent has under way, which must not be forgotten. Pure."""

from __future__ import annotations

from forewarn.agent.core.lock import LockState
from forewarn.agent.core.model import Consent, Memory, Stage, StepState, Task


def is_idle(memory: Memory) -> bool:
    """Tell whether nothing would be lost with this memory."""
    return not what(memory)


def what(memory: Memory) -> str:
    """Return what would be lost with this memory, for a person; empty: nothing."""
    for task in memory.tasks:
        if said := _of(task):
            return said
    if any(step.state is StepState.RUNNING for step in memory.restored):
        return "the recovery after a lost journal runs"
    if memory.lock.state not in {LockState.UNKNOWN, LockState.FREE}:
        return f"{memory.lock.label or 'the lock'} is {memory.lock.state.value}"
    return ""


def _of(task: Task) -> str:
    event = f"event {task.event_id}"
    if task.stage is Stage.FINISHED:
        return ""
    if task.stage is Stage.RECOVERING:
        return f"the recovery from {event} is owed"
    if task.consent is not Consent.NONE:
        return f"the approval of {event} is {task.consent.value}"
    if task.stage is Stage.SEEN and not task.steps:
        return ""
    return f"{event} is {task.stage.value}"
