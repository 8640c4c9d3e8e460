"""Connections of the operator API, with the limits of the metadata endpoint.

uvicorn has no limits before authentication: a request head can be endless, a partial
request stays open, and each connection is an open file. `BoundedHttp` adds limits to
uvicorn's protocol: bytes and seconds of a head, seconds of a body, seconds for a client
that does not read, pipelined requests, and connections per source and in total.
"""

import asyncio
import contextlib
import logging
import re
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
from forewarn.admin.head import OF_RELAY, PATIENCE
from forewarn.admin.throttle import source_of
from forewarn.metadata import limits as metadata_limits
from forewarn.service import admin_refusals as refusals
from forewarn.service import listening
from forewarn.service.admin_door import Door
from forewarn.service.tls import Certificate

logger = logging.getLogger("forewarn.admin")

_VERSIONS = frozenset({"1.0", "1.1"})
"""The versions that can be sent on a connection without an upgrade."""


_AUTHORITY_END = re.compile(rb"[/?#]")


def _unix_peer(transport: asyncio.Transport) -> UnixPeer | None:
    """Return the peer of a Unix socket; None for other sockets."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    return listening.peer_of(connection)


class _SoftTransport:
    """The transport for responses: closing waits until the client has stopped sending."""

    def __init__(self, connection: "BoundedHttp", transport: asyncio.Transport) -> None:
        self._connection = connection
        self._transport = transport

    def write(self, data: bytes) -> None:
        """Send data, unless the client has disconnected, which is not an error."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        self._connection.end()

    def is_closing(self) -> bool:
        return self._transport.is_closing() or self._connection.is_ending


