"""What comes in, and what it changes in the memory.

A document that says the contrary of the one before is believed when the next says so
too: one may be stale, or cut short by whoever is between. What is new is believed at
once, since a Preempt leaves no time. Pure.
"""

from dataclasses import replace

from forewarn.agent.core import approving, names, recovering, steps, table
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
    Stage,
    Step,
    StepState,
    Task,
)
from forewarn.agent.core.table import Given
from forewarn.instants import SECOND, Micros
from forewarn.protocol.notices import STARTED, Notice

CONTRARY = 2
"""Good documents in a row that it takes to believe that an event has gone, or that
one is there again."""

EARLY: Micros = SECOND
"""An event that starts so long before NotBefore was approved by somebody."""

TROUBLES_MAX = 5
"""Reasons that are told of one approval: an endpoint may find a new one each time."""

Absorbed = tuple[Memory, list[Note]]


def absorb(memory: Memory, given: Input, now: Micros) -> Absorbed:
    """Return the memory after one input, and what is to be told of it."""
    match given:
        case Polled():
            return _polled(memory, given, now)
        case Finished():
            return _finished(memory, given, now)
        case Answered():
            return _answered(memory, given, now)
        case PeerSaid():
            return _heard(memory, given, now), []
        case _:
            return _ordered(memory, given, now)


def _polled(memory: Memory, polled: Polled, now: Micros) -> Absorbed:
    memory = replace(memory, name=polled.name or memory.name, has_polled=True)
    shown = {notice.event_id: notice for notice in polled.notices}
    tasks: list[Task] = []
    notes: list[Note] = []
    for task in memory.tasks:
        notice = shown.pop(task.event_id, None)
        if notice is not None and task.mine and memory.name:
            # Who is no longer named has left the event (clause 4.6).
            is_left = not names.is_named(notice, memory.name)
            notice = None if is_left else notice
        if notice is None:
            task, told = _missing(task, now)  # noqa: PLW2901
        else:
            task, told = _shown(task, notice, memory.name, now)  # noqa: PLW2901
        tasks.append(task)
        notes += told
    for notice in shown.values():
        task = Task(
            event_id=notice.event_id,
            notice=notice,
            mine=names.is_named(notice, memory.name),
            seen=now,
            started=now if notice.has_started else 0,
        )
        tasks.append(task)
        notes.append(_note(task, NoteKind.SEEN, now))
        if task.started:
            notes.append(_note(task, NoteKind.STARTED, now, "when it was first seen"))
    return replace(memory, tasks=tuple(tasks)), notes


def _missing(task: Task, now: Micros) -> tuple[Task, list[Note]]:
    if not task.is_live:
        return (replace(task, contrary=0) if task.contrary else task), []
    if task.contrary + 1 < CONTRARY:
        return replace(task, contrary=task.contrary + 1), []
    task = replace(table.step(task, Given.LEAVE), contrary=0, gone=now)
    if task.started:
        return task, [_note(task, NoteKind.GONE, now)]
    not_before = task.notice.not_before
    is_given = task.consent is Consent.GIVEN
    if not_before is not None and now < not_before and not is_given:
        return task, [_note(task, NoteKind.CANCELLED, now)]
    return task, [_note(task, NoteKind.GONE, now, "it was never seen Started")]


def _shown(
    task: Task, notice: Notice, name: str, now: Micros
) -> tuple[Task, list[Note]]:
    if not task.is_live:
        if task.contrary + 1 < CONTRARY:
            return replace(task, contrary=task.contrary + 1), []
        task = _returned(task, now)
    if task.started and not notice.has_started:
        # Started does not fall back: that document is an old one.
        notice = replace(notice, status=STARTED)
    is_named = names.is_named(notice, name)
    if is_named and not task.mine and task.stage is not Stage.SEEN:
        task = _new_round(task, Given.CONCERN)
    begins = notice.has_started and not task.started
    told = _by_whom(task, now)
    task = replace(
        task,
        notice=notice,
        is_confirmed=True,
        contrary=0,
        mine=task.mine or is_named,
        started=now if begins else task.started,
    )
    return task, [_note(task, NoteKind.STARTED, now, told)] * begins


def _by_whom(task: Task, now: Micros) -> str:
    """Tell of a start that neither this agent nor NotBefore explains."""
    not_before = task.notice.not_before
    is_ours = task.consent in {Consent.WANTED, Consent.GIVEN}
    if not is_ours and not_before is not None:
        return "somebody else approved it" if now + EARLY < not_before else ""
    return ""


