"""A connection to a receiver that does not speak HTTP, with one deadline.

Every wait ends in time, even if the other side sends single bytes. Every failure is a
`DeliveryError` that allows another attempt. TLS is imported only when it is needed.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Generator

from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.wire.answers import Trouble
from forewarn.agent.wire.connection import TIMEOUTS, Connection
from forewarn.agent.wire.urls import Url
from forewarn.clock import Clock

LINE_BYTES_MAX = 4_096
"""Maximum size of a line in an answer: eight times SMTP's limit (RFC 5321, 4.5.3.1)."""

END_SECONDS = 2.0
"""How long the other side may take to close the connection at the end."""


class Line(Connection):
    """One connection; use it in a `with` statement."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        clock: Clock,
        seconds: float,
        kind: socket.SocketKind = socket.SOCK_STREAM,
    ) -> None:
        """Start the deadline, without connecting."""
        url = Url(scheme="http", host=host, port=port, target="")
        super().__init__(url, clock=clock, kind=kind)
        self.where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._unread = bytearray()
        self._seconds = seconds
        self._allow(seconds)

    def __enter__(self) -> Line:  # noqa: PYI034 - Python 3.9 has no Self
        """Connect; raises DeliveryError."""
        self._connect(self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def _fault(self, trouble: Trouble, message: str) -> DeliveryError:
        del trouble
        return DeliveryError(message)

    @property
    def here(self) -> str:
        """Return this end's address in the form of mail servers: `[192.0.2.1]`."""
        address = self._ready().getsockname()[0]
        return (
            f"[IPv6:{address.partition('%')[0]}]" if ":" in address else f"[{address}]"
        )

    def secure(self, ca_file: str) -> None:
        """Switch to TLS, with a certificate for this host; raises DeliveryError."""
        if self._unread:
            # Unencrypted data may come from an attacker on the path.
            raise DeliveryError(f"{self.where}: it sent data before TLS began")
        self._ca_file = ca_file
        with self._telling("beginning TLS"):
            self._secure()

    def write(self, data: bytes) -> None:
        """Send all of the data; raises DeliveryError."""
        with self._telling("sending"):
            self._write(data)

    def read_line(self) -> bytes:
        """Return the next line without its end; raises DeliveryError."""
        while (end := self._unread.find(b"\n")) < 0:
            if len(self._unread) > LINE_BYTES_MAX:
                raise DeliveryError(f"{self.where}: its line is too long")
            with self._telling("waiting for an answer"):
                piece = self._read()
            if not piece:
                raise DeliveryError(f"{self.where}: it ended the connection")
            self._unread += piece
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return line.removesuffix(b"\r")

    def finish(self) -> None:
        """Close this side, and wait for the other side to close; raises DeliveryError.

        A timeout of the other side is not an error, since all data was sent.
        """
        self._allow(min(self.left(), END_SECONDS))
        with contextlib.suppress(*TIMEOUTS), self._telling("ending", but=TIMEOUTS):
            _shut(self._ready())
            while self._read() and self._clock.monotonic() < self._ends:
                pass

    def is_refused(self, seconds: float) -> bool:
        """Return whether a datagram was refused, which a nearby host reports at once."""
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
        """Raise DeliveryError for any OSError except those in `but`."""
        try:
            yield
        except OSError as error:
            if isinstance(error, but):
                raise
            raise self._told(error, doing) from error


def _shut(wire: socket.socket) -> None:
    """Close the sending direction."""
    unwrap: Callable[[], object] | None = getattr(wire, "unwrap", None)
    if unwrap is not None:
        # TLS ends with a record. Without it, the data would look truncated.
        with contextlib.suppress(OSError, ValueError):
            unwrap()
            return
    wire.shutdown(socket.SHUT_WR)
