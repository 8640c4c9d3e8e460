"""Admission to the operator API: limits of connections and TLS handshakes."""

import asyncio
import contextlib
import logging
import math
import socket
from collections import Counter
from collections.abc import Callable

from forewarn.clock import SystemClock
from forewarn.fleet.validators import is_loopback
from forewarn.metadata.limits import Limits
from forewarn.service import limits, open_files

logger = logging.getLogger("forewarn.admin")

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where one listens
"""The loopback address to connect to, by wildcard address."""


class Door:
    """Counts the connections of one operator API and enforces their limits."""

    def __init__(
        self,
        bounds: Limits,
        *,
        monotonic: Callable[[], float],
        relay_connections: int = 0,
    ) -> None:
        """Enforce `bounds`; `monotonic` is the clock for the log's rate limit.

        Relays have places for `relay_connections` beside those of `bounds`.
        """
        self.bounds = bounds
        self.open = 0
        """Open connections, without those that have the place of a relay."""
        self._relay_connections = relay_connections
        self._by_relay: Counter[str] = Counter()
        self.came = asyncio.Event()
        """Set by each new connection, admitted or not; the reader clears it."""
        self.handshakes = 0
        """Running TLS handshakes."""
        self.refused: Counter[str] = Counter()
        self._by_source: Counter[str] = Counter()
        self._handshakes_by_source: Counter[str] = Counter()
        self._monotonic = monotonic
        self._logged_at = -math.inf

    def admit(self, source: str) -> bool:
        """Count a new connection; return False, uncounted, if there are too many."""
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
        """Remove an admitted connection from the count."""
        self.open -= 1
        self._by_source[source] -= 1
        if not self._by_source[source]:
            del self._by_source[source]

    @property
    def relays(self) -> int:
        """Return the number of open connections that have the place of a relay."""
        return self._by_relay.total()

    def move_to_relay(self, source: str, host: str) -> bool:
        """Give an admitted connection a place of the relay of `host`; return whether one
        was free.

        It then no longer counts for its source: many relays can have one address.
        """
        if (
            self.relays >= self._relay_connections
            or self._by_relay[host] >= limits.RELAY_CONNECTIONS_OF_HOST_MAX
        ):
            return False
        self.dismiss(source)
        self._by_relay[host] += 1
        return True

    def dismiss_relay(self, host: str) -> None:
        """Remove a connection that had the place of a relay."""
        self._by_relay[host] -= 1
        if not self._by_relay[host]:
            del self._by_relay[host]

    def is_busy(self, source: str) -> bool:
        """Return whether too many handshakes are running; if so, count a rejection."""
        own = self._handshakes_by_source[source]
        if own >= limits.ADMIN_HANDSHAKES_PER_SOURCE_MAX:
            self._refuse("source", source)
            return True
        if self.handshakes >= limits.ADMIN_HANDSHAKES_MAX:
            self._refuse("all", source)
            return True
        return False

    def begin_handshake(self, source: str) -> None:
        """Count a new handshake."""
        self.handshakes += 1
        self._handshakes_by_source[source] += 1

    def end_handshake(self, source: str) -> None:
        """Remove a handshake from the count."""
        self.handshakes -= 1
        self._handshakes_by_source[source] -= 1
        if not self._handshakes_by_source[source]:
            del self._handshakes_by_source[source]

    def _most_of(self, source: str) -> int:
        bounds = self.bounds
        if is_loopback(source):
            # A reverse proxy on this machine is one source with many users.
            return max(bounds.connections_per_source, bounds.connections // 2)
        return bounds.connections_per_source

    def _refuse(self, reason: str, source: str) -> None:
        self.refused[reason] += 1
        now = self._monotonic()
        if now - self._logged_at >= limits.ADMIN_REFUSED_LOG_SECONDS:
            self._logged_at = now
            logger.warning(
                "the operator API rejected a connection from %s: %d are open, %d "
                "rejected so far; the limit is %d, and %d per source",
                source or "an unknown address",
                self.open,
                self.refused.total(),
                self.bounds.connections,
                self._most_of(source),
            )


def door_limits(*, share: int = 1, is_tls: bool = False) -> Limits:
    """Return the connection limits of an API that can use one `share`-th of the files.

    With TLS, a connection takes far more memory, so the limit is lower. Relays have places
    of their own (`door_of`).
    """
    files = open_files.free_for_connections() // share
    most = limits.ADMIN_TLS_CONNECTIONS_MAX if is_tls else limits.ADMIN_CONNECTIONS_MAX
    return Limits(connections=min(most, files))


def door_of(bounds: Limits, *, share: int = 1) -> Door:
    """Return a door with these limits, and the places of relays that the files allow."""
    rest = open_files.free_for_connections() // share - bounds.connections
    return Door(
        bounds,
        monotonic=SystemClock().monotonic,
        relay_connections=max(0, min(limits.RELAY_CONNECTIONS_MAX, rest)),
    )


class OwnListener:
    """A check whether this process still accepts connections at its listener.

    A process can answer the service and still accept no connection: its loop has lost
    the listener, or it has no free file. So before it answers a ping, it connects to
    itself as a client. A recent connection of another client makes this unnecessary.
    """

    def __init__(self, listener: socket.socket, door: Door) -> None:
        """Check `listener`, whose connections `door` counts."""
        self._family = listener.family
        self._address = listener.getsockname()
        self._came = door.came

    async def takes_connections(self) -> bool:
        """Return whether a connection came since the last call, or comes now."""
        if not self._came.is_set():
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(limits.API_REACH_SECONDS):
                    await self._connect()
            # A single iteration of a busy loop can take longer than the timeout, which
            # then ends before the loop has looked at the listener.
            for _ in range(limits.API_REACH_ITERATIONS):
                if self._came.is_set():
                    break
                await asyncio.sleep(0)
        came = self._came.is_set()
        self._came.clear()
        return came

    async def _connect(self) -> None:
        """Connect to the listener, and wait until any connection arrives."""
        with socket.socket(self._family) as client:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, self._place())
            await self._came.wait()

    def _place(self) -> str | tuple[str, int]:
        if self._family == socket.AF_UNIX:
            return str(self._address)
        host, port = str(self._address[0]), int(self._address[1])
        return _EVERYWHERE.get(host, host), port
