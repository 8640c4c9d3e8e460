"""Apply inputs to the memory: documents, results of runs, answers and requests. Pure.

From a document, events appear, start, end and return. New events count at once, since a
Preempt leaves no time. `presence` decides when an event has ended or returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from forewarn.agent.core import (
    approving,
    gating,
    locking,
    names,
    presence,
    recovering,
    restoring,
    steps,
    table,
)
from forewarn.agent.core.model import (
    ApprovalResult,
    Consent,
    Finished,
    Input,
    Memory,
    Note,
    NoteKind,
    Ordered,
    PeerResponse,
    Phase,
    Polled,
    Presence,
    Stage,
    StepState,
    Task,
    note_of,
)
from forewarn.agent.core.names import keys_of
from forewarn.agent.core.permits import GateResponse, LockResponse
from forewarn.agent.core.policy import GoneAfter, Policy
from forewarn.agent.core.presence import Answer
from forewarn.agent.core.table import StageInput
from forewarn.instants import SECOND, Micros, describe_duration
from forewarn.protocol.notices import STARTED, Notice

TROUBLES_MAX = 5
"""Maximum number of reasons logged for one approval: each answer may have a new one."""

EARLY: Micros = SECOND
"""An event that starts this long before NotBefore must have been approved."""

Absorbed = tuple[Memory, list[Note]]


def absorb(policy: Policy, memory: Memory, input_: Input, now: Micros) -> Absorbed:
    """Return the memory after one input, and the notes about it."""
    if isinstance(input_, Polled):
        return _read(policy.gone_after, memory, input_, now)
    return _ABSORBERS[type(input_)](memory, input_, now)


def _finished(memory: Memory, finished: Finished, now: Micros) -> Absorbed:
    for owner, step in steps.running(memory):
        if steps.run_id(owner, step) == finished.run_id:
            break
    else:
        # The event was removed from the memory meanwhile.
        return memory, []
    state, handler = finished.state, step.handler
    # The reason for a stop replaces the handler's detail.
    was_stopped = state is StepState.STOPPED and step.detail
    detail = step.detail if was_stopped else finished.detail
    sentence = ": ".join(filter(None, (state.value, detail)))
    new = replace(step, state=state, detail=detail, ended=now)
    if isinstance(owner, Memory):
        new_steps = tuple(new if other is step else other for other in owner.restored)
        note = note_of(
            None, NoteKind.HANDLER, now, sentence, handler=handler, ended=state
        )
        return replace(memory, restored=new_steps), [note]
    new_steps = tuple(new if other is step else other for other in owner.steps)
    task = replace(owner, steps=new_steps)
    memory = memory.put(task)
    if step.phase is Phase.RECOVER and state is StepState.DONE:
        memory = recovering.mark_recovered(memory, handler, now)
    sentence = f"{step.phase.value}: {sentence}"
    notes = [
        note_of(task, NoteKind.HANDLER, now, sentence, handler=handler, ended=state)
    ]
    is_lost = (step.phase, state) == (Phase.RECOVER, StepState.FAILED)
    if is_lost and step.attempt == 1:
        # Note a failed recovery only once, since it is retried without end.
        why = f"its recovery failed and is retried: {detail}"
        notes.append(note_of(task, NoteKind.FAILED, now, why, handler=handler))
    return memory, notes


def _answered(memory: Memory, answered: ApprovalResult, now: Micros) -> Absorbed:
    task = memory.find(answered.event_id)
    if task is None or task.consent is not Consent.WANTED:
        return memory, []
    if answered.consent is Consent.GIVEN:
        task = replace(task, consent=Consent.GIVEN, retry_at=0)
        return memory.put(task), [
            note_of(task, NoteKind.APPROVED, now, answered.detail)
        ]
    is_refusal = answered.consent is Consent.REFUSED
    task = replace(task, refusals=task.refusals + is_refusal)
    if is_refusal and task.refusals >= approving.REFUSALS_MAX:
        why = answered.detail
        troubles = (*(trouble for trouble in task.troubles if trouble != why), why)
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
    return memory.put(task), [
        note_of(task, NoteKind.FAILED, now, detail, about="approval")
    ]


def _heard(memory: Memory, answer: PeerResponse, now: Micros) -> Absorbed:
    task = memory.find(answer.event_id)
    if task is None or not names.is_named(task.notice, answer.name):
        return memory, []
    key = names.key_of(answer.name)
    ready = {name for name in task.peers_ready if name != key}
    if answer.is_prepared:
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
        return memory, [
            Note(
                at=now,
                kind=NoteKind.FAILED,
                event_id=ordered.event_id,
                detail="the requested approval was not sent: there is no such event",
            )
        ]
    task = replace(task, is_forced=True)
    if task.consent is Consent.REFUSED:
        task = replace(task, consent=Consent.NONE, refusals=0)
    return memory.put(task), []


_ABSORBERS: Mapping[type[Input], Callable[[Memory, Any, Micros], Absorbed]] = {
    Finished: _finished,
    ApprovalResult: _answered,
    PeerResponse: _heard,
    Ordered: _ordered,
    LockResponse: locking.absorb,
    GateResponse: gating.absorb,
}


# Documents


def _read(
    gone_after: GoneAfter, memory: Memory, polled: Polled, now: Micros
) -> Absorbed:
    """Return the memory after one answer, and the notes about it."""
    memory = replace(memory, name=polled.name or memory.name, has_polled=True)
    listed = {notice.event_id: notice for notice in polled.notices}
    known = {task.event_id for task in memory.tasks}
    renamed = presence.Renamed(
        notice for event_id, notice in listed.items() if event_id not in known
    )
    tasks: list[Task] = []
    notes: list[Note] = []
    for before in memory.tasks:
        notice = _entry(before, listed, polled, memory.name)
        answer = presence.classify(before, notice, polled)
        task = before
        if answer is not Answer.LISTED and before.is_live:
            notice = renamed.take(before)
            if notice is not None:
                answer = Answer.RENAMED
                known.add(notice.event_id)
                task = _under_another_id(before, notice)
                detail = f"the same maintenance as {before.event_id}"
                notes.append(note_of(task, NoteKind.SEEN, now, detail))
        task = presence.judged(task, answer, gone_after, heard=polled.heard, now=now)
        if task.presence is Presence.LISTED and notice is not None:
            if not before.is_live:
                task = _returned(task, now)
            task, new_notes = _shown(task, notice, memory.name, now)
            task = replace(task, incarnation=polled.incarnation)
            notes += new_notes
        elif task.presence is Presence.GONE and before.is_live:
            task, note = _left(before, task, gone_after, now)
            notes.append(note)
        tasks.append(task)
    for event_id, notice in listed.items():
        if event_id in known:
            continue
        memory, task = _made(memory, notice, polled, now)
        tasks.append(task)
        notes.append(note_of(task, NoteKind.SEEN, now))
        if task.started:
            notes.append(note_of(task, NoteKind.STARTED, now, "when it was first seen"))
    memory = replace(memory, tasks=tuple(tasks))
    return restoring.listened(memory, polled, gone_after), notes


def _entry(
    task: Task, listed: Mapping[str, Notice], polled: Polled, name: str
) -> Notice | None:
    """Return the entry of the event, as long as the event concerns this VM."""
    notice = listed.get(task.event_id)
    if notice is None:
        return None
    is_vague = notice.event_id in polled.vague
    notice = _completed(task.notice, notice, is_vague=is_vague)
    if is_vague or not task.mine or not name:
        return notice
    # A VM that is no longer named has left the event (clause 4.6). If the names are
    # unchanged, the VM has a new name, and the event still concerns it.
    is_as_before = keys_of(notice.resources) == keys_of(task.notice.resources)
    return notice if is_as_before or names.is_named(notice, name) else None


def _completed(before: Notice, notice: Notice, *, is_vague: bool) -> Notice:
    """Return the notice, with unreadable members from the last one that had them.

    An event with an unreadable list of VMs does not become an event of a single VM. An
    event with an unreadable type keeps its rule for preparation and recovery.
    """
    is_waiting = not notice.has_started and not before.has_started
    return replace(
        notice,
        event_type=notice.event_type or before.event_type,
        status=notice.status or before.status,
        source=notice.source or before.source,
        resources=before.resources if is_vague else notice.resources,
        not_before=(
            before.not_before
            if notice.not_before is None and is_waiting
            else notice.not_before
        ),
    )


def _made(
    memory: Memory, notice: Notice, polled: Polled, now: Micros
) -> tuple[Memory, Task]:
    number = memory.tasks_made + 1
    task = Task(
        event_id=notice.event_id,
        runs=steps.name_runs(notice.event_id, memory.journal, number),
        notice=notice,
        mine=names.is_named(notice, memory.name),
        incarnation=polled.incarnation,
        seen=now,
        started=now if notice.has_started else 0,
    )
    return replace(memory, tasks_made=number), task


def _under_another_id(task: Task, notice: Notice) -> Task:
    """Return the task, which continues under the ID of a notice."""
    task = replace(
        task,
        event_id=notice.event_id,
        notice=notice,
        peers_asked=0,
        peers_ready=(),
    )
    if notice.has_started or task.consent is Consent.NONE:
        return task
    # The new ID is not approved yet.
    return replace(
        task, consent=Consent.NONE, tries=0, refusals=0, retry_at=0, troubles=()
    )


def _left(
    before: Task, task: Task, gone_after: GoneAfter, now: Micros
) -> tuple[Task, Note]:
    """Return the task of an event that has ended, and a note on how it ended."""
    task = replace(table.step(task, StageInput.LEAVE), gone=now)
    why = _EVIDENCE.get(before.presence, "")
    if why:
        long = presence.patience(before, gone_after, now)
        why = f"{why} for {describe_duration(long)}"
    if task.started:
        return task, note_of(task, NoteKind.GONE, now, why)
    not_before = task.notice.not_before
    is_given = task.consent is Consent.GIVEN
    if not_before is not None and now < not_before and not is_given:
        return task, note_of(task, NoteKind.CANCELLED, now, why)
    why = "; ".join(filter(None, ("it was never seen Started", why)))
    return task, note_of(task, NoteKind.GONE, now, why)


_EVIDENCE: Mapping[Presence, str] = {
    Presence.EMPTY: "the endpoint answered with an empty body",
    Presence.RESET: "the incarnation was reset, and no document listed the event",
}
"""Why an event counts as ended, if no document showed that."""


def _shown(
    task: Task, notice: Notice, name: str, now: Micros
) -> tuple[Task, list[Note]]:
    if task.started and not notice.has_started:
        # An event never leaves Started again, so that document is an old one.
        notice = replace(notice, status=STARTED)
    is_named = names.is_named(notice, name)
    if is_named and not task.mine and task.stage is not Stage.SEEN:
        task = _new_round(task, StageInput.CONCERN)
    begins = notice.has_started and not task.started
    starter = _by_whom(task, now)
    task = replace(
        task,
        notice=notice,
        is_confirmed=True,
        mine=task.mine or is_named,
        started=now if begins else task.started,
    )
    return task, [note_of(task, NoteKind.STARTED, now, starter)] * begins


def _by_whom(task: Task, now: Micros) -> str:
    """Return who started the event, if neither this agent nor NotBefore did."""
    not_before = task.notice.not_before
    is_early = not_before is not None and now + EARLY < not_before
    is_ours = task.consent in {Consent.WANTED, Consent.GIVEN}
    return "it was approved elsewhere" if is_early and not is_ours else ""


def _returned(task: Task, now: Micros) -> Task:
    """Return a task whose event has returned after it counted as ended."""
    phases = {step.phase for step in task.steps if step.round == task.round}
    if task.stage is Stage.RECOVERING and phases == {Phase.PREPARE}:
        return replace(table.step(task, StageInput.REAPPEAR), gone=0)
    # An approval remains valid (clause 3.2).
    is_given = task.consent is Consent.GIVEN
    return replace(
        _new_round(task, StageInput.COME_BACK),
        # If the event has started meanwhile, the same rule applies.
        rule_sum=task.rule_sum,
        seen=now,
        started=0,
        gone=0,
        over=0,
        consent=Consent.GIVEN if is_given else Consent.NONE,
        retry_at=0,
        refusals=0,
        troubles=(),
        is_forced=False,
    )


def _new_round(task: Task, event: StageInput) -> Task:
    """Return the task for a new round, with only the pending recoveries kept."""
    owed = steps.unrecovered(task)
    return replace(
        table.step(task, event),
        round=task.round + 1,
        rule="",
        rule_sum=0,
        required=(),
        steps=tuple(
            step
            for step in task.steps
            if step.state is StepState.RUNNING
            or (step.phase is Phase.PREPARE and step.handler in owed)
        ),
        begun=0,
        prepared=0,
        withheld="",
        peers_ready=(),
    )
