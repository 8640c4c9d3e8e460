"""Tests of single polls of faulty endpoints: each defect has a name."""

import contextlib
import socket
import threading
from collections.abc import Callable, Generator

import pytest

from forewarn.clock import SystemClock
from forewarn.sim.recording import Answer, Failed, Failure, Outcome
from forewarn.testing.answers import BODY_BYTES_MAX
from forewarn.testing.recorder import Asker

pytestmark = pytest.mark.system

Act = Callable[[socket.socket], None]


@contextlib.contextmanager
def served(act: Act) -> Generator[str]:
    """Serve one connection, after reading its request."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                wire, _ = listener.accept()
                with wire:
                    wire.recv(4096)
                    act(wire)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            thread.join()


def asked(act: Act, *, seconds: float = 5, etag: str | None = None) -> Outcome:
    with served(act) as url:
        asker = Asker(url, api_version="2020-07-01")
        return asker.ask(etag=etag, timeout_seconds=seconds)


def says(*parts: bytes) -> Act:
    def act(wire: socket.socket) -> None:
        for part in parts:
            wire.sendall(part)

    return act


def reset(wire: socket.socket) -> None:
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def drip(wire: socket.socket) -> None:
    pause = threading.Event()
    wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        wire.sendall(b"x")
        pause.wait(0.02)


def drip_head(wire: socket.socket) -> None:
    pause = threading.Event()
    for byte in b"HTTP/1.1 200 OK\r\nServer: " + b"x" * 1000:
        wire.sendall(bytes([byte]))
        pause.wait(0.02)


def flood(wire: socket.socket) -> None:
    wire.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(BODY_BYTES_MAX // 65536 + 2):
        wire.sendall(b"x" * 65536)


def test_answer_is_returned_unchanged() -> None:
    busy = says(
        b"HTTP/1.1 503 Busy\r\nserver: x\r\nDate: now\r\nX-Secret: y\r\n"
        b"Retry-After: 3\r\nContent-Length: 5\r\n\r\nl\xffter"
    )
    assert asked(busy) == Answer(
        status=503,
        reason="Busy",
        headers=(("server", "x"), ("Retry-After", "3"), ("Content-Length", "5")),
        body=b"l\xffter",
    )


def test_request_is_the_same_as_from_a_vm() -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            wire, _ = listener.accept()
            with wire:
                heard.append(wire.recv(4096))
                wire.sendall(b"HTTP/1.1 304 Not Modified\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/any/path"
        outcome = Asker(url, api_version="2019-08-01").ask(
            etag='"7"', timeout_seconds=5
        )
        thread.join()
    assert isinstance(outcome, Answer)
    assert outcome.status == 304
    [request] = heard
    assert request.startswith(
        b"GET /metadata/scheduledevents?api-version=2019-08-01 HTTP/1.1\r\n"
    )
    assert b"\r\nMetadata: true\r\n" in request
    assert b'\r\nIf-None-Match: "7"\r\n' in request


WAYS: dict[str, tuple[Act, Failure]] = {
    "ends at once": (says(), Failure.RESET),
    "resets": (reset, Failure.RESET),
    "ends in the head": (says(b"HTTP/1.1 200 OK\r\nServer: x"), Failure.RESET),
    "ends in the body": (
        says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"),
        Failure.RESET,
    ),
    "ends in a chunk": (
        says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}"),
        Failure.RESET,
    ),
    "sends a bad chunk": (
        says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}"),
        Failure.STRANGE,
    ),
    "is no HTTP": (says(b"SSH-2.0-OpenSSH_9.6\r\n"), Failure.STRANGE),
    "says nothing that ends": (says(b"x" * 100_000), Failure.STRANGE),
    "has too many headers": (
        says(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 200, b"\r\n"),
        Failure.STRANGE,
    ),
    "sends a chunk of a negative size": (
        says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}"),
        Failure.STRANGE,
    ),
    "says two lengths": (
        says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 1\r\n\r\n{}"),
        Failure.STRANGE,
    ),
    "sends without end": (flood, Failure.STRANGE),
    "has a status of its own": (says(b"HTTP/1.1 999 Yes\r\n\r\n"), Failure.STRANGE),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_failure_has_its_kind(way: str) -> None:
    act, failure = WAYS[way]
    outcome = asked(act)
    assert isinstance(outcome, Failed), outcome
    assert outcome.failure is failure, outcome


def say_nothing(wire: socket.socket) -> None:
    # Until the client has closed the connection.
    wire.recv(1)


@pytest.mark.slow
@pytest.mark.parametrize("act", [drip, drip_head, say_nothing])
def test_slow_endpoint_cannot_exceed_the_timeout(act: Act) -> None:
    clock = SystemClock()
    began = clock.monotonic()
    assert asked(act, seconds=0.3) == Failed(failure=Failure.TIMEOUT)
    assert clock.monotonic() - began < 3


def test_refused_and_unreachable_endpoints_are_distinguished() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    refused = Asker(f"http://127.0.0.1:{port}", api_version="2020-07-01")
    assert refused.ask(etag=None, timeout_seconds=5) == Failed(failure=Failure.REFUSED)
    nowhere = Asker("http://nowhere.invalid", api_version="2020-07-01")
    outcome = nowhere.ask(etag=None, timeout_seconds=5)
    assert isinstance(outcome, Failed)
    assert outcome.failure is Failure.UNREACHABLE


def test_invalid_headers_are_dropped() -> None:
    outcome = asked(
        says(b"HTTP/1.1 200 O\x01K\r\nServer: a\x02b\r\nETag: 1\r\n folded\r\n\r\n{}")
    )
    # Folded lines are one value (RFC 9112, 5.2).
    assert outcome == Answer(status=200, headers=(("ETag", "1 folded"),), body=b"{}")


@pytest.mark.parametrize(
    "url",
    [
        *("https://x", "x", "http://", "ftp://x", "http://x:99999"),
        *("http://a b", "http://a\0b", "http://..", f"http://{'a' * 100}"),
    ],
)
def test_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is not a URL such as"):
        Asker(url, api_version="2020-07-01")
