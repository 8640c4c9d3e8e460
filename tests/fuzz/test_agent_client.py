"""The agent's HTTP client against bytes of any kind: a response or an error, in time.

The reader is compared with itself: it must return the same result however a response is
split. On sockets, the client must end with that result: it must not hang or raise another
exception.
"""

import contextlib
import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.agent.wire.answers import Answer, HttpError, Reader, Trouble
from forewarn.agent.wire.http import Client, parse_url
from forewarn.clock import SystemClock
from forewarn.instants import MILLISECOND
from forewarn.protocol.decoder import UnreadableError, decode
from tests.support.profiles import amounts
from tests.support.scripted import scripted

BODY_MAX = 4_096

LINES = st.sampled_from(
    [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.0 200 OK",
        b"HTTP/1.1 304 Not Modified",
        b"HTTP/1.1 100 Continue",
        b"HTTP/1.1 500 ",
        b"HTTP/1.1 99",
        b"Content-Length: 5",
        b"Content-Length: 4097",
        b"content-length:0",
        b"Content-Length: 5, 5",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: gzip",
        b"Connection: close",
        b'ETag: "1"',
        b" folded",
        b": nameless",
        b"",
        b"5",
        b"hello",
        b"0",
        b"fffffff",
        b"3;a=b",
        b"abc",
        b'{"DocumentIncarnation":1,"Events":[]}',
    ]
)
STREAMS = (
    st.lists(LINES | st.binary(max_size=12), max_size=14)
    .map(b"\r\n".join)
    .flatmap(lambda data: st.sampled_from([data, b"HTTP/1.1 200 OK\r\n" + data]))
)


def outcome(pieces: list[bytes]) -> Answer | Trouble:
    reader = Reader(body_max=BODY_MAX)
    try:
        for piece in pieces:
            reader.feed(piece)
            if reader.answer is not None:
                return reader.answer
        reader.end()
    except HttpError as error:
        return error.trouble
    assert reader.answer is not None
    return reader.answer


def alike(one: Answer | Trouble, other: Answer | Trouble) -> bool:
    """Compare but for what came behind, which only one of them may have seen."""
    if isinstance(one, Trouble) or isinstance(other, Trouble):
        return one == other
    return (one.status, one.headers, one.body) == (
        other.status,
        other.headers,
        other.body,
    )


@pytest.mark.amounts
@pytest.mark.clause("8.1")
@settings(max_examples=amounts().parsed_examples)
@given(STREAMS, st.integers(1, 40))
def test_answer_is_parsed_the_same_in_any_pieces(data: bytes, cut: int) -> None:
    whole = outcome([data])
    for size in (1, cut):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert alike(outcome(pieces), whole)
    if isinstance(whole, Answer):
        assert len(whole.body) <= BODY_MAX
        with contextlib.suppress(UnreadableError):
            decode(whole.body)


@settings(max_examples=300)
@given(st.binary(max_size=2_000), st.integers(1, 40))
def test_arbitrary_bytes_always_give_an_outcome(data: bytes, cut: int) -> None:
    pieces = [data[at : at + cut] for at in range(0, len(data), cut)]
    assert alike(outcome(pieces), outcome([data]))


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.clause("8.1")
@settings(max_examples=120)
@given(STREAMS | st.binary(max_size=200), st.integers(1, 60), st.booleans())
def test_request_over_a_socket_ends_in_time(
    data: bytes, cut: int, closes: bool
) -> None:
    def say(wire: socket.socket) -> None:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), cut):
            wire.sendall(data[at : at + cut])
        if closes:
            wire.close()
        else:
            server.ended.wait()

    with scripted(say) as server:
        clock = SystemClock()
        client = Client(parse_url(server.url), clock=clock, body_max=BODY_MAX)
        began = clock.monotonic()
        with contextlib.suppress(HttpError):
            answer = client.get("/", timeout=50 * MILLISECOND)
            assert alike(answer, outcome([data]))
        assert clock.monotonic() - began < 5
        client.close()


@pytest.mark.system
@pytest.mark.clause("8.1")
def test_endless_answer_is_aborted() -> None:
    def pour(wire: socket.socket) -> None:
        wire.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not server.ended.is_set():
            wire.sendall(b"1\r\nx\r\n" * 1_000)

    with scripted(pour) as server:
        client = Client(parse_url(server.url), clock=SystemClock(), body_max=BODY_MAX)
        with pytest.raises(HttpError) as caught:
            client.get("/", timeout=10_000 * MILLISECOND)
        assert caught.value.trouble is Trouble.TOO_LARGE
    assert threading.active_count() < 50
