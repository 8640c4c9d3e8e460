"""A small HTTP server in its own thread: GET only, one request per connection.

Clients cannot harm the agent or block each other: the size of heads, the number of
connections and their duration are limited, and the oldest connection is closed for a
new one. The server does not know the pages. Each listener has a function that answers.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from forewarn.agent.wire.connection import look_up
from forewarn.agent.wire.urls import split_listener
from forewarn.clock import Clock
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass

logger = logging.getLogger("forewarn.agent")

HEAD_BYTES_MAX = 8_192
"""Maximum size of a request's head; scrapers send a few hundred bytes."""

CONNECTIONS_MAX = 32
"""Maximum number of connections; a scraper, a probe, a person and peers need ten."""

CONNECTION_SECONDS = 2.0
"""Maximum time for sending the request, and again for reading the answer."""

FINISH_SECONDS = 1.0
"""Time for answering the open connections when the next server takes over."""

RETRY_SECONDS = 10.0
"""Pause between attempts to listen at an address that is not available."""

BACKLOG = 32
READ_BYTES = 4_096

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class ListenError(ForewarnError):
    """An address is not available for listening."""


@frozen_dataclass
class Request:
    """One request."""

    path: str
    """The path without the query."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The headers by name in lower case. If a name occurs several times, the last value
    counts."""


@frozen_dataclass
class Reply:
    """One answer."""

    status: int = 200
    body: str = ""
    content_type: str = TEXT


Answerer = Callable[[Request], Reply]
"""Answers one request in the server's thread, so it must be quick."""


@dataclass
class _Peer:
    """One connection."""

    connection: socket.socket
    answer: Answerer
    ends: float
    read: bytearray = field(default_factory=bytearray)
    unsent: memoryview | None = None
    """None: the request is incomplete."""


class Listeners(dict[str, socket.socket]):
    """Listening sockets that one server passes to the next, by HOST:PORT.

    Connections that arrive in between wait for the next server, and are not refused.
    """

    def close(self) -> None:
        """Close the sockets that no server has taken."""
        while self:
            self.popitem()[1].close()


