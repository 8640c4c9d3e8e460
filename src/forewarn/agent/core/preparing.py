"""Preparation: which handlers to start now, and when it has ended (clause 8.5).

The groups run one after another, even after a failure: the impact comes in any case, so
the agent prepares as much as it can. A failure only withholds the approval. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from forewarn.agent.core import budget, rules, steps, table
from forewarn.agent.core.model import (
    Command,
    Consent,
    NoteKind,
    Part,
    Phase,
    Stage,
    Step,
    StepState,
    Task,
    Tighten,
    note_of,
)
from forewarn.agent.core.policy import Approve, Handler, Policy, Rule
from forewarn.agent.core.table import StageInput
from forewarn.instants import SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass

RETRY_PAUSE: Micros = SECOND
"""Pause between a failed attempt and the next one."""

LATE_GRACE: Micros = SECOND
"""Grace period for a run whose deadline has moved into the past."""

LOST_MAX = 3
"""Attempts that may be lost to restarts of the agent without counting as failures."""


@frozen_dataclass
class Progress(Part):
    """The next step of a preparation."""

    task: Task
    needed: tuple[str, ...] = ()
    """Busy handlers that an urgent preparation waits for."""


def advance(
    task: Task, rule: Rule, policy: Policy, *, busy: Collection[str], now: Micros
) -> Progress:
    """Return the next step for a live task; handlers in `busy` must wait."""
    if not task.is_confirmed or policy.is_observer:
        return Progress(task=task)
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
    if task.rule != rule.name:
        task = replace(task, rule=rule.name)
    if not groups:
        if rule.approve is Approve.NEVER or not task.mine:
            # Another rule may match closer to NotBefore.
            return Progress(task=task)
        task = replace(
            table.step(task, StageInput.NOTHING),
            prepared=now,
            rule_sum=rules.sum_of(rule),
        )
        return Progress(task=task)
    at = budget.begin_at(task, rule)
    if at is not None and at > now:
        return Progress(task=task, wake=at)
    task = replace(
        task,
        rule_sum=rules.sum_of(rule),
        required=tuple(budget.required(task, groups)),
    )
    names = ", ".join(handler.name for group in groups for handler in group)
    note = note_of(task, NoteKind.PREPARING, now, f"{rule.name}: {names}")
    return Progress(
        task=replace(table.step(task, StageInput.BEGIN), begun=now), notes=(note,)
    )


def _go_on(
    task: Task, rule: Rule, policy: Policy, *, busy: Collection[str], now: Micros
) -> Progress:
    groups = budget.groups_of(task, rule, policy)
    task, tightened = _tighten(task, groups, policy, now)
    for index, group in enumerate(groups):
        taken: list[Progress] = []
        for handler in group:
            one = _take(
                task,
                handler,
                rule,
                policy,
                remaining=groups[index:],
                busy=busy,
                now=now,
            )
            if one is not None:
                task = one.task
                taken.append(one)
        if taken:
            wakes = [
                progress.wake
                for progress in taken
                if progress.wake and progress.wake > now
            ]
            return Progress(
                task=task,
                commands=(
                    *tightened,
                    *(run for progress in taken for run in progress.commands),
                ),
                wake=min(wakes, default=None),
                needed=tuple(name for progress in taken for name in progress.needed),
            )
    if any(_is_preparing(step) for step in task.steps):
        # A handler that the settings no longer have is still running.
        return Progress(task=task, commands=tightened)
    return _conclude(task, groups, now)


def _tighten(
    task: Task, groups: Sequence[Sequence[Handler]], policy: Policy, now: Micros
) -> tuple[Task, tuple[Command, ...]]:
    """Shorten the deadlines of running handlers if NotBefore has come closer.

    If it has not, a new calculation would only give later deadlines.
    """
    until = budget.ready_by(task, policy)
    if until is None:
        return task, ()
    commands: list[Command] = []
    new_steps: list[Step] = []
    for step in task.steps:
        span = _span(task, step, groups, until=until, policy=policy, now=now)
        if span is not None and span != (step.stop_at, step.kill_at):
            name = steps.run_id(task, step)
            commands.append(Tighten(run_id=name, stop_at=span[0], kill_at=span[1]))
            step = replace(step, stop_at=span[0], kill_at=span[1])  # noqa: PLW2901
        new_steps.append(step)
    return replace(task, steps=tuple(new_steps)) if commands else task, tuple(commands)


def _span(
    task: Task,
    step: Step,
    groups: Sequence[Sequence[Handler]],
    *,
    until: Micros,
    policy: Policy,
    now: Micros,
) -> tuple[Micros, Micros] | None:
    """Return the new deadlines of a run; None: they do not change."""
    if not _is_preparing(step):
        return None
    # A handler that is in no group forms a separate group.
    remaining = [[Handler(name=step.handler)]]
    for index, group in enumerate(groups):
        if step.handler in {handler.name for handler in group}:
            remaining = list(groups[index:])
    span = budget.times(
        next(handler for handler in remaining[0] if handler.name == step.handler),
        remaining,
        until=until,
        is_hurried=budget.is_hurried(task),
        policy=policy,
        now=now,
    )
    if span is None and until >= step.kill_at:
        return None
    stop_at, kill_at = span or (now, now + LATE_GRACE)
    return min(step.stop_at, stop_at), min(step.kill_at, kill_at)


def _take(
    task: Task,
    handler: Handler,
    rule: Rule,
    policy: Policy,
    *,
    remaining: Sequence[Sequence[Handler]],
    busy: Collection[str],
    now: Micros,
) -> Progress | None:
    """Start a handler, or return when to start it; None: it has ended or has no time.

    A handler that has not ended delays the groups after its own.
    """
    last = task.latest(handler.name, Phase.PREPARE)
    if is_ended(task, handler):
        return None
    if last is not None and last.state is StepState.RUNNING:
        return Progress(task=task)
    if last is not None and last.state is StepState.FAILED:
        again = last.ended + RETRY_PAUSE
        # If the clock was set back, the pause must not become longer.
        if last.ended <= now < again:
            return Progress(task=task, wake=again)
    at = budget.handler_at(task, rule, handler)
    if at is not None and at > now:
        return Progress(task=task, wake=at)
    until, is_hurried = budget.ready_by(task, policy), budget.is_hurried(task)
    span = budget.times(
        handler, remaining, until=until, is_hurried=is_hurried, policy=policy, now=now
    )
    if span is None:
        return None
    if handler.name in busy:
        # The end of the other run is an input. This wakes the agent if time runs out
        # first.
        needed = (handler.name,) if is_hurried else ()
        return Progress(task=task, wake=until, needed=needed)
    task, command = steps.begun(
        task,
        handler.name,
        Phase.PREPARE,
        stop_at=span[0],
        kill_at=span[1],
        now=now,
        kind=handler.kind,
    )
    return Progress(task=task, commands=(command,))


def _is_preparing(step: Step) -> bool:
    return step.phase is Phase.PREPARE and step.state is StepState.RUNNING


def is_ended(task: Task, handler: Handler) -> bool:
    """Return whether a handler's preparation has ended for good.

    A stopped preparation has not: its event had ended, but has returned.
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


def _conclude(task: Task, groups: list[list[Handler]], now: Micros) -> Progress:
    faults: list[str] = []
    known = {handler.name for group in groups for handler in group}
    for name in budget.required(task, groups):
        last = task.latest(name, Phase.PREPARE)
        if last is None and name not in known:
            faults.append(f"the settings want {name} no longer, and it has not run")
        elif last is None:
            faults.append(f"there was no time left for {name}")
        elif last.state is not StepState.DONE:
            faults.append(f"{name} failed: {last.detail or 'no reason'}")
    withheld = "; ".join(faults)
    task = table.step(task, StageInput.FALL_SHORT if faults else StageInput.READY)
    task = replace(task, withheld=withheld, prepared=0 if faults else now)
    kind, about = NoteKind.WITHHELD if faults else NoteKind.PREPARED, ""
    if faults and task.consent in {Consent.WANTED, Consent.GIVEN}:
        # The event was approved before it was prepared, so the approval is not
        # withheld.
        kind, about = NoteKind.FAILED, "preparation"
        withheld = f"it is approved but not prepared: {withheld}"
    return Progress(task=task, notes=(note_of(task, kind, now, withheld, about=about),))
