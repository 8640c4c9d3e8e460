"""The gate on active alerts: whether an event may be approved, and when to ask again.

The gate only delays early approvals. Preparation never waits for it, and it ends at
NotBefore. It comes before the lock, and a closed gate releases the lock, so that no
other VM waits for a VM that waits for alerts. An approval needs an answer that is not
older than `GOOD_FOR`. Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import replace

from forewarn.agent.core.model import (
    Change,
    Command,
    Consent,
    Memory,
    Note,
    NoteKind,
    Task,
    note_of,
)
from forewarn.agent.core.permits import NO_GATE, AskGate, Gate, GateAnswer, GateResponse
from forewarn.agent.core.policy import GateTerms, Policy
from forewarn.instants import SECOND, Micros, describe_duration, format_instant

GOOD_FOR: Micros = 10 * SECOND
"""How long an answer without alerts allows approvals. Prometheus evaluates its rules
every 15 s to a minute, so a newer answer would hardly differ."""

RETRY_FIRST: Micros = SECOND
"""Pause after a request without a usable answer; it doubles up to `every`."""

RETRY_DOUBLINGS = 16
"""After this many doublings, the pause exceeds every possible `every`."""

UNKNOWN_AFTER = 3
"""Requests in a row without a usable answer until events are approved without one, if
the settings allow that. One lost answer must not open the gate."""

ANSWER_GRACE: Micros = 30 * SECOND
"""Time after the timeout of a request until its answer counts as lost. On a busy
machine, the thread of the request may have to wait."""


class GateState(enum.Enum):
    """The meaning of the answers so far."""

    UNASKED = "unasked"
    FRESH = "fresh"
    """No alert fires, and the answer is recent."""
    OLD = "old"
    """No alert fired, but the answer is too old."""
    SETTLING = "settling"
    """No alert fires, but not for long enough since an alert or an unusable answer."""
    FIRING = "firing"
    SILENT = "silent"
    """There is no usable answer."""
    UNHEARD = "unheard"
    """There is no usable answer for so long that events are approved without one."""


class Passage(enum.Enum):
    """The decision of the gate about an event that is ready to be approved."""

    PASS = "pass"  # noqa: S105 - not a password
    ASK = "ask"
    """Wait for the next answer, which is requested now."""
    HOLD = "hold"
    LATE = "late"
    """The gate did not open in time, so NotBefore decides."""


TABLE: Mapping[tuple[GateState, bool], Passage] = {
    (GateState.UNASKED, False): Passage.ASK,
    (GateState.FRESH, False): Passage.PASS,
    (GateState.OLD, False): Passage.ASK,
    (GateState.SETTLING, False): Passage.HOLD,
    (GateState.FIRING, False): Passage.HOLD,
    (GateState.SILENT, False): Passage.HOLD,
    (GateState.UNHEARD, False): Passage.PASS,
    # From NotBefore on.
    (GateState.UNASKED, True): Passage.LATE,
    (GateState.FRESH, True): Passage.PASS,
    (GateState.OLD, True): Passage.LATE,
    (GateState.SETTLING, True): Passage.LATE,
    (GateState.FIRING, True): Passage.LATE,
    (GateState.SILENT, True): Passage.LATE,
    (GateState.UNHEARD, True): Passage.PASS,
}
"""The decision, by the answers so far and by whether NotBefore has come."""

HELD = frozenset({Passage.ASK, Passage.HOLD})


def state_of(gate: Gate, terms: GateTerms, now: Micros) -> GateState:
    """Return the meaning of the answers so far."""
    if gate.last is None:
        return GateState.UNASKED
    if gate.last is GateAnswer.ALERTS:
        return GateState.FIRING
    if gate.last is GateAnswer.TROUBLE:
        is_over = terms.goes_unknown and gate.failures >= UNKNOWN_AFTER
        return GateState.UNHEARD if is_over else GateState.SILENT
    if gate.shut and now < gate.since + terms.clear_for:
        return GateState.SETTLING
    return GateState.FRESH if now < gate.answered + GOOD_FOR else GateState.OLD


def passage_of(gate: Gate, terms: GateTerms, task: Task, now: Micros) -> Passage:
    """Return whether an event that is ready may be approved now."""
    not_before = task.notice.not_before
    is_late = not_before is not None and not_before <= now
    return TABLE[state_of(gate, terms, now), is_late]


def why_not(gate: Gate, terms: GateTerms, task: Task, now: Micros) -> str:
    """Return why an event is held back, for a person."""
    why = _state(gate, terms, now)
    if passage_of(gate, terms, task, now) is Passage.LATE:
        return f"{why}; NotBefore has come, so it is not approved"
    not_before = task.notice.not_before
    if not_before is None:
        return why
    return f"{why}; at {format_instant(not_before)} it starts without an approval"


def _state(gate: Gate, terms: GateTerms, now: Micros) -> str:
    state = state_of(gate, terms, now)
    if state is GateState.FIRING:
        return f"held back while {gate.detail} ({terms.label})"
    if state is GateState.SETTLING:
        at = format_instant(gate.since + terms.clear_for)
        return f"held back until {at} if no alert fires ({terms.label})"
    if state in {GateState.SILENT, GateState.UNHEARD}:
        return f"held back while {terms.label} gives no usable answer: {gate.detail}"
    return f"{terms.label} has not answered yet"


# Inputs


def absorb(
    memory: Memory, answer: GateResponse, now: Micros
) -> tuple[Memory, list[Note]]:
    """Return the memory after an answer, and the notes about it."""
    before = memory.gate
    if not before.is_asking or answer.number != before.number:
        return memory, []
    is_same = before.last is answer.answer
    is_trouble = answer.answer is GateAnswer.TROUBLE
    gate = replace(
        before,
        is_asking=False,
        answered=now,
        last=answer.answer,
        since=before.since if is_same else now,
        alerts=answer.alerts,
        detail=answer.detail,
        failures=before.failures + 1 if is_trouble else 0,
        shut=before.shut if answer.answer is GateAnswer.CLEAR else now,
    )
    memory = replace(memory, gate=gate)
    if is_same or not before.events:
        return memory, []
    kind, about = NoteKind.GATE, ""
    if is_trouble:
        kind, about = NoteKind.FAILED, NoteKind.GATE.value
        detail = f"{gate.label} gives no usable answer: {gate.detail}"
    elif answer.answer is GateAnswer.ALERTS:
        detail = f"{gate.detail} ({gate.label})"
    elif before.last is None:
        return memory, []
    else:
        lasted = describe_duration(now - before.since)
        detail = f"no alert fires any longer, after {lasted} ({gate.label})"
    # The first event that is held back represents all of them.
    first = memory.find(before.events[0])
    return memory, [note_of(first, kind, now, detail, about=about)]


# Decisions


def refresh(memory: Memory, policy: Policy, now: Micros) -> tuple[Memory, list[Note]]:
    """Return the memory with the gate as it is by time and by the settings."""
    terms, gate = policy.gate, memory.gate
    if terms is None or policy.is_observer:
        return (memory if gate == NO_GATE else replace(memory, gate=NO_GATE)), []
    if gate.label != terms.label:
        gate = Gate(label=terms.label, number=gate.number)
    # If the clock was set back, an answer must not last longer.
    gate = replace(gate, since=min(gate.since, now), answered=min(gate.answered, now))
    if not gate.is_wanted:
        gate = _rested(gate, now)
    if gate != memory.gate:
        memory = replace(memory, gate=gate)
    patience = terms.timeout + ANSWER_GRACE
    if not gate.is_asking or gate.asked <= now < gate.asked + patience:
        return memory, []
    answer = GateResponse(
        number=gate.number,
        answer=GateAnswer.TROUBLE,
        detail=f"no answer for {describe_duration(patience)}",
    )
    return absorb(memory, answer, now)


def _rested(gate: Gate, now: Micros) -> Gate:
    """Return the gate while no event is ready.

    Alerts that fired for an earlier event do not hold back a later one.
    """
    gate = replace(gate, is_asking=False)
    if gate.last is None or now < gate.answered + GOOD_FOR:
        return gate
    return Gate(label=gate.label, number=gate.number, answered=gate.answered)


def advance(
    memory: Memory, policy: Policy, passages: Mapping[str, Passage], now: Micros
) -> Change:
    """Return the requests to send now, after the events were decided.

    `passages` has the decision about each event that is ready and that the gate applies
    to.
    """
    terms, before = policy.gate, memory.gate
    if terms is None:
        return Change(memory=memory)
    held = tuple(stage for stage, passage in passages.items() if passage in HELD)
    is_asked = any(passage is not Passage.LATE for passage in passages.values())
    notes = tuple(
        note_of(
            task,
            NoteKind.GATE,
            now,
            "not approved before "
            f"{'it started' if task.notice.has_started else 'NotBefore'}: "
            f"{_reason(before)}",
        )
        for event_id in before.events
        if event_id not in held
        and (task := memory.find(event_id)) is not None
        and _is_given_up(task, passages.get(event_id))
    )
    gate = replace(before, events=held, is_wanted=bool(passages))
    due: Micros | None = None
    if not passages:
        gate = _rested(gate, now)
    elif is_asked and not gate.is_asking:
        is_urgent = Passage.ASK in passages.values()
        due = now if is_urgent else _due(gate, terms)
    commands: tuple[Command, ...] = ()
    if due is not None and due <= now:
        number = gate.number + 1
        gate = replace(gate, number=number, asked=now, is_asking=True)
        commands = (AskGate(number=number),)
    if gate.is_asking and is_asked:
        due = gate.asked + terms.timeout + ANSWER_GRACE
    return Change(
        memory=memory if gate == before else replace(memory, gate=gate),
        commands=commands,
        notes=notes,
        wake=due,
    )


def _due(gate: Gate, terms: GateTerms) -> Micros:
    """Return when to ask again, after the last answer."""
    if gate.last is GateAnswer.TROUBLE:
        doublings = min(gate.failures - 1, RETRY_DOUBLINGS)
        return gate.answered + min(RETRY_FIRST << doublings, terms.every)
    due = gate.answered + terms.every
    settled = gate.since + terms.clear_for
    is_settling = gate.last is GateAnswer.CLEAR and gate.shut
    return min(due, settled) if is_settling and gate.answered < settled else due


def _is_given_up(task: Task, passage: Passage | None) -> bool:
    """Return whether an event that was held back will no longer be approved."""
    if not task.is_live or task.consent is not Consent.NONE or task.is_forced:
        return False
    return passage is Passage.LATE or task.notice.has_started


def _reason(gate: Gate) -> str:
    if gate.last in {GateAnswer.ALERTS, GateAnswer.TROUBLE}:
        return f"{gate.detail} ({gate.label})"
    if gate.last is GateAnswer.CLEAR:
        return f"no alert fires, but not for long enough ({gate.label})"
    return f"{gate.label} has not answered yet"


def problems(memory: Memory) -> list[str]:
    """Return the problems of the gate, one sentence each."""
    gate = memory.gate
    is_silent = gate.events and gate.last is GateAnswer.TROUBLE
    return [f"{gate.label} gives no usable answer: {gate.detail}"] if is_silent else []
