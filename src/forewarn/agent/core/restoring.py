"""Recovery after a lost journal, such as after a redeploy: `always` handlers run once.

Without the journal, the agent does not know what was prepared. The VM may also be in
the middle of an event that is not listed yet. The recovery therefore waits until the
endpoint's answers have shown for some time that no event affects this VM. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from forewarn.agent.core import steps
from forewarn.agent.core.model import (
    Change,
    Command,
    Memory,
    Phase,
    Polled,
    Stage,
    Step,
    StepState,
    Task,
)
from forewarn.agent.core.policy import GoneAfter, Policy
from forewarn.instants import MINUTE, SECOND, Micros

RETRY_FIRST: Micros = SECOND
RETRY_MAX: Micros = 5 * MINUTE
"""Maximum pause before a failed recovery is retried; it doubles from RETRY_FIRST."""


def listened(memory: Memory, polled: Polled, gone_after: GoneAfter) -> Memory:
    """Return the memory, with an answer's evidence that no event affects this VM."""
    if not memory.lost_journal:
        return memory
    if any(_may_be_under(task, memory.name) for task in memory.tasks):
        return replace(memory, quiet_from=None, is_quiet=False)
    if memory.quiet_from is None:
        return replace(memory, quiet_from=polled.heard)
    # An unknown event may have started.
    long = max(gone_after.started, gone_after.empty if polled.is_empty else 0)
    if polled.heard - memory.quiet_from < long:
        return memory
    return replace(memory, is_quiet=True)


def waits(memory: Memory) -> bool:
    """Return whether a recovery waits for answers without events."""
    return memory.lost_journal and memory.quiet_from is not None and not memory.is_quiet


def advance(
    memory: Memory, policy: Policy, now: Micros, *, held: Collection[str]
) -> Change:
    """Run each `always` recovery once.

    The handlers in `held` have prepared for an event that has not ended.
    """
    if not memory.lost_journal or not memory.has_polled:
        return Change(memory=memory)
    # All recoveries run in the reverse order of the preparation.
    wanted = [
        handler
        for handler in policy.handlers[::-1]
        if handler.always and handler.recovers
    ]
    is_running = any(step.state is StepState.RUNNING for step in memory.restored)
    if is_running or (wanted and not memory.is_quiet):
        return Change(memory=memory)
    busy = steps.busy(memory)
    commands: list[Command] = []
    wakes: list[Micros] = []
    restored = {step.handler: step for step in memory.restored}
    for handler in wanted:
        last = restored.get(handler.name)
        has_recovered = last is not None and last.state is StepState.DONE
        if has_recovered or handler.name in held:
            continue
        if handler.name in busy:
            break
        again = due(last, now)
        if again > now:
            wakes.append(again)
            continue
        stop_at = now + handler.recover_timeout
        step = Step(
            handler=handler.name,
            phase=Phase.RECOVER,
            attempt=1 if last is None else last.attempt + 1,
            state=StepState.RUNNING,
            began=now,
            stop_at=stop_at,
            kill_at=stop_at + policy.stop_grace,
        )
        restored[handler.name] = step
        commands.append(steps.command_of(memory, step))
        break
    is_done = all(
        handler.name in restored and restored[handler.name].state is StepState.DONE
        for handler in wanted
    )
    return Change(
        memory=replace(
            memory, restored=tuple(restored.values()), lost_journal=not is_done
        ),
        commands=tuple(commands),
        wake=min(wakes, default=None),
    )


def _may_be_under(task: Task, name: str) -> bool:
    """Return whether this event may affect the VM with this name now."""
    return (
        task.is_live
        # An event with an unreadable list of VMs may name this VM.
        and (task.mine or not name or not task.notice.resources)
        and (task.notice.has_started or task.stage is not Stage.SEEN)
    )


def due(last: Step | None, now: Micros) -> Micros:
    """Return when a recovery is due; 0: now."""
    # If the clock was set back, the pause must not become longer.
    if last is None or last.state is StepState.LOST or last.ended > now:
        return 0
    pause = RETRY_FIRST << min(last.attempt - 1, RETRY_MAX.bit_length())
    return last.ended + min(pause, RETRY_MAX)
