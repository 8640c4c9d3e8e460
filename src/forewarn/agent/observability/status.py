"""The agent's status: as JSON for `/status`, and as text for `agent status`.

The text is made from the JSON, which may come from a running agent, or from the journal
of one that does not answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forewarn.agent.core.model import Consent, Memory, Note, Stage, Step, Task
from forewarn.agent.core.permits import Gate, Lock
from forewarn.instants import (
    Micros,
    describe_duration,
    instant_or_none,
    parse_instant,
)

_GONE = frozenset({Stage.RECOVERING.value, Stage.FINISHED.value})

DRY = "dry run"
"""The mode of an agent in a dry run."""

HISTORY_LINES = 20
"""Maximum number of history entries in the text, so that it fits on one screen."""

OVER_SHOWN_MAX = 50
"""Maximum number of ended events in the JSON. The history has all of them."""


def document_of(
    memory: Memory,
    *,
    waits: Sequence[tuple[str, str]] = (),
    doubts: Sequence[tuple[str, str]] = (),
    history: Sequence[Note] = (),
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the document; `about` has the facts about the running agent."""
    reasons, doubted = dict(waits), dict(doubts)
    live = [task for task in memory.tasks if task.stage.value != "finished"]
    over = [task for task in memory.tasks if task.stage.value == "finished"]
    return {
        "vm": memory.name,
        **(about or {}),
        "events": [
            event_of(
                task,
                waits=reasons.get(task.event_id, ""),
                doubt=doubted.get(task.event_id, ""),
            )
            for task in (*live, *over[-OVER_SHOWN_MAX:])
        ],
        "restored": [_step(step) for step in memory.restored],
        "lock": lock_of(memory.lock) if memory.lock.label else None,
        "gate": gate_of(memory.gate) if memory.gate.is_wanted else None,
        "history": [note_of(note) for note in history],
    }


def event_of(task: Task, *, waits: str = "", doubt: str = "") -> dict[str, Any]:
    """Return one event: its members under their wire names, and the work for it."""
    notice = task.notice
    return {
        "EventId": notice.wire_id or task.event_id,
        "EventType": notice.event_type,
        "EventStatus": notice.status,
        "EventSource": notice.source,
        "Resources": list(notice.resources),
        "NotBefore": instant_or_none(notice.not_before or 0),
        "DurationInSeconds": notice.duration_seconds,
        "Description": notice.description,
        "mine": task.mine,
        "rule": task.rule,
        "presence": task.presence.value,
        "doubt": doubt,
        "stage": task.stage.value,
        "approval": task.consent.value,
        "waits_for": waits,
        "withheld": task.withheld,
        "seen": instant_or_none(task.seen),
        "prepared": instant_or_none(task.prepared),
        "started": instant_or_none(task.started),
        "removed": instant_or_none(task.gone),
        "finished": instant_or_none(task.over),
        "runs": [_step(step) for step in task.steps],
    }


def lock_of(lock: Lock) -> dict[str, Any]:
    """Return the state of the lock that limits approvals."""
    return {
        "lock": lock.label,
        "id": lock.holder,
        "state": lock.state.value,
        "since": instant_or_none(lock.since),
        "expires": instant_or_none(lock.until),
        "refusal": lock.refusal,
        "trouble": lock.trouble,
    }


def gate_of(gate: Gate) -> dict[str, Any]:
    """Return the state of the gate, if an event waits for it."""
    return {
        "server": gate.label,
        "answer": gate.last.value if gate.last else "",
        "since": instant_or_none(gate.since),
        "asked": instant_or_none(gate.asked),
        "alerts": gate.alerts,
        "detail": gate.detail,
        "holds": list(gate.events),
    }


def note_of(note: Note) -> dict[str, Any]:
    """Return one history entry."""
    notice = note.notice
    return {
        "at": instant_or_none(note.at),
        "kind": note.kind.value,
        "event": note.event_id,
        "type": notice.event_type if notice else "",
        "handler": note.handler,
        "about": note.about,
        "detail": note.detail,
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "handler": step.handler,
        "phase": step.phase.value,
        "attempt": step.attempt,
        "state": step.state.value,
        "began": instant_or_none(step.began),
        "deadline": instant_or_none(step.stop_at),
        "ended": instant_or_none(step.ended),
        "detail": step.detail,
    }


# Text


def _lock(document: Mapping[str, Any]) -> Iterator[str]:
    # An agent of an earlier version does not report this value.
    lock = document.get("lock")
    if not lock:
        return
    since = f" since {_short(lock['since'])}" if lock["since"] else ""
    why = lock["trouble"] or lock["refusal"]
    reason = f"; {why}" if why else ""
    yield f"lock      {lock['state']}{since}: {lock['lock']}{reason}"


