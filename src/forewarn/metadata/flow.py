"""Flow control of one connection, its timeouts, and its end.

The server stops reading from a connection in three cases:

- Responses do not keep up with requests.
- A request was refused because of the rate limit.
- There is more data than may be processed in one iteration of the event loop.

Setting a timer costs more than the response to a GET. It is therefore set only if a
request arrives in parts, or if the client does not read. After that phase, the timer
is not cancelled: it fires and has no effect. The hub's sweeps find clients that send
nothing.
"""

import asyncio
import enum
import socket
import struct
from collections.abc import Callable
from typing import Any

from forewarn.metadata import limits
from forewarn.metadata.hub import Hub
from forewarn.metadata.reader import RequestReader
from forewarn.metadata.waiting import Waiter


class Phase(enum.Enum):
    """The phases with a timeout: `Limits` has the seconds of each by its name."""

    IDLE = "idle"
    """No timeout applies; never armed."""
    HEAD = "head"
    BODY = "body"
    WRITE = "write"
    LINGER = "linger"


class Watchdog:
    """Calls `on_time` when a phase has reached its timeout."""

    __slots__ = ("_bounds", "_on_time", "_request", "_timer", "phase")

    def __init__(self, bounds: limits.Limits, *, on_time: Callable[[], None]) -> None:
        """Start without a timer."""
        self.phase = Phase.IDLE
        self._bounds = bounds
        self._on_time = on_time
        self._request = 0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, reader: RequestReader) -> None:
        """Start the timeout of a request that is being received, once for each request."""
        if reader.is_between:
            self.phase = Phase.IDLE
            return
        phase = Phase.HEAD if reader.in_head else Phase.BODY
        if phase is not self.phase or reader.begun != self._request:
            self._request = reader.begun
            self.arm(phase)

    def arm(self, phase: Phase) -> None:
        """Start the timeout of a phase."""
        self.cancel()
        self.phase = phase
        self._timer = asyncio.get_running_loop().call_later(
            getattr(self._bounds, f"{phase.value}_seconds"), self._on_time
        )

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Cancel the timer for good, and drop the reference to the connection."""
        self.cancel()
        self._on_time = lambda: None


UNREAD = RequestReader(lambda _request: None)
"""A placeholder for the reader of a connection that has received nothing yet."""


_RESET = struct.pack("ii", 1, 0)
"""The value of SO_LINGER with which a close sends a reset and drops unsent bytes."""


class Flow(asyncio.Protocol):
    """The part of a connection that handles bytes, not requests."""

    __slots__ = (
        "_has_ended",
        "_hub",
        "_is_choked",
        "_is_ending",
        "_later",
        "_reader",
        "_reads",
        "_task",
        "_transport",
        "_watchdog",
        "_write",
    )

    def __init__(self, hub: Hub) -> None:
        """Start without a transport."""
        self._hub = hub
        self._write: Callable[[bytes], None] = write_nowhere
        self._reader = UNREAD
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Future[Any] | Waiter | None = None
        """The task or waiter that responds to the current request later."""
        self._is_choked = False
        self._reads = True
        self._later: asyncio.Handle | None = None
        """Resumes reading in a later iteration of the loop; until then, nothing is read."""
        self._has_ended = False
        """The client has stopped sending."""
        self._is_ending = False
        self._watchdog: Watchdog | None = None
        """Created for the first timeout: most pollers never need it."""

    @property
    def is_gone(self) -> bool:
        """Return whether the client can no longer read a response."""
        return self._transport is None or self._transport.is_closing()

    @property
    def is_free(self) -> bool:
        """Return whether the connection is idle."""
        return (
            self._task is None
            and not self._is_choked
            and (self._reader is UNREAD or self._reader.is_idle)
        )

    def finish(self) -> None:
        """Close the connection when it is idle, because the server stops."""
        if self.is_free and self._transport is not None:
            self._transport.close()

    def detach(self) -> asyncio.Transport | None:
        """Return the transport for another protocol; None if the connection is busy."""
        is_busy = self._later is not None or self._has_ended or self._is_ending
        if is_busy or not self.is_free or self.is_gone:
            return None
        transport = self._transport
        self.connection_lost(None)
        return transport

    def abort(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        self._is_ending = True
        if self._transport is not None:
            wire = self._transport.get_extra_info("socket")
            if wire is not None:
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()

    @property
    def _is_clear(self) -> bool:
        """Return whether the next request may be processed now."""
        return self._task is None and self._later is None and not self._is_choked

    @property
    def _has_more(self) -> bool:
        """Return whether there is more data after the current request."""
        return bool(self._reader.ready) or self._reader.has_unread

    def _drain(self) -> None:
        """Process the requests that are ready."""
        raise NotImplementedError

    def _on_time(self) -> None:
        """Handle a timeout."""
        raise NotImplementedError

    def _pause_reading(self, seconds: float = 0.0) -> None:
        """Resume reading after the other connections, or in `seconds`."""
        if self._later is not None or self.is_gone:
            return
        loop = asyncio.get_running_loop()
        if seconds:
            self._later = loop.call_later(seconds, self._resume_reading)
        else:
            self._later = loop.call_soon(self._resume_reading)
        self._update_reading()

    def _resume_reading(self) -> None:
        self._later = None
        if self._is_ending:
            self._update_reading()
            return
        self._reader.read_on()
        self._drain()

    def _update_reading(self) -> None:
        """Pause or resume reading, so that responses keep up with requests."""
        if self._transport is None or self._transport.is_closing():
            return
        reader = self._reader
        reads = self._later is None and (
            self._is_ending
            or not (
                self._is_choked
                or reader.has_unread
                or len(reader.ready) >= limits.PIPELINE_MAX
            )
        )
        if reads is not self._reads:
            self._reads = reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _linger(self) -> None:
        """Close the server's side, and discard further data of the client for a while.

        If the server closed the connection at once, the kernel would respond to further
        data with a reset, which could discard the last response.
        """
        self._is_ending = True
        if self._reader is not UNREAD:
            self._reader.close()
            self._reader.ready.clear()
        if self._transport is not None and not self._transport.is_closing():
            if self._has_ended:
                self._transport.close()
                return
            self._transport.write_eof()
            self._update_reading()
        self._start_timeout(Phase.LINGER)

    def _start_timeout(self, phase: Phase) -> None:
        if self._watchdog is None:
            self._watchdog = Watchdog(self._hub.bounds, on_time=self._on_time)
        self._watchdog.arm(phase)

    def _release(self) -> None:
        """Break reference cycles when the client is gone.

        The objects are then freed at once, without the garbage collector.
        """
        self._transport = None
        self._write = write_nowhere
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._watchdog is not None:
            self._watchdog.close()
        if self._reader is not UNREAD:
            self._reader.close()


def write_nowhere(_data: bytes) -> None:
    """Discard the data: there is no transport."""
