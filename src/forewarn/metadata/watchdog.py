"""The timer of a connection, for the timeouts of its phases.

Setting a timer costs more than the response to a GET. It is therefore set only if a
request arrives in parts, or if the client does not read. After that phase, the timer
is not canceled: it fires and has no effect. The hub's sweeps find clients that send
nothing.
"""

import asyncio
import enum
from collections.abc import Callable

from forewarn.metadata.limits import Limits
from forewarn.metadata.reader import RequestReader


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

    def __init__(self, bounds: Limits, *, on_time: Callable[[], None]) -> None:
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
