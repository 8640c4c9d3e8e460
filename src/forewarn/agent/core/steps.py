"""Runs of handlers: create, find and end them in a task. Pure."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Union

from forewarn.agent.core.model import (
    Memory,
    Phase,
    Run,
    Step,
    StepState,
    Task,
)
from forewarn.agent.core.policy import Handler
from forewarn.instants import Micros

Owner = Union[Task, Memory]
"""The task of a run. Recoveries after a lost journal belong to the memory."""

_SAFE = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)

HEX_CHARACTERS = 64
"""Hexadecimal characters of an ID that is not a file name; a checksum is added."""


def name_runs(event_id: str, journal: str, number: int) -> str:
    """Return the prefix for the names of a task's runs.

    An event may return after its task was removed, and another journal may have had the
    same event. Directories of those runs may still exist, so the prefix has the task's
    number in its journal.
    """
    return f"{_safe(event_id)}.{f'{journal}-' if journal else ''}{number}"


def run_id(owner: Owner, step: Step) -> str:
    """Return the name of a run, which is safe as a file name.

    It is unique in all journals of this VM.
    """
    if isinstance(owner, Memory):
        journal = f"{owner.journal}." if owner.journal else ""
        return f"restore.{journal}{step.began}.{step.attempt}.{step.handler}"
    runs = owner.runs or _safe(owner.event_id)
    return f"{runs}.{step.round}.{step.phase.value}.{step.attempt}.{step.handler}"


def _safe(event_id: str) -> str:
    if _SAFE.fullmatch(event_id):
        return event_id
    # An endpoint's ID may have any characters. A digest would need a module that takes
    # 4 MiB in every VM.
    data = event_id.encode("utf-8", "surrogatepass")
    return f"{data.hex()[:HEX_CHARACTERS]}-{zlib.crc32(data):08x}"


def begun(
    task: Task,
    handler: str,
    phase: Phase,
    *,
    stop_at: Micros,
    kill_at: Micros,
    now: Micros,
    kind: str = "",
) -> tuple[Task, Run]:
    """Return the task with one more run, and the command that starts it."""
    last = task.latest(handler, phase)
    step = Step(
        handler=handler,
        phase=phase,
        round=task.round,
        attempt=1 if last is None else last.attempt + 1,
        state=StepState.RUNNING,
        began=now,
        stop_at=stop_at,
        kill_at=kill_at,
        kind=kind,
    )
    steps_kept = task.steps
    if last is not None and (phase is Phase.RECOVER or last.state is StepState.STOPPED):
        # Their number is unlimited, and only the last one matters.
        steps_kept = tuple(other for other in steps_kept if other is not last)
    task = replace(task, steps=(*steps_kept, step))
    return task, command_of(task, step)


def command_of(owner: Owner, step: Step) -> Run:
    """Return the command that starts or resumes a run."""
    return Run(
        run_id=run_id(owner, step),
        handler=step.handler,
        phase=step.phase,
        attempt=step.attempt,
        task=owner if isinstance(owner, Task) else None,
        stop_at=step.stop_at,
        kill_at=step.kill_at,
    )


def running(memory: Memory) -> Iterator[tuple[Owner, Step]]:
    """Yield every run in progress."""
    for owner in (*memory.tasks, memory):
        for step in owner.steps if isinstance(owner, Task) else owner.restored:
            if step.state is StepState.RUNNING:
                yield owner, step


def busy(memory: Memory) -> set[str]:
    """Return the handlers that are running. A handler never runs twice at once."""
    return {step.handler for _, step in running(memory)}


def unrecovered(task: Task) -> list[str]:
    """Return the handlers that prepared and did not recover, latest first.

    A preparation that failed or was lost counts, since it may have had an effect.
    """
    handlers: dict[str, None] = {}
    for step in task.steps:
        if step.phase is Phase.PREPARE:
            handlers.pop(step.handler, None)
            handlers[step.handler] = None
        elif step.state is StepState.DONE:
            handlers.pop(step.handler, None)
    return list(reversed(handlers))


def is_same(task: Task, handler: Handler) -> bool:
    """Return whether a handler still has the kind that prepared under its name."""
    kinds = [
        step.kind
        for step in task.steps
        if step.handler == handler.name and step.phase is Phase.PREPARE
    ]
    return not kinds or kinds[-1] in {"", handler.kind}
