"""Parse one HTTP/1.1 answer: bytes in, an `Answer` or an `HttpError` out.

This module knows no sockets and no time. It is stricter than the standard library: it
rejects two lengths, folded headers and bare line feeds, since another parser may read
such an answer differently.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Generator
from dataclasses import replace

from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass

HEAD_BYTES_MAX = 16_384
"""Maximum size of the lines before the body, including interim answers. A usual head
has 200 bytes."""

BODY_BYTES_MAX = 1 << 20
"""Default maximum size of a body: sixteen times a useful document."""

INTERIM_MAX = 8
"""Maximum number of interim answers (1xx) before the final one."""

_CHUNK_LINE_MAX = 256
"""Maximum size of the line before a chunk: its length, and rarely an extension."""

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?")
_HEADER = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)"
)
_LENGTH = re.compile(r"\d{1,15}", re.ASCII)
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?")

_BODILESS = frozenset({204, 304})
_SWITCHING = 101
_FINAL = 200


class Trouble(enum.Enum):
    """Why an exchange gave no answer; the value is a metric label."""

    TIMEOUT = "timeout"
    REFUSED = "refused"
    """The connection was refused."""
    RESET = "reset"
    """The connection ended during the exchange."""
    UNREACHABLE = "unreachable"
    """There is no route to the host, or its name is unknown."""
    MALFORMED = "malformed"
    """The answer is not valid HTTP/1.1."""
    TOO_LARGE = "too_large"
    """The answer exceeds a size limit."""
    TLS = "tls"
    """The certificate is not trusted, or the server has no TLS."""
    REQUEST = "request"
    """The request cannot be written as HTTP: a bug in the agent or its settings."""
    STOPPED = "stopped"
    """The agent itself ended the exchange."""


class HttpError(ForewarnError):
    """An exchange gave no complete answer: the only error of `http.Client`."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        """Store the kind of trouble and the message."""
        super().__init__(message)
        self.trouble = trouble


@frozen_dataclass
class Answer:
    """One complete answer."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    """The headers, with names in lower case."""
    body: bytes = b""
    keeps: bool = False
    """The connection can be used again."""

    def header(self, name: str) -> str | None:
        """Return the first value of a header, by its name in lower case."""
        return next((value for key, value in self.headers if key == name), None)


def _malformed(sentence: str) -> HttpError:
    return HttpError(Trouble.MALFORMED, sentence)


class Reader:
    """Parses an answer piece by piece."""

    def __init__(self, *, body_max: int = BODY_BYTES_MAX) -> None:
        """Start before the status line."""
        self._body_max = body_max
        self._buffer = bytearray()
        self._framing = 0
        """Size of the heads and trailers so far, which share a limit."""
        self._endless: Answer | None = None
        """The head of an answer whose body ends with the connection."""
        self._reading = self._read()
        """The parser; each piece advances it as far as possible."""
        self.has_begun = False
        """Whether any bytes were received."""
        self.answer: Answer | None = None

    def feed(self, piece: bytes) -> None:
        """Parse a piece; sets `answer` when it is complete. Raises HttpError."""
        self.has_begun = self.has_begun or bool(piece)
        self._buffer += piece
        next(self._reading, None)

    def end(self) -> None:
        """Handle the end of the connection; raises HttpError for an incomplete
        answer."""
        if self.answer is not None:
            return
        if self._endless is None:
            part = "in the middle of" if self.has_begun else "before"
            raise HttpError(Trouble.RESET, f"the connection ended {part} the answer")
        self.answer = replace(self._endless, body=bytes(self._buffer), keeps=False)

    def _read(self) -> Generator[None, None, None]:
        """Parse one answer; each `yield` waits for the next piece."""
        for _ in range(INTERIM_MAX + 1):
            head = yield from self._read_head()
            if head.status >= _FINAL:
                break
        else:
            raise _malformed("there are too many interim answers")
        body = yield from self._read_body(head)
        # Bytes after the answer were not requested, so the connection is not reused.
        keeps = head.keeps and not self._buffer
        self.answer = replace(head, body=body, keeps=keeps)

    def _read_head(self) -> Generator[None, None, Answer]:
        while (size := self._buffer.find(b"\r\n\r\n")) < 0:
            self._bound_framing(len(self._buffer))
            # A line never ends with a bare line feed: report it before the timeout.
            if re.search(rb"(?<!\r)\n", self._buffer):
                raise _malformed("a line of the answer ends without CR LF")
            yield
        self._bound_framing(size)
        self._framing += size + 4
        line, *lines = (yield from self._take(size + 4))[:-4].split(b"\r\n")
        match = _STATUS_LINE.fullmatch(line)
        if match is None:
            raise _malformed("the answer does not begin with a status of HTTP/1.1")
        headers: list[tuple[str, str]] = []
        for row in lines:
            header = _HEADER.fullmatch(row)
            if header is None:
                raise _malformed("the answer has an invalid header")
            name, value = header[1].decode("ascii"), header[2].decode("latin-1")
            headers.append((name.lower(), value.rstrip(" \t")))
        if int(match[2]) == _SWITCHING:
            raise _malformed("the answer switches to another protocol")
        tokens = {
            token.strip().lower()
            for name, value in headers
            if name == "connection"
            for token in value.split(",")
        }
        return Answer(
            status=int(match[2]),
            headers=tuple(headers),
            keeps=match[1] == b"1" and "close" not in tokens,
        )

    def _read_body(self, head: Answer) -> Generator[None, None, bytes]:
        encodings = [v for n, v in head.headers if n == "transfer-encoding"]
        lengths = {v for n, v in head.headers if n == "content-length"}
        if encodings:
            if lengths or len(encodings) > 1 or encodings[0].lower() != "chunked":
                raise _malformed("the answer does not clearly define its length")
        elif len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
            raise _malformed("the length of the answer is not a number")
        if head.status in _BODILESS:
            return b""
        if encodings:
            return (yield from self._read_chunks())
        if lengths:
            length = int(lengths.pop())
            self._bound_body(length)
            return (yield from self._take(length))
        self._endless = head
        while True:
            self._bound_body(len(self._buffer))
            yield

    def _read_chunks(self) -> Generator[None, None, bytes]:
        body = bytearray()
        size = -1
        while size:
            match = _CHUNK.fullmatch((yield from self._read_line()))
            if match is None:
                raise _malformed("a chunk of the answer has no size")
            size = int(match[1], 16)
            self._bound_body(len(body) + size)
            if size:
                chunk = yield from self._take(size + 2)
                if not chunk.endswith(b"\r\n"):
                    raise _malformed("a chunk of the answer is longer than its size")
                body += chunk[:-2]
        while trailer := (yield from self._read_line()):
            self._framing += len(trailer) + 2
            self._bound_framing(0)
            if not _HEADER.fullmatch(trailer):
                raise _malformed("the answer has an invalid trailer")
        return bytes(body)

    def _read_line(self) -> Generator[None, None, bytes]:
        """Parse a line between chunks, and return it without its end."""
        while (size := self._buffer.find(b"\r\n", 0, _CHUNK_LINE_MAX + 2)) < 0:
            if len(self._buffer) > _CHUNK_LINE_MAX:
                raise _malformed("a chunk of the answer has no size")
            yield
        return (yield from self._take(size + 2))[:-2]

    def _take(self, size: int) -> Generator[None, None, bytes]:
        while len(self._buffer) < size:
            yield
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _bound_framing(self, more: int) -> None:
        if self._framing + more > HEAD_BYTES_MAX:
            raise HttpError(
                Trouble.TOO_LARGE, f"the head has more than {HEAD_BYTES_MAX} bytes"
            )

    def _bound_body(self, size: int) -> None:
        if size > self._body_max:
            raise HttpError(
                Trouble.TOO_LARGE, f"the answer has more than {self._body_max} bytes"
            )
