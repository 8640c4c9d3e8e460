"""Report to systemd that the agent is ready, alive or stopping.

The main loop calls this after each iteration. If the loop hangs or polling has stopped,
systemd kills the agent and restarts it from its journal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from forewarn.clock import Clock
from forewarn.supervisor import Supervisor

logger = logging.getLogger("forewarn.agent")


class Feeder:
    """Sends messages to the supervisor at the right times."""

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        is_alive: Callable[[], bool],
        status: Callable[[], str],
        clock: Clock,
    ) -> None:
        """Store the parameters."""
        self._supervisor = supervisor
        self._is_alive = is_alive
        self._status = status
        self._clock = clock
        self._due = 0.0
        self._was_alive = True

    def begin(self) -> None:
        """Report that the agent is ready."""
        self._supervisor.notify("READY=1", f"STATUS={self._status()}")

    def tick(self) -> None:
        """Notify the watchdog if it is time; called after each iteration."""
        now = self._clock.monotonic()
        if not self._supervisor.address or now < self._due:
            return
        self._due = now + self._supervisor.pause
        is_alive = self._is_alive()
        if is_alive:
            self._supervisor.notify("WATCHDOG=1", f"STATUS={self._status()}")
        elif self._was_alive:
            logger.error(
                "the agent has stopped working, so the watchdog is not notified"
            )
        self._was_alive = is_alive

    def end(self) -> None:
        """Report that the agent is stopping."""
        self._supervisor.notify("STOPPING=1", "STATUS=stopping")
