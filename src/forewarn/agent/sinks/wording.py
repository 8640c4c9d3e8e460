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
from forewarn.agent.sinks.port import Notification
from forewarn.chat import Severity, plain
from forewarn.instants import SECOND, Micros, describe_duration, format_instant
from forewarn.problems import listed
from forewarn.protocol.notices import Notice

DETAIL_CHARACTERS = 500
"""Maximum length of quoted handler or platform output. The log has the rest."""

NAMES_SHOWN = 10
"""Maximum number of VM names in a string; an availability set may have hundreds."""


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


def title(notification: Notification) -> str:
    """Return the title, with the VM and the event: `web_0: Reboot prepared`."""
    phrases = _WORDS[notification.note.kind]
    text = phrases.title
    if notification.note.kind is NoteKind.HANDLER:
        ended = notification.note.ended.value if notification.note.ended else ""
        text = f"{text} {notification.note.handler} {ended}".rstrip()
    elif notification.note.about:
        text = f"{text} of the {notification.note.about}"
    return plain(f"{notification.vm or 'a VM'}: {_event(notification)} {text}")


def sentence(notification: Notification) -> str:
    """Return one or two sentences about the note, with its detail."""
    note = notification.note
    phrases = _WORDS[note.kind]
    text = phrases.sentence.format(
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


def severity(notification: Notification) -> Severity:
    """Return the severity of the note."""
    if notification.note.ended in _BAD_ENDS:
        return Severity.WARNING
    return _WORDS[notification.note.kind].severity


def facts(notification: Notification) -> list[tuple[str, str]]:
    """Return the known facts, as names and values in display order."""
    note, notice = notification.note, notification.note.notice
    pairs = [
        ("VM", notification.vm),
        ("At", _second(note.at)),
        ("Handler", note.handler),
    ]
    if notice is not None:
        pairs += [
            ("Event", f"{notice.event_type} {notice.status}".strip()),
            ("Not before", _second(notice.not_before) if notice.not_before else ""),
            ("Duration", _duration(notice)),
            ("Requested by", notice.source),
            ("VMs", names(notice)),
            ("Description", notice.description),
        ]
    pairs.append(("Event id", note.event_id))
    return [(name, plain(value, DETAIL_CHARACTERS)) for name, value in pairs if value]


def names(notice: Notice) -> str:
    """Return the VMs that an event names, or the first of them if there are many."""
    return listed(notice.resources, NAMES_SHOWN)


def cut_bytes(text: str, bytes_max: int) -> bytes:
    """Return a string in UTF-8, cut to a maximum size between characters."""
    data = text.encode("utf-8", "replace")
    if len(data) <= bytes_max:
        return data
    return data[:bytes_max].decode("utf-8", "ignore").encode()


def _event(notification: Notification) -> str:
    if (notice := notification.note.notice) is None:
        return "event"
    kind = notice.event_type or "event"
    if not notice.resources or is_named(notice, notification.vm):
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