def _gate(document: Mapping[str, Any]) -> Iterator[str]:
    gate = document.get("gate")
    if not gate:
        return
    if not gate["answer"]:
        yield f"gate      no answer yet: {gate['server']}"
        return
    since = f" since {_short(gate['since'])}" if gate["since"] else ""
    yield f"gate      {gate['answer']}{since}: {gate['detail']} ({gate['server']})"


def words_of(document: Mapping[str, Any], *, now: Micros) -> Iterator[str]:
    """Yield the lines of the text."""
    yield from _head(document)
    yield from _lock(document)
    yield from _gate(document)
    live = [event for event in document["events"] if event["stage"] != "finished"]
    yield ""
    if not live:
        yield "no events"
    has_name = bool(document["vm"])
    is_dry = document.get("mode") == DRY
    is_silent = bool(document.get("poll", {}).get("failures"))
    for event in live:
        yield from _event(event, now, has_name=has_name, is_dry=is_dry)
        yield from _belief(event, is_silent=is_silent)
    history: Sequence[Mapping[str, Any]] = document["history"][:HISTORY_LINES]
    if history:
        yield ""
        yield "history, the latest first"
    for line in history:
        happened = line.get("about") or line["kind"]
        sentence = " ".join(filter(None, (line["type"], happened, line["handler"])))
        detail = f": {line['detail']}" if line["detail"] else ""
        event = f"  ({line['event']})" if line["event"] else ""
        yield f"  {_short(line['at'])}  {sentence}{detail}{event}"


def _head(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"vm        {document['vm'] or 'not known yet'}"
    if fault := document.get("unreachable"):
        yield f"agent     no answer: {fault}"
        yield "          the last stored state follows"
        return
    mode = document.get("mode", "")
    acts = {
        DRY: "dry run: nothing is run or approved",
        "observe": "observes only",
    }
    yield f"agent     {document.get('version', '')}, {acts.get(mode, 'acts')}"
    poll = document.get("poll", {})
    age = poll.get("age_seconds")
    times = (
        "has not answered yet"
        if age is None
        else f"answered {describe_duration(round(age * 1e6))} ago"
    )
    trouble = f"; {poll['detail']}" if poll.get("detail") else ""
    yield f"endpoint  {poll.get('url', '')} {times}{trouble}"
    for problem in document.get("problems", ()):
        yield f"problem   {problem}"


def _event(
    event: Mapping[str, Any], now: Micros, *, has_name: bool, is_dry: bool
) -> Iterator[str]:
    whose = "" if event["mine"] else "  of another VM"
    if not has_name:
        whose = "  (this VM's name is not known yet)"
    yield f"{event['EventType']}  {event['EventStatus']}  {event['EventId']}{whose}"
    if event["NotBefore"]:
        left = parse_instant(event["NotBefore"]) - now
        when = f"in {describe_duration(left)}" if left > 0 else "due"
        yield f"  not before  {_short(event['NotBefore'])} ({when})"
    if event["Description"]:
        yield f"  because     {event['Description']}"
    rule = f" by {event['rule']}" if event["rule"] else ""
    yield f"  stage       {event['stage']}{rule}"
    for run in event["runs"]:
        detail = f": {run['detail']}" if run["detail"] else ""
        until = (
            f", until {_short(run['deadline'])}" if run["state"] == "running" else ""
        )
        yield f"  {run['phase']:<10}  {run['handler']} {run['state']}{until}{detail}"
    is_given = event["approval"] == Consent.GIVEN.value
    if is_given:
        yield f"  approval    {'would be given: dry run' if is_dry else 'given'}"
    elif event["waits_for"]:
        yield f"  approval    not yet: {event['waits_for']}"
    elif event["approval"] != Consent.NONE.value:
        yield f"  approval    {event['approval']}"


def _belief(event: Mapping[str, Any], *, is_silent: bool) -> Iterator[str]:
    """Yield why an event counts as existing, if no document lists it now."""
    if event["stage"] in _GONE:
        return
    if event["doubt"]:
        later = (
            "; this time does not count while the endpoint is silent"
            if is_silent
            else ""
        )
        yield f"  presence    {event['doubt']}{later}"
    elif is_silent:
        yield "  presence    as in the last document; missing answers do not end an event"


def _short(time: str) -> str:
    """Return a time without fractions of a second."""
    return time[:19] + "Z"
