"""A connection with one deadline: whatever the other side does, it ends in words."""

import contextlib
import socket
import threading
from collections.abc import Callable, Generator

import pytest

from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.sinks.line import Line
from forewarn.clock import SystemClock
from tests.support.certificates import needs_openssl

pytestmark = pytest.mark.system

CLOCK = SystemClock()


@contextlib.contextmanager
def peer(act: Callable[[socket.socket], None]) -> Generator[int]:
    """Serve one connection at a port with this function."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        wire, _ = listener.accept()
        with contextlib.suppress(OSError), wire:
            act(wire)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join(10)
        listener.close()


def line_to(port: int, host: str = "127.0.0.1", seconds: float = 5.0) -> Line:
    return Line(host, port, clock=CLOCK, seconds=seconds)


def reset(wire: socket.socket) -> None:
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def test_unresolvable_name_is_reported() -> None:
    with (
        pytest.raises(DeliveryError, match=r"nowhere\.invalid") as raised,
        line_to(25, "nowhere.invalid"),
    ):
        pass
    assert raised.value.may_pass


def test_no_connection_is_opened_without_time_left() -> None:
    with (
        pytest.raises(DeliveryError, match="no complete answer in time"),
        line_to(25, seconds=0.0),
    ):
        pass


def test_local_address_is_an_smtp_address_literal() -> None:
    with peer(lambda wire: None) as port, line_to(port) as line:
        assert line.here == "[127.0.0.1]"
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("there is no IPv6 here")
    with listener, line_to(listener.getsockname()[1], "::1") as line:
        assert line.here == "[IPv6:::1]"
        assert line.where.startswith("[::1]:")


def test_broken_connection_is_reported() -> None:
    is_there = threading.Event()

    def act(wire: socket.socket) -> None:
        is_there.wait(5)
        reset(wire)

    with peer(act) as port, line_to(port) as line:
        is_there.set()
        with pytest.raises(DeliveryError, match="the connection ended while waiting"):
            line.read_line()
        with pytest.raises(DeliveryError, match=r"connection ended while sending"):
            line.write(b"x" * 1_000_000)


def test_silent_peer_times_out() -> None:
    def act(wire: socket.socket) -> None:
        wire.recv(1)

    with peer(act) as port:
        line = line_to(port, seconds=0.1)
        with line, pytest.raises(DeliveryError, match="no time left while waiting"):
            line.read_line()


@needs_openssl
@pytest.mark.parametrize("said", [b"", b"220 hello\r\n"])
def test_peer_without_tls_is_reported(said: bytes) -> None:
    def act(wire: socket.socket) -> None:
        wire.recv(1)
        wire.sendall(said)

    with (
        peer(act) as port,
        line_to(port) as line,
        pytest.raises(DeliveryError) as raised,
    ):
        line.secure("")
    assert "no trusted connection" in raised.value.message or (
        "while beginning TLS" in raised.value.message
    )


def test_failed_close_is_reported() -> None:
    def act(wire: socket.socket) -> None:
        wire.recv(1)
        reset(wire)

    with peer(act) as port, line_to(port) as line:
        line.write(b"xy")
        with pytest.raises(DeliveryError, match="the connection ended while ending"):
            line.finish()


def test_data_after_the_close_is_ignored() -> None:
    def act(wire: socket.socket) -> None:
        wire.sendall(b"and one more thing")
        wire.recv(1)

    with peer(act) as port, line_to(port) as line:
        line.finish()
