"""Bytes in, requests out: HTTP/1 on httptools, with limits and without a socket.

A reader never raises. An invalid request becomes a refusal, after which the reader
stops. It refuses every request whose end is ambiguous, because an attacker could then
choose where the next request starts (RFC 9112, 6.3).

The parser accepts slightly more than RFC 9112. The reader therefore gives it one request
at a time, with the head in one piece, and first checks the lines that determine the
framing.
"""

import re
import sys
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, NoReturn

import httptools

from forewarn.metadata import answers, limits
from forewarn.metadata.http import Request, Response

_LINE_END = b"\r\n"
_HEAD_END = b"\r\n\r\n"

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_FIRST_LINE = re.compile(
    rb"(" + _TOKEN + rb"+) [^\x00-\x20\x7f]+ HTTP/[0-9]\.[0-9]\r\n"
)
_BEGINNING = re.compile(_TOKEN)
_PARSED_VERBS = frozenset(
    [b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT"]
)
_STAND_IN = b"POST"
"""The verb that the parser gets instead of any other verb. It refuses unknown verbs,
but these must get their response in the order of the checks (1.6)."""

_BLANKS = re.compile(rb"[\r\n]*")
_BARE_LF = re.compile(rb"(?<!\r)\n")

_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"'
_CHUNK_LINE = re.compile(
    rb"([0-9a-fA-F]{1,16})(?:[ \t]*;[ \t]*%b+(?:[ \t]*=[ \t]*(?:%b+|%b))?)*\r\n"
    % (_TOKEN, _TOKEN, _QUOTED)
)

_UPGRADE = re.compile(rb"\r\nupgrade:[\t\x20-\x7e\x80-\xff]*(?=\r\n)", re.IGNORECASE)
"""A server may ignore the Upgrade header (RFC 9110, 7.8), but the parser would then skip
the request's body. Java's client sends this header with every first request."""


class Received(NamedTuple):
    """A request that was read in full."""

    request: Request
    keep: bool
    """The client asks to keep the connection open."""


class Refused(NamedTuple):
    """A request that was not read in full, and the last response of its connection."""

    response: Response
    request: Request | None = None
    """The part that was read; None: the head is incomplete."""


class _RefusalError(Exception):
    """Stops the parser from inside one of its callbacks."""


class RequestReader:
    """The requests of one connection, in order."""

    # Created at the first byte: many connections send only cached requests.
    _parser: httptools.HttpRequestParser

    def __init__(self, judge: Callable[[Request], Response | None]) -> None:
        """Start; `judge` returns the refusal of a request whose body must not be read."""
        self.ready: deque[Received | Refused] = deque()
        self.in_head = False
        self.in_body = False
        self.awaits_continue = False
        """The client sends the body only after `100 Continue`."""
        self.begun = 0
        """Number of requests that have begun so far."""
        self.is_done = False
        """Reading has ended: a request was refused, or the client announced a close."""
        self._judge: Callable[[Request], Response | None] = judge
        self._refusal: Response | None = None
        self._has_parser = False
        self._kept = b""
        """The beginning of a head or line whose end was not received yet."""
        self._data = b""
        """The received data that was not read yet, from `_at` on."""
        self._at = 0
        self._verb = b""
        self._http10 = False
        self._clear()

    def _clear(self) -> None:
        """Reset the state of the last request."""
        self._left = 0
        """Remaining bytes of the body or of its chunk."""
        self._chunks = 0
        self._tail = b""
        """The last bytes that were read, in the trailers of a chunked body."""
        self._was_offered = False
        """The request has an Upgrade header."""
        self._target = b""
        self._headers: dict[str, tuple[str, ...]] = {}
        self._header_count = 0
        self._head_bytes = 0
        self._framed_bytes = 0
        """Bytes of the body that were read, including chunk lines and trailers."""
        self._body: list[bytes] = []
        self._body_bytes = 0

    @property
    def is_between(self) -> bool:
        """Return whether the next byte begins a request."""
        return not (self.in_head or self.in_body)

    @property
    def is_idle(self) -> bool:
        """Return whether there is no unfinished request and no data."""
        return not (self.in_head or self.in_body or self.ready or self._data)

    @property
    def has_unread(self) -> bool:
        """Return whether `read_on` has something to read."""
        return bool(self._data)

    @property
    def unfinished(self) -> Request | None:
        """Return the request with an incomplete body, as far as it was read."""
        return self._make_request() if self.in_body else None

    def feed(self, data: bytes) -> None:
        """Read the whole of `data`: complete or refused requests go to `ready`."""
        self.take(data)
        self.read_on(requests=sys.maxsize, steps=sys.maxsize)

    def take(self, data: bytes) -> None:
        """Store `data` for `read_on`."""
        if self.is_done:
            return
        rest = self._kept or self._data[self._at :]
        self._data = rest + data if rest else data
        self._kept = b""
        self._at = 0

    def read_on(
        self,
        *,
        requests: int = limits.PIPELINE_MAX,
        steps: int = limits.READ_STEPS_MAX,
    ) -> None:
        """Read until `requests` are ready, or for so many `steps` of the parser."""
        data, at, end = self._data, self._at, len(self._data)
        try:
            while at < end and steps and len(self.ready) < requests:
                if self.is_done:
                    break
                steps -= 1
                at = self._read_body(data, at) if self.in_body else self._go(data, at)
        except httptools.HttpParserUpgrade:
            # CONNECT: the data after it may be in another protocol.
            self._close_after_last()
        except (httptools.HttpParserError, _RefusalError):
            self._end(self._refusal or answers.MALFORMED)
        self._at = at
        if at == end or self.is_done:
            self._data = b""
            self._at = 0

    def close(self) -> None:
        """Stop reading, and drop the references to the connection."""
        self.is_done = True
        self._data = b""
        self._judge = lambda _request: None
        if self._has_parser:
            self._has_parser = False
            del self._parser

    def _go(self, data: bytes, at: int) -> int:
        """Read a head at `at`; return where it ends."""
        if not self.in_head:
            at = _skip_blanks(data, at)
            if at == len(data):
                return at
            self._begin()
        return self._read_head(data, at)

    def _read_body(self, data: bytes, at: int) -> int:
        """Read a part of the body at `at`; return where it ends."""
        if self._left:
            end = min(len(data), at + self._left)
            self._left -= end - at
            self._parse_body(data, at, end)
            return end
        read = self._read_trailers if self._tail else self._read_chunk_line
        return read(data, at)

    def _parse_body(self, data: bytes, at: int, end: int) -> None:
        """Parse a part of the body or of its framing, and count it."""
        self._framed_bytes += end - at
        if self._framed_bytes > limits.MESSAGE_BYTES_MAX:
            self._refuse(answers.BODY_TOO_LARGE)
        self._parser.feed_data(data[at:end] if at or end < len(data) else data)

    def _read_head(self, data: bytes, at: int) -> int:
        end = data.find(_HEAD_END, at)
        if end < 0:
            self._keep(data, at)
            return len(data)
        end += len(_HEAD_END)
        if end - at > limits.HEAD_BYTES_MAX + limits.TARGET_BYTES_MAX:
            self._refuse(answers.HEAD_TOO_LARGE)
        line = _FIRST_LINE.match(data, at)
        if line is None:
            self._refuse(answers.MALFORMED)
        head = data if end - at == len(data) else data[at:end]
        verb = self._verb = line[1]
        if verb not in _PARSED_VERBS:
            if len(verb) > limits.VERB_BYTES_MAX:
                self._refuse(answers.MALFORMED)
            head = _STAND_IN + head[len(verb) :]
        if _UPGRADE.search(head):
            self._was_offered = True
            head = _UPGRADE.sub(b"", head)
        self._parser.feed_data(head)
        return end

    def _read_chunk_line(self, data: bytes, at: int) -> int:
        end = data.find(_LINE_END, at)
        if end < 0:
            self._keep(data, at)
            return len(data)
        end += len(_LINE_END)
        line = _CHUNK_LINE.fullmatch(data, at, end)
        self._chunks += 1
        if line is None or self._chunks > limits.CHUNKS_MAX:
            self._refuse(answers.MALFORMED)
        size = int(line[1], 16)
        if size > limits.BODY_BYTES_MAX:
            self._refuse(answers.BODY_TOO_LARGE)
        # A line end follows a chunk; trailers follow the last one.
        self._left = size + len(_LINE_END) if size else 0
        self._tail = b"" if size else _LINE_END
        self._parse_body(data, at, end)
        return end

    def _read_trailers(self, data: bytes, at: int) -> int:
        # The empty line at the end of the trailers may have begun in earlier data.
        window = self._tail + data[at:]
        found_at = window.find(_HEAD_END)
        end = len(data)
        if found_at >= 0:
            end = at + found_at + len(_HEAD_END) - len(self._tail)
        self._tail = window[-len(_HEAD_END) + 1 :]
        self._parse_body(data, at, end)
        return end

    def _keep(self, data: bytes, at: int) -> None:
        """Wait for the end of a head or line, unless it is already invalid."""
        rest = self._kept = data[at:]
        # An invalid request is refused at once, without a timeout.
        if _BARE_LF.search(rest):
            self._refuse(answers.MALFORMED)
        if self.in_body:
            if len(rest) > limits.LINE_BYTES_MAX:
                self._refuse(answers.HEAD_TOO_LARGE)
            return
        if b"\r\n" in rest:
            if not _FIRST_LINE.match(rest):
                self._refuse(answers.MALFORMED)
        elif not _BEGINNING.match(rest):
            self._refuse(answers.MALFORMED)
        elif len(rest) > limits.TARGET_BYTES_MAX:
            self._refuse(answers.TARGET_TOO_LONG)
        if len(rest) > limits.HEAD_BYTES_MAX:
            self._refuse(answers.HEAD_TOO_LARGE)

    def _begin(self) -> None:
        """Begin a request."""
        if not self._has_parser:
            self._has_parser = True
            self._parser = httptools.HttpRequestParser(self)
        self.begun += 1
        self.in_head = True
        self._clear()

    def _end(self, response: Response) -> None:
        self.is_done = True
        refused = Refused(response, self.unfinished)
        self.in_head = self.in_body = self.awaits_continue = False
        self.ready.append(refused)

    def _close_after_last(self) -> None:
        self.is_done = True
        last = self.ready.pop()
        assert isinstance(last, Received), "an upgrade ends a whole request"
        self.ready.append(Received(request=last.request, keep=False))

    def _refuse(self, response: Response) -> NoReturn:
        self._refusal = response
        raise _RefusalError

    def _make_request(self) -> Request:
        path, _, query = self._target.decode("latin-1").partition("?")
        return Request(
            method=self._verb.decode("ascii"),
            path=path,
            query=query,
            headers=self._headers,
            body=b"".join(self._body),
            http10=self._http10,
            overhead=max(0, self._framed_bytes - self._body_bytes),
        )

    # The parser calls the following methods.

    def on_url(self, url: bytes) -> None:
        """Append a part of the target."""
        self._target += url
        if len(self._target) > limits.TARGET_BYTES_MAX:
            self._refuse(answers.TARGET_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; only count a trailer."""
        self._head_bytes += len(name) + len(value) + len(": \r\n")
        if self._head_bytes > limits.HEAD_BYTES_MAX:
            self._refuse(answers.HEAD_TOO_LARGE)
        if not self.in_head:
            return
        self._header_count += 1
        if self._header_count > limits.HEADERS_MAX:
            self._refuse(answers.HEAD_TOO_LARGE)
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1").strip(" \t")
        self._headers[key] = (*self._headers.get(key, ()), text)

    def on_headers_complete(self) -> None:
        """Check the head itself; other modules check the requested path."""
        self.in_head = False
        self.in_body = True
        version = self._parser.get_http_version()
        if version not in {"1.0", "1.1"}:
            self._refuse(
                answers.MALFORMED if version == "0.9" else answers.HTTP_VERSION
            )
        self._http10 = version == "1.0"
        self._check_framing()
        self._check_expectation()
        self._check_caller()

    def _check_framing(self) -> None:
        headers = self._headers
        hosts = headers.get("host", ())
        lengths = headers.get("content-length", ())
        codings = headers.get("transfer-encoding", ())
        if len(lengths) + len(codings) > 1 or (self._http10 and codings):
            self._refuse(answers.MALFORMED)
        if len(hosts) > 1 or (not hosts and not self._http10):
            self._refuse(answers.MALFORMED)
        if codings and codings[0].lower() != "chunked":
            self._refuse(answers.MALFORMED)
        # The parser accepts only digits.
        self._left = int(lengths[0]) if lengths else 0
        if self._left > limits.BODY_BYTES_MAX:
            self._refuse(answers.BODY_TOO_LARGE)

    def _check_expectation(self) -> None:
        expected = self._headers.get("expect", ())
        if not expected or self._http10:
            return
        if [value.lower() for value in expected] != ["100-continue"]:
            self._refuse(answers.EXPECTATION)
        self.awaits_continue = True

    def _check_caller(self) -> None:
        """Refuse a body before any of it is stored, if the head is enough to decide."""
        has_body = self._left or "transfer-encoding" in self._headers
        if has_body or self.awaits_continue:
            refusal = self._judge(self._make_request())
            if refusal is not None:
                # The body may arrive although no 100 was sent.
                self._refuse(refusal)

    def on_body(self, body: bytes) -> None:
        """Append a part of the body."""
        self.awaits_continue = False
        self._body_bytes += len(body)
        if self._body_bytes > limits.BODY_BYTES_MAX:
            self._refuse(answers.BODY_TOO_LARGE)
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Add the complete request to `ready`."""
        self.in_body = self.awaits_continue = False
        self._left = 0
        keep = self._parser.should_keep_alive() and not (
            self._is_switching() or self._is_closing()
        )
        self.ready.append(Received(request=self._make_request(), keep=keep))
        self._body = []
        self.is_done = not keep

    def _is_closing(self) -> bool:
        """Return whether an HTTP/1.0 client sent `close`, with or without other options.

        The parser applies `keep-alive`, but `close` takes precedence (RFC 9112, 9.3).
        """
        if not self._http10:
            return False
        options = ",".join(self._headers.get("connection", ())).lower().split(",")
        return any(option.strip(" \t") == "close" for option in options)

    def _is_switching(self) -> bool:
        """Return whether the data after the request may be in another protocol."""
        options = ",".join(self._headers.get("connection", ()))
        return self._was_offered and "upgrade" in options.lower()


def _skip_blanks(data: bytes, at: int) -> int:
    """Return where the next request begins; skip empty lines before it."""
    match = _BLANKS.match(data, at)
    assert match is not None, "the pattern also matches nothing"
    return match.end()