class Server:
    """Listens at addresses until it is stopped."""

    def __init__(self, *, clock: Clock, listeners: Listeners | None = None) -> None:
        """Store the parameters, without listening.

        `listeners` has the sockets of the previous server, and gets the sockets of this
        one. Without `listeners`, the sockets are closed at the end.
        """
        self._clock = clock
        self._others = listeners
        self._selector = selectors.DefaultSelector()
        self._listeners: dict[socket.socket, str] = {}
        """The sockets, each with its address in the settings."""
        self._awaited: dict[str, Answerer] = {}
        self._retry_at = 0.0
        self.faults: Mapping[str, str] = {}
        """The addresses that are not available, with the reason; replaced as a
        whole."""
        self._peers: dict[socket.socket, _Peer] = {}
        self._thread: threading.Thread | None = None
        self._wake: tuple[int, int] | None = None
        self._is_stopping = False

    def listen(self, address: str, answer: Answerer) -> tuple[str, int]:
        """Listen at HOST:PORT; return the actual host and port, since port 0 means any.

        Raises ListenError.
        """
        left = self._others.pop(address, None) if self._others is not None else None
        try:
            listener = left or bound(address)
            listener.listen(BACKLOG)
        except OSError as error:
            raise ListenError(
                f"cannot listen at {address}: {error.strerror or error}",
                hint="Find the program that uses the port with `ss -ltnp`, or set another "
                "address in `listen` (for peers, in `[peers] listen`).",
            ) from error
        listener.setblocking(False)
        self._listeners[listener] = address
        self._selector.register(listener, selectors.EVENT_READ, answer)
        host, port = listener.getsockname()[:2]
        return host, port

    def listen_when_free(
        self, address: str, answer: Answerer
    ) -> tuple[str, int] | None:
        """Listen at HOST:PORT, or retry until it is available; None: not yet."""
        try:
            return self.listen(address, answer)
        except ListenError as error:
            logger.error(  # noqa: TRY400 - whose fault it is needs no traceback
                "%s; the agent continues without it and keeps trying (%s)",
                error,
                error.hint,
            )
            self._awaited[address] = answer
            self.faults = {**self.faults, address: error.message}
            self._retry_at = self._clock.monotonic() + RETRY_SECONDS
            return None

    def retry(self) -> None:
        """Try again to listen at addresses that were not available."""
        for address, answer in list(self._awaited.items()):
            with contextlib.suppress(ListenError):
                self.listen(address, answer)
                del self._awaited[address]
                self.faults = {
                    peer_address: fault
                    for peer_address, fault in self.faults.items()
                    if peer_address != address
                }
                logger.warning("the agent listens at %s now", address)
        self._retry_at = self._clock.monotonic() + RETRY_SECONDS

    def start(self) -> None:
        """Start the thread, if there is any address to listen at."""
        if not self._listeners and not self._awaited:
            return
        if os.name == "posix":
            # The thread notices the end at once; on other systems, at its next check.
            self._wake = os.pipe()
            self._selector.register(self._wake[0], selectors.EVENT_READ, None)
        self._thread = threading.Thread(
            target=self._run, name="forewarn-status", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop, and close or pass on the listening sockets."""
        self._is_stopping = True
        if self._thread is not None:
            if self._wake is not None:
                os.write(self._wake[1], b"x")
            self._thread.join(CONNECTION_SECONDS)
        for peer in self._peers:
            peer.close()
        for listener, address in self._listeners.items():
            if self._others is None:
                listener.close()
            else:
                self._others[address] = listener
        for descriptor in self._wake or ():
            os.close(descriptor)
        self._wake = None
        self._listeners = {}
        self._peers = {}
        self._selector.close()

    def _run(self) -> None:
        while not self._is_stopping:
            for key, _ in self._selector.select(self._pause()):
                self._step(key)
            now = self._clock.monotonic()
            if self._awaited and now >= self._retry_at:
                self.retry()
            for peer in [peer for peer in self._peers.values() if peer.ends <= now]:
                self._drop(peer)
        if self._others is not None:
            self._finish()

    def _finish(self) -> None:
        """Answer the open connections; new ones wait for the next server."""
        waking = [] if self._wake is None else [self._wake[0]]
        for file in (*self._listeners, *waking):
            self._selector.unregister(file)
        ends = self._clock.monotonic() + FINISH_SECONDS
        while self._peers and (left := ends - self._clock.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                if key.fileobj in self._peers:
                    self._step(key)

    def _pause(self) -> float | None:
        """Return the timeout for waiting; None: until a connection arrives."""
        if self._peers or self._wake is None:
            return 0.5
        if self._awaited:
            return max(0.0, self._retry_at - self._clock.monotonic())
        return None

    def _step(self, key: selectors.SelectorKey) -> None:
        place: Any = key.fileobj
        peer = self._peers.get(place)
        try:
            if peer is not None:
                self._serve(peer)
            elif key.data is not None and place in self._listeners:
                self._accept(place, key.data)
        except OSError:
            if peer is not None:
                self._drop(peer)
        except Exception:
            # This client gets no answer, but the next one does.
            logger.exception("a request could not be answered")
            if peer is not None:
                self._drop(peer)

    def _accept(self, listener: socket.socket, answer: Answerer) -> None:
        connection, _ = listener.accept()
        connection.setblocking(False)
        if len(self._peers) >= CONNECTIONS_MAX:
            self._drop(next(iter(self._peers.values())))
        ends = self._clock.monotonic() + CONNECTION_SECONDS
        self._peers[connection] = _Peer(connection, answer, ends)
        self._selector.register(connection, selectors.EVENT_READ)

    def _serve(self, peer: _Peer) -> None:
        if peer.unsent is None:
            piece = peer.connection.recv(READ_BYTES)
            peer.read += piece
            if not piece:
                self._drop(peer)
                return
            reply = _answered(bytes(peer.read), peer.answer)
            if reply is None:
                return
            peer.unsent = memoryview(reply)
            peer.ends = self._clock.monotonic() + CONNECTION_SECONDS
            self._selector.modify(peer.connection, selectors.EVENT_WRITE)
        sent = peer.connection.send(peer.unsent)
        peer.unsent = peer.unsent[sent:]
        if not peer.unsent:
            self._drop(peer)

    def _drop(self, peer: _Peer) -> None:
        del self._peers[peer.connection]
        self._selector.unregister(peer.connection)
        peer.connection.close()


def bound(address: str) -> socket.socket:
    """Return a new socket bound to HOST:PORT, not yet listening; raises OSError."""
    place = split_listener(address)
    assert place is not None, address
    family, kind, number, _, where = look_up(*place, socket.AI_PASSIVE)[0]
    sock = socket.socket(family, kind, number)
    try:
        if os.name == "posix":
            # On other systems, this option would let two programs use the same address.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
    except OSError:
        sock.close()
        raise
    return sock


def _answered(data: bytes, answer: Answerer) -> bytes | None:
    """Return the complete answer to a request; None: the request is incomplete."""
    head, end, _ = data.partition(b"\r\n\r\n")
    if not end:
        if len(data) <= HEAD_BYTES_MAX:
            return None
        return _written(Reply(status=431, body="the request is too long\n"), "GET")
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != len(("method", "target", "version")) or not parts[2].startswith(
        "HTTP/1."
    ):
        return _written(Reply(status=400, body="this is not HTTP/1.1\n"), "GET")
    method, target, _ = parts
    if method not in {"GET", "HEAD"}:
        return _written(Reply(status=405, body="only GET is supported\n"), method)
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    request = Request(path=target.partition("?")[0], headers=headers)
    try:
        reply = answer(request)
    except Exception:
        logger.exception("a request could not be answered")
        reply = Reply(status=500, body="a bug in the agent; see its log\n")
    return _written(reply, method)


def _written(reply: Reply, method: str) -> bytes:
    body = reply.body.encode("utf-8", "replace")
    allow = "Allow: GET, HEAD\r\n" if reply.status == 405 else ""  # noqa: PLR2004
    asks = "WWW-Authenticate: Bearer\r\n" if reply.status == 401 else ""  # noqa: PLR2004
    head = (
        f"HTTP/1.1 {reply.status} {_REASONS[reply.status]}\r\n"
        f"Content-Type: {reply.content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\n"
        f"{allow}{asks}Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (b"" if method == "HEAD" else body)