class BoundedHttp(HttpToolsProtocol):
    """The server's end of one connection, with limits."""

    door: Door
    """The door of the connection's API; each API has a subclass that sets it."""
    tls: Certificate | None = None
    """The certificate for the TLS handshake, set like `door`; None for plain HTTP."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Initialize as uvicorn does."""
        super().__init__(*args, **kwargs)
        self.is_ending = False
        self._is_admitted = False
        self._relay = ""
        """The host whose relay's place the connection has; empty: it has none."""
        self._source = ""
        self._timer: asyncio.TimerHandle | None = None
        self._timed = ""
        """The purpose of the timer: idle, head, body, write or linger."""
        self._in_head = False
        self._in_body = False
        self._head_bytes = 0
        self._head_counted = 0
        self._headers_count = 0
        self._refusal = b""
        self._has_cycle = False
        self._cycles: deque[RequestResponseCycle] = deque()
        """Requests without a response, in order."""
        self._handshake: asyncio.Future[None] | None = None
        self._early: bytes | None = None
        """Bytes that arrived before the TLS handshake was complete."""
        self._unix_peer: UnixPeer | None = None

    # Called by the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, unless there are too many."""
        self.door.came.set()
        peer = transport.get_extra_info("peername")
        is_ip = isinstance(peer, tuple)
        self._unix_peer = None if is_ip else _unix_peer(transport)
        self._source = source_of(str(cast("Any", peer)[0])) if is_ip else ""
        if self._unix_peer is not None:
            # Count each user of the machine as a separate source.
            self._source = self._unix_peer.name
        is_crowded = self.tls is not None and self.door.is_busy(self._source)
        if is_crowded or not self.door.admit(self._source):
            self.transport = transport
            self.is_ending = True
            if self.tls is not None:
                # No response can be sent, since the handshake itself is rejected.
                transport.abort()
                return
            transport.write(refusals.CROWDED)
            self._linger()
            return
        self._is_admitted = True
        if self.tls is not None:
            # Count it before the handshake, which costs more than a request.
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
        """Do the TLS handshake within the time of a head, then continue as without TLS.

        If the handshake fails for any reason, the connection is closed and no longer
        counted.
        """
        secured: asyncio.Transport | None = None
        try:
            secured = await self._shake_hands(transport, tls)
        except (OSError, ssl.SSLError, RuntimeError, MemoryError) as error:
            # The loop raises RuntimeError if the connection closes between two steps.
            logger.debug("TLS handshake with %s failed: %s", self._source, error)
        finally:
            # Break the reference cycle of a task and its exception.
            self._handshake = None
            if secured is None or secured.is_closing():
                transport.abort()
                self._leave()
        # The connection may have been lost during the handshake.
        if secured is None or not self._is_admitted:
            return
        super().connection_made(secured)
        self._arm("idle", self.door.bounds.head_seconds)
        # Data that arrived with the end of the handshake, before this task resumed.
        early, self._early = self._early, None
        if early:
            self.data_received(early)

    async def _shake_hands(
        self, transport: asyncio.Transport, tls: Certificate
    ) -> asyncio.Transport | None:
        """Return the transport with TLS."""
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
            # uvloop never ends a handshake whose connection was lost at its start.
            async with asyncio.timeout(bounds.head_seconds):
                # Let `start_tls` take its first step: it becomes the transport's protocol
                # and schedules the handshake. `_feed` must be scheduled after that.
                await asyncio.sleep(0)
                taken_by = transport.get_protocol()
                loop.call_soon(self._feed, transport)
                return await handshake
        except BaseException:
            # uvloop may start the handshake of a connection that is already lost. Its
            # timer would keep the buffers for the whole timeout. A second
            # `connection_lost` makes it cancel the timer.
            if taken_by is not None and taken_by is not self:
                # uvloop raises this if it has already cleaned up.
                with contextlib.suppress(AttributeError):
                    taken_by.connection_lost(None)
            raise
        finally:
            handshake.cancel()
            del handshake, taken_by

    def _feed(self, transport: asyncio.Transport) -> None:
        """Pass the bytes that arrived before `start_tls` took over to the handshake.

        Pausing reads cannot prevent them: uvloop reads as soon as `connection_made`
        returns.
        """
        if transport.get_protocol() is self or transport.is_closing():
            return
        # The class is private to uvloop, so only its methods are used.
        taken_by = cast("asyncio.BufferedProtocol", transport.get_protocol())
        early, self._early = self._early or b"", b""
        while early:
            room = memoryview(taken_by.get_buffer(len(early)))
            size = min(len(room), len(early))
            room[:size] = early[:size]
            taken_by.buffer_updated(size)
            early = early[size:]

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything."""
        self._disarm()
        if self._handshake is not None:
            self._handshake.cancel()
        if not self._is_admitted:
            return
        self._leave()
        self._tell_gone()
        # A connection that was lost before uvicorn knew it needs no cleanup there.
        if cast("asyncio.Transport | None", self.transport) is not None:
            super().connection_lost(exc)

    def _tell_gone(self) -> None:
        """Report the disconnect of the client to all requests.

        uvicorn reports it only to the last one, but the first may be running.
        """
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()

    def _leave(self) -> None:
        """Remove the connection from the count, once."""
        if self._is_admitted:
            self._is_admitted = False
            if self._relay:
                self.door.dismiss_relay(self._relay)
            else:
                self.door.dismiss(self._source)

    def _be_of_relay(self, host: str) -> None:
        """Take a place of the relay of `host`, once, if one is free."""
        if (
            self._is_admitted
            and not self._relay
            and self.door.move_to_relay(self._source, host)
        ):
            self._relay = host

    def data_received(self, data: bytes) -> None:
        """Handle data, unless the last response has been sent."""
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
            # No other protocol is supported.
            self._refuse(refusals.MALFORMED)
            return
        except httptools.HttpParserError:
            self._refuse(self._refusal or refusals.MALFORMED)
            return
        if self.is_ending:
            return
        if self._in_head and was_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > metadata_limits.HEAD_BYTES_MAX:
                self._refuse(refusals.LARGE_HEAD)
                return
        self._watch()

    def pause_writing(self) -> None:
        """Limit the time that a client does not read."""
        super().pause_writing()
        if self._timed != "linger":
            self._arm("write", self.door.bounds.write_seconds)

    def resume_writing(self) -> None:
        """Continue after the client has read."""
        super().resume_writing()
        if self._timed == "write":
            self._disarm()
            self._watch()

    # Called by the parser

    def on_message_begin(self) -> None:
        """Start to count the bytes of a head."""
        super().on_message_begin()
        if self._unix_peer is not None:
            cast("dict[str, Any]", self.scope)[UNIX_PEER] = self._unix_peer
        self._in_head = True
        self._head_bytes = self._head_counted = self._headers_count = 0
        cast("dict[str, Any]", self.scope)[PATIENCE] = self._be_patient
        cast("dict[str, Any]", self.scope)[OF_RELAY] = self._be_of_relay

    def on_url(self, url: bytes) -> None:
        """Handle a part of the target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header or a trailer."""
        self._headers_count += 1
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._head_counted += size
        if (
            self._head_counted > metadata_limits.HEAD_BYTES_MAX
            or self._headers_count > metadata_limits.HEADERS_MAX
        ):
            self._refusal = refusals.LARGE_HEAD
            raise _RefusedError

    def on_headers_complete(self) -> None:
        """Start the request, which can get its response before the body has arrived."""
        if len(self.pipeline) >= metadata_limits.PIPELINE_MAX:
            self._refusal = refusals.CROWDED
            raise _RefusedError
        parser = cast("httptools.HttpRequestParser", self.parser)
        if parser.get_http_version() not in _VERSIONS:
            self._refusal = refusals.VERSION
            raise _RefusedError
        self._set_host()
        super().on_headers_complete()
        self._in_head, self._in_body, self._has_cycle = False, True, True
        soft = cast("Any", _SoftTransport(self, self.transport))
        self.cycle.transport = soft
        self._cycles.append(self.cycle)

    def _set_host(self) -> None:
        """Refuse two Host headers, and replace one by the authority of the target.

        RFC 9112, section 3.2: the authority counts if both are present. An absolute
        target can have no path.
        """
        if sum(name == b"host" for name, _ in self.headers) > 1:
            self._refusal = refusals.TWO_HOSTS
            raise _RefusedError
        scheme, _, rest = self.url.partition(b"://")
        if scheme.isalpha():
            authority = _AUTHORITY_END.split(rest, maxsplit=1)[0]
            path = rest[len(authority) :]
            self.url = path if path.startswith(b"/") else b"/" + path
            others = [header for header in self.headers if header[0] != b"host"]
            # The list is a part of the scope already.
            self.headers[:] = [(b"host", authority), *others]

    def on_message_complete(self) -> None:
        """Record that the request is complete."""
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Close the connection if the request is incomplete."""
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
        """Close after the client has had time to read the response.

        If it closed at once, the kernel would answer further data with a reset, which
        can arrive before the response.
        """
        if self.is_ending or self.transport.is_closing():
            return
        self.is_ending = True
        if self._in_body or self._in_head:
            self._linger()
        else:
            self._close()

    def _close(self) -> None:
        """Close when all data is sent, or after a timeout if the client does not read."""
        self.transport.close()
        self._arm("linger", self.door.bounds.write_seconds)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection."""
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
        """Send a last response, unless one has started, and close the connection."""
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
        """Set the timeout for the current part of a request, once per part."""
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
            # Blank lines before a request do not extend the timeout.
            if self._timed != "idle":
                self._arm("idle", bounds.head_seconds)
        else:
            self._disarm()

    def _be_patient(self, seconds: float) -> None:
        """Set the timeout for the body of the current request to `seconds`."""
        if self._in_body and self._timed != "write":
            self._arm("body", seconds)

    def _arm(self, phase: str, seconds: float) -> None:
        self._disarm()
        self._timed = phase
        self._timer = self.loop.call_later(seconds, self._on_time)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timed = None, ""

    def _on_time(self) -> None:
        phase, self._timer, self._timed = self._timed, None, ""
        if phase in ("write", "linger"):
            # Even if the transport is closing: that waits for a client to read.
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif phase == "idle":
            self._close()
        elif phase == "body" and self.flow.read_paused:
            # The service, not the client, delays the rest of the body.
            self._arm("body", self.door.bounds.body_seconds)
        else:
            self._refuse(refusals.LATE)


class _RefusedError(Exception):
    """Stops the parser from inside one of its callbacks."""
