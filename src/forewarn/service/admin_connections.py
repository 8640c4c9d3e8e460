"""Connections of the operator API, with the limits of the metadata endpoint.

uvicorn has no limits before authentication: a head may be endless, a half-sent
request stays open, and each connection is a file. `BoundedHttp` is uvicorn's protocol
with a bound for each: bytes and seconds of a head, seconds of a body, seconds for a
client that does not read, requests that wait, connections per source and in all.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import deque
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import (
    HttpToolsProtocol,
    RequestResponseCycle,
)

from forewarn.admin.access import UNIX_PEER, UnixPeer
from forewarn.admin.errors import Kind, problem
from forewarn.admin.head import PATIENCE
from forewarn.metadata import limits as metadata_limits
from forewarn.metadata.identity import normal_address
from forewarn.service import limits, unix_socket
from forewarn.service.admin_door import Door
from forewarn.service.tls import Certificate

logger = logging.getLogger("forewarn.admin")

TIMED_OUT = 408
HEAD_TOO_LARGE = 431


def _refusal(status: int, phrase: str, kind: Kind, error: str, hint: str) -> bytes:
    """Return a whole answer, made once: to refuse must cost next to nothing."""
    body = bytes(problem(kind, error, hint=hint).body)
    is_busy = kind is Kind.UNAVAILABLE
    lines = (
        f"HTTP/1.1 {status} {phrase}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        "connection: close",
        *((f"retry-after: {limits.ADMIN_RETRY_SECONDS}",) if is_busy else ()),
    )
    return "\r\n".join((*lines, "", "")).encode("ascii") + body


_MALFORMED = _refusal(
    400, "Bad Request", Kind.BAD_REQUEST, "this is not an HTTP request", ""
)
_LARGE_HEAD = _refusal(
    HEAD_TOO_LARGE,
    "Request Header Fields Too Large",
    Kind.BAD_REQUEST,
    f"the head of a request may have {metadata_limits.HEAD_BYTES_MAX} bytes and "
    f"{metadata_limits.HEADERS_MAX} headers",
    "",
)
_LATE = _refusal(
    TIMED_OUT, "Request Timeout", Kind.BAD_REQUEST, "the request came too slowly", ""
)
_CROWDED = _refusal(
    503,
    "Service Unavailable",
    Kind.UNAVAILABLE,
    "too many connections are open",
    "Close connections that are not used, or try again later.",
)


def _unix_peer(transport: asyncio.Transport) -> UnixPeer | None:
    """Return who is at the other end of a Unix socket; None at any other."""
    found = transport.get_extra_info("socket")
    if found is None or found.family != socket.AF_UNIX:
        return None
    return unix_socket.peer_of(found)


class _SoftTransport:
    """The transport as a response sees it: closing waits for what is still sent."""

    def __init__(self, connection: "BoundedHttp", transport: asyncio.Transport) -> None:
        self._connection = connection
        self._transport = transport

    def write(self, data: bytes) -> None:
        """Send something, unless the client has gone: that is no fault of ours."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        self._connection.end()

    def is_closing(self) -> bool:
        return self._transport.is_closing() or self._connection.is_ending


