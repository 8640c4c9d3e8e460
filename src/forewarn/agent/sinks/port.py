"""The port of receivers: the notifications that they get, and their interface.

One thread delivers one notification after another to a receiver. A notification that
was not accepted waits in the journal and is delivered again, or is dropped if another
attempt would not help. A receiver may get the same notification twice, with the same
number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from forewarn.agent import forms
from forewarn.agent.core.model import Note, NoteKind
from forewarn.agent.journal import codec
from forewarn.instants import format_instant
from forewarn.protocol.frozen import frozen_dataclass


@frozen_dataclass
class Notification:
    """A note with the name of its VM."""

    vm: str
    note: Note

    @classmethod
    def read(cls, body: str) -> Notification:
        """Return the notification from the queue; raises JournalError."""
        members = json.loads(body)
        return cls(vm=members["vm"], note=codec.load(Note, members["note"]))

    def as_json(self, number: int) -> dict[str, Any]:
        """Return the notification as JSON for receivers."""
        return {
            "id": number,
            "at": format_instant(self.note.at),
            "kind": self.note.kind.value,
            "vm": self.vm,
            "handler": self.note.handler,
            "detail": self.note.detail,
            "event": forms.event_json(self.note.notice)
            or {"EventId": self.note.event_id},
        }

    def words(self, number: int) -> dict[str, str]:
        """Return the values for the placeholders of a body."""
        values = forms.event_words(self.note.notice)
        values["id"] = self.note.event_id
        plain = {
            name: str(value)
            for name, value in self.as_json(number).items()
            if name not in {"id", "event"}
        }
        return {
            **values,
            **{f"event_{name}": text for name, text in values.items()},
            **plain,
            "number": str(number),
        }


class Sink(Protocol):
    """A receiver; used by one thread at a time."""

    def deliver(self, number: int, notification: Notification, /) -> None:
        """Deliver one notification; raises DeliveryError."""
        ...

    def check(self) -> Sequence[str]:
        """Return the problems of the receiver, one sentence each."""
        ...


PLACES = Notification(vm="", note=Note(at=0, kind=NoteKind.SEEN)).words(0)
"""All placeholders that a body may have."""
