"""When the bytes of one connection are read, and how it ends.

A connection is read no further while answers do not keep up with requests, after a
request that was refused because its VM asks too often, and where more has come than
it may have answered in one iteration of the event loop.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

from forewarn.metadata import limits
from forewarn.metadata.hub import Hub
from forewarn.metadata.reader import RequestReader
from forewarn.metadata.waiting import Waiter
from forewarn.metadata.watchdog import Phase, Watchdog

UNREAD = RequestReader(lambda _request: None)
"""In the place of a reader where there was nothing to read yet."""


_RESET = struct.pack("ii", 1, 0)
"""The value of SO_LINGER with which a close sends a reset and drops unsent bytes."""


class Flow(asyncio.Protocol):
    """A connection as far as it is about bytes, and not about requests."""

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
        """Begin without a transport."""
        self._hub = hub
        self._write: Callable[[bytes], None] = write_nowhere
        self._reader = UNREAD
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Future[Any] | Waiter | None = None
        """What answers the request that is under way, if it could not be at once."""
        self._is_choked = False
        self._reads = True
        self._later: asyncio.Handle | None = None
        """Reads on in a later iteration of the loop; nothing is read until then."""
        self._has_ended = False
        """The client sends no more."""
        self._is_ending = False
        self._watchdog: Watchdog | None = None
        """Made when there is something to hurry: most pollers never need it."""

    @property
    def is_gone(self) -> bool:
        """Tell whether nobody is left to read an answer."""
        return self._transport is None or self._transport.is_closing()

    @property
    def is_free(self) -> bool:
        """Tell whether nothing is under way."""
        return (
            self._task is None
            and not self._is_choked
            and (self._reader is UNREAD or self._reader.is_idle)
        )

    def finish(self) -> None:
        """Close as soon as nothing is under way: the server stops."""
        if self.is_free and self._transport is not None:
            self._transport.close()

    def detach(self) -> asyncio.Transport | None:
        """Leave the transport to another protocol, unless something is under way."""
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
        """Tell whether the next request may be answered now."""
        return self._task is None and self._later is None and not self._is_choked

    @property
    def _has_more(self) -> bool:
        """Tell whether more has come than the request that is being answered."""
        return bool(self._reader.ready) or self._reader.has_unread

    def _drain(self) -> None:
        """Answer the requests that are ready."""
        raise NotImplementedError

    def _on_time(self) -> None:
        """See what has taken too long."""
        raise NotImplementedError

    def _rest(self, seconds: float = 0.0) -> None:
        """Read on after the other connections had their turn, or in `seconds`."""
        if self._later is not None or self.is_gone:
            return
        loop = asyncio.get_running_loop()
        if seconds:
            self._later = loop.call_later(seconds, self._go_on)
        else:
            self._later = loop.call_soon(self._go_on)
        self._steer()

    def _go_on(self) -> None:
        self._later = None
        if self._is_ending:
            self._steer()
            return
        self._reader.read_on()
        self._drain()

    def _steer(self) -> None:
        """Read on only while answers keep up with requests."""
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
        """Close our half, and throw away for a while what the client still sends.

        Closing at once would let the kernel answer its bytes with a reset, which
        may overtake the last answer.
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
            self._steer()
        self._hurry(Phase.LINGER)

    def _hurry(self, phase: Phase) -> None:
        if self._watchdog is None:
            self._watchdog = Watchdog(self._hub.bounds, on_time=self._on_time)
        self._watchdog.arm(phase)

    def _let_go(self) -> None:
        """Cut what would hold a ring of objects together, when the client has gone.

        So they go at once, and not at the next search for garbage.
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
    """Stand in the place of a transport that is not there."""