class BoundedHttp(HttpToolsProtocol):
    """The server's end of one connection, within its limits."""

    door: Door
    """Of the API that the connection came to; set in a subclass for each."""
    tls: Certificate | None = None
    """The certificate that a client must be shown first; set as `door` is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Begin as uvicorn does."""
        super().__init__(*args, **kwargs)
        self.is_ending = False
        self._is_admitted = False
        self._source = ""
        self._timer: asyncio.TimerHandle | None = None
        self._timed = ""
        """What the timer is for: idle, head, body, write or linger."""
        self._in_head = False
        self._in_body = False
        self._head_bytes = 0
        self._head_counted = 0
        self._headers_count = 0
        self._refusal = b""
        self._has_cycle = False
        self._cycles: deque[RequestResponseCycle] = deque()
        """Requests that are not answered yet, in their order."""
        self._handshake: asyncio.Future[None] | None = None
        self._early: bytes | None = None
        """Bytes from before the connection is known to be secured."""
        self._unix_peer: UnixPeer | None = None

    # The transport's calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection if there is room."""
        self.door.came.set()
        peer = transport.get_extra_info("peername")
        is_ip = isinstance(peer, tuple)
        self._unix_peer = None if is_ip else _unix_peer(transport)
        self._source = normal_address(str(cast("Any", peer)[0])) if is_ip else ""
        if self._unix_peer is not None:
            # Else all users of the machine would be one source.
            self._source = self._unix_peer.name
        is_crowded = self.tls is not None and self.door.is_busy(self._source)
        if is_crowded or not self.door.admit(self._source):
            self.transport = transport
            self.is_ending = True
            if self.tls is not None:
                # Nothing can be said before a handshake, which is what is refused.
                transport.abort()
                return
            transport.write(_CROWDED)
            self._linger()
            return
        self._is_admitted = True
        if self.tls is not None:
            # Counted before the handshake, which costs more than a request.
            self._early = b""
            self.door.begin_handshake(self._source)
            handshake = asyncio.ensure_future(self._secure(transport, self.tls))
            source = self._source
            handshake.add_done_callback(lambda _: self.door.end_handshake(source))
            self._handshake = handshake
            return
        super().connection_made(transport)
        self._arm("idle", self.door.bounds.head_seconds)

    async def _secure(self, transport: asyncio.Transport, tls: Certificate) -> None:
        """Shake hands, within the seconds of a head; then begin as without TLS.

        Whatever ends the handshake, the connection ends with it and is counted out.
        """
        secured: asyncio.Transport | None = None
        try:
            secured = await self._shake_hands(transport, tls)
        except (OSError, ssl.SSLError, RuntimeError, MemoryError) as error:
            # The loop's RuntimeError: the connection was closed between two steps.
            logger.debug("no handshake with %s: %s", self._source, error)
        finally:
            # A task of the loop is in a cycle with its error.
            self._handshake = None
            if secured is None or secured.is_closing():
                transport.abort()
                self._leave()
        # It may have been lost since, which was told before anything had begun.
        if secured is None or not self._is_admitted:
            return
        super().connection_made(secured)
        self._arm("idle", self.door.bounds.head_seconds)
        # What came with the end of the handshake, before this task went on.
        early, self._early = self._early, None
        if early:
            self.data_received(early)

    async def _shake_hands(
        self, transport: asyncio.Transport, tls: Certificate
    ) -> asyncio.Transport | None:
        """Return the transport that is secured."""
        if transport.is_closing():
            raise ConnectionResetError("closed before the handshake")
        bounds = self.door.bounds
        loop = asyncio.get_running_loop()
        taken_by: asyncio.BaseProtocol | None = None
        handshake = loop.create_task(
            loop.start_tls(
                transport,
                self,
                tls.context,
                server_side=True,
                ssl_handshake_timeout=bounds.head_seconds,
                ssl_shutdown_timeout=bounds.linger_seconds,
            )
        )
        try:
            # uvloop never ends a handshake whose connection was lost as it began.
            async with asyncio.timeout(bounds.head_seconds):
                # The first step of `start_tls` takes the connection over, and asks the
                # loop to begin the handshake: before the loop is asked to feed it.
                await asyncio.sleep(0)
                taken_by = transport.get_protocol()
                loop.call_soon(self._feed, transport)
                return await handshake
        except BaseException:
            # uvloop may begin the handshake of a connection that was lost already, with
            # a timer that would keep its buffers for all the seconds. Told again that
            # the connection is lost, it forgets the timer.
            if taken_by is not None and taken_by is not self:
                # One that has been told in time has nothing left to forget.
                with contextlib.suppress(AttributeError):
                    taken_by.connection_lost(None)
            raise
        finally:
            handshake.cancel()
            del handshake, taken_by

    def _feed(self, transport: asyncio.Transport) -> None:
        """Give the handshake the bytes that came before it took the connection over.

        No pause can prevent them: uvloop reads as soon as `connection_made` returns.
        """
        if transport.get_protocol() is self or transport.is_closing():
            return
        # By its methods, as the class is uvloop's own.
        taken_by = cast("asyncio.BufferedProtocol", transport.get_protocol())
        early, self._early = self._early or b"", b""
        while early:
            room = memoryview(taken_by.get_buffer(len(early)))
            size = min(len(room), len(early))
            room[:size] = early[:size]
            taken_by.buffer_updated(size)
            early = early[size:]

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        self._disarm()
        if self._handshake is not None:
            self._handshake.cancel()
        if not self._is_admitted:
            return
        self._leave()
        self._tell_gone()
        # Lost before it had begun, there is nothing to end.
        if cast("asyncio.Transport | None", self.transport) is not None:
            super().connection_lost(exc)

    def _tell_gone(self) -> None:
        """Have the application learn, for each request, that its client has gone.

        uvicorn tells it of the last one, and the first may be the one that runs.
        """
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()

    def _leave(self) -> None:
        """Count the connection out, once."""
        if self._is_admitted:
            self._is_admitted = False
            self.door.dismiss(self._source)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the answer has been given."""
        if self.is_ending:
            return
        if self._early is not None:
            self._early += data
            return
        was_in_head = self._in_head or not self._in_body
        self._unset_keepalive_if_required()
        try:
            cast("httptools.HttpRequestParser", self.parser).feed_data(data)
        except httptools.HttpParserUpgrade:
            # There is no other protocol here; the request is answered as it is.
            self._refuse(_MALFORMED)
            return
        except httptools.HttpParserError:
            self._refuse(self._refusal or _MALFORMED)
            return
        if self.is_ending:
            return
        if self._in_head and was_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > metadata_limits.HEAD_BYTES_MAX:
                self._refuse(_LARGE_HEAD)
                return
        self._watch()

    def pause_writing(self) -> None:
        """Bound how long the client may not read."""
        super().pause_writing()
        if self._timed != "linger":
            self._arm("write", self.door.bounds.write_seconds)

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        if self._timed == "write":
            self._disarm()
            self._watch()

    # The parser's calls

    def on_message_begin(self) -> None:
        """Begin to count the bytes of a head."""
        super().on_message_begin()
        if self._unix_peer is not None:
            cast("dict[str, Any]", self.scope)[UNIX_PEER] = self._unix_peer
        self._in_head = True
        self._head_bytes = self._head_counted = self._headers_count = 0
        cast("dict[str, Any]", self.scope)[PATIENCE] = self._be_patient

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        self._headers_count += 1
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._head_counted += size
        if (
            self._head_counted > metadata_limits.HEAD_BYTES_MAX
            or self._headers_count > metadata_limits.HEADERS_MAX
        ):
            self._refusal = _LARGE_HEAD
            raise _RefusedError

    def on_headers_complete(self) -> None:
        """Begin the response, which may be given before the body has come."""
        if len(self.pipeline) >= metadata_limits.PIPELINE_MAX:
            self._refusal = _CROWDED
            raise _RefusedError
        self._in_head, self._in_body, self._has_cycle = False, True, True
        super().on_headers_complete()
        soft = cast("Any", _SoftTransport(self, self.transport))
        self.cycle.transport = soft
        self._cycles.append(self.cycle)

    def on_message_complete(self) -> None:
        """Note that the request has come in full."""
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """End the connection where the request has not come in full."""
        if self._cycles:
            self._cycles.popleft()
        if self._in_body and not self.pipeline:
            self.end()
        if self.is_ending:
            self._unset_keepalive_if_required()
            return
        super().on_response_complete()

    # Ending

    def end(self) -> None:
        """Close when the client has had the time to read its answer.

        Closing at once would let the kernel answer what it still sends with a reset,
        which may overtake the answer.
        """
        if self.is_ending or self.transport.is_closing():
            return
        self.is_ending = True
        if self._in_body or self._in_head:
            self._linger()
        else:
            self._close()

    def _close(self) -> None:
        """Close when what was written is sent, or when the client does not read it."""
        self.transport.close()
        self._arm("linger", self.door.bounds.write_seconds)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which nothing more came."""
        if not self.transport.is_closing():
            self._close()

    def _linger(self) -> None:
        self._unset_keepalive_if_required()
        if self.transport.can_write_eof():
            self.transport.write_eof()
            if self._is_admitted:
                self.flow.resume_reading()
            self._arm("linger", self.door.bounds.linger_seconds)
        else:
            self._close()

    def _refuse(self, answer: bytes) -> None:
        """Give the last answer of this connection, if none has begun."""
        if self._has_cycle and not self.cycle.response_complete:
            has_begun = self.cycle.response_started or bool(self.pipeline)
            self._tell_gone()
            if has_begun:
                self.is_ending = True
                self.transport.abort()
                return
        self.is_ending = True
        self.transport.write(answer)
        self._linger()

    # Time

    def _watch(self) -> None:
        """Set a time for what has begun to come in, once for each request."""
        bounds = self.door.bounds
        if self._timed in ("write", "linger"):
            return
        if self._in_head:
            if self._timed != "head":
                self._arm("head", bounds.head_seconds)
        elif self._in_body:
            if self._timed != "body":
                self._arm("body", bounds.body_seconds)
        elif not self._has_cycle or (
            self.cycle.response_complete and self.timeout_keep_alive_task is None
        ):
            # Blank lines before a request are no sign of life.
            if self._timed != "idle":
                self._arm("idle", bounds.head_seconds)
        else:
            self._disarm()

    def _be_patient(self, seconds: float) -> None:
        """Allow the body of the request that is under way so many seconds."""
        if self._in_body and self._timed != "write":
            self._arm("body", seconds)

    def _arm(self, what: str, seconds: float) -> None:
        self._disarm()
        self._timed = what
        self._timer = self.loop.call_later(seconds, self._on_time)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timed = None, ""

    def _on_time(self) -> None:
        what, self._timer, self._timed = self._timed, None, ""
        if what in ("write", "linger"):
            # Also where it is closing: that waits for a client that does not read.
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif what == "idle":
            self._close()
        elif what == "body" and self.flow.read_paused:
            # The service keeps the rest of the body waiting, and not the client.
            self._arm("body", self.door.bounds.body_seconds)
        else:
            self._refuse(_LATE)


class _RefusedError(Exception):
    """Ends the parser's work from inside one of its callbacks."""
