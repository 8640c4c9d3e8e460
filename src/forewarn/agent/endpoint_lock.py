"""One agent that acts at an endpoint, whatever journals there are.

Two would both run their handlers, and approve for each other. The journal's lock keeps
two agents from one journal; this keeps a second one from acting with another journal.
It is the name of a socket in Linux's abstract namespace, which belongs to the network
that the endpoint is reached by: whoever has a network of its own has an endpoint of
its own. The name goes with the process, however that ends, and handlers that outlive
it do not inherit it.

Anybody on the machine may take any such name. So only a holder that is root's, or the
agent's own user's, keeps an agent from starting; of others it is told, and no more.
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
"""Of an abstract name without its first zero: Linux's bound."""

BACKLOG = 16
"""Who asks for the holder between two turns, which are a second apart."""

TRIES = 20
PAUSE_SECONDS = 0.05
"""For a holder that does not say who it is: it ends, or begins, in a moment. After a
second in vain, something is wrong with it, and an event must not wait for that."""

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group, as SO_PEERCRED gives them."""


class TakenError(ForewarnError):
    """Another agent acts at the endpoint."""


@frozen_dataclass
class Holder:
    """The process that has an endpoint's name."""

    process: int
    """Its number; 0: it is in a container that is not seen from here."""
    user: int

    @property
    def is_believed(self) -> bool:
        """Tell whether it may keep an agent of this user from starting."""
        return self.user in {0, os.geteuid()}

    def __str__(self) -> str:
        """Return who it is, for a sentence."""
        return f"process {self.process}" if self.process else "in another container"


class EndpointLock:
    """The name of an endpoint, held until `release`."""

    def __init__(self, url: str) -> None:
        """Take it where there are such names; raises TakenError."""
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
            logger.warning("no look for other agents at %s: %s", url, error.strerror)

    def tick(self) -> None:
        """Let go of those who asked who is here; never waits."""
        if self._socket is None:
            return
        with contextlib.suppress(OSError):
            while True:
                self._socket.accept()[0].close()

    def release(self) -> None:
        """Let go of it; may be called twice."""
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
            # It is about to end, or has only just begun.
            threading.Event().wait(PAUSE_SECONDS)
        told = "who acts at %s does not answer; this agent acts all the same"
        logger.warning(told, url)


def place_of(settings: Settings) -> EndpointLock | None:
    """Return the endpoint's place for an agent that acts; None: it does not.

    Raises TakenError.
    """
    if settings.watch.dry_run or settings.watch.observe:
        return None
    return EndpointLock(settings.watch.endpoint)


def holder_of(url: str) -> Holder | None:
    """Return who acts at an endpoint; None: nobody, or it cannot be known."""
    if sys.platform != "linux":  # pragma: no cover
        return None
    asking = None
    try:
        asking = _unix_socket()
        asking.connect(name_of(url))
        told = asking.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
    except OSError:
        return None
    finally:
        if asking is not None:
            asking.close()
    process, user, _ = _CREDENTIALS.unpack(told)
    return Holder(process=process, user=user)


def name_of(url: str) -> bytes:
    """Return the name of an endpoint, one for all ways to write it."""
    parts = parse_url(DEFAULT if url == AUTO else url)
    where = f"{parts.base}{parts.target.rstrip('/')}".encode()
    name = b"\0forewarn-agent " + where
    if len(name) > 1 + NAME_BYTES_MAX:
        # What was cut off still tells two of them apart.
        mark = b" %08x" % binascii.crc32(where)
        name = name[: 1 + NAME_BYTES_MAX - len(mark)] + mark
    return name


def _refuse(url: str, holder: Holder) -> None:
    """Tell of whoever has the name; raises TakenError for one to be believed."""
    if not holder.is_believed:
        logger.warning(
            "%s of user %s says that it acts at %s; this agent acts all the same, "
            "since that is neither root nor its own user",
            holder,
            holder.user,
            url,
        )
        return
    raise TakenError(
        f"another agent acts at the endpoint {url}: {holder}",
        hint="One agent is enough for a VM. Stop the other first; `observe` or "
        "`dry_run` may stand beside it.",
    )


def _unix_socket() -> socket.socket:
    made = socket.socket(vars(socket)["AF_UNIX"], socket.SOCK_STREAM)
    made.setblocking(False)
    return made
