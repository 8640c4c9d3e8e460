"""The one timer of a connection, for what has begun and must end.

Arming a timer costs more than answering a GET. So it is armed only where the bytes
of a request come in parts, or are not read; when that is over, it is left to fire,
to see that nothing is in a hurry any more. Who sends nothing at all is noticed in
the hub's rounds.
"""

import asyncio
import enum
from collections.abc import Callable

from forewarn.metadata.limits import Limits
from forewarn.metadata.reader import RequestReader


class Phase(enum.Enum):
    """What a connection may take too long for: `Limits` has its seconds by this name."""

    IDLE = "idle"
    """Nothing is in a hurry; never armed."""
    HEAD = "head"
    BODY = "body"
    WRITE = "write"
    LINGER = "linger"


class Watchdog:
    """Calls `on_time` when a phase has lasted as long as it may."""

    __slots__ = ("_bounds", "_on_time", "_request", "_timer", "phase")

    def __init__(self, bounds: Limits, *, on_time: Callable[[], None]) -> None:
        """Watch nothing yet."""
        self.phase = Phase.IDLE
        self._bounds = bounds
        self._on_time = on_time
        self._request = 0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, reader: RequestReader) -> None:
        """Set a time for what has begun to come in, once for each request."""
        if reader.is_between:
            self.phase = Phase.IDLE
            return
        phase = Phase.HEAD if reader.in_head else Phase.BODY
        if phase is not self.phase or reader.begun != self._request:
            self._request = reader.begun
            self.arm(phase)

    def arm(self, phase: Phase) -> None:
        """Begin a phase now."""
        self.cancel()
        self.phase = phase
        self._timer = asyncio.get_running_loop().call_later(
            getattr(self._bounds, f"{phase.value}_seconds"), self._on_time
        )

    def cancel(self) -> None:
        """Watch nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Watch nothing ever again, and let go of the connection."""
        self.cancel()
        self._on_time = lambda: None
