"""A parser for one HTTP/1.1 answer from an untrusted endpoint.

It parses lengths and chunk sizes strictly as in RFC 9112: two parsers that accept `+5`
or two lengths may see two different answers. It passes headers on unchanged, because
checks judge them. It uses no sockets and no clock, and only the standard library.
"""

import enum
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BODY_BYTES_MAX = 1 << 20
"""Maximum length of an answer's body, in bytes: sixteen times the largest useful
document. A longer body would fill memory or disk."""

HEAD_BYTES_MAX = 65_536
"""Maximum total length of head lines and trailers, in bytes, including those of interim
answers: three hundred times the usual head."""

HEADERS_MAX = 100
"""Maximum number of headers and trailers of an answer: ten times the usual number."""

INTERIM_MAX = 20
"""Maximum number of interim answers (1xx) before an answer: one is usual."""

CHUNK_LINE_BYTES_MAX = 4096
"""Maximum length of the line before a chunk, in bytes: a size and an extension."""

CHUNK_LINES_BYTES_MAX = BODY_BYTES_MAX
"""Maximum total length of these lines, in bytes: enough for chunks of one byte in a
document that is three times the largest useful one."""

RECEIVED_BYTES_MAX = 4096
"""Maximum number of first bytes that are kept of a broken answer: as much as a report
shows of a body."""

_QUOTED_BYTES = 100

_STATUS_LINE = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9][0-9])(?: (.*))?", re.DOTALL)
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):(.*)", re.DOTALL)
_DANGEROUS = re.compile(rb"[\r\x00]")
"""Bytes that a parser must not accept in a header (RFC 9110, 5.5)."""
_LENGTH = re.compile(r"[0-9]+")
_CHUNK = re.compile(rb"([0-9A-Fa-f]+)(?:[ \t]*;[^\x00-\x08\x0a-\x1f\x7f]*)?\r\n")
_BEGINNING = b"HTTP/1."

_BODILESS = frozenset({204, 304})
_SWITCHING = 101
_FINAL = 200
_DIGITS_MAX = 18
"""Maximum number of digits of a number: Python refuses to convert thousands of them."""


class How(enum.Enum):
    """The defects of an answer that has begun."""

    CUT = "cut"
    """The connection ended before the answer did."""
    MALFORMED = "malformed"
    """A line violates RFC 9112."""
    TOO_LONG = "too long"
    """The answer exceeds a maximum length."""
    TOO_SLOW = "too slow"
    """The answer did not end within the time limit."""


class BrokenAnswerError(ConnectionError):
    """An answer began but is not a complete HTTP answer."""

    def __init__(self, how: How, message: str, *, quoted: bytes | None = None) -> None:
        """Store the defect and its description; `quoted`: the wrong bytes."""
        if quoted is not None:
            shown = repr(quoted[:_QUOTED_BYTES])
            more = len(quoted) > _QUOTED_BYTES
            message += f": {shown}" + (f"… ({len(quoted)} bytes)" if more else "")
        super().__init__(message)
        self.how = how
        self.what = message
        self.received = b""
        """The first bytes of the answer."""


class NotHttpError(ConnectionError):
    """The first bytes are not the beginning of an HTTP/1.1 answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A parsed HTTP answer; its body is not parsed."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """Headers in their order. Blanks join the lines of a folded value."""
    body: bytes
    reason: str = ""
    """The text after the status."""

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or None."""
        for header_name, value in self.headers:
            if header_name.lower() == name.lower():
                return value
        return None

    @property
    def json(self) -> Any:
        """Return the body's JSON; raises ValueError."""
        return json.loads(self.body)


