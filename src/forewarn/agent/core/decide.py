"""The decision: a function from memory, inputs and time to memory, commands and notes.

`decide` is the only entry point. Its caller makes the memory durable first, then
carries out the commands, and passes their results to the next call. Commands are
recorded in the memory, so a decision without new input does not repeat them. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forewarn.agent.core import (
    absorbing,
    approving,
    budget,
    gating,
    locking,
    preparing,
    presence,
    recovering,
    restoring,
    rules,
    steps,
)
from forewarn.agent.core.model import (
    Command,
    Consent,
    Decision,
    Input,
    Memory,
    Note,
    Presence,
    Run,
    Stage,
    Task,
)
from forewarn.agent.core.permits import Gate
from forewarn.agent.core.policy import Policy, Rule
from forewarn.instants import Micros

OVER_MAX = 200
"""Maximum number of finished tasks in the memory: an old document may list them."""


def decide(
    policy: Policy, memory: Memory, inputs: Sequence[Input], now: Micros
) -> Decision:
    """Return the decision for the inputs, in their order, at this time."""
    notes: list[Note] = []
    for input_ in inputs:
        memory, new_notes = absorbing.absorb(policy, memory, input_, now)
        notes += new_notes
    for refresh in (locking.refresh, gating.refresh):
        memory, new_notes = refresh(memory, policy, now)
        notes += new_notes
    commands: list[Command] = []
    wakes: list[Micros | None] = []
    waits: list[tuple[str, str]] = []
    needed: set[str] = set()
    passages: dict[str, gating.Passage] = {}
    tasks = list(memory.tasks)
    busy = steps.busy(memory)
    # Urgent events get their handlers first.
    for index in sorted(
        range(len(tasks)), key=lambda place: not budget.is_hurried(tasks[place])
    ):
        before = tasks[index]
        if not before.is_live:
            continue
        # The VM's name must be known before anything is done about an event.
        rule = rule_of(policy, before, now) if memory.name else rules.NO_RULE
        progress = preparing.advance(before, rule, policy, busy=busy, now=now)
        busy.update(run.handler for run in progress.commands if isinstance(run, Run))
        verdict = approving.consider(
            progress.task,
            rule,
            policy,
            name=memory.name,
            lock=memory.lock,
            gate=memory.gate,
            now=now,
        )
        if verdict.passage is not None:
            passages[verdict.task.event_id] = verdict.passage
        tasks[index] = verdict.task
        commands += (*progress.commands, *verdict.commands)
        notes += (*progress.notes, *verdict.notes)
        needed.update(progress.needed)
        wakes += (progress.wake, verdict.wake)
        if verdict.task.stage is Stage.SEEN:
            wakes.append(rules.next_change(policy, verdict.task, now))
        if verdict.waits:
            waits.append((verdict.task.event_id, verdict.waits))
    memory = replace(memory, tasks=tuple(tasks))
    recovery = recovering.advance(memory, policy, now, needed=needed)
    # Advance the lock after recoveries, which can end the need for it.
    lock = locking.advance(recovery.memory, policy, now)
    gate = gating.advance(lock.memory, policy, passages, now)
    wakes += (recovery.wake, lock.wake, gate.wake)
    memory = _forget(gate.memory, policy, now)
    doubts = doubts_of(memory, policy, now)
    return Decision(
        memory=memory,
        commands=(*commands, *recovery.commands, *lock.commands, *gate.commands),
        notes=(*notes, *recovery.notes, *gate.notes),
        wake=min((wake for wake in wakes if wake), default=None),
        waits=tuple(waits),
        doubts=doubts,
        wants_answers=bool(doubts) or restoring.waits(memory),
    )


def doubts_of(
    memory: Memory, policy: Policy, now: Micros
) -> tuple[tuple[str, str], ...]:
    """Return the events that may have ended or returned, each with the reason."""
    reasons = (
        (task.event_id, presence.explain(task, policy.gone_after, now))
        for task in memory.tasks
    )
    return tuple((event_id, why) for event_id, why in reasons if why)


def rule_of(policy: Policy, task: Task, now: Micros) -> Rule:
    """Return the rule that decides about a live task."""
    # An event may return after it was prepared for, and may have started meanwhile. The
    # rules for events that are first seen as Started do not apply to it.
    has_returned_started = bool(task.rule_sum) and task.notice.has_started
    is_decided = task.stage is not Stage.SEEN or has_returned_started
    return (rules.rule_kept if is_decided else rules.rule_for)(policy, task, now)


def resume(memory: Memory, now: Micros) -> Decision:
    """Return the first decision after a start of the agent.

    Runs in progress are watched again, and end as LOST if they no longer exist.
    Approvals without a recorded answer are sent again. Any other work for an event
    waits until a document lists it.
    """
    commands: list[Command] = [
        replace(steps.command_of(owner, step), resumes=True)
        for owner, step in steps.running(memory)
    ]
    tasks = tuple(
        replace(
            task,
            is_confirmed=not task.is_live,
            retry_at=now if task.consent is Consent.WANTED else task.retry_at,
            # The agent was not running, so this time does not count.
            absent_from=0,
            peers_asked=0,
            presence=_presence_of(task),
        )
        for task in memory.tasks
    )
    return Decision(
        memory=replace(
            memory,
            tasks=tasks,
            has_polled=False,
            quiet_from=None,
            is_quiet=False,
            lock=locking.resumed(memory.lock, now),
            # The new agent asks again, so it has no answers yet.
            gate=Gate(number=memory.gate.number),
        ),
        commands=tuple(commands),
        wake=now,
    )


def _presence_of(task: Task) -> Presence:
    """Return a task's presence, even if its journal did not store one."""
    if task.presence is Presence.LISTED and not task.is_live:
        return Presence.GONE
    return task.presence


def _forget(memory: Memory, policy: Policy, now: Micros) -> Memory:
    over = [task for task in memory.tasks if task.stage is Stage.FINISHED]
    dropped = {
        task.event_id
        for index, task in enumerate(reversed(over))
        if index >= OVER_MAX or task.over + policy.forget_after <= now
    }
    if not dropped:
        return memory
    return replace(
        memory,
        tasks=tuple(task for task in memory.tasks if task.event_id not in dropped),
    )
