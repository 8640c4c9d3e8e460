"""Recovery after a lost journal, as after a redeploy: what is `always` runs once.

Nobody knows then what was prepared. It waits until the endpoint's answers have shown for
some time that this VM is under no event: the VM may be in the middle of one that is not
listed yet. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from forewarn.agent.core import steps
from forewarn.agent.core.model import (
    Change,
    Command,
    Memory,
    Phase,
    Polled,
    Run,
    Stage,
    Step,
    StepState,
    Task,
)
from forewarn.agent.core.policy import GoneAfter, Policy
from forewarn.instants import MINUTE, SECOND, Micros

RETRY_FIRST: Micros = SECOND
RETRY_MOST: Micros = 5 * MINUTE
"""The pause before a failed recovery is tried again doubles from one to the other."""


def listened(memory: Memory, polled: Polled, gone_after: GoneAfter) -> Memory:
    """Return the memory with what an answer says about the events of this VM."""
    if not memory.lost_journal:
        return memory
    if any(_may_be_under(task, memory.name) for task in memory.tasks):
        return replace(memory, quiet_from=None, is_quiet=False)
    if memory.quiet_from is None:
        return replace(memory, quiet_from=polled.heard)
    # As after an event that may have started: there may have been one.
    long = gone_after.started
    if polled.is_empty:
        long = max(long, gone_after.empty)
    if polled.heard - memory.quiet_from < long:
        return memory
    return replace(memory, is_quiet=True)


def waits(memory: Memory) -> bool:
    """Tell whether something is to run once the answers have been quiet long enough."""
    is_listening = memory.lost_journal and memory.quiet_from is not None
    return is_listening and not memory.is_quiet


def advance(
    memory: Memory, policy: Policy, now: Micros, *, kept: Collection[str]
) -> Change:
    """Run what is `always` once; return what to do, and when to look again.

    The handlers in `kept` have prepared for an event that is not over.
    """
    if not memory.lost_journal or not memory.has_polled:
        return Change(memory=memory)
    # In the opposite order of a preparation, as with all recoveries.
    wanted = [each for each in policy.handlers[::-1] if each.always and each.recovers]
    is_running = any(step.state is StepState.RUNNING for step in memory.restored)
    if is_running or (wanted and not memory.is_quiet):
        return Change(memory=memory)
    busy = steps.busy(memory)
    commands: list[Command] = []
    wakes: list[Micros] = []
    restored = {step.handler: step for step in memory.restored}
    for handler in wanted:
        last = restored.get(handler.name)
        if last is not None and last.state is StepState.DONE:
            continue
        if handler.name in kept:
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
        commands.append(command_of(memory, step))
        break
    is_done = all(
        each.name in restored and restored[each.name].state is StepState.DONE
        for each in wanted
    )
    memory = replace(
        memory, restored=tuple(restored.values()), lost_journal=not is_done
    )
    return Change(
        memory=memory, commands=tuple(commands), wake=min(wakes, default=None)
    )


def _may_be_under(task: Task, name: str) -> bool:
    """Tell whether the VM, so it is called, may be in the midst of this event."""
    return (
        task.is_live
        # An event whose names cannot be read may name this VM.
        and (task.mine or not name or not task.notice.resources)
        and (task.notice.has_started or task.stage is not Stage.SEEN)
    )


def due(last: Step | None, now: Micros) -> Micros:
    """Return when a recovery is to be tried again; 0: now."""
    # A clock that was set back must not make the pause longer.
    if last is None or last.state is StepState.LOST or last.ended > now:
        return 0
    pause = RETRY_FIRST << min(last.attempt - 1, RETRY_MOST.bit_length())
    return last.ended + min(pause, RETRY_MOST)


def run_id(memory: Memory, step: Step) -> str:
    """Return the name of such a run: unique in all journals of this VM."""
    journal = f"{memory.journal}." if memory.journal else ""
    return f"restore.{journal}{step.began}.{step.attempt}.{step.handler}"


def command_of(memory: Memory, step: Step) -> Run:
    """Return the command that starts such a run, or takes it up again."""
    return Run(
        run_id=run_id(memory, step),
        handler=step.handler,
        phase=Phase.RECOVER,
        attempt=step.attempt,
        task=None,
        stop_at=step.stop_at,
        kill_at=step.kill_at,
    )


def find(memory: Memory, name: str) -> Iterator[Step]:
    """Yield the run of that name that is under way."""
    for step in memory.restored:
        if step.state is StepState.RUNNING and run_id(memory, step) == name:
            yield step
