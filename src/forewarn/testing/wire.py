"""One connection to an endpoint: requests as they are meant, answers within bounds.

Every wait has an end: a socket's time-out is for each read, and an endpoint that
drips would hold its reader for ever. Standard library only.
"""

import math
import socket
from collections.abc import Sequence
from typing import Protocol

from forewarn.clock import SystemClock
from forewarn.testing.answers import Answer, How, Reader

ANSWER_SECONDS = 10.0
"""Maximum time from the first byte of an answer to its last, in seconds: what clients
wait for a document of some kilobytes."""

_PIECE_BYTES = 65_536

Headers = Sequence[tuple[str, str]]

CLOCK = SystemClock()


class Socket(Protocol):
    """What is needed of a socket."""

    def sendall(self, data: bytes, /) -> None:
        """Send all of it; raises OSError."""
        ...

    def recv(self, size: int, /) -> bytes:
        """Return what has come, or nothing at the end; raises OSError."""
        ...

    def settimeout(self, seconds: float | None, /) -> None:
        """Have the next call wait so long."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """Return a connection; raises OSError."""
    wire = socket.create_connection(
        (host, port), None if math.isinf(seconds) else seconds
    )
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return wire


def host_header(host: str, port: int) -> str:
    """Return the value of Host (RFC 9112, 3.2)."""
    shown = f"[{host}]" if ":" in host else host.encode("idna").decode("ascii")
    return shown if port == 80 else f"{shown}:{port}"  # noqa: PLR2004 - that of HTTP


def is_chunked(headers: Headers) -> bool:
    """Tell whether a request's body is sent in chunks."""
    return any(name.lower() == "transfer-encoding" for name, _ in headers)


def head(
    method: str, target: str, host: str, headers: Headers, body: bytes | None
) -> bytes:
    """Return the head of a request; raises ValueError for what cannot be sent."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None and not is_chunked(headers):
        lines.append(f"Content-Length: {len(body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError(f"a line end within the head of a request: {lines}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def framed(headers: Headers, body: bytes | None) -> bytes:
    """Return a body as it is sent: in one chunk, or as it is."""
    if not body or not is_chunked(headers):
        return body or b""
    return b"%X\r\n%s\r\n0\r\n\r\n" % (len(body), body)


class Wire:
    """A connection on which answers are read one after the other."""

    def __init__(
        self,
        wire: Socket,
        *,
        answer_seconds: float | None = None,
        ends: float = math.inf,
    ) -> None:
        """Take a connection; an answer that begins has ten seconds to end.

        `answer_seconds` is another bound for that.

        At `ends`, a time of the monotonic clock, everything is over.
        """
        self._wire = wire
        self._answer_seconds = answer_seconds or ANSWER_SECONDS
        self._ends = ends
        self._rest = b""
        """What came behind the last answer."""
        self.keeps = True
        """The last answer did not say that it is the last one."""

    def send(self, data: bytes, *, seconds: float) -> None:
        """Send within so many seconds; raises OSError."""
        self._wire.settimeout(None if math.isinf(seconds) else seconds)
        self._wire.sendall(data)

    def reader(self, method: str) -> Reader:
        """Return a reader for the next answer, with what is there already.

        Raises as `Reader.feed`.
        """
        reader = Reader(method=method)
        rest, self._rest = self._rest, b""
        if rest:
            reader.feed(rest)
        return reader

    def hear(self, reader: Reader, *, seconds: float) -> bool:
        """Take what comes next; tell whether anything came in time.

        Raises OSError.
        """
        self._wire.settimeout(None if math.isinf(seconds) else max(seconds, 0.001))
        try:
            piece = self._wire.recv(_PIECE_BYTES)
        except TimeoutError:
            return False
        except ConnectionError as error:
            if not reader.has_begun:
                raise
            raise reader.broken(
                How.CUT, f"the connection was reset {reader.where}"
            ) from error
        if piece:
            reader.feed(piece)
        else:
            reader.end()
        return True

    def receive(self, reader: Reader, *, seconds: float) -> Answer:
        """Return the answer, which begins within so many seconds; raises OSError.

        Raises BrokenAnswerError where it began and is no whole answer.
        """
        began = CLOCK.monotonic()
        ends = began + seconds
        has_begun = False
        while reader.answer is None:
            if reader.has_begun and not has_begun:
                has_begun = True
                ends = CLOCK.monotonic() + self._answer_seconds
            left = min(ends, self._ends) - CLOCK.monotonic()
            if left <= 0 or not self.hear(reader, seconds=left):
                if not reader.has_begun:
                    raise TimeoutError(f"no answer in {seconds:g} s")
                took = self._answer_seconds
                raise reader.broken(
                    How.TOO_SLOW,
                    f"the answer did not end in {took:g} s: it came {reader.where}",
                )
        self._rest = reader.rest
        self.keeps = reader.keeps
        return reader.answer

    def close(self) -> None:
        """End the connection."""
        self._wire.close()
