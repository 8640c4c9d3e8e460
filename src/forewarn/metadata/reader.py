"""Bytes in, requests out: HTTP/1 on httptools, with limits, and no socket.

A reader never raises: what cannot be understood becomes a refusal, after which it
reads nothing more. Whatever makes the end of a request doubtful is refused, since
the next request would start where an attacker wants it (RFC 9112, 6.3).
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import httptools

from forewarn.metadata import answers, limits
from forewarn.metadata.http import Request, Response


class Received(NamedTuple):
    """A request that was read in full."""

    request: Request
    keep: bool
    """The client wants the connection to stay open."""


class Refused(NamedTuple):
    """A request that was not, and the last answer of its connection."""

    response: Response


class _RefusalError(Exception):
    """Ends the parser's work from inside one of its callbacks."""


class RequestReader:
    """The requests of one connection, in their order."""

    def __init__(self, judge: Callable[[Request], Response | None]) -> None:
        """Begin; `judge` tells what is wrong with a head that expects a 100."""
        self.ready: deque[Received | Refused] = deque()
        self.in_head = False
        self.in_body = False
        self.awaits_continue = False
        """The client sends its body only after `100 Continue`."""
        self.begun = 0
        """Requests that have begun so far."""
        self.is_done = False
        """Nothing more is read: refused, or the client said that it closes."""
        self._judge = judge
        self._refusal: Response | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: dict[str, tuple[str, ...]] = {}
        self._header_count = 0
        self._head_bytes = 0
        self._unfinished_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._http10 = False

    @property
    def is_between(self) -> bool:
        """Tell whether the next byte begins a request."""
        return not (self.in_head or self.in_body)

    def feed(self, data: bytes) -> None:
        """Read `data`; what is complete, or refused, is appended to `ready`."""
        if self.is_done:
            return
        # The parser gathers a header, or a trailer, until it ends; it may never.
        self._unfinished_bytes += len(data)
        if self.in_head and self._unfinished_bytes > limits.HEAD_BYTES_MAX:
            self._end(answers.HEAD_TOO_LARGE)
            return
        if self.in_body and self._unfinished_bytes > limits.MESSAGE_BYTES_MAX:
            self._end(answers.BODY_TOO_LARGE)
            return
        begins = self.is_between and not self.ready
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The request that offered an upgrade is answered as if it had not;
            # what follows it might be in the other protocol already.
            self._close_after_last()
        except httptools.HttpParserInvalidMethodError:
            # A verb that the parser has never heard of is still a verb (1.2);
            # TLS and other noise is not.
            is_verb = begins and not self.ready and data[:1].isupper()
            self._end(answers.STRANGE_VERB if is_verb else answers.MALFORMED)
        except httptools.HttpParserError:
            # Bytes after `Connection: close` are an error to the parser too.
            if not self.is_done:
                self._end(self._refusal or answers.MALFORMED)

    def _end(self, response: Response) -> None:
        self.is_done = True
        self.in_head = self.in_body = self.awaits_continue = False
        self.ready.append(Refused(response))

    def _close_after_last(self) -> None:
        self.is_done = True
        last = self.ready.pop()
        assert isinstance(last, Received), "an upgrade ends a whole request"
        self.ready.append(Received(request=last.request, keep=False))

    def _refuse(self, response: Response) -> None:
        self._refusal = response
        raise _RefusalError

    def _make_request(self) -> Request:
        path, _, query = self._target.decode("latin-1").partition("?")
        return Request(
            method=self._parser.get_method().decode("ascii"),
            path=path,
            query=query,
            headers=self._headers,
            body=b"".join(self._body),
            http10=self._http10,
        )

    # What follows is called by the parser.

    def on_message_begin(self) -> None:
        """Forget the last request."""
        self.begun += 1
        self.in_head = True
        self._target = b""
        self._headers = {}
        self._header_count = 0
        self._head_bytes = self._unfinished_bytes = self._body_bytes = 0
        self._body = []

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._target += url
        if len(self._target) > limits.TARGET_BYTES_MAX:
            self._refuse(answers.TARGET_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer, which counts and is forgotten."""
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
        """Judge the head by itself; what it asks for is judged elsewhere."""
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
        # The parser has refused everything but digits.
        if lengths and int(lengths[0]) > limits.BODY_BYTES_MAX:
            self._refuse(answers.BODY_TOO_LARGE)

    def _check_expectation(self) -> None:
        expected = self._headers.get("expect", ())
        if not expected or self._http10:
            return
        if [value.lower() for value in expected] != ["100-continue"]:
            self._refuse(answers.EXPECTATION)
        refusal = self._judge(self._make_request())
        if refusal is not None:
            # Nobody knows whether the body comes nevertheless.
            self._refuse(refusal)
        self.awaits_continue = True

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self.awaits_continue = False
        self._body_bytes += len(body)
        if self._body_bytes > limits.BODY_BYTES_MAX:
            self._refuse(answers.BODY_TOO_LARGE)
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Hand the request out."""
        self.in_body = self.awaits_continue = False
        keep = self._parser.should_keep_alive()
        self.ready.append(Received(request=self._make_request(), keep=keep))
        self._body = []
        self.is_done = not keep
