"""A lock that allows one active agent per endpoint, even with different journals.

Two active agents would both run their handlers and approve for each other. The
journal's lock only prevents two agents with the same journal. This lock is the name of
a socket in Linux's abstract namespace, which belongs to the network namespace: a
container with its own network also has its own endpoint. The name ends with the process
in any case, and handlers that outlive the agent do not inherit it.

Any process on the machine can take such a name. Therefore, only a holder that runs as
root or as the agent's user prevents a start. For other holders, there is only a
warning.
"""

from __future__ import annotations

import binascii
import contextlib
import errno
import logging
import os
import socket
import struct
import sys
import threading

from forewarn.agent.settings_model import AUTO, Settings
from forewarn.agent.wire.discovery import DEFAULT
from forewarn.agent.wire.urls import parse_url
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass

logger = logging.getLogger("forewarn.agent")

NAME_BYTES_MAX = 107
"""Maximum length of an abstract name in Linux, without its first zero."""

BACKLOG = 16
"""Maximum number of pending connections between two iterations of the main loop."""

TRIES = 20
PAUSE_SECONDS = 0.05
"""How often and how long to wait for a holder that does not identify itself, since it
may be starting or ending. After a second, the agent starts anyway: events must not
wait."""

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group, in the format of SO_PEERCRED."""


class TakenError(ForewarnError):
    """Another agent is active at the endpoint."""


@frozen_dataclass
class Holder:
    """The process that holds an endpoint's name."""

    process: int
    """Process ID of the holder; 0: it is in a container that is not visible from
    here."""
    user: int

    @property
    def is_believed(self) -> bool:
        """Return whether the holder can prevent the start of an agent of this user."""
        return self.user in {0, os.geteuid()}

    def __str__(self) -> str:
        """Return the holder in the words of a message."""
        return f"process {self.process}" if self.process else "in another container"


class EndpointLock:
    """The name of an endpoint, held until `release`."""

    def __init__(self, url: str) -> None:
        """Take the name if the system has such names; raises TakenError."""
        self._socket: socket.socket | None = None
        if sys.platform != "linux":  # pragma: no cover
            return
        try:
            self._take(url)
        except TakenError:
            self.release()
            raise
        except OSError as error:
            self.release()
            logger.warning(
                "cannot check for other agents at %s: %s", url, error.strerror
            )

    def tick(self) -> None:
        """Close the connections of processes that asked for the holder; never waits."""
        with contextlib.suppress(OSError):
            while self._socket is not None:
                self._socket.accept()[0].close()

    def release(self) -> None:
        """Release the name; may be called twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _take(self, url: str) -> None:
        for _ in range(TRIES):
            taken = self._socket = _unix_socket()
            try:
                taken.bind(name_of(url))
                taken.listen(BACKLOG)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                self.release()
            else:
                return
            holder = holder_of(url)
            if holder is not None:
                _refuse(url, holder)
                return
            # The holder is starting or ending.
            threading.Event().wait(PAUSE_SECONDS)
        logger.warning(
            "another process holds the lock of %s but does not answer; this agent starts "
            "anyway",
            url,
        )


def place_of(settings: Settings) -> EndpointLock | None:
    """Return the endpoint's lock for an active agent; None: the agent is not active.

    Raises TakenError.
    """
    if settings.watch.dry_run or settings.watch.observe:
        return None
    return EndpointLock(settings.watch.endpoint)


def holder_of(url: str) -> Holder | None:
    """Return the holder of an endpoint's name; None: there is none, or it is
    unknown."""
    if sys.platform != "linux":  # pragma: no cover
        return None
    with contextlib.suppress(OSError), _unix_socket() as asking:
        asking.connect(name_of(url))
        credentials = asking.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        process, user, _ = _CREDENTIALS.unpack(credentials)
        return Holder(process=process, user=user)
    return None


def name_of(url: str) -> bytes:
    """Return the name of an endpoint, which is the same for all spellings of its
    URL."""
    parts = parse_url(DEFAULT if url == AUTO else url)
    where = f"{parts.base}{parts.target.rstrip('/')}".encode()
    name = b"\0forewarn-agent " + where
    if len(name) > 1 + NAME_BYTES_MAX:
        # A checksum distinguishes names that were cut.
        mark = b" %08x" % binascii.crc32(where)
        name = name[: 1 + NAME_BYTES_MAX - len(mark)] + mark
    return name


def _refuse(url: str, holder: Holder) -> None:
    """Log a warning about the holder; raises TakenError if it can prevent a start."""
    if not holder.is_believed:
        logger.warning(
            "%s of user %s holds the lock of the endpoint %s; this agent starts anyway, "
            "since that user is neither root nor its own",
            holder,
            holder.user,
            url,
        )
        return
    raise TakenError(
        f"another agent ({holder}) already handles events from {url}",
        hint="Stop it first, or start this one with `observe` or `dry_run`.",
    )


def _unix_socket() -> socket.socket:
    sock = socket.socket(vars(socket)["AF_UNIX"], socket.SOCK_STREAM)
    sock.setblocking(False)
    return sock