class Reader:
    """An incremental parser of one answer, which accepts pieces of any size."""

    def __init__(self, *, method: str = "GET") -> None:
        """Expect the answer to a request with this method."""
        self._is_bare = method == "HEAD"
        self._buffer = bytearray()
        self._received = bytearray()
        self._body = bytearray()
        self._step: Callable[[], bool] = self._take_status
        self._line_bytes = 0
        self._chunk_line_bytes = 0
        self._status = 0
        self._reason = ""
        self._is_old = False
        self._headers: list[tuple[str, str]] = []
        self._trailers: list[tuple[str, str]] = []
        self._length: int | None = None
        self._left = 0
        """Number of missing bytes of the current chunk."""
        self.interims: list[int] = []
        """The statuses of the interim answers so far."""
        self.answer: Answer | None = None
        self.keeps = False
        """Whether the connection can be used again; set together with `answer`."""

    @property
    def has_begun(self) -> bool:
        """Return whether the answer has begun."""
        return bool(self._received)

    @property
    def rest(self) -> bytes:
        """Return the bytes after the answer."""
        return bytes(self._buffer)

    def feed(self, piece: bytes) -> None:
        """Parse a piece; `answer` is set as soon as the answer is complete.

        Raises BrokenAnswerError or NotHttpError.
        """
        self._received += piece[: RECEIVED_BYTES_MAX - len(self._received)]
        self._buffer += piece
        try:
            while self.answer is None and self._step():
                pass
        except BrokenAnswerError as error:
            error.received = bytes(self._received)
            raise

    def end(self) -> None:
        """Handle the end of the connection; raises ConnectionError for a cut answer."""
        if self.answer is not None:
            return
        if not self.has_begun:
            raise ConnectionResetError("the connection ended without an answer")
        if self._step == self._take_rest:
            self._finish(keeps=False)
            return
        raise self.broken(How.CUT, f"the answer is cut short {self.where}")

    @property
    def where(self) -> str:
        """Return the position in an incomplete answer, for a message."""
        if self._step in (self._take_status, self._take_header):
            return "in its head"
        wanted = "" if self._length is None else f" of {self._length}"
        return f"after {len(self._body)}{wanted} bytes of its body"

    def broken(self, how: How, message: str) -> BrokenAnswerError:
        """Return an error with the first bytes of the answer."""
        error = BrokenAnswerError(how, message)
        error.received = bytes(self._received)
        return error

    def _take_line(self) -> bytes | None:
        """Return the next line with its end, or None if it is not complete."""
        at = self._buffer.find(b"\n")
        size = len(self._buffer) if at < 0 else at + 1
        if self._line_bytes + size > HEAD_BYTES_MAX:
            raise BrokenAnswerError(
                How.TOO_LONG, f"its head has more than {HEAD_BYTES_MAX} bytes"
            )
        if at < 0:
            return None
        self._line_bytes += size
        line = bytes(self._buffer[:size])
        del self._buffer[:size]
        return line

    def _take_status(self) -> bool:
        if not _BEGINNING.startswith(bytes(self._buffer[: len(_BEGINNING)])):
            raise NotHttpError(f"no HTTP answer: {bytes(self._buffer[:_QUOTED_BYTES])}")
        line = self._take_line()
        if line is None:
            return False
        match = _STATUS_LINE.fullmatch(_bare(line))
        if match is None:
            raise NotHttpError(f"no HTTP answer: {line[:_QUOTED_BYTES]}")
        self._is_old = match[1] == b"0"
        self._status = int(match[2])
        self._reason = (match[3] or b"").decode("latin-1").strip()
        self._headers.clear()
        self._step = self._take_header
        return True

    def _take_header(self) -> bool:
        line = self._take_line()
        if line is None:
            return False
        if not _bare(line):
            self._end_head()
            return True
        self._add_header(line, to=self._headers)
        return True

    def _add_header(self, line: bytes, *, to: list[tuple[str, str]]) -> None:
        if len(self._headers) + len(self._trailers) >= HEADERS_MAX:
            raise BrokenAnswerError(
                How.TOO_LONG, f"it has more than {HEADERS_MAX} headers"
            )
        bare = _bare(line)
        is_folded = bare[:1] in b" \t" and bool(to)
        match = _HEADER.fullmatch(bare)
        if (match is None and not is_folded) or _DANGEROUS.search(bare):
            raise BrokenAnswerError(
                How.MALFORMED, "a line of its head is not a header", quoted=line
            )
        if match is None or is_folded:
            name, value = to.pop()
            folded = bare.decode("latin-1").strip(" \t")
            to.append((name, f"{value} {folded}"))
            return
        value = match[2].decode("latin-1").strip(" \t")
        to.append((match[1].decode("ascii"), value))

    def _end_head(self) -> None:
        if self._status >= _FINAL:
            self._frame()
            return
        if self._status == _SWITCHING:
            raise BrokenAnswerError(
                How.MALFORMED, "it switches to another protocol without a request (101)"
            )
        self.interims.append(self._status)
        if len(self.interims) > INTERIM_MAX:
            raise BrokenAnswerError(
                How.TOO_LONG, f"more than {INTERIM_MAX} interim answers precede it"
            )
        self._step = self._take_status

    def _frame(self) -> None:
        """Determine the end of the body (RFC 9112, 6.3)."""
        if self._is_bare or self._status in _BODILESS:
            self._finish(keeps=True)
            return
        codings = self._values("transfer-encoding")
        lengths = self._values("content-length")
        if codings and lengths:
            raise BrokenAnswerError(
                How.MALFORMED, "it has Transfer-Encoding and Content-Length"
            )
        if codings:
            if len(codings) > 1 or codings[0].lower() != "chunked" or self._is_old:
                quoted = ", ".join(codings).encode("latin-1")
                raise BrokenAnswerError(
                    How.MALFORMED, "its Transfer-Encoding is not chunked", quoted=quoted
                )
            self._step = self._take_chunk_line
        elif lengths:
            self._length = self._content_length(lengths)
            self._step = self._take_body
        else:
            self._step = self._take_rest

    def _values(self, name: str) -> list[str]:
        return [
            value for header_name, value in self._headers if header_name.lower() == name
        ]

    def _content_length(self, values: list[str]) -> int:
        if len(values) > 1 or not _LENGTH.fullmatch(values[0]):
            quoted = ", ".join(values).encode("latin-1")
            raise BrokenAnswerError(
                How.MALFORMED, "its Content-Length is not a number", quoted=quoted
            )
        digits = values[0].lstrip("0") or "0"
        if len(digits) > _DIGITS_MAX or int(digits) > BODY_BYTES_MAX:
            raise BrokenAnswerError(
                How.TOO_LONG,
                f"its Content-Length is more than {BODY_BYTES_MAX} bytes",
                quoted=values[0].encode("latin-1"),
            )
        return int(digits)

    def _take_body(self) -> bool:
        wanted = self._length or 0
        missing = wanted - len(self._body)
        self._body += self._buffer[:missing]
        del self._buffer[:missing]
        if len(self._body) == wanted:
            self._finish(keeps=True)
        return False

    def _take_rest(self) -> bool:
        self._add(len(self._buffer))
        return False

    def _add(self, size: int) -> None:
        """Move `size` bytes from the buffer to the body."""
        self._bound_body(size)
        self._body += self._buffer[:size]
        del self._buffer[:size]

    def _bound_body(self, size: int) -> None:
        if len(self._body) + size > BODY_BYTES_MAX:
            raise BrokenAnswerError(
                How.TOO_LONG, f"its body has more than {BODY_BYTES_MAX} bytes"
            )

    def _take_chunk_line(self) -> bool:
        at = self._buffer.find(b"\n")
        size = len(self._buffer) if at < 0 else at + 1
        most = min(CHUNK_LINE_BYTES_MAX, CHUNK_LINES_BYTES_MAX - self._chunk_line_bytes)
        if size > most:
            raise BrokenAnswerError(
                How.TOO_LONG,
                f"the line of a chunk has more than {CHUNK_LINE_BYTES_MAX} bytes, or "
                f"all of them together more than {CHUNK_LINES_BYTES_MAX}",
                quoted=bytes(self._buffer[:size]),
            )
        if at < 0:
            return False
        self._chunk_line_bytes += size
        line = bytes(self._buffer[:size])
        del self._buffer[:size]
        match = _CHUNK.fullmatch(line)
        if match is None:
            raise BrokenAnswerError(
                How.MALFORMED, "the size of a chunk is invalid", quoted=line
            )
        digits = match[1].lstrip(b"0") or b"0"
        if len(digits) > _DIGITS_MAX:
            raise BrokenAnswerError(
                How.TOO_LONG,
                f"its body has more than {BODY_BYTES_MAX} bytes: see a chunk's size",
                quoted=line,
            )
        self._left = int(digits, 16)
        self._bound_body(self._left)
        self._step = self._take_chunk if self._left else self._take_trailer
        return True

    def _take_chunk(self) -> bool:
        size = min(self._left, len(self._buffer))
        self._add(size)
        self._left -= size
        if not self._left:
            self._step = self._take_chunk_end
        return not self._left

    def _take_chunk_end(self) -> bool:
        if not b"\r\n".startswith(self._buffer[:2]):
            raise BrokenAnswerError(
                How.MALFORMED,
                "a chunk is longer than its size",
                quoted=bytes(self._buffer[:2]),
            )
        if len(self._buffer) < len(b"\r\n"):
            return False
        del self._buffer[:2]
        self._step = self._take_chunk_line
        return True

    def _take_trailer(self) -> bool:
        line = self._take_line()
        if line is None:
            return False
        if _bare(line):
            self._add_header(line, to=self._trailers)
            return True
        self._finish(keeps=True)
        return False

    def _finish(self, *, keeps: bool) -> None:
        options = ",".join(self._values("connection")).lower().split(",")
        tokens = {option.strip(" \t") for option in options}
        lasts = "keep-alive" in tokens if self._is_old else True
        self.keeps = keeps and lasts and "close" not in tokens
        self.answer = Answer(
            status=self._status,
            headers=tuple(self._headers),
            body=bytes(self._body),
            reason=self._reason,
        )


def _bare(line: bytes) -> bytes:
    """Return a line without its end, which may be a bare line feed (RFC 9112, 2.2)."""
    return line.removesuffix(b"\n").removesuffix(b"\r")
