"""Who may come in to the operator API: connections and handshakes, counted."""

import asyncio
import contextlib
import logging
import math
import socket
from collections import Counter
from collections.abc import Callable

from forewarn.fleet.validators import is_loopback
from forewarn.metadata.limits import Limits
from forewarn.service import limits, open_files

logger = logging.getLogger("forewarn.admin")

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where one listens
"""Addresses of listeners at which nobody connects, and where one does instead."""


class Door:
    """Counts the connections of one operator API, and tells who may come in."""

    def __init__(self, bounds: Limits, *, monotonic: Callable[[], float]) -> None:
        """Admit as many as `bounds` allows; `monotonic` paces the log."""
        self.bounds = bounds
        self.open = 0
        self.came = asyncio.Event()
        """A connection has come, admitted or not; who looks clears it."""
        self.handshakes = 0
        """Handshakes of TLS that are under way."""
        self.refused: Counter[str] = Counter()
        self._by_source: Counter[str] = Counter()
        self._handshakes_by_source: Counter[str] = Counter()
        self._monotonic = monotonic
        self._logged_at = -math.inf

    def admit(self, source: str) -> bool:
        """Count a new connection in, unless there are too many."""
        if self.open >= self.bounds.connections:
            self._refuse("all", source)
            return False
        if self._by_source[source] >= self._most_of(source):
            self._refuse("source", source)
            return False
        self.open += 1
        self._by_source[source] += 1
        return True

    def dismiss(self, source: str) -> None:
        """Count an admitted connection out."""
        self.open -= 1
        self._by_source[source] -= 1
        if not self._by_source[source]:
            del self._by_source[source]

    def is_busy(self, source: str) -> bool:
        """Tell whether too many handshakes are under way for one more; count that."""
        own = self._handshakes_by_source[source]
        if own >= limits.ADMIN_HANDSHAKES_PER_SOURCE_MAX:
            self._refuse("source", source)
            return True
        if self.handshakes >= limits.ADMIN_HANDSHAKES_MAX:
            self._refuse("all", source)
            return True
        return False

    def begin_handshake(self, source: str) -> None:
        """Count a handshake in."""
        self.handshakes += 1
        self._handshakes_by_source[source] += 1

    def end_handshake(self, source: str) -> None:
        """Count a handshake out."""
        self.handshakes -= 1
        self._handshakes_by_source[source] -= 1
        if not self._handshakes_by_source[source]:
            del self._handshakes_by_source[source]

    def _most_of(self, source: str) -> int:
        bounds = self.bounds
        if is_loopback(source):
            # A reverse proxy on this machine is one source for many people.
            return max(bounds.connections_per_source, bounds.connections // 2)
        return bounds.connections_per_source

    def _refuse(self, reason: str, source: str) -> None:
        self.refused[reason] += 1
        now = self._monotonic()
        if now - self._logged_at >= limits.ADMIN_REFUSED_LOG_SECONDS:
            self._logged_at = now
            logger.warning(
                "the operator API refused a connection from %s: %d are open, %d "
                "refused so far; it takes %d, and %d of one source",
                source or "an unknown address",
                self.open,
                self.refused.total(),
                self.bounds.connections,
                self._most_of(source),
            )


def door_limits(*, share: int = 1, is_tls: bool = False) -> Limits:
    """Return the limits of a process in which the API may have a share of the files.

    With TLS each connection takes far more memory, so there may be fewer.
    """
    files = open_files.free_for_connections() // share
    most = limits.ADMIN_TLS_CONNECTIONS_MAX if is_tls else limits.ADMIN_CONNECTIONS_MAX
    return Limits(connections=min(most, files))


class OwnListener:
    """The listener, asked by its own process whether it still takes connections.

    A process may answer its service and yet accept nobody: its loop has lost the
    listener, or no file is left for a connection. So it asks itself, as a client does,
    before it says that it lives. What others' connections have proved just now is not
    asked.
    """

    def __init__(self, listener: socket.socket, door: Door) -> None:
        """Ask `listener`, whose connections are counted at `door`."""
        self._family = listener.family
        self._address = listener.getsockname()
        self._came = door.came

    async def takes_connections(self) -> bool:
        """Tell whether a connection came since the last time, or comes now."""
        if not self._came.is_set():
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(limits.API_REACH_SECONDS):
                    await self._connect()
        came = self._came.is_set()
        self._came.clear()
        return came

    async def _connect(self) -> None:
        """Return when a connection of ours, or another one, has come."""
        with socket.socket(self._family) as client:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, self._place())
            await self._came.wait()

    def _place(self) -> str | tuple[str, int]:
        if self._family == socket.AF_UNIX:
            return str(self._address)
        host, port = str(self._address[0]), int(self._address[1])
        return _EVERYWHERE.get(host, host), port
