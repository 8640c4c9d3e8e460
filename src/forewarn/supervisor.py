"""Notify systemd, or another supervisor with its protocol, of a process's state.

A notification is a datagram with lines such as `READY=1`, sent to a socket that the
environment names. The process decides when to feed the watchdog; `pause` says how often.
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
"""Time between two status reports without a watchdog."""

FEEDS_PER_WATCHDOG = 3
"""Notifications per watchdog timeout, so that one can be late."""

MICROSECONDS = 1_000_000

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""The supervisor's environment variables, which child processes must not inherit."""


@frozen_dataclass
class Supervisor:
    """The supervisor that started this process."""

    address: str = ""
    """A path, or `@` and an abstract name; empty: no supervisor."""
    watchdog_seconds: float = 0.0
    """The watchdog timeout; 0: no watchdog."""

    def notify(self, *lines: str) -> None:
        """Send lines; a supervisor that does not listen is not an error."""
        if not self.address:
            return
        address = "\0" + self.address[1:] if self.address[0] == "@" else self.address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            try:
                sender.sendto("\n".join(lines).encode(), address)
            except OSError as error:
                logger.warning("cannot notify the supervisor: %s", error.strerror)

    @property
    def pause(self) -> float:
        """Return the seconds between two notifications."""
        return self.watchdog_seconds / FEEDS_PER_WATCHDOG or STATUS_SECONDS


def unsupervised(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for child processes, which must not notify the supervisor."""
    return {name: text for name, text in environ.items() if name not in VARIABLES}


def supervisor_of(environ: Mapping[str, str]) -> Supervisor:
    """Return the supervisor that the environment names."""
    seconds = 0.0
    meant = environ.get("WATCHDOG_PID", "")
    # If WATCHDOG_PID names a parent process, the watchdog is not for this process.
    if meant in {"", str(os.getpid())}:
        with contextlib.suppress(ValueError):
            seconds = int(environ.get("WATCHDOG_USEC", "0")) / MICROSECONDS
    return Supervisor(
        address=environ.get("NOTIFY_SOCKET", ""), watchdog_seconds=max(0.0, seconds)
    )
