"""A request and a response as values, without their meaning."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple

JSON_TYPE = "application/json; charset=utf-8"
TEXT_TYPE = "text/plain; charset=utf-8"


_NO_HEADERS: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Request(NamedTuple):
    """A request that was read in full.

    The server creates one for each parsed request. A frozen dataclass would take three
    times as long to create.
    """

    method: str
    path: str
    """The target up to the question mark, percent-encoded as it was sent."""
    query: str = ""
    """The target after the question mark, as it was sent."""
    headers: Mapping[str, tuple[str, ...]] = _NO_HEADERS
    """Names in lower case, with all values, without surrounding spaces."""
    body: bytes = b""
    http10: bool = False
    overhead: int = 0
    """Bytes received with the body that are not part of it: chunk lines, trailers."""

    def values(self, name: str) -> tuple[str, ...]:
        """Return every value of the header `name`, which is in lower case."""
        return self.headers.get(name, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response, ready to be sent."""

    status: int
    payload: bytes
    """Status line, headers and body, for a connection that stays open."""
    close: bool = False
    """The connection closes after this response."""
    takes_date: bool = True
    """A Date header is added at sending; a recorded response may have its own."""

    def bytes_for(self, *, bodiless: bool, connection: str) -> bytes:
        """Return the payload for an unusual request.

        `bodiless` is for HEAD; `connection` is the value of the Connection header,
        unless it is empty.
        """
        payload = self.payload
        if bodiless:
            payload = payload[: payload.index(b"\r\n\r\n") + 4]
        if connection:
            line, rest = payload.split(b"\r\n", 1)
            payload = b"%b\r\nConnection: %b\r\n%b" % (line, connection.encode(), rest)
        return payload

    def with_header(self, name: str, value: str) -> "Response":
        """Return the response with an additional header after the others."""
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
    """Return a response with `body`; None for statuses without a body.

    The bytes of a document are created when it changes. Its Date is added when it is
    sent (`dates`).
    """
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "Server: forewarn"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
    return Response(status=status, payload=head + (body or b""), close=close)
