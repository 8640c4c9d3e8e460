"""Runs of handlers: how they are called, begun and ended in a task. Pure."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import replace

from forewarn.agent.core.model import (
    Finished,
    Memory,
    Phase,
    Run,
    Step,
    StepState,
    Task,
)
from forewarn.agent.core.policy import Handler
from forewarn.instants import Micros

_SAFE = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)

HEX_CHARACTERS = 64
"""Of an id that is no file's name; what is longer differs by its sum."""


def name_runs(event_id: str, journal: str, number: int) -> str:
    """Return what the names of a task's runs begin with.

    An event may come back after its task was forgotten, and another journal may have
    known it, with its runs' folders still there: the task's number in its journal
    tells them apart.
    """
    tag = f"{journal}-{number}" if journal else f"{number}"
    return f"{_safe(event_id)}.{tag}"


def run_id(task: Task, step: Step) -> str:
    """Return the name of a run: unique, and safe as a file's name."""
    runs = task.runs or _safe(task.event_id)
    return f"{runs}.{step.round}.{step.phase.value}.{step.attempt}.{step.handler}"


def _safe(event_id: str) -> str:
    if _SAFE.fullmatch(event_id):
        return event_id
    # What an endpoint calls an event may have any characters. A digest would do, too,
    # but the module for it takes 4 MiB in every VM.
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
    """Return the task with one run more, and the command to start it."""
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
    kept = task.steps
    if last is not None and (phase is Phase.RECOVER or last.state is StepState.STOPPED):
        # There is no end to these, and only the last is worth remembering.
        kept = tuple(other for other in kept if other is not last)
    task = replace(task, steps=(*kept, step))
    return task, command_of(task, step)


def command_of(task: Task, step: Step) -> Run:
    """Return the command that starts a run, or takes it up again."""
    return Run(
        run_id=run_id(task, step),
        handler=step.handler,
        phase=step.phase,
        attempt=step.attempt,
        task=task,
        stop_at=step.stop_at,
        kill_at=step.kill_at,
    )


def find(task: Task, name: str) -> Step | None:
    """Return the run of that name that is under way; None: the task has none."""
    for step in task.steps:
        if step.state is StepState.RUNNING and run_id(task, step) == name:
            return step
    return None


def ended(task: Task, step: Step, finished: Finished, now: Micros) -> Task:
    """Return the task with one of its runs ended."""
    new = replace(step, state=finished.state, detail=finished.detail, ended=now)
    steps = tuple(new if each is step else each for each in task.steps)
    return replace(task, steps=steps)


def running(memory: Memory) -> Iterator[tuple[Task, Step]]:
    """Yield every run that is under way."""
    for task in memory.tasks:
        for step in task.steps:
            if step.state is StepState.RUNNING:
                yield task, step


def busy(memory: Memory) -> set[str]:
    """Return the handlers that run now: one is never run twice at once."""
    names = {step.handler for _, step in running(memory)}
    names.update(
        step.handler for step in memory.restored if step.state is StepState.RUNNING
    )
    return names


def owed(task: Task) -> list[str]:
    """Return the handlers that prepared and did not recover, latest first.

    Also a preparation that failed or was lost may have done something.
    """
    found: dict[str, None] = {}
    for step in task.steps:
        if step.phase is Phase.PREPARE:
            found.pop(step.handler, None)
            found[step.handler] = None
        elif step.state is StepState.DONE:
            found.pop(step.handler, None)
    return list(reversed(found))


def is_same(task: Task, handler: Handler) -> bool:
    """Tell whether a handler is still of the kind that prepared under its name."""
    kinds = [
        step.kind
        for step in task.steps
        if step.handler == handler.name and step.phase is Phase.PREPARE
    ]
    return not kinds or kinds[-1] in {"", handler.kind}
