"""Reads one HTTP/1.1 answer from bytes: pieces in, an `Answer` or an `HttpError` out.

It knows no socket and no time. It is stricter than the library's: two lengths, a
folded header or a bare line feed are no answer, since two readers of them may see
two different ones.
"""

from __future__ import annotations

import enum
import re

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
        self._body = bytearray()
        self._head: Answer | None = None
        self._seen = 0
        """Bytes of heads and of what frames chunks, which have a bound together."""
        self._interims = 0
        self._length: int | None = None
        """Of the body, where it is told; else it ends with the connection."""
        self._is_chunked = False
        self._left = 0
        """Bytes of the present chunk that are to come, its line end too."""
        self._in_trailer = False
        self.answer: Answer | None = None

    @property
    def has_begun(self) -> bool:
        """Tell whether anything has come."""
        return self._seen > 0 or bool(self._buffer) or self._head is not None

    def feed(self, piece: bytes) -> None:
        """Take a piece; `answer` is there once it is whole. Raises HttpError."""
        self._buffer += piece
        while self._head is None:
            line_end = self._buffer.find(b"\r\n\r\n")
            if line_end < 0:
                self._bound_head(len(self._buffer))
                # A line feed alone never ends a line: say so before time is up.
                if re.search(rb"(?<!\r)\n", self._buffer):
                    raise _malformed("a line of the answer ends without CR LF")
                return
            self._bound_head(line_end)
            self._seen += line_end + 4
            head = bytes(self._buffer[:line_end])
            del self._buffer[: line_end + 4]
            self._take_head(head)
        self._take_body()

    def end(self) -> None:
        """Take the connection's end; raises HttpError where something is missing."""
        if self.answer is not None:
            return
        if self._head is None or self._is_chunked or self._length is not None:
            part = "before" if not self.has_begun else "in the middle of"
            raise HttpError(Trouble.RESET, f"the connection ended {part} the answer")
        self._finish(keeps=False)

    def _bound_head(self, size: int) -> None:
        if self._seen + size > HEAD_BYTES_MAX:
            raise HttpError(
                Trouble.TOO_LARGE, f"the head has more than {HEAD_BYTES_MAX} bytes"
            )

    def _take_head(self, head: bytes) -> None:
        line, *lines = head.split(b"\r\n")
        found = _STATUS_LINE.fullmatch(line)
        if found is None:
            raise _malformed("the answer does not begin with a status of HTTP/1.1")
        status = int(found[2])
        headers: list[tuple[str, str]] = []
        for each in lines:
            header = _HEADER.fullmatch(each)
            if header is None:
                raise _malformed("a header of the answer is none")
            name, value = header[1].decode("ascii"), header[2].decode("latin-1")
            headers.append((name.lower(), value.rstrip(" \t")))
        if status == _SWITCHING:
            raise _malformed("the answer switches to another protocol")
        if status < _FINAL:
            self._interims += 1
            if self._interims > INTERIM_MAX:
                raise _malformed("there are too many interim answers")
            return
        self._frame(Answer(status=status, headers=tuple(headers)), minor=found[1])

    def _frame(self, head: Answer, *, minor: bytes) -> None:
        """Find out where the body ends."""
        encodings = [v for n, v in head.headers if n == "transfer-encoding"]
        lengths = {v for n, v in head.headers if n == "content-length"}
        tokens = {
            token.strip().lower()
            for name, value in head.headers
            if name == "connection"
            for token in value.split(",")
        }
        if encodings:
            if lengths or len(encodings) > 1 or encodings[0].lower() != "chunked":
                raise _malformed("the answer does not say clearly where it ends")
            self._is_chunked = True
        elif lengths:
            length = lengths.pop()
            if lengths or not _LENGTH.fullmatch(length):
                raise _malformed("the length of the answer is no number")
            self._length = int(length)
        if head.status in _BODILESS:
            self._is_chunked, self._length = False, 0
        self._bound_body(self._length or 0)
        keeps = minor == b"1" and "close" not in tokens
        self._head = Answer(status=head.status, headers=head.headers, keeps=keeps)

    def _bound_body(self, size: int) -> None:
        if size > self._body_max:
            raise HttpError(
                Trouble.TOO_LARGE, f"the answer has more than {self._body_max} bytes"
            )

    def _take_body(self) -> None:
        if self._is_chunked:
            while self.answer is None and self._take_chunk():
                pass
            return
        wanted = self._length
        self._bound_body(len(self._body) + len(self._buffer) if wanted is None else 0)
        if wanted is None:
            self._body += self._buffer
            self._buffer.clear()
        elif len(self._buffer) >= wanted:
            self._body += self._buffer[:wanted]
            del self._buffer[:wanted]
            self._finish(keeps=True)

    def _take_chunk(self) -> bool:
        """Take what is there of one chunk; tell whether to look again."""
        if self._left:
            return self._take_chunk_data()
        line_end = self._buffer.find(b"\r\n")
        if line_end < 0 and len(self._buffer) <= _CHUNK_LINE_MAX:
            return False
        if line_end < 0 or line_end > _CHUNK_LINE_MAX:
            raise _malformed("a chunk of the answer has no size")
        line = bytes(self._buffer[:line_end])
        del self._buffer[: line_end + 2]
        if self._in_trailer:
            self._seen += line_end + 2
            self._bound_head(0)
            if not line:
                self._finish(keeps=True)
            elif not _HEADER.fullmatch(line):
                raise _malformed("a trailer of the answer is none")
            return True
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise _malformed("a chunk of the answer has no size")
        size = int(found[1], 16)
        self._bound_body(len(self._body) + size)
        if size:
            self._left = size + 2
        else:
            self._in_trailer = True
        return True

    def _take_chunk_data(self) -> bool:
        if len(self._buffer) < self._left:
            return False
        size = self._left - 2
        if not self._buffer.startswith(b"\r\n", size):
            raise _malformed("a chunk of the answer is longer than it says")
        self._body += self._buffer[:size]
        del self._buffer[: size + 2]
        self._left = 0
        return True

    def _finish(self, *, keeps: bool) -> None:
        assert self._head is not None, "the head comes first"
        # What comes behind the answer was not asked for: nobody knows what it is.
        is_clean = keeps and self._head.keeps and not self._buffer
        self.answer = Answer(
            status=self._head.status,
            headers=self._head.headers,
            body=bytes(self._body),
            keeps=is_clean,
        )
