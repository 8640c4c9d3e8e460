"""What a process tells systemd, or whoever else speaks its protocol.

A datagram with lines such as `READY=1` to a socket that the environment names.
When the watchdog is fed is for the process to decide: `pause` says how often.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Mapping

from forewarn.protocol.frozen import frozen_dataclass

logger = logging.getLogger("forewarn.supervisor")

STATUS_SECONDS = 10.0
"""Between two reports where no watchdog asks for more."""

FEEDS_PER_WATCHDOG = 3
"""How often the watchdog is fed in its time: one may be late."""

MICROSECONDS = 1_000_000

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""Of the environment: for this process, and not for those that it starts."""


@frozen_dataclass
class Supervisor:
    """Who started the process and wants to hear of it."""

    address: str = ""
    """A path, or `@` and an abstract name; empty: nobody."""
    watchdog_seconds: float = 0.0
    """How long it waits for a sign of life; 0: for ever."""

    def tell(self, *lines: str) -> None:
        """Send lines; that nobody listens is no reason to fail."""
        if not self.address:
            return
        address = "\0" + self.address[1:] if self.address[0] == "@" else self.address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            try:
                sender.sendto("\n".join(lines).encode(), address)
            except OSError as error:
                logger.warning("the supervisor cannot be told: %s", error.strerror)

    @property
    def pause(self) -> float:
        """Return the seconds between two signs of life."""
        return self.watchdog_seconds / FEEDS_PER_WATCHDOG or STATUS_SECONDS


def unsupervised(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for children: they are not to speak for this process."""
    return {name: text for name, text in environ.items() if name not in VARIABLES}


def supervisor_of(environ: Mapping[str, str]) -> Supervisor:
    """Return the supervisor that the environment names."""
    seconds = 0.0
    meant = environ.get("WATCHDOG_PID", "")
    # A watchdog that was meant for a parent of this process is not ours to feed.
    if meant in {"", str(os.getpid())}:
        with contextlib.suppress(ValueError):
            seconds = int(environ.get("WATCHDOG_USEC", "0")) / MICROSECONDS
    return Supervisor(
        address=environ.get("NOTIFY_SOCKET", ""), watchdog_seconds=max(0.0, seconds)
    )
