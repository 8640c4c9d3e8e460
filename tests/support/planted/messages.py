"""Requests and responses of HTTP/1.1 as values, and the connection that carries them.

Bytes in, bytes out: no sockets, so that an exchange can be played without a server.
"""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from forewarn.instants import SECOND, Micros

HEAD_MAX: Final = 16 * 1024
"""Bytes of a request line and its headers: clients send a few hundred."""

BODY_MAX: Final = 64 * 1024
"""Bytes of a body: a thousand approvals."""

_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (\S+) HTTP/1\.([01])", re.ASCII)
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", re.ASCII)
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_LENGTH = re.compile(r"\d{1,9}", re.ASCII)


@functools.lru_cache(256)
def split(target: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the path and the parameters of a target."""
    parts = urlsplit(target)
    return parts.path, parse_qsl(parts.query, keep_blank_values=True)


@dataclass(frozen=True, slots=True)
class Request:
    """A whole request."""

    method: str
    target: str
    minor: int
    """Minor version: 1 for HTTP/1.1."""
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    def all(self, name: str) -> list[str]:
        """Return the values of a header, whose name is in lower case."""
        return [value for key, value in self.headers if key.lower() == name]

    @property
    def path(self) -> str:
        """Return the path as it came."""
        return split(self.target)[0]

    def query(self, name: str) -> list[str]:
        """Return the values of a parameter."""
        return [value for key, value in split(self.target)[1] if key == name]


@dataclass(frozen=True, slots=True)
class Response:
    """A status, headers beside those of every response, and a body."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json; charset=utf-8"


class MalformedError(Exception):
    """No request can be read; the connection ends with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


Answers = Callable[[Request, Micros], Response]
"""Gives the response to a request at a time."""


class Connection:
    """One client's connection; a defect overrides one method."""

    def __init__(self, answers: Answers, now: Callable[[], Micros]) -> None:
        self._answers = answers
        self._now = now
        self._buffer = b""
        self._is_expected = False
        self.is_closing = False

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the client; return what is sent for them."""
        self._buffer += data
        sent = b""
        while not self.is_closing:
            try:
                request = self._request()
            except MalformedError as error:
                self.is_closing = True
                body = b'{"error":"Bad request."}'
                return sent + self.encode(None, Response(error.status, body))
            if request is None:
                sent += self._interim()
                break
            self._is_expected = False
            now = self._now()
            response = self._answers(request, now)
            self.is_closing = not self.keeps_open(request)
            sent += self.encode(request, response)
        return sent

    # -- what a defect may change ----------------------------------------------------

    def keeps_open(self, request: Request) -> bool:
        """Whether another request may follow."""
        wishes = {
            tag.strip().lower()
            for value in request.all("connection")
            for tag in value.split(",")
        }
        return "close" not in wishes and (request.minor == 1 or "keep-alive" in wishes)

    def continues(self) -> bytes:
        """Return what invites a body that waits to be asked for (clause 1.12)."""
        return b"HTTP/1.1 100 Continue\r\n\r\n"

    def body_of(self, head: Request) -> tuple[bytes, int] | None:
        """Return the body in the buffer and how much of it that takes, if it is there."""
        return framed(head, self._buffer)

    def headers(
        self, request: Request | None, response: Response
    ) -> list[tuple[str, str]]:
        """Return all headers of a response."""
        headers = [("Date", formatdate(self._now() // SECOND, usegmt=True))]
        if response.status not in {HTTPStatus.NOT_MODIFIED, HTTPStatus.NO_CONTENT}:
            headers.append(("Content-Type", response.content_type))
            headers.append(("Content-Length", str(len(response.body))))
        headers += response.headers
        if self.is_closing:
            headers.append(("Connection", "close"))
        elif request is not None and request.minor == 0:
            headers.append(("Connection", "keep-alive"))
        return headers

    def status_line(self, response: Response) -> str:
        """Return the first line of a response."""
        return f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"

    def sent_body(self, request: Request | None, response: Response) -> bytes:
        """Return what follows the headers."""
        is_head = request is not None and request.method == "HEAD"
        return b"" if is_head else response.body

    def encode(self, request: Request | None, response: Response) -> bytes:
        """Return the bytes of a response."""
        lines = [self.status_line(response)]
        lines += [f"{name}: {value}" for name, value in self.headers(request, response)]
        head = "\r\n".join((*lines, "", "")).encode("latin-1")
        return head + self.sent_body(request, response)

    # -- reading ---------------------------------------------------------------------

    def _request(self) -> Request | None:
        """Take a whole request out of the buffer, if there is one."""
        end = self._buffer.find(b"\r\n\r\n")
        if end > HEAD_MAX or (end < 0 and len(self._buffer) > HEAD_MAX):
            raise MalformedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if end < 0:
            return None
        head = parsed_head(self._buffer[:end].decode("latin-1"))
        whole = self._buffer
        self._buffer = whole[end + 4 :]
        parsed = self.body_of(head)
        if parsed is None:
            self._is_expected = "100-continue" in map(str.lower, head.all("expect"))
            self._buffer = whole
            return None
        body, length = parsed
        self._buffer = self._buffer[length:]
        return Request(head.method, head.target, head.minor, head.headers, body)

    def _interim(self) -> bytes:
        if not self._is_expected or not self._buffer.endswith(b"\r\n\r\n"):
            return b""
        return self.continues()


def parsed_head(text: str) -> Request:
    """Return a request without its body; raises MalformedError."""
    first, *lines = text.split("\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise MalformedError(HTTPStatus.BAD_REQUEST)
    headers: list[tuple[str, str]] = []
    for row in lines:
        match = _HEADER.fullmatch(row)
        if match is None:
            raise MalformedError(HTTPStatus.BAD_REQUEST)
        headers.append((match[1], match[2]))
    request = Request(line[1], line[2], int(line[3]), tuple(headers))
    if request.minor == 1 and len(request.all("host")) != 1:
        raise MalformedError(HTTPStatus.BAD_REQUEST)
    return request


def framed(head: Request, buffer: bytes) -> tuple[bytes, int] | None:
    """Return the body at the beginning of `buffer`, and the bytes that it takes.

    None: it is not all there. Raises MalformedError for a framing that is not one.
    """
    lengths = head.all("content-length")
    codings = [value.lower() for value in head.all("transfer-encoding")]
    if codings:
        if lengths or codings != ["chunked"]:
            raise MalformedError(HTTPStatus.BAD_REQUEST)
        return _unchunked(buffer)
    if not lengths:
        return b"", 0
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise MalformedError(HTTPStatus.BAD_REQUEST)
    length = int(lengths[0])
    if length > BODY_MAX:
        raise MalformedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return (buffer[:length], length) if len(buffer) >= length else None


def _unchunked(buffer: bytes) -> tuple[bytes, int] | None:
    at = 0
    body = b""
    while (end := buffer.find(b"\r\n", at)) >= 0:
        size = _SIZE.fullmatch(buffer[at:end])
        if size is None:
            raise MalformedError(HTTPStatus.BAD_REQUEST)
        length = int(size[1], 16)
        if len(body) + length > BODY_MAX:
            raise MalformedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        begin = end + 2
        if not length:
            # Trailers say nothing here; an empty line ends them.
            last = 0 if buffer[begin : begin + 2] == b"\r\n" else 2
            position = buffer.find(b"\r\n\r\n", begin) if last else begin
            return (body, position + 2 + last) if position >= 0 else None
        at = begin + length + 2
        if len(buffer) < at:
            return None
        if buffer[at - 2 : at] != b"\r\n":
            raise MalformedError(HTTPStatus.BAD_REQUEST)
        body += buffer[begin : begin + length]
    return None
