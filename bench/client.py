"""A small HTTP client for loads: one connection, one request at a time.

It reads only the status and as many bytes as Content-Length says, so that it needs
little processor time.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

PATH = "/metadata/scheduledevents?api-version=2020-07-01"


class Reply(NamedTuple):
    """A status and a body."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body's JSON."""
        return json.loads(self.body)


class Wire(asyncio.Protocol):
    """An open connection."""

    def __init__(self) -> None:
        """Start without a request."""
        self._transport: asyncio.Transport | None = None
        self._reply: asyncio.Future[Reply] | None = None
        self._buffer = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the waiting request."""
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(exc or ConnectionResetError("closed"))

    def ask(self, data: bytes) -> "asyncio.Future[Reply]":
        """Send a request; return a future of its reply."""
        assert self._transport is not None, "not connected"
        assert self._reply is None, "one at a time"
        self._reply = self._loop.create_future()
        self._transport.write(data)
        return self._reply

    def data_received(self, data: bytes) -> None:
        """Collect the bytes of a reply."""
        self._buffer = buffer = self._buffer + data if self._buffer else data
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        # The baselines write this header in other cases.
        at = buffer[:end].lower().find(b"content-length: ")
        length = int(buffer[at + 16 : buffer.find(b"\r", at)]) if at >= 0 else 0
        if len(buffer) < end + 4 + length:
            return
        reply, self._reply, self._buffer = self._reply, None, b""
        if reply is not None and not reply.done():
            reply.set_result(Reply(int(buffer[9:12]), buffer[end + 4 :]))

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


async def connect(host: str, port: int, *, source: str = "") -> Wire:
    """Open a connection, from the address `source` if it is given."""
    _, wire = await asyncio.get_running_loop().create_connection(
        Wire, host, port, local_addr=(source, 0) if source else None
    )
    return wire


def get(headers: Mapping[str, str] | None = None, *, path: str = PATH) -> bytes:
    """Return the bytes of a GET."""
    return _request("GET", path, headers or {}, b"")


def approve(event_id: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of an approval."""
    body = json.dumps({"StartRequests": [{"EventId": event_id}]}).encode()
    return _request("POST", PATH, headers or {}, body)


def _request(method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 169.254.169.254", "Metadata: true"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body
