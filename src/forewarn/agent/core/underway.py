"""The work in progress that an agent must not forget. Pure."""

from __future__ import annotations

from forewarn.agent.core.model import Consent, Memory, Stage, StepState, Task
from forewarn.agent.core.permits import LockState


def what(memory: Memory) -> str:
    """Return what would be lost with this memory, for a person; empty: nothing."""
    for task in memory.tasks:
        if sentence := _of(task):
            return sentence
    if any(step.state is StepState.RUNNING for step in memory.restored):
        return "the recovery after a lost journal is running"
    if memory.lock.state not in {LockState.UNKNOWN, LockState.FREE}:
        return f"{memory.lock.label or 'the lock'} is {memory.lock.state.value}"
    return ""


def _of(task: Task) -> str:
    event = f"event {task.event_id}"
    if task.stage is Stage.FINISHED:
        return ""
    if task.stage is Stage.RECOVERING:
        return f"the recovery from {event} is pending"
    if task.consent is not Consent.NONE:
        return f"the approval of {event} is {task.consent.value}"
    if task.stage is Stage.SEEN and not task.steps:
        return ""
    return f"{event} is {task.stage.value}"
