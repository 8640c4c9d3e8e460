"""Reads one HTTP/1.1 answer of an endpoint that nobody trusts: bytes in, an answer out.

Numbers and lines that say where an answer ends are read as RFC 9112 writes them, and
nothing else is taken for them: two readers of `+5` or of two lengths may see two
different answers. Headers are taken as they come, since checks judge them. It knows
no socket and no time. Standard library only.
"""

import enum
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BODY_BYTES_MAX = 1 << 20
"""Maximum length of an answer's body, in bytes: sixteen times the largest useful
document. What is longer is no answer, and would fill memory or disk."""

HEAD_BYTES_MAX = 65_536
"""Maximum length of an answer's lines before and after the body, in bytes, those of
interim answers too: three hundred times the usual head."""

HEADERS_MAX = 100
"""Maximum number of headers and trailers of an answer: ten times the usual number."""

INTERIM_MAX = 20
"""Maximum number of interim answers (1xx) before an answer: one is usual."""

CHUNK_LINE_BYTES_MAX = 4096
"""Maximum length of the line before a chunk, in bytes: a size and an extension."""

CHUNK_LINES_BYTES_MAX = BODY_BYTES_MAX
"""Maximum length of all these lines together, in bytes: enough for chunks of one byte
in a document that is three times the largest useful one."""

RECEIVED_BYTES_MAX = 4096
"""Maximum length of the beginning that is kept of a broken answer, in bytes, and of a
line that is quoted: as much as a report shows of a body."""

_QUOTED_BYTES = 100

_STATUS_LINE = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9][0-9])(?: (.*))?", re.DOTALL)
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):(.*)", re.DOTALL)
_DANGEROUS = re.compile(rb"[\r\x00]")
"""What no reader may take for a part of a header (RFC 9110, 5.5)."""
_LENGTH = re.compile(r"[0-9]+")
_CHUNK = re.compile(rb"([0-9A-Fa-f]+)(?:[ \t]*;[^\x00-\x08\x0a-\x1f\x7f]*)?\r\n")
_BEGINNING = b"HTTP/1."

_BODILESS = frozenset({204, 304})
_SWITCHING = 101
_FINAL = 200
_DIGITS_MAX = 18
"""Digits of a number that is read; Python refuses to read thousands."""


class How(enum.Enum):
    """How an answer that began can be none."""

    CUT = "cut"
    """The connection ended before the answer did."""
    MALFORMED = "malformed"
    """A line of it is against RFC 9112."""
    TOO_LONG = "too long"
    """It has more bytes than are read."""
    TOO_SLOW = "too slow"
    """It did not end in its time."""


class BrokenAnswerError(ConnectionError):
    """An answer began, and is no whole answer of HTTP."""

    def __init__(self, how: How, what: str, *, quoted: bytes | None = None) -> None:
        """Say how and what; `quoted` are the bytes that are wrong."""
        said = what
        if quoted is not None:
            shown = repr(quoted[:_QUOTED_BYTES])
            more = len(quoted) > _QUOTED_BYTES
            said += f": {shown}" + (f"… ({len(quoted)} bytes)" if more else "")
        super().__init__(said)
        self.how = how
        self.what = what
        self.received = b""
        """The beginning of what came."""


class NotHttpError(ConnectionError):
    """What came does not begin as an answer of HTTP/1.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back, taken apart no further than HTTP does."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """As they came, but that the lines of a folded value are joined by blanks."""
    body: bytes
    reason: str = ""
    """The words after the status."""

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or None."""
        for each, value in self.headers:
            if each.lower() == name.lower():
                return value
        return None

    @property
    def json(self) -> Any:
        """Return the body's JSON; raises ValueError."""
        return json.loads(self.body)


