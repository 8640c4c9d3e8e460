"""Apply inputs to the memory; `listing` applies documents. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from forewarn.agent.core import (
    approving,
    gating,
    listing,
    locking,
    names,
    recovering,
    restoring,
    steps,
)
from forewarn.agent.core.gate import GateSaid
from forewarn.agent.core.lock import LockSaid
from forewarn.agent.core.model import (
    Answered,
    Consent,
    Finished,
    Input,
    Memory,
    Note,
    NoteKind,
    Ordered,
    PeerSaid,
    Phase,
    Polled,
    Step,
    StepState,
    Task,
    note_of,
)
from forewarn.agent.core.policy import Policy
from forewarn.instants import Micros

TROUBLES_MAX = 5
"""Maximum number of reasons logged for one approval: each answer may have a new one."""

Absorbed = tuple[Memory, list[Note]]


def absorb(policy: Policy, memory: Memory, given: Input, now: Micros) -> Absorbed:
    """Return the memory after one input, and the notes about it."""
    if isinstance(given, Polled):
        return listing.read(policy.gone_after, memory, given, now)
    return _ABSORBERS[type(given)](memory, given, now)


def _finished(memory: Memory, finished: Finished, now: Micros) -> Absorbed:
    for step in restoring.find(memory, finished.run_id):
        finished = _explained(finished, step)
        new = replace(step, state=finished.state, detail=finished.detail, ended=now)
        kept = tuple(new if each is step else each for each in memory.restored)
        note = note_of(
            None,
            NoteKind.HANDLER,
            now,
            _told(finished),
            handler=step.handler,
            ended=finished.state,
        )
        return replace(memory, restored=kept), [note]
    for task in memory.tasks:
        step = steps.find(task, finished.run_id)
        if step is None:
            continue
        finished = _explained(finished, step)
        done = steps.ended(task, step, finished, now)
        memory = memory.put(done)
        if step.phase is Phase.RECOVER and finished.state is StepState.DONE:
            memory = recovering.mark_recovered(memory, step.handler, now)
        notes = [
            note_of(
                done,
                NoteKind.HANDLER,
                now,
                f"{step.phase.value}: {_told(finished)}",
                handler=step.handler,
                ended=finished.state,
            )
        ]
        is_lost = (step.phase, finished.state) == (Phase.RECOVER, StepState.FAILED)
        if is_lost and step.attempt == 1:
            # Note a failed recovery only once, since it is retried without end.
            why = f"its recovery failed and is retried: {finished.detail}"
            notes.append(note_of(done, NoteKind.FAILED, now, why, handler=step.handler))
        return memory, notes
    # The event was removed from the memory meanwhile.
    return memory, []


def _explained(finished: Finished, step: Step) -> Finished:
    """Return the result of a run; the reason for a stop replaces the handler's
    detail."""
    if finished.state is not StepState.STOPPED or not step.detail:
        return finished
    return replace(finished, detail=step.detail)


def _told(finished: Finished) -> str:
    text = finished.state.value
    return f"{text}: {finished.detail}" if finished.detail else text


def _answered(memory: Memory, answered: Answered, now: Micros) -> Absorbed:
    task = memory.find(answered.event_id)
    if task is None or task.consent is not Consent.WANTED:
        return memory, []
    if answered.consent is Consent.GIVEN:
        task = replace(task, consent=Consent.GIVEN, retry_at=0)
        note = note_of(task, NoteKind.APPROVED, now, answered.detail)
        return memory.put(task), [note]
    is_refusal = answered.consent is Consent.REFUSED
    task = replace(task, refusals=task.refusals + is_refusal)
    if is_refusal and task.refusals >= approving.REFUSALS_MAX:
        why = answered.detail
        troubles = (*(each for each in task.troubles if each != why), why)
        task = replace(task, consent=Consent.REFUSED, retry_at=0, troubles=troubles)
        detail = f"{task.refusals} times, so it is not sent again: {why}"
        return memory.put(task), [note_of(task, NoteKind.REFUSED, now, detail)]
    at = approving.retry_at(task, answered.retry_after, now)
    task = replace(task, retry_at=at)
    how = "refused" if is_refusal else "not confirmed"
    return _untaken(memory, task, how, answered.detail, now)


def _untaken(memory: Memory, task: Task, how: str, why: str, now: Micros) -> Absorbed:
    """Note, once for each reason, that an approval is sent again."""
    if why in task.troubles or len(task.troubles) >= TROUBLES_MAX:
        return memory.put(task), []
    task = replace(task, troubles=(*task.troubles, why))
    detail = f"the approval was {how}, and is sent again: {why}"
    note = note_of(task, NoteKind.FAILED, now, detail, about="approval")
    return memory.put(task), [note]


def _heard(memory: Memory, said: PeerSaid, now: Micros) -> Absorbed:
    task = memory.find(said.event_id)
    if task is None or not names.is_named(task.notice, said.name):
        return memory, []
    key = names.key_of(said.name)
    ready = {name for name in task.peers_ready if name != key}
    if said.is_prepared:
        ready.add(key)
    alive = {**dict(task.peers_alive), key: now}
    task = replace(
        task,
        peers_ready=tuple(sorted(ready)),
        peers_alive=tuple(sorted(alive.items())),
    )
    return memory.put(task), []


def _ordered(memory: Memory, ordered: Ordered, now: Micros) -> Absorbed:
    # A person may write an ID in any case (clause 2.3).
    task = memory.find(ordered.event_id) or memory.find(ordered.event_id.upper())
    if task is None or not task.is_live:
        detail = "the requested approval was not sent: there is no such event"
        note = Note(
            at=now, kind=NoteKind.FAILED, event_id=ordered.event_id, detail=detail
        )
        return memory, [note]
    task = replace(task, is_forced=True)
    if task.consent is Consent.REFUSED:
        task = replace(task, consent=Consent.NONE, refusals=0)
    return memory.put(task), []


_ABSORBERS: Mapping[type[Input], Callable[[Memory, Any, Micros], Absorbed]] = {
    Finished: _finished,
    Answered: _answered,
    PeerSaid: _heard,
    Ordered: _ordered,
    LockSaid: locking.absorb,
    GateSaid: gating.absorb,
}
