"""A request and a response, as values; what they mean is not decided here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple

JSON_TYPE = "application/json; charset=utf-8"
TEXT_TYPE = "text/plain; charset=utf-8"


_NO_HEADERS: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Request(NamedTuple):
    """A request, read in full.

    One is made for each request that is parsed, and a frozen dataclass would
    take three times as long to make.
    """

    method: str
    path: str
    """As it was sent, up to the question mark: still percent-encoded."""
    query: str = ""
    """As it was sent, after the question mark."""
    headers: Mapping[str, tuple[str, ...]] = _NO_HEADERS
    """Names in lower case; every value, without the blanks around it."""
    body: bytes = b""
    http10: bool = False
    overhead: int = 0
    """Bytes that came with the body and are not part of it: chunk lines, trailers."""

    def values(self, name: str) -> tuple[str, ...]:
        """Return every value of the header `name`, which is in lower case."""
        return self.headers.get(name, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer, ready to be sent."""

    status: int
    payload: bytes
    """Status line, headers and body, for a connection that stays open."""
    close: bool = False
    """Nothing more can be read from this connection."""
    takes_date: bool = True
    """A Date header is added when it is sent; a recorded answer may have its own."""

    def bytes_for(self, *, bodiless: bool, connection: str) -> bytes:
        """Return the payload for an unusual request.

        `bodiless` answers HEAD; `connection`, where not empty, tells what becomes
        of the connection.
        """
        payload = self.payload
        if bodiless:
            payload = payload[: payload.index(b"\r\n\r\n") + 4]
        if connection:
            line, rest = payload.split(b"\r\n", 1)
            payload = b"%b\r\nConnection: %b\r\n%b" % (line, connection.encode(), rest)
        return payload

    def with_header(self, name: str, value: str) -> "Response":
        """Return it with one more header, at the end of the others."""
        head, end, body = self.payload.partition(b"\r\n\r\n")
        line = f"\r\n{name}: {value}".encode("ascii")
        return replace(self, payload=head + line + end + body)


def build(
    status: int,
    body: bytes | None,
    *,
    content_type: str = JSON_TYPE,
    headers: Iterable[tuple[str, str]] = (),
    close: bool = False,
) -> Response:
    """Return a response with `body`; None for the statuses that have none.

    The bytes of a document are made when it changes. Its Date is added when it is
    sent (`dates`).
    """
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "Server: forewarn"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
    return Response(status=status, payload=head + (body or b""), close=close)