def _returned(task: Task, now: Micros) -> Task:
    """Return a task whose event is there again, though it was taken for gone."""
    phases = {step.phase for step in task.steps if step.round == task.round}
    if task.stage is Stage.OWED and phases == {Phase.PREPARE}:
        return replace(table.step(task, Given.REAPPEAR), gone=0)
    # What was approved stays so (clause 3.2).
    is_given = task.consent is Consent.GIVEN
    return replace(
        _new_round(task, Given.COME_BACK),
        seen=now,
        started=0,
        gone=0,
        over=0,
        consent=Consent.GIVEN if is_given else Consent.NONE,
        retry_at=0,
        troubles=(),
        is_forced=False,
    )


def _new_round(task: Task, given: Given) -> Task:
    """Return the task as if nothing had been prepared, but for what is still owed."""
    owed = steps.owed(task)
    return replace(
        table.step(task, given),
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


def _finished(memory: Memory, finished: Finished, now: Micros) -> Absorbed:
    for step in recovering.restored(memory, finished.run_id):
        finished = _explained(finished, step)
        new = replace(step, state=finished.state, detail=finished.detail, ended=now)
        kept = tuple(new if each is step else each for each in memory.restored)
        note = Note(
            at=now, kind=NoteKind.HANDLER, handler=step.handler, detail=_told(finished)
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
            memory = recovering.settle(memory, step.handler, now)
        detail = f"{step.phase.value}: {_told(finished)}"
        notes = [_note(done, NoteKind.HANDLER, now, detail)]
        if (step.phase, finished.state) == (Phase.RECOVER, StepState.FAILED):
            notes += _unrecovered(done, step, finished, now)
        return memory, [replace(note, handler=step.handler) for note in notes]
    # Of an event that was forgotten meanwhile.
    return memory, []


def _explained(finished: Finished, step: Step) -> Finished:
    """Return the end of a run; who stopped it knows better why than the handler."""
    if finished.state is not StepState.STOPPED or not step.detail:
        return finished
    return replace(finished, detail=step.detail)


def _unrecovered(task: Task, step: Step, finished: Finished, now: Micros) -> list[Note]:
    """Tell, once, of a recovery that fails: it is tried again for ever."""
    if step.attempt > 1:
        return []
    detail = f"its recovery failed, and is tried again: {finished.detail}"
    return [_note(task, NoteKind.FAILED, now, detail)]


def _told(finished: Finished) -> str:
    text = finished.state.value
    return f"{text}: {finished.detail}" if finished.detail else text


def _answered(memory: Memory, answered: Answered, now: Micros) -> Absorbed:
    task = memory.find(answered.event_id)
    if task is None or task.consent is not Consent.WANTED:
        return memory, []
    match answered.consent:
        case Consent.GIVEN:
            task = replace(task, consent=Consent.GIVEN, retry_at=0)
            note = _note(task, NoteKind.APPROVED, now, answered.detail)
            return memory.put(task), [note]
        case Consent.REFUSED:
            task = replace(task, consent=Consent.REFUSED, retry_at=0)
            note = _note(task, NoteKind.REFUSED, now, answered.detail)
            return memory.put(task), [note]
        case _:
            at = approving.retry_at(task, answered.retry_after, now)
            task = replace(task, retry_at=at)
            return _untaken(memory, task, answered.detail, now)


def _untaken(memory: Memory, task: Task, why: str, now: Micros) -> Absorbed:
    """Tell, once for each reason, of an approval that is to be sent again."""
    if why in task.troubles or len(task.troubles) >= TROUBLES_MAX:
        return memory.put(task), []
    task = replace(task, troubles=(*task.troubles, why))
    detail = f"the approval was not confirmed, and is sent again: {why}"
    return memory.put(task), [_note(task, NoteKind.FAILED, now, detail)]


def _heard(memory: Memory, said: PeerSaid, now: Micros) -> Memory:
    task = memory.find(said.event_id)
    if task is None or said.name not in task.notice.resources:
        return memory
    ready = {name for name in task.peers_ready if name != said.name}
    if said.is_prepared:
        ready.add(said.name)
    alive = {**dict(task.peers_alive), said.name: now}
    task = replace(
        task,
        peers_ready=tuple(sorted(ready)),
        peers_alive=tuple(sorted(alive.items())),
    )
    return memory.put(task)


def _ordered(memory: Memory, ordered: Ordered, now: Micros) -> Absorbed:
    # A person may write an id in any case (clause 2.3).
    task = memory.find(ordered.event_id) or memory.find(ordered.event_id.upper())
    if task is None or not task.is_live:
        detail = "the order to approve it came to nothing: there is no such event"
        note = Note(
            at=now, kind=NoteKind.FAILED, event_id=ordered.event_id, detail=detail
        )
        return memory, [note]
    consent = Consent.NONE if task.consent is Consent.REFUSED else task.consent
    return memory.put(replace(task, is_forced=True, consent=consent)), []


def _note(task: Task, kind: NoteKind, now: Micros, detail: str = "") -> Note:
    return Note(
        at=now, kind=kind, event_id=task.event_id, detail=detail, notice=task.notice
    )
