"""One connection to an endpoint: sends requests unchanged, and limits every answer.

Every wait is limited. The timeout of a socket applies to each read, so an endpoint that
sends single bytes could block a reader without end. It uses only the standard library.
"""

import math
import socket
from collections.abc import Sequence
from typing import Protocol

from forewarn.clock import SystemClock
from forewarn.testing.answers import Answer, How, Reader

ANSWER_SECONDS = 10.0
"""Maximum time from the first byte of an answer to its last, in seconds: as long as
usual clients wait for a document of some kilobytes."""

_PIECE_BYTES = 65_536

Headers = Sequence[tuple[str, str]]

CLOCK = SystemClock()


class Socket(Protocol):
    """The methods of a socket that a connection uses."""

    def sendall(self, data: bytes, /) -> None:
        """Send all bytes; raises OSError."""
        ...

    def recv(self, size: int, /) -> bytes:
        """Return received bytes, or none at the end; raises OSError."""
        ...

    def settimeout(self, seconds: float | None, /) -> None:
        """Set the maximum wait of the next call."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """Open a connection; raises OSError."""
    wire = socket.create_connection(
        (host, port), None if math.isinf(seconds) else seconds
    )
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return wire


def host_header(host: str, port: int) -> str:
    """Return the value of Host (RFC 9112, 3.2)."""
    shown = f"[{host}]" if ":" in host else host.encode("idna").decode("ascii")
    return shown if port == 80 else f"{shown}:{port}"  # noqa: PLR2004 - HTTP's port


def is_chunked(headers: Headers) -> bool:
    """Tell whether the body of a request is sent in chunks."""
    return any(name.lower() == "transfer-encoding" for name, _ in headers)


def head(
    method: str, target: str, host: str, headers: Headers, body: bytes | None
) -> bytes:
    """Return the head of a request; raises ValueError if it cannot be sent."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None and not is_chunked(headers):
        lines.append(f"Content-Length: {len(body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError(f"a line break in the head of a request: {lines}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def framed(headers: Headers, body: bytes | None) -> bytes:
    """Return a body in its transfer coding: one chunk, or unchanged."""
    if not body or not is_chunked(headers):
        return body or b""
    return b"%X\r\n%s\r\n0\r\n\r\n" % (len(body), body)


class Wire:
    """A connection on which answers are read in sequence."""

    def __init__(
        self,
        wire: Socket,
        *,
        answer_seconds: float | None = None,
        ends: float = math.inf,
    ) -> None:
        """Use an open connection.

        `answer_seconds`: maximum time from the beginning of an answer to its end,
        usually ten seconds. `ends`: deadline for everything, by the monotonic clock.
        """
        self._wire = wire
        self._answer_seconds = answer_seconds or ANSWER_SECONDS
        self._ends = ends
        self._rest = b""
        """Bytes after the last answer."""
        self.keeps = True
        """Whether the last answer leaves the connection open."""

    def send(self, data: bytes, *, seconds: float) -> None:
        """Send all bytes within a time limit; raises OSError."""
        self._wire.settimeout(None if math.isinf(seconds) else seconds)
        self._wire.sendall(data)

    def reader(self, method: str) -> Reader:
        """Return a reader for the next answer, with the bytes received so far.

        Raises as `Reader.feed`.
        """
        reader = Reader(method=method)
        rest, self._rest = self._rest, b""
        if rest:
            reader.feed(rest)
        return reader

    def hear(self, reader: Reader, *, seconds: float) -> bool:
        """Receive the next bytes; return whether any came in time.

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
        """Return the answer, which must begin within `seconds`; raises OSError.

        Raises BrokenAnswerError if it began but is not complete.
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
                    f"the answer did not end in {took:g} s: it stopped {reader.where}",
                )
        self._rest = reader.rest
        self.keeps = reader.keeps
        return reader.answer

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()
