"""Syslog: the message, and how it travels."""

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import NoteKind
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks import line
from forewarn.agent.sinks.port import Sink
from forewarn.agent.sinks.syslog import KIND, Address, address_of, message
from forewarn.clock import SystemClock
from forewarn.instants import MILLISECOND, SECOND
from tests.support.certificates import Certificate, certificate_in, needs_openssl
from tests.support.notes import REBOOT, told_of

FORM = re.compile(
    r"<(?P<pri>\d{1,3})>1 (?P<at>\S+) (?P<host>[!-~]{1,255}) (?P<app>[!-~]{1,48}) "
    r"(?P<pid>[!-~]{1,128}) (?P<msgid>[!-~]{1,32}) "
    r"\[(?P<id>[^ =\]\"]{1,32})(?P<params>(?: [^ =\]\"]{1,32}=\"(?:[^\"\\\]]|\\.)*\")*)\]"
    r" (?P<text>.*)",
    re.DOTALL,
)
"""RFC 5424, 6."""

PARAM = re.compile(r" (\S+?)=\"((?:[^\"\\\]]|\\.)*)\"")


def read(data: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parts of a message, and its structured data."""
    match = FORM.fullmatch(data.decode())
    assert match is not None, data
    params = {
        name: re.sub(r"\\(.)", r"\1", value)
        for name, value in PARAM.findall(match["params"])
    }
    return match.groupdict(), params


def made(bytes_max: int = 8_192, **more: Any) -> bytes:
    notification = more.pop("told", None) or told_of(**more)
    return message(
        17, notification, facility="local3", sd_id="forewarn@32473", bytes_max=bytes_max
    )


@pytest.mark.parametrize("kind", NoteKind)
def test_each_kind_is_a_well_formed_message(kind: NoteKind) -> None:
    parts, params = read(made(kind=kind, detail="why", handler="drain"))
    assert parts["msgid"] == params["kind"] == kind.value
    assert parts["at"] == "2026-11-21T22:00:00.250000Z"
    assert (parts["host"], parts["app"]) == ("web_0", "forewarn-agent")
    assert params["handler"] == "drain"
    parts, params = read(made(kind=kind, notice=None))
    assert set(params) == {"number", "kind"}


def test_message_has_all_known_fields() -> None:
    parts, params = read(made())
    # local3 is 19, notice is 5.
    assert parts["pri"] == str(19 * 8 + 5)
    assert params == {
        "number": "17",
        "kind": "seen",
        "id": REBOOT.event_id,
        "type": "Reboot",
        "status": "Scheduled",
        "source": "Platform",
        "not_before": "2026-11-21T22:15:00Z",
        "duration": "9",
        "resources": "web_0,web_1",
    }
    assert parts["text"].startswith("web_0: Reboot announced. It was announced for")


def test_non_ascii_text_is_marked_as_utf_8() -> None:
    data = made(kind=NoteKind.FAILED, detail="“no”")
    assert b" \xef\xbb\xbfweb_0" in data
    assert b"\xef\xbb\xbf" not in made()


@pytest.mark.parametrize("bytes_max", [2_048, 8_192])
def test_hostile_text_is_escaped_and_bounded(bytes_max: int) -> None:
    hostile = 'a"]\\ <13>1 \n' + "é" * 5_000
    notice = replace(
        REBOOT, event_type=hostile, source=hostile, resources=(hostile,) * 9
    )
    data = made(
        bytes_max,
        told=told_of(NoteKind.FAILED, hostile, vm="wéb 0" * 99, notice=notice),
    )
    assert len(data) <= bytes_max
    assert b"\n" not in data
    parts, params = read(data)
    assert params["type"].startswith('a"]\\ <13>1 é')
    assert parts["host"].isascii()
    data.decode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/dev/log", Address(way="unix", host="/dev/log")),
        ("udp://h", Address(way="udp", host="h", port=514)),
        ("tcp://h", Address(way="tcp", host="h", port=601)),
        ("tls://h", Address(way="tls", host="h", port=6514)),
        ("tcp://[::1]:5", Address(way="tcp", host="::1", port=5)),
        ("tcp://h:0", None),
        ("tcp://h:70000", None),
        ("http://h", None),
        ("h:514", None),
        ("tcp://h:1 x", None),
    ],
)
def test_addresses_are_parsed(text: str, found: Address | None) -> None:
    assert address_of(text) == found


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ('address = "logs:514"', "must be a path, udp://host:514"),
        ('address = "tcp://h"\nca_file = "x"', "is for tls:// only"),
        ('sd_id = "forewarn"', "with an enterprise number"),
        ('sd_id = "a b@1"', "with an enterprise number"),
        ('facility = "local9"', "must be one of"),
    ],
)
def test_invalid_settings_are_reported(tmp_path: Path, keys: str, fault: str) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(f'[[notify]]\nkind = "syslog"\n{keys}\n')
    with pytest.raises(AgentSettingsError, match=fault):
        load_settings(file=str(file), environ={}, flags={})


# How it travels


def sink_at(address: str, **more: Any) -> Sink:
    keys = {"address": address, "timeout": 5 * SECOND, **more}
    settings = NotifySettings(kind="syslog", more=keys)
    assert KIND.name(settings) == f"syslog at {address}"
    return KIND.make(settings, SystemClock())


class Daemon:
    """Reads messages with counted octets, strictly, from each connection to its end."""

    def __init__(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        self.came: list[bytes] = []
        self.breaks_next = False
        self.holds = threading.Event()
        self.holds.set()
        self._listener = listener
        self._tls = tls
        self.port: int = listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                wire, _ = self._listener.accept()
                with contextlib.suppress(OSError), wire:
                    wire.settimeout(10)
                    self._talk(wire)

    def _talk(self, wire: socket.socket) -> None:
        if self.breaks_next:
            self.breaks_next = False
            # Closed with a reset: what was sent is lost.
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return
        if self._tls is None:
            data = self._read(wire)
            wire.close()
        else:
            with self._tls.wrap_socket(wire, server_side=True) as lock_scopes:
                data = self._read(lock_scopes)
                lock_scopes.unwrap().close()
        while data:
            length, _, data = data.partition(b" ")
            self.came.append(data[: int(length)])
            data = data[int(length) :]

    def _read(self, wire: socket.socket) -> bytes:
        data = b""
        while piece := wire.recv(65_536):
            data += piece
        self.holds.wait(10)
        return data


@contextlib.contextmanager
def daemon(tls: ssl.SSLContext | None = None) -> Generator[Daemon]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        daemon = Daemon(listener, tls)
        try:
            yield daemon
        finally:
            daemon.holds.set()
            listener.shutdown(socket.SHUT_RDWR)
            daemon.thread.join(10)


@pytest.mark.system
def test_tcp_uses_octet_counting() -> None:
    with daemon() as there:
        sink = sink_at(f"tcp://127.0.0.1:{there.port}")
        assert list(sink.check()) == []
        sink.deliver(1, told_of())
        sink.deliver(2, told_of(NoteKind.FAILED, "“no”\nline"))
    assert [read(connection)[1]["number"] for connection in there.came] == ["1", "2"]


@pytest.mark.system
@needs_openssl
def test_tls_requires_a_trusted_daemon(tmp_path: Path) -> None:
    own: Certificate = certificate_in(tmp_path)
    with daemon(own.server()) as there:
        address = f"tls://localhost:{there.port}"
        sink = sink_at(address, ca_file=str(own.certificate))
        sink.deliver(1, told_of())
        assert list(sink.check()) == []
        with pytest.raises(DeliveryError, match="no trusted connection") as raised:
            sink_at(address).deliver(2, told_of())
        assert raised.value.may_pass
        assert "no trusted connection" in sink_at(address).check()[0]
    assert [read(connection)[1]["number"] for connection in there.came] == ["1"]


@pytest.mark.system
def test_message_is_not_lost_on_a_broken_connection() -> None:
    with daemon() as there:
        sink = sink_at(f"tcp://127.0.0.1:{there.port}")
        there.breaks_next = True
        with pytest.raises(DeliveryError, match="the connection ended") as raised:
            sink.deliver(1, told_of())
        assert raised.value.may_pass
        sink.deliver(1, told_of())
    assert len(there.came) == 1


@pytest.mark.system
def test_daemon_that_keeps_the_connection_open_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line, "END_SECONDS", 0.05)
    with daemon() as there:
        there.holds.clear()
        sink_at(f"tcp://127.0.0.1:{there.port}").deliver(1, told_of())
        there.holds.set()


@pytest.mark.system
def test_daemon_that_does_not_read_does_not_block_delivery() -> None:
    big = replace(REBOOT, resources=("x" * 500,) * 9)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        sink = sink_at(f"tcp://127.0.0.1:{port}", timeout=200 * MILLISECOND)
        # No program accepts the connection: the kernel takes the bytes, without an end.
        sink.deliver(1, told_of(notice=big))
    assert list(sink.check()) == [f"127.0.0.1:{port}: connection refused"]
    with pytest.raises(DeliveryError, match="connection refused"):
        sink.deliver(1, told_of())


@pytest.mark.system
def test_udp_sends_one_datagram_per_message() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        there.bind(("127.0.0.1", 0))
        there.settimeout(5)
        address = f"udp://127.0.0.1:{there.getsockname()[1]}"
        sink = sink_at(address)
        assert list(sink.check()) == []
        sink.deliver(1, told_of())
        assert read(there.recv(65_536))[1]["number"] == "1"
    with pytest.raises(DeliveryError, match="connection refused"):
        sink.deliver(2, told_of())


def flood(sink: Sink) -> None:
    for number in range(10_000):
        sink.deliver(number, told_of())


@pytest.mark.system
def test_message_is_sent_to_the_daemon_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    sink = sink_at(path)
    assert list(sink.check()) == [f"{path}: No such file or directory"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there:
        there.bind(path)
        there.settimeout(5)
        assert list(sink.check()) == []
        sink.deliver(1, told_of())
        assert read(there.recv(65_536))[1]["number"] == "1"
        # A queue that is full is a daemon that hangs.
        slow = sink_at(path, timeout=100 * MILLISECOND)
        with pytest.raises(DeliveryError) as raised:
            flood(slow)
        assert raised.value.may_pass
    with pytest.raises(DeliveryError, match="Connection refused"):
        sink.deliver(2, told_of())


def test_journald_socket_is_rejected_with_a_hint(tmp_path: Path) -> None:
    link = tmp_path / "log"
    link.symlink_to("/run/systemd/journal/dev-log")
    [fault] = sink_at(str(link)).check()
    assert 'use kind = "journald"' in fault
