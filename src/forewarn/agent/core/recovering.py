"""Recovery: what prepare did is undone when the last event has gone (8.7, 8.8).

It waits while another event of this VM is prepared for or stands prepared; an event of
other VMs holds the handlers that prepared for it, and no more. What fails is tried
again for ever, ever more rarely: nothing stays owed. Pure.
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
from forewarn.agent.core.table import Given
from forewarn.instants import SECOND, Micros

GIVE_WAY_GRACE: Micros = SECOND
"""For what is stopped since a hurried preparation wants its handler."""


GAVE_WAY = "it gave way to an event that leaves no time"


def advance(
    memory: Memory, policy: Policy, now: Micros, *, needed: Collection[str] = ()
) -> Change:
    """Return how the recovery of all that has gone goes on.

    It gives way to a hurried preparation, which waits for the `needed` handlers; so
    does a preparation that has time.
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
        if _is_clear(task, policy):
            # Who renames a handler by mistake has time to bring its name back.
            until = task.gone + policy.forget_after
            if now < until and strangers(task, policy):
                wakes.append(until)
            else:
                task, told = _close(task, policy, now)
                notes += told
        tasks[index] = task
    memory = replace(memory, tasks=tuple(tasks))
    memory, stops = _give_way(memory, needed, now)
    commands += stops
    if not is_held and not policy.is_observer:
        begun = _start(memory, policy, now)
        restored = restoring.advance(
            begun.memory, policy, now, kept=_kept(begun.memory)
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
    if task.stage is Stage.PREPARING:
        return True
    return task.stage in {Stage.PREPARED, Stage.WITHHELD} and any(
        step.phase is Phase.PREPARE for step in task.steps
    )


def _kept(memory: Memory) -> set[str]:
    """Return the handlers that have prepared for an event that is not over."""
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
    """Stop what holds the needed handlers and has time; it begins anew later."""
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
        shortened(step, restoring.run_id(memory, step)) for step in memory.restored
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
    """Stop what still prepares for an event that has gone."""
    stops: list[Command] = []
    kept: list[Step] = []
    for step in task.steps:
        is_late = step.state is StepState.RUNNING and step.phase is Phase.PREPARE
        if is_late and step.stop_at > now:
            kill_at = min(step.kill_at, now + policy.stop_grace)
            stops.append(Stop(run_id=steps.run_id(task, step), kill_at=kill_at))
            step = replace(step, stop_at=now, kill_at=kill_at)  # noqa: PLW2901
        kept.append(step)
    return (replace(task, steps=tuple(kept)), stops) if stops else (task, stops)


def _owed(task: Task, policy: Policy) -> list[Handler]:
    """Return whose recovery is owed and can be run, in the order to run them."""
    known = policy.by_name
    return [
        known[name]
        for name in steps.owed(task)
        if name in known and known[name].recovers and steps.is_same(task, known[name])
    ]


def strangers(task: Task, policy: Policy) -> list[str]:
    """Return the handlers that owe a recovery and are not in the settings any more.

    Also those whose name has become another kind's, which cannot undo what they did.
    """
    known = policy.by_name
    return [
        name
        for name in steps.owed(task)
        if name not in known or not steps.is_same(task, known[name])
    ]


def _is_clear(task: Task, policy: Policy) -> bool:
    return not _is_busy(task) and not _owed(task, policy)


def _close(task: Task, policy: Policy, now: Micros) -> tuple[Task, list[Note]]:
    notes = [
        note_of(
            task,
            NoteKind.FAILED,
            now,
            f"handler {name} is no longer in the settings: nobody recovers",
            handler=name,
        )
        for name in strangers(task, policy)
    ]
    if _has_recovered(task):
        notes.append(note_of(task, NoteKind.RECOVERED, now))
    return replace(table.step(task, Given.CLEAR), over=now), notes


def _has_recovered(task: Task) -> bool:
    return any(
        step.phase is Phase.RECOVER and step.round == task.round for step in task.steps
    )


def _start(memory: Memory, policy: Policy, now: Micros) -> Change:
    """Start the recoveries whose turn it is: the last that prepared is the first.

    Where several events owe the same handler, it runs once, for the latest of them.
    """
    busy, kept = steps.busy(memory), _kept(memory)
    commands: list[Command] = []
    notes: list[Note] = []
    wakes: list[Micros] = []
    claimed: set[str] = set()
    tasks = list(memory.tasks)
    for index in range(len(tasks) - 1, -1, -1):
        task = tasks[index]
        if task.stage is not Stage.RECOVERING:
            continue
        mine = [each for each in _owed(task, policy) if each.name not in claimed]
        # Also those whose turn comes later: an older event does not run ahead.
        claimed.update(each.name for each in mine)
        if _is_busy(task):
            # One after the other, in the opposite order of the preparation.
            continue
        for handler in mine:
            if handler.name in kept:
                continue
            if handler.name in busy:
                break
            due = restoring.due(task.latest(handler.name, Phase.RECOVER), now)
            if due > now:
                # It failed: those after it need not wait for the next attempt.
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


def settle(memory: Memory, handler: str, now: Micros) -> Memory:
    """Return the memory where a recovery that is done is done for all it was owed for."""
    return replace(
        memory,
        tasks=tuple(
            _settled(task, handler, now)
            if task.stage is Stage.RECOVERING and handler in steps.owed(task)
            else task
            for task in memory.tasks
        ),
    )


def _settled(task: Task, handler: str, now: Micros) -> Task:
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
        detail="with another event's",
    )
    return replace(task, steps=(*task.steps, step))
