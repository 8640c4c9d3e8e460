"""Notifications to systemd's journal with fields, in its native protocol.

A datagram has one field per line, or in binary form for a value with several lines.
Each kind of note has a MESSAGE_ID, for use with `journalctl MESSAGE_ID=…`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forewarn.agent.core.model import NoteKind
from forewarn.agent.integrations.kind import SinkKind
from forewarn.agent.options import Forms
from forewarn.agent.sinks.port import Notification
from forewarn.agent.sinks.shared import (
    CHECK_SECONDS,
    KindSink,
    send_locally,
    timeout_key,
)
from forewarn.agent.sinks.wording import cut_bytes, sentence, severity, title
from forewarn.settings.forms import Option

SOCKET = "/run/systemd/journal/socket"
IDENTIFIER = "forewarn-agent"

VALUE_BYTES_MAX = 8 * 1024
"""Maximum size of one value, so that all values fit in a datagram of 200 KiB. Larger
ones would need a memory file, which notifications are not worth."""

MESSAGE_IDS: Mapping[NoteKind, str] = {
    NoteKind.SEEN: "f5321f12554b46ec921dda34a77fcc5b",
    NoteKind.PREPARING: "85288ed4d91e49c48adcaaabc46c2a7a",
    NoteKind.HANDLER: "1dc078e1faaa455ea44ed1008a75ba76",
    NoteKind.PREPARED: "328547190d5b4f05abc438600b025685",
    NoteKind.WITHHELD: "2e6c7f8c1b68493ba6500360d39a4b47",
    NoteKind.APPROVED: "3d477a0bb59d4758974835707fe4c183",
    NoteKind.REFUSED: "6f9d6a40669c4ab0b856353f97880531",
    NoteKind.STARTED: "c8802e524f31443886e8909d29235269",
    NoteKind.CANCELLED: "cf888f32b2164ba19c34b305e2381115",
    NoteKind.GONE: "51a3482fedee42b88a03b8901219b981",
    NoteKind.RECOVERING: "a8a9b754dfff4bdc852dc48a3874475d",
    NoteKind.RECOVERED: "06d1f6260a454c518bece1de3a7d16d4",
    NoteKind.FAILED: "08ed3476fe98460b85a85b990aa05a35",
    NoteKind.LOCK: "29ffb037e3574388b460ece5d74b318b",
    NoteKind.GATE: "3e164e80257448ffbc2a3c0693917d8f",
}
"""Random IDs, as systemd requires. They never change."""


class JournaldSink(KindSink):
    """Writes each notification as one entry."""

    def deliver(self, number: int, notification: Notification) -> None:
        """Write one entry; raises DeliveryError."""
        identifier = self._more.get("identifier", IDENTIFIER)
        data = entry(number, notification, identifier=identifier)
        send_locally(self._socket, data, seconds=self._seconds)

    @property
    def _socket(self) -> str:
        return self._more.get("socket", SOCKET)

    def _wrong(self) -> Sequence[str]:
        send_locally(self._socket, b"", seconds=CHECK_SECONDS)
        return ()


def entry(number: int, notification: Notification, *, identifier: str) -> bytes:
    """Return the datagram of one entry."""
    note, values = notification.note, notification.words(number)
    known = {
        "MESSAGE": f"{title(notification)}. {sentence(notification)}",
        "MESSAGE_ID": MESSAGE_IDS[note.kind],
        "PRIORITY": str(int(severity(notification))),
        "SYSLOG_IDENTIFIER": identifier,
        "FOREWARN_NUMBER": str(number),
        "FOREWARN_AT": values["at"],
        "FOREWARN_KIND": note.kind.value,
        "FOREWARN_VM": notification.vm,
        "FOREWARN_HANDLER": note.handler,
        "FOREWARN_DETAIL": note.detail,
        "FOREWARN_EVENT_ID": note.event_id,
    }
    if note.notice is not None:
        known |= {
            f"FOREWARN_EVENT_{name.upper()}": values[f"event_{name}"]
            for name in (
                *("type", "status", "source", "not_before", "duration"),
                *("resources", "description"),
            )
        }
    return b"".join(field(name, value) for name, value in known.items() if value)


def field(name: str, value: str) -> bytes:
    """Return one field: on a line, or with its length if it has several lines."""
    data = cut_bytes(value, VALUE_BYTES_MAX)
    if b"\n" not in data:
        return b"%s=%s\n" % (name.encode(), data)
    return b"%s\n%s%s\n" % (name.encode(), len(data).to_bytes(8, "little"), data)


KIND = SinkKind(
    make=JournaldSink,
    name=lambda settings: f"journald at {settings.more.get('socket', SOCKET)}",
    keys={
        "socket": Option(
            form=Forms.TEXT, text=f"The socket of journald. Default: `{SOCKET}`."
        ),
        "identifier": Option(
            form=Forms.NAME,
            text=f"The identifier for `journalctl -t`. Default: `{IDENTIFIER}`.",
        ),
        "timeout": timeout_key(),
    },
)