class Reader:
    """Takes an answer piece by piece, however it is cut."""

    def __init__(self, *, method: str = "GET") -> None:
        """Wait for the answer to a request."""
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
        """Bytes of the present chunk that are to come."""
        self.interims: list[int] = []
        """The statuses of the interim answers so far."""
        self.answer: Answer | None = None
        self.keeps = False
        """The connection may be used again; known with the answer."""

    @property
    def has_begun(self) -> bool:
        """Tell whether anything of the answer has come."""
        return bool(self._received)

    @property
    def rest(self) -> bytes:
        """Return what came behind the answer."""
        return bytes(self._buffer)

    def feed(self, piece: bytes) -> None:
        """Take a piece; `answer` is there once it is whole.

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
        """Take the connection's end; raises ConnectionError where something lacks."""
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
        """Return how far an answer has come that is not whole."""
        if self._step in (self._take_status, self._take_header):
            return "in its head"
        wanted = "" if self._length is None else f" of {self._length}"
        return f"after {len(self._body)}{wanted} bytes of its body"

    def broken(self, how: How, what: str) -> BrokenAnswerError:
        """Return an error with what has come."""
        error = BrokenAnswerError(how, what)
        error.received = bytes(self._received)
        return error

    def _take_line(self) -> bytes | None:
        """Return the next line with its end, if it is there."""
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
        begun = bytes(self._buffer[: len(_BEGINNING)])
        if not _BEGINNING.startswith(begun):
            raise NotHttpError(f"no HTTP answer: {bytes(self._buffer[:_QUOTED_BYTES])}")
        line = self._take_line()
        if line is None:
            return False
        found = _STATUS_LINE.fullmatch(_bare(line))
        if found is None:
            raise NotHttpError(f"no HTTP answer: {line[:_QUOTED_BYTES]}")
        self._is_old = found[1] == b"0"
        self._status = int(found[2])
        self._reason = (found[3] or b"").decode("latin-1").strip()
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
        found = _HEADER.fullmatch(bare)
        if (found is None and not is_folded) or _DANGEROUS.search(bare):
            raise BrokenAnswerError(
                How.MALFORMED, "a line of its head is no header", quoted=line
            )
        if found is None or is_folded:
            name, value = to.pop()
            folded = bare.decode("latin-1").strip(" \t")
            to.append((name, f"{value} {folded}"))
            return
        value = found[2].decode("latin-1").strip(" \t")
        to.append((found[1].decode("ascii"), value))

    def _end_head(self) -> None:
        if self._status >= _FINAL:
            self._frame()
            return
        if self._status == _SWITCHING:
            raise BrokenAnswerError(
                How.MALFORMED, "it switches to another protocol, unasked (101)"
            )
        self.interims.append(self._status)
        if len(self.interims) > INTERIM_MAX:
            raise BrokenAnswerError(
                How.TOO_LONG, f"more than {INTERIM_MAX} interim answers come before it"
            )
        self._step = self._take_status

    def _frame(self) -> None:
        """Find out where the body ends (RFC 9112, 6.3)."""
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
        return [value for each, value in self._headers if each.lower() == name]

    def _content_length(self, values: list[str]) -> int:
        if len(values) > 1 or not _LENGTH.fullmatch(values[0]):
            quoted = ", ".join(values).encode("latin-1")
            raise BrokenAnswerError(
                How.MALFORMED, "its Content-Length is no number", quoted=quoted
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
        """Move so many bytes to the body."""
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
                f"the line of a chunk has more than {CHUNK_LINE_BYTES_MAX} bytes, or all "
                f"of them more than {CHUNK_LINES_BYTES_MAX}",
                quoted=bytes(self._buffer[:size]),
            )
        if at < 0:
            return False
        self._chunk_line_bytes += size
        line = bytes(self._buffer[:size])
        del self._buffer[:size]
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise BrokenAnswerError(
                How.MALFORMED, "the size of a chunk is none", quoted=line
            )
        digits = found[1].lstrip(b"0") or b"0"
        if len(digits) > _DIGITS_MAX:
            raise BrokenAnswerError(
                How.TOO_LONG,
                f"its body has more than {BODY_BYTES_MAX} bytes, as a chunk says",
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
                "a chunk is longer than it says",
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
        said = {option.strip(" \t") for option in options}
        lasts = "keep-alive" in said if self._is_old else True
        self.keeps = keeps and lasts and "close" not in said
        self.answer = Answer(
            status=self._status,
            headers=tuple(self._headers),
            body=bytes(self._body),
            reason=self._reason,
        )


def _bare(line: bytes) -> bytes:
    """Return a line without its end, which may be a bare line feed (RFC 9112, 2.2)."""
    return line.removesuffix(b"\n").removesuffix(b"\r")
