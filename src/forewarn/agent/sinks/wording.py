"""The texts of notifications for people: a title, a sentence, the facts, a severity.

All receivers for people use these texts in their own format. They quote the platform
and the handlers on one line, cut to a maximum length. Each receiver escapes the texts
for its format. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forewarn.agent.core.model import NoteKind, StepState
from forewarn.agent.core.names import is_named
from forewarn.agent.sinks.port import Told
from forewarn.chat import Severity, plain
from forewarn.instants import SECOND, Micros, describe_duration, format_instant
from forewarn.problems import listed
from forewarn.protocol.notices import Notice

DETAIL_CHARACTERS = 500
"""Maximum length of quoted handler or platform output. The log has the rest."""

NAMES_SHOWN = 10
"""Maximum number of VM names in a text; an availability set may have hundreds."""


@dataclass(frozen=True)
class _Words:
    """The texts for one kind of note."""

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
        "Its preparation failed and it is not approved; it starts{start} anyway",
        Severity.ERROR,
    ),
    NoteKind.APPROVED: _Words(
        "approved", "It is approved and may start at once", Severity.NOTICE
    ),
    NoteKind.REFUSED: _Words(
        "approval refused", "The endpoint did not accept the approval", Severity.WARNING
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
    """Return the title, with the VM and the event: `web_0: Reboot prepared`."""
    words = _WORDS[told.note.kind]
    what = words.title
    if told.note.kind is NoteKind.HANDLER:
        ended = told.note.ended.value if told.note.ended else ""
        what = f"{what} {told.note.handler} {ended}".rstrip()
    elif told.note.about:
        what = f"{what} of the {told.note.about}"
    return plain(f"{told.vm or 'a VM'}: {_event(told)} {what}")


def sentence(told: Told) -> str:
    """Return one or two sentences about the note, with its detail."""
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
    """Return the severity of the note."""
    if told.note.ended in _BAD_ENDS:
        return Severity.WARNING
    return _WORDS[told.note.kind].severity


def facts(told: Told) -> list[tuple[str, str]]:
    """Return the known facts, as names and values in display order."""
    note, notice = told.note, told.note.notice
    found = [("VM", told.vm), ("At", _second(note.at)), ("Handler", note.handler)]
    if notice is not None:
        found += [
            ("Event", f"{notice.event_type} {notice.status}".strip()),
            ("Not before", _second(notice.not_before) if notice.not_before else ""),
            ("Duration", _duration(notice)),
            ("Requested by", notice.source),
            ("VMs", names(notice)),
            ("Description", notice.description),
        ]
    found.append(("Event id", note.event_id))
    return [(name, plain(value, DETAIL_CHARACTERS)) for name, value in found if value]


def names(notice: Notice) -> str:
    """Return the VMs that an event names, or the first of them if there are many."""
    return listed(notice.resources, NAMES_SHOWN)


def cut_bytes(text: str, most: int) -> bytes:
    """Return a text in UTF-8, cut to a maximum size between characters."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data
    return data[:most].decode("utf-8", "ignore").encode()


def _event(told: Told) -> str:
    if (notice := told.note.notice) is None:
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
    """Return an instant without fractions of a second."""
    return format_instant(instant // SECOND * SECOND)
