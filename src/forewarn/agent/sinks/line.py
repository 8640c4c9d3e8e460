"""A connection to a receiver that does not speak HTTP: one deadline for all of it.

Whatever the other side does, each wait ends in time. All that goes wrong is a
`SinkError` that may pass. TLS is imported where it is wanted.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Generator

from forewarn.agent.sinks.port import SinkError
from forewarn.agent.wire.answers import Trouble
from forewarn.agent.wire.connection import TIMEOUTS, Connection
from forewarn.agent.wire.urls import Url
from forewarn.clock import Clock

LINE_BYTES_MAX = 4_096
"""Of one line of an answer; SMTP's own bound is an eighth of it (RFC 5321, 4.5.3.1)."""

END_SECONDS = 2.0
"""For the other side to end the connection, once it was told that nothing follows."""


class Line(Connection):
    """One connection; use it in a `with`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        clock: Clock,
        seconds: float,
        kind: socket.SocketKind = socket.SOCK_STREAM,
    ) -> None:
        """Connect nowhere yet, but count the seconds from now on."""
        url = Url(scheme="http", host=host, port=port, target="")
        super().__init__(url, clock=clock, kind=kind)
        self.where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._unread = bytearray()
        self._seconds = seconds
        self._allow(seconds)

    def __enter__(self) -> Line:  # noqa: PYI034 - Python 3.9 has no Self
        """Connect; raises SinkError."""
        self._connect(self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        """Close it, whatever stands open."""
        self.close()

    def _fault(self, trouble: Trouble, message: str) -> SinkError:
        del trouble
        return SinkError(message)

    @property
    def here(self) -> str:
        """Return this end's address, as mail servers write one: `[192.0.2.1]`."""
        address = self._ready().getsockname()[0]
        return (
            f"[IPv6:{address.partition('%')[0]}]" if ":" in address else f"[{address}]"
        )

    def secure(self, ca_file: str) -> None:
        """Have TLS from now on, with a certificate for this host; raises SinkError."""
        if self._unread:
            # It was sent in the clear, by whoever stands between.
            raise SinkError(f"{self.where}: it said something before TLS began")
        self._ca_file = ca_file
        with self._telling("beginning TLS"):
            self._secure()

    def write(self, data: bytes) -> None:
        """Send all of it; raises SinkError."""
        with self._telling("sending"):
            self._write(data)

    def read_line(self) -> bytes:
        """Return the next line without its end; raises SinkError."""
        while (end := self._unread.find(b"\n")) < 0:
            if len(self._unread) > LINE_BYTES_MAX:
                raise SinkError(f"{self.where}: what it says has no end")
            with self._telling("waiting for an answer"):
                piece = self._read()
            if not piece:
                raise SinkError(f"{self.where}: it ended the connection")
            self._unread += piece
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return line.removesuffix(b"\r")

    def finish(self) -> None:
        """Say that nothing follows, and wait for the other side to end; raises SinkError.

        Who does not end, in its time, is no error: what was sent had an address.
        """
        self._allow(min(self.left(), END_SECONDS))
        with contextlib.suppress(*TIMEOUTS), self._telling("ending", but=TIMEOUTS):
            _shut(self._ready())
            while self._read() and self._clock.monotonic() < self._ends:
                pass

    def hears_refusal(self, seconds: float) -> bool:
        """Tell whether a datagram was refused, as a host nearby says at once."""
        self._allow(min(self.left(), seconds))
        expected = (*TIMEOUTS, ConnectionRefusedError)
        try:
            with self._telling("sending", but=expected):
                self._read()
        except expected as error:
            return isinstance(error, ConnectionRefusedError)
        return False

    @contextlib.contextmanager
    def _telling(
        self, doing: str, *, but: tuple[type[OSError], ...] = ()
    ) -> Generator[None]:
        """Raise SinkError for any OSError `but` these."""
        try:
            yield
        except OSError as error:
            if isinstance(error, but):
                raise
            raise self._told(error, doing) from error


def _shut(wire: socket.socket) -> None:
    """Say that nothing follows."""
    unwrap: Callable[[], object] | None = getattr(wire, "unwrap", None)
    if unwrap is not None:
        # Of TLS the end is said by a record; a bare end of the bytes would look cut.
        with contextlib.suppress(OSError, ValueError):
            unwrap()
            return
    wire.shutdown(socket.SHUT_WR)
