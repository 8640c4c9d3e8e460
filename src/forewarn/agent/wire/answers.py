"""Reads one HTTP/1.1 answer from bytes: pieces in, an `Answer` or an `HttpError` out.

It knows no socket and no time. It is stricter than the library's: two lengths, a
folded header or a bare line feed are no answer, since two readers of them may see
two different ones.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Generator
from dataclasses import replace

from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass

HEAD_BYTES_MAX = 16_384
"""Of the lines before the body, those of interim answers too: the usual head has
200 bytes, and a proxy's cookies do not concern us."""

BODY_BYTES_MAX = 1 << 20
"""Of a body, unless somebody says otherwise: sixteen times a useful document."""

INTERIM_MAX = 8
"""Interim answers (1xx) before the one that counts."""

_CHUNK_LINE_MAX = 256
"""Bytes of the line before a chunk: a size, and an extension that nobody sends."""

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
    """Why an exchange gave no answer; the value is a metric's label."""

    TIMEOUT = "timeout"
    REFUSED = "refused"
    """Nobody listens there."""
    RESET = "reset"
    """The connection ended in the middle."""
    UNREACHABLE = "unreachable"
    """There is no way to the host, or no host of that name."""
    MALFORMED = "malformed"
    """What came is no HTTP/1.1."""
    TOO_LARGE = "too_large"
    """What came is longer than what is read."""
    TLS = "tls"
    """The certificate is not trusted, or there is no TLS."""
    REQUEST = "request"
    """What should have been sent cannot be written as HTTP: our own fault."""
    STOPPED = "stopped"
    """We ended it ourselves."""


class HttpError(ForewarnError):
    """An exchange gave no whole answer: the only error of `http.Client`."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        """Say which kind of trouble, and a sentence."""
        super().__init__(message)
        self.trouble = trouble


@frozen_dataclass
class Answer:
    """One whole answer."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    """Names in lower case."""
    body: bytes = b""
    keeps: bool = False
    """The connection may be used again."""

    def header(self, name: str) -> str | None:
        """Return the first value of a header, by its name in lower case."""
        for each, value in self.headers:
            if each == name:
                return value
        return None


def _malformed(sentence: str) -> HttpError:
    return HttpError(Trouble.MALFORMED, sentence)


class Reader:
    """Takes an answer piece by piece, however it is cut."""

    def __init__(self, *, body_max: int = BODY_BYTES_MAX) -> None:
        """Wait for the status line."""
        self._body_max = body_max
        self._buffer = bytearray()
        self._framing = 0
        """Bytes of heads and trailers so far, which have a bound together."""
        self._endless: Answer | None = None
        """The head of an answer whose body ends with the connection."""
        self._reading = self._read()
        """Goes on with each piece, as far as it can."""
        self.has_begun = False
        """Whether anything has come."""
        self.answer: Answer | None = None

    def feed(self, piece: bytes) -> None:
        """Take a piece; `answer` is there once it is whole. Raises HttpError."""
        self.has_begun = self.has_begun or bool(piece)
        self._buffer += piece
        next(self._reading, None)

    def end(self) -> None:
        """Take the connection's end; raises HttpError where something is missing."""
        if self.answer is not None:
            return
        if self._endless is None:
            part = "in the middle of" if self.has_begun else "before"
            raise HttpError(Trouble.RESET, f"the connection ended {part} the answer")
        self.answer = replace(self._endless, body=bytes(self._buffer), keeps=False)

    def _read(self) -> Generator[None, None, None]:
        """Read one answer; each `yield` waits for the next piece."""
        for _ in range(INTERIM_MAX + 1):
            head = yield from self._read_head()
            if head.status >= _FINAL:
                break
        else:
            raise _malformed("there are too many interim answers")
        body = yield from self._read_body(head)
        # What comes behind the answer was not asked for: nobody knows what it is.
        keeps = head.keeps and not self._buffer
        self.answer = replace(head, body=body, keeps=keeps)

    def _read_head(self) -> Generator[None, None, Answer]:
        while (size := self._buffer.find(b"\r\n\r\n")) < 0:
            self._bound_framing(len(self._buffer))
            # A line feed alone never ends a line: say so before time is up.
            if re.search(rb"(?<!\r)\n", self._buffer):
                raise _malformed("a line of the answer ends without CR LF")
            yield
        self._bound_framing(size)
        self._framing += size + 4
        line, *lines = (yield from self._take(size + 4))[:-4].split(b"\r\n")
        found = _STATUS_LINE.fullmatch(line)
        if found is None:
            raise _malformed("the answer does not begin with a status of HTTP/1.1")
        headers: list[tuple[str, str]] = []
        for each in lines:
            header = _HEADER.fullmatch(each)
            if header is None:
                raise _malformed("a header of the answer is none")
            name, value = header[1].decode("ascii"), header[2].decode("latin-1")
            headers.append((name.lower(), value.rstrip(" \t")))
        if int(found[2]) == _SWITCHING:
            raise _malformed("the answer switches to another protocol")
        tokens = {
            token.strip().lower()
            for name, value in headers
            if name == "connection"
            for token in value.split(",")
        }
        return Answer(
            status=int(found[2]),
            headers=tuple(headers),
            keeps=found[1] == b"1" and "close" not in tokens,
        )

    def _read_body(self, head: Answer) -> Generator[None, None, bytes]:
        encodings = [v for n, v in head.headers if n == "transfer-encoding"]
        lengths = {v for n, v in head.headers if n == "content-length"}
        if encodings:
            if lengths or len(encodings) > 1 or encodings[0].lower() != "chunked":
                raise _malformed("the answer does not say clearly where it ends")
        elif len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
            raise _malformed("the length of the answer is no number")
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
            found = _CHUNK.fullmatch((yield from self._read_line()))
            if found is None:
                raise _malformed("a chunk of the answer has no size")
            size = int(found[1], 16)
            self._bound_body(len(body) + size)
            if size:
                chunk = yield from self._take(size + 2)
                if not chunk.endswith(b"\r\n"):
                    raise _malformed("a chunk of the answer is longer than it says")
                body += chunk[:-2]
        while trailer := (yield from self._read_line()):
            self._framing += len(trailer) + 2
            self._bound_framing(0)
            if not _HEADER.fullmatch(trailer):
                raise _malformed("a trailer of the answer is none")
        return bytes(body)

    def _read_line(self) -> Generator[None, None, bytes]:
        """Read a line between chunks, without its end."""
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
