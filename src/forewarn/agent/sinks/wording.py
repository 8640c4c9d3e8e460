"""What happened, in words for people: a title, a sentence, the facts, how grave it is.

All receivers for people say it in these words, each in its own form. What the platform
or a handler said is part of them, on one line and cut; to quote it for where it stands
is each receiver's own work. Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from forewarn.agent.core.model import NoteKind, StepState
from forewarn.agent.core.names import is_named
from forewarn.agent.sinks.port import Told
from forewarn.instants import SECOND, Micros, describe_duration, format_instant
from forewarn.protocol.notices import Notice

DETAIL_CHARACTERS = 500
"""Of what a handler or the platform said: more is for the log."""

NAMES_SHOWN = 10
"""VMs that are named one by one; an availability set may have hundreds."""


class Severity(enum.IntEnum):
    """How grave it is; the numbers are those of syslog (RFC 5424, 6.2.1)."""

    ERROR = 3
    """Something that should have worked did not, and somebody should look."""
    WARNING = 4
    NOTICE = 5
    """Something that matters to this VM, as it should be."""
    INFO = 6


@dataclass(frozen=True)
class _Words:
    """How one kind of note is told."""

    title: str
    sentence: str
    severity: Severity


_WORDS: Mapping[NoteKind, _Words] = {
    NoteKind.SEEN: _Words("announced", "It was announced{when}", Severity.NOTICE),
    NoteKind.PREPARING: _Words("preparing", "Preparation begins", Severity.INFO),
    NoteKind.HANDLER: _Words("handler", "The handler {handler} ended", Severity.INFO),
    NoteKind.PREPARED: _Words("prepared", "All is prepared", Severity.INFO),
    NoteKind.WITHHELD: _Words(
        "not prepared",
        "Its preparation failed and it is not approved; it starts{start} all the same",
        Severity.ERROR,
    ),
    NoteKind.APPROVED: _Words(
        "approved", "It is approved and may start at once", Severity.NOTICE
    ),
    NoteKind.REFUSED: _Words(
        "approval refused", "The endpoint did not take the approval", Severity.WARNING
    ),
    NoteKind.STARTED: _Words(
        "started", "It has started: the impact is near or there", Severity.NOTICE
    ),
    NoteKind.CANCELLED: _Words(
        "cancelled", "It was cancelled before it started", Severity.NOTICE
    ),
    NoteKind.GONE: _Words("over", "It is over", Severity.NOTICE),
    NoteKind.RECOVERING: _Words("recovering", "Recovery begins", Severity.INFO),
    NoteKind.RECOVERED: _Words("recovered", "All has recovered", Severity.NOTICE),
    NoteKind.FAILED: _Words("failure", "Something went wrong", Severity.ERROR),
    NoteKind.LOCK: _Words("lock", "The lock that limits approvals", Severity.INFO),
    NoteKind.GATE: _Words("gate", "The gate on active alerts", Severity.NOTICE),
}

_BAD_ENDS = frozenset({StepState.FAILED, StepState.LOST})


def title(told: Told) -> str:
    """Return a line that says what happened where: `web_0: Reboot prepared`."""
    words = _WORDS[told.note.kind]
    what = words.title
    if told.note.kind is NoteKind.HANDLER:
        ended = told.note.ended.value if told.note.ended else ""
        what = f"{what} {told.note.handler} {ended}".rstrip()
    elif told.note.about:
        what = f"{what} of the {told.note.about}"
    return plain(f"{told.vm or 'a VM'}: {_event(told)} {what}")


def sentence(told: Told) -> str:
    """Return a sentence or two that say it, with what was said about it."""
    note = told.note
    words = _WORDS[note.kind]
    text = words.sentence.format(
        when=_when(note.notice, note.at),
        start=_start(note.notice),
        handler=note.handler or "without a name",
    )
    if note.detail and note.handler and note.kind is not NoteKind.HANDLER:
        text = f"{text} with {note.handler}"
    elif note.about:
        text = f"{text} with the {note.about}"
    detail = plain(note.detail, DETAIL_CHARACTERS)
    return plain(f"{text}: {detail}" if detail else f"{text}.", 2 * DETAIL_CHARACTERS)


def severity(told: Told) -> Severity:
    """Return how grave it is."""
    note = told.note
    if note.ended in _BAD_ENDS:
        return Severity.WARNING
    return _WORDS[note.kind].severity


def facts(told: Told) -> list[tuple[str, str]]:
    """Return what is known, as names and values in the order to show them in."""
    note, notice = told.note, told.note.notice
    found = [("VM", told.vm), ("At", _second(note.at)), ("Handler", note.handler)]
    if notice is not None:
        found += [
            ("Event", f"{notice.event_type} {notice.status}".strip()),
            ("Not before", _second(notice.not_before) if notice.not_before else ""),
            ("Duration", _duration(notice)),
            ("Ordered by", notice.source),
            ("VMs", names(notice)),
            ("Description", notice.description),
        ]
    found.append(("Event id", note.event_id))
    cut = [(name, plain(value, DETAIL_CHARACTERS)) for name, value in found]
    return [(name, value) for name, value in cut if value]


def names(notice: Notice) -> str:
    """Return the VMs that an event names, the first of them where they are many."""
    shown = ", ".join(notice.resources[:NAMES_SHOWN])
    more = len(notice.resources) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def plain(text: str, most: int = 200) -> str:
    """Return a text on one line, without what is not to be shown, cut where it is long."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def cut_bytes(text: str, most: int) -> bytes:
    """Return as much of a text in UTF-8 as fits, in whole characters."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data
    return data[:most].decode("utf-8", "ignore").encode()


def _event(told: Told) -> str:
    notice = told.note.notice
    if notice is None:
        return "event"
    kind = notice.event_type or "event"
    if not notice.resources or is_named(notice, told.vm):
        return kind
    return f"{kind} of {names(notice)}"


def _when(notice: Notice | None, now: Micros) -> str:
    if notice is None:
        return ""
    lasts = f", for {_duration(notice)}" if notice.duration_seconds >= 0 else ""
    if notice.not_before is None:
        return f" without a time{lasts}"
    left = notice.not_before - now
    lead = f", in {describe_duration(left)}" if left > 0 else ""
    return f" for {_second(notice.not_before)}{lead}{lasts}"


def _start(notice: Notice | None) -> str:
    if notice is None or notice.not_before is None:
        return ""
    return f" at {_second(notice.not_before)}"


def _duration(notice: Notice) -> str:
    if notice.duration_seconds < 0:
        return "unknown"
    return describe_duration(notice.duration_seconds * SECOND)


def _second(instant: Micros) -> str:
    """Return an instant to the second: fractions are nothing for people."""
    return format_instant(instant // SECOND * SECOND)
