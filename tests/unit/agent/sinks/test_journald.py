"""systemd's journal: entries in its native protocol."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.agent.core.model import NoteKind
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks.journald import KIND, MESSAGE_IDS, entry
from forewarn.clock import SystemClock
from tests.support.notes import REBOOT, told_of


def read(data: bytes) -> dict[str, str]:
    """Return the fields of a datagram (systemd.io, "Journal native protocol")."""
    fields: dict[str, str] = {}
    while data:
        line, _, rest = data.partition(b"\n")
        name, is_text, value = line.partition(b"=")
        if not is_text:
            length = int.from_bytes(rest[:8], "little")
            value, rest = rest[8 : 8 + length], rest[8 + length :]
            assert rest.startswith(b"\n")
            rest = rest[1:]
        assert name.decode().replace("_", "").isalnum()
        assert name.decode().isupper()
        assert name.decode() not in fields
        fields[name.decode()] = value.decode()
        data = rest
    return fields


@pytest.mark.parametrize("kind", NoteKind)
def test_each_kind_has_a_message_id(kind: NoteKind) -> None:
    fields = read(entry(17, told_of(kind, "why", handler="drain"), identifier="x"))
    assert fields["MESSAGE_ID"] == MESSAGE_IDS[kind]
    assert fields["FOREWARN_KIND"] == kind.value
    assert fields["PRIORITY"] in {"3", "4", "5", "6"}


def test_entry_has_all_known_fields_and_keeps_line_breaks() -> None:
    fields = read(entry(17, told_of(detail="a\nb=c\n"), identifier="forewarn-agent"))
    message = fields.pop("MESSAGE")
    assert message.startswith("web_0: Reboot announced. It was")
    assert "\n" not in message
    assert fields == {
        "MESSAGE_ID": MESSAGE_IDS[NoteKind.SEEN],
        "PRIORITY": "5",
        "SYSLOG_IDENTIFIER": "forewarn-agent",
        "FOREWARN_NUMBER": "17",
        "FOREWARN_AT": "2026-11-21T22:00:00.250000Z",
        "FOREWARN_KIND": "seen",
        "FOREWARN_VM": "web_0",
        "FOREWARN_DETAIL": "a\nb=c\n",
        "FOREWARN_EVENT_ID": REBOOT.event_id,
        "FOREWARN_EVENT_TYPE": "Reboot",
        "FOREWARN_EVENT_STATUS": "Scheduled",
        "FOREWARN_EVENT_SOURCE": "Platform",
        "FOREWARN_EVENT_NOT_BEFORE": "2026-11-21T22:15:00Z",
        "FOREWARN_EVENT_DURATION": "9",
        "FOREWARN_EVENT_RESOURCES": "web_0,web_1",
        "FOREWARN_EVENT_DESCRIPTION": REBOOT.description,
    }


def test_entry_without_an_event_has_no_event_fields() -> None:
    fields = read(entry(1, told_of(NoteKind.FAILED, notice=None), identifier="x"))
    assert not any(name.startswith("FOREWARN_EVENT") for name in fields)


@pytest.mark.system
def test_entries_of_any_size_fit_into_a_datagram(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    settings = NotifySettings(kind="journald", more={"socket": str(path)})
    assert KIND.name(settings) == f"journald at {path}"
    sink = KIND.make(settings, SystemClock())
    assert list(sink.check()) == [f"{path}: No such file or directory"]
    huge = replace(REBOOT, description="é\n" * 900_000, resources=("x" * 90_000,) * 9)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there:
        there.bind(str(path))
        there.settimeout(5)
        assert list(sink.check()) == []
        sink.deliver(1, told_of(NoteKind.FAILED, "y" * 900_000, notice=huge))
        fields = read(there.recv(1 << 20))
    assert len(fields["FOREWARN_EVENT_DESCRIPTION"].encode()) <= 8 * 1024
    with pytest.raises(DeliveryError, match="Connection refused") as raised:
        sink.deliver(2, told_of())
    assert raised.value.may_pass
