"""Preparation: which handlers to start now, and when it has ended (clause 8.5).

Groups follow one another, also after a failure: the impact will come in any case,
and what can be done should be. Only the approval is withheld. Pure.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from forewarn.agent.core import budget, steps, table
from forewarn.agent.core.model import (
    Command,
    Note,
    NoteKind,
    Phase,
    Stage,
    Step,
    StepState,
    Task,
)
from forewarn.agent.core.policy import Approve, Handler, Policy, Rule
from forewarn.agent.core.table import Given
from forewarn.instants import SECOND, Micros

RETRY_PAUSE: Micros = SECOND
"""Between a failed attempt and the next: what failed at once may need a moment."""

LOST_MAX = 3
"""Attempts that may be lost to the agent's own end without counting as failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What preparation does now."""

    task: Task
    commands: tuple[Command, ...] = ()
    notes: tuple[Note, ...] = ()
    wake: Micros | None = None
    needed: tuple[str, ...] = ()
    """Handlers that are busy, and for which a hurried preparation waits."""


def advance(
    task: Task, rule: Rule, policy: Policy, *, busy: Collection[str], now: Micros
) -> Progress:
    """Return how preparation of a live task goes on; `busy` handlers must wait."""
    if task.stage is Stage.SEEN:
        begin = _begin(task, rule, policy, now)
        if begin.task.stage is not Stage.PREPARING:
            return begin
        going = _go_on(begin.task, rule, policy, busy=busy, now=now)
        return replace(going, notes=(*begin.notes, *going.notes))
    if task.stage is Stage.PREPARING:
        return _go_on(task, rule, policy, busy=busy, now=now)
    return Progress(task=task)


def _begin(task: Task, rule: Rule, policy: Policy, now: Micros) -> Progress:
    groups = budget.groups_of(task, rule, policy)
    task = replace(task, rule=rule.name)
    if not groups:
        if rule.approve is Approve.NEVER or not task.mine:
            # Another rule may match as NotBefore comes nearer.
            return Progress(task=task)
        task = replace(table.step(task, Given.NOTHING), prepared=now)
        return Progress(task=task)
    at = budget.begin_at(task, rule)
    if at > now:
        return Progress(task=task, wake=at)
    names = ", ".join(handler.name for group in groups for handler in group)
    note = Note(
        at=now,
        kind=NoteKind.PREPARING,
        event_id=task.event_id,
        detail=f"{rule.name}: {names}",
        notice=task.notice,
    )
    return Progress(
        task=replace(table.step(task, Given.BEGIN), begun=now), notes=(note,)
    )


def _go_on(
    task: Task, rule: Rule, policy: Policy, *, busy: Collection[str], now: Micros
) -> Progress:
    groups = budget.groups_of(task, rule, policy)
    until = budget.ready_by(task, policy)
    commands: list[Command] = []
    wakes: list[Micros] = []
    needed: list[str] = []
    late: list[str] = []
    for index, group in enumerate(groups):
        waits = False
        for handler in group:
            last = task.latest(handler.name, Phase.PREPARE)
            if is_ended(task, handler):
                continue
            if last is not None and last.state is StepState.RUNNING:
                waits = True
                continue
            if (
                last is not None
                and last.ended + RETRY_PAUSE > now
                and (last.state is StepState.FAILED)
            ):
                waits = True
                wakes.append(last.ended + RETRY_PAUSE)
                continue
            span = budget.times(
                handler,
                groups[index:],
                until=until,
                is_hurried=budget.is_hurried(task),
                policy=policy,
                now=now,
            )
            if span is None:
                if last is None:
                    late.append(handler.name)
                continue
            waits = True
            if handler.name in busy:
                # Its end comes in; if its own time is over first, this wakes us.
                wakes.extend([until] if until is not None else [])
                needed.extend([handler.name] if budget.is_hurried(task) else [])
                continue
            task, command = steps.begun(
                task,
                handler.name,
                Phase.PREPARE,
                stop_at=span[0],
                kill_at=span[1],
                now=now,
            )
            commands.append(command)
        if waits:
            wake = min((each for each in wakes if each > now), default=None)
            return Progress(
                task=task, commands=tuple(commands), wake=wake, needed=tuple(needed)
            )
    if any(_is_preparing(step) for step in task.steps):
        # A handler that the settings have no longer still works.
        return Progress(task=task)
    return _conclude(task, groups, late, now)


def _is_preparing(step: Step) -> bool:
    return step.phase is Phase.PREPARE and step.state is StepState.RUNNING


def is_ended(task: Task, handler: Handler) -> bool:
    """Tell whether a handler's preparation will not be tried again.

    One that was stopped is: its event had gone, and is there again.
    """
    states = [
        step.state
        for step in task.steps
        if (step.handler, step.phase, step.round)
        == (handler.name, Phase.PREPARE, task.round)
    ]
    return bool(states) and (
        states[-1] is StepState.DONE
        or states.count(StepState.FAILED) > handler.retries
        or states.count(StepState.LOST) > LOST_MAX
    )


def _conclude(
    task: Task, groups: list[list[Handler]], late: list[str], now: Micros
) -> Progress:
    faults: list[str] = []
    for handler in (handler for group in groups for handler in group):
        last = task.latest(handler.name, Phase.PREPARE)
        if last is not None and last.state is StepState.DONE:
            continue
        if handler.required:
            if handler.name in late or last is None:
                faults.append(f"there was no time left for {handler.name}")
            else:
                faults.append(f"{handler.name} failed: {last.detail or 'no reason'}")
    withheld = "; ".join(faults)
    task = table.step(task, Given.FALL_SHORT if faults else Given.READY)
    task = replace(task, withheld=withheld, prepared=0 if faults else now)
    note = Note(
        at=now,
        kind=NoteKind.WITHHELD if faults else NoteKind.PREPARED,
        event_id=task.event_id,
        detail=withheld,
        notice=task.notice,
    )
    return Progress(task=task, notes=(note,))
