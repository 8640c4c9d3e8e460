"""Tells systemd that the agent is ready, lives and ends, and feeds its watchdog.

The main loop does it after its turns: an agent whose loop stands still, or which does
not watch any more, is killed and started anew on what is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from forewarn.clock import Clock
from forewarn.supervisor import Supervisor

logger = logging.getLogger("forewarn.agent")


class Feeder:
    """Speaks to the supervisor at the right times."""

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        is_alive: Callable[[], bool],
        status: Callable[[], str],
        clock: Clock,
    ) -> None:
        """Say nothing yet."""
        self._supervisor = supervisor
        self._is_alive = is_alive
        self._status = status
        self._clock = clock
        self._due = 0.0
        self._was_alive = True

    def begin(self) -> None:
        """Say that the agent is at work."""
        self._supervisor.tell("READY=1", f"STATUS={self._status()}")

    def tick(self) -> None:
        """Feed the watchdog, if it is time; call it at each turn."""
        now = self._clock.monotonic()
        if not self._supervisor.address or now < self._due:
            return
        self._due = now + self._supervisor.pause
        is_alive = self._is_alive()
        if is_alive:
            self._supervisor.tell("WATCHDOG=1", f"STATUS={self._status()}")
        elif self._was_alive:
            logger.error("no sign of life: the watchdog is not fed")
        self._was_alive = is_alive

    def end(self) -> None:
        """Say that the agent ends."""
        self._supervisor.tell("STOPPING=1", "STATUS=stopping")
