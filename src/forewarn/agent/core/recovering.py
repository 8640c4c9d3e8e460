"""Recovery: undo the preparation after the last event ended (clauses 8.7 and 8.8).

It waits while another event of this VM is being prepared or is prepared. An event of
other VMs delays only the handlers that prepared for it. Failed recoveries are retried
without limit, with growing pauses. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from forewarn.agent.core import budget, restoring, steps, table
from forewarn.agent.core.model import (
    Change,
    Command,
    Memory,
    Note,
    NoteKind,
    Phase,
    Stage,
    Step,
    StepState,
    Stop,
    Task,
    note_of,
)
from forewarn.agent.core.policy import Handler, Policy
from forewarn.agent.core.table import StageInput
from forewarn.instants import SECOND, Micros

GIVE_WAY_GRACE: Micros = SECOND
"""Grace period for a run that is stopped because an urgent event needs its handler."""


GAVE_WAY = "an urgent event needs the handler"


def advance(
    memory: Memory, policy: Policy, now: Micros, *, needed: Collection[str] = ()
) -> Change:
    """Return the next recoveries of all ended events.

    Runs that an urgent preparation needs the handlers of (`needed`) are stopped, unless
    they are urgent as well.
    """
    tasks = list(memory.tasks)
    commands: list[Command] = []
    notes: list[Note] = []
    wakes: list[Micros] = []
    is_held = any(task.mine and _holds(task) for task in tasks)
    for index, gone in enumerate(tasks):
        if gone.stage is not Stage.RECOVERING:
            continue
        task, stops = _stop_preparing(gone, policy, now)
        commands += stops
        if not _is_busy(task) and not _pending(task, policy):
            # There is time to restore a handler that was renamed by mistake.
            until = task.gone + policy.forget_after
            if now < until and missing_handlers(task, policy):
                wakes.append(until)
            else:
                task, new_notes = _close(task, policy, now)
                notes += new_notes
        tasks[index] = task
    memory = replace(memory, tasks=tuple(tasks))
    memory, stops = _give_way(memory, needed, now)
    commands += stops
    if not is_held and not policy.is_observer:
        begun = _start(memory, policy, now)
        restored = restoring.advance(
            begun.memory, policy, now, held=_kept(begun.memory)
        )
        memory = restored.memory
        commands += (*begun.commands, *restored.commands)
        notes += begun.notes
        wakes += filter(None, (begun.wake, restored.wake))
    return Change(
        memory=memory,
        commands=tuple(commands),
        notes=tuple(notes),
        wake=min(wakes, default=None),
    )


def _holds(task: Task) -> bool:
    return task.stage is Stage.PREPARING or (
        task.stage in {Stage.PREPARED, Stage.WITHHELD}
        and any(step.phase is Phase.PREPARE for step in task.steps)
    )


def _kept(memory: Memory) -> set[str]:
    """Return the handlers that have prepared for an event that has not ended."""
    return {
        step.handler
        for task in memory.tasks
        if _holds(task)
        for step in task.steps
        if step.phase is Phase.PREPARE
    }


def _give_way(
    memory: Memory, needed: Collection[str], now: Micros
) -> tuple[Memory, list[Command]]:
    """Stop runs that block needed handlers and are not urgent; they restart later."""
    commands: list[Command] = []
    if not needed:
        return memory, []

    def shortened(step: Step, run_id: str, *, may_prepare: bool = False) -> Step:
        is_in_the_way = (
            step.handler in needed
            and (step.phase is Phase.RECOVER or not may_prepare)
            and step.state is StepState.RUNNING
            and step.stop_at > now
        )
        if not is_in_the_way:
            return step
        kill_at = min(step.kill_at, now + GIVE_WAY_GRACE)
        commands.append(Stop(run_id=run_id, kill_at=kill_at))
        return replace(step, stop_at=now, kill_at=kill_at, detail=GAVE_WAY)

    restored = tuple(
        shortened(step, steps.run_id(memory, step)) for step in memory.restored
    )
    tasks = tuple(
        replace(
            task,
            steps=tuple(
                shortened(
                    step,
                    steps.run_id(task, step),
                    may_prepare=budget.is_hurried(task),
                )
                for step in task.steps
            ),
        )
        for task in memory.tasks
    )
    if not commands:
        return memory, []
    return replace(memory, tasks=tasks, restored=restored), commands


def _stop_preparing(
    task: Task, policy: Policy, now: Micros
) -> tuple[Task, list[Command]]:
    """Stop the preparation for an event that has ended."""
    stops: list[Command] = []
    new_steps: list[Step] = []
    for step in task.steps:
        is_late = step.state is StepState.RUNNING and step.phase is Phase.PREPARE
        if is_late and step.stop_at > now:
            kill_at = min(step.kill_at, now + policy.stop_grace)
            stops.append(Stop(run_id=steps.run_id(task, step), kill_at=kill_at))
            step = replace(step, stop_at=now, kill_at=kill_at)  # noqa: PLW2901
        new_steps.append(step)
    return (replace(task, steps=tuple(new_steps)), stops) if stops else (task, stops)


def _pending(task: Task, policy: Policy) -> list[Handler]:
    """Return the handlers with a pending recovery that can run, in their order."""
    known = policy.by_name
    return [
        known[name]
        for name in steps.unrecovered(task)
        if name in known and known[name].recovers and steps.is_same(task, known[name])
    ]


def missing_handlers(task: Task, policy: Policy) -> list[str]:
    """Return the handlers with a pending recovery that the settings no longer have.

    A handler whose name now has another kind counts, since it cannot undo the work.
    """
    known = policy.by_name
    return [
        name
        for name in steps.unrecovered(task)
        if name not in known or not steps.is_same(task, known[name])
    ]


def _close(task: Task, policy: Policy, now: Micros) -> tuple[Task, list[Note]]:
    notes = [
        note_of(
            task,
            NoteKind.FAILED,
            now,
            f"handler {name} is no longer in the settings, so it cannot recover",
            handler=name,
        )
        for name in missing_handlers(task, policy)
    ]
    if _has_recovered(task):
        notes.append(note_of(task, NoteKind.RECOVERED, now))
    return replace(table.step(task, StageInput.CLEAR), over=now), notes


def _has_recovered(task: Task) -> bool:
    return any(
        step.phase is Phase.RECOVER and step.round == task.round for step in task.steps
    )


def _start(memory: Memory, policy: Policy, now: Micros) -> Change:
    """Start the next recoveries, in the reverse order of the preparations.

    If several events need the same handler, it recovers once, for the latest of them.
    """
    busy, held = steps.busy(memory), _kept(memory)
    commands: list[Command] = []
    notes: list[Note] = []
    wakes: list[Micros] = []
    claimed: set[str] = set()
    tasks = list(memory.tasks)
    for index in range(len(tasks) - 1, -1, -1):
        task = tasks[index]
        if task.stage is not Stage.RECOVERING:
            continue
        owed = [
            handler for handler in _pending(task, policy) if handler.name not in claimed
        ]
        # Handlers that start later count, so that an older event does not overtake.
        claimed.update(handler.name for handler in owed)
        if _is_busy(task):
            # One after another, in the reverse order of the preparation.
            continue
        for handler in owed:
            if handler.name in held:
                continue
            if handler.name in busy:
                break
            due = restoring.due(task.latest(handler.name, Phase.RECOVER), now)
            if due > now:
                # The recovery failed. The handlers after it do not wait for its next
                # attempt.
                wakes.append(due)
                continue
            if not _has_recovered(task):
                notes.append(note_of(task, NoteKind.RECOVERING, now))
            stop_at = now + handler.recover_timeout
            task, run = steps.begun(
                task,
                handler.name,
                Phase.RECOVER,
                stop_at=stop_at,
                kill_at=stop_at + policy.stop_grace,
                now=now,
                kind=handler.kind,
            )
            commands.append(run)
            busy.add(handler.name)
            break
        tasks[index] = task
    return Change(
        memory=replace(memory, tasks=tuple(tasks)),
        commands=tuple(commands),
        notes=tuple(notes),
        wake=min(wakes, default=None),
    )


def _is_busy(task: Task) -> bool:
    return any(step.state is StepState.RUNNING for step in task.steps)


def mark_recovered(memory: Memory, handler: str, now: Micros) -> Memory:
    """Mark a recovery as done for all events that needed it, and return the memory."""
    return replace(
        memory,
        tasks=tuple(
            _recovered_by_other(task, handler, now)
            if task.stage is Stage.RECOVERING and handler in steps.unrecovered(task)
            else task
            for task in memory.tasks
        ),
    )


def _recovered_by_other(task: Task, handler: str, now: Micros) -> Task:
    last = task.latest(handler, Phase.RECOVER)
    step = Step(
        handler=handler,
        phase=Phase.RECOVER,
        round=task.round,
        attempt=1 if last is None else last.attempt + 1,
        state=StepState.DONE,
        began=now,
        stop_at=now,
        kill_at=now,
        ended=now,
        detail="together with another event",
    )
    return replace(task, steps=(*task.steps, step))
