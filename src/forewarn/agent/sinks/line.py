"""A connection to a receiver that does not speak HTTP: one deadline for all of it.

Whatever the other side does, each wait ends in time. All that goes wrong is a
`SinkError` that may pass. TLS is imported where it is wanted.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Callable

from forewarn.agent.sinks.port import SinkError
from forewarn.agent.wire.http import HttpError, Lookup
from forewarn.agent.wire.timeouts import TIMEOUTS
from forewarn.agent.wire.urls import Url
from forewarn.clock import Clock

LINE_BYTES_MAX = 4_096
"""Of one line of an answer; SMTP's own bound is an eighth of it (RFC 5321, 4.5.3.1)."""

PIECE_BYTES = 4_096

END_SECONDS = 2.0
"""For the other side to end the connection, once it was told that nothing follows."""

SLEEP_MIN_SECONDS = 0.001
"""A socket's time-out of 0 would mean that it does not wait at all."""


class Line:
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
        shown = f"[{host}]" if ":" in host else host
        self.where = f"{shown}:{port}"
        self._host = host
        self._kind = kind
        self._lookup = Lookup(Url(scheme="http", host=host, port=port, target=""))
        self._clock = clock
        self._ends = clock.monotonic() + seconds
        self._wire: socket.socket | None = None
        self._unread = bytearray()

    def __enter__(self) -> Line:  # noqa: PYI034 - Python 3.9 has no Self
        """Connect; raises SinkError."""
        try:
            addresses = self._lookup.addresses(self.left)
        except HttpError as error:
            raise SinkError(error.message) from error
        for tried, (family, address) in enumerate(addresses, start=1):
            share = self.left() / (len(addresses) - tried + 1)
            try:
                self._wire = socket.socket(family, self._kind)
                self._wire.settimeout(share)
                self._wire.connect(address)
            except OSError as error:
                self.close()
                if tried == len(addresses):
                    raise self._told(error, "connecting") from error
            else:
                break
        return self

    def __exit__(self, *_: object) -> None:
        """Close it, whatever stands open."""
        self.close()

    @property
    def here(self) -> str:
        """Return this end's address, as mail servers write one: `[192.0.2.1]`."""
        address = self._at_hand().getsockname()[0]
        return (
            f"[IPv6:{address.partition('%')[0]}]" if ":" in address else f"[{address}]"
        )

    def close(self) -> None:
        """Close it, without a word to the other side."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def left(self) -> float:
        """Return the seconds that are left; raises SinkError where none are."""
        left = self._ends - self._clock.monotonic()
        if left <= 0:
            raise SinkError(f"{self.where}: there was no whole answer in time")
        return max(left, SLEEP_MIN_SECONDS)

    def lock_scopes(self, ca_file: str) -> None:
        """Have TLS from now on, with a certificate for this host; raises SinkError."""
        if self._unread:
            # It was sent in the clear, by whoever stands between.
            raise SinkError(f"{self.where}: it said something before TLS began")
        # Six megabytes, which whoever needs no TLS does without.
        import ssl  # noqa: PLC0415 - see above

        from forewarn.agent.wire import tls  # noqa: PLC0415

        try:
            context = tls.trusting(ca_file=ca_file)
        except (OSError, ValueError) as error:
            raise SinkError(f"cannot read {ca_file}: {error}") from error
        wire = self._at_hand()
        try:
            self._wire = context.wrap_socket(wire, server_hostname=self._host)
        except ssl.SSLError as error:
            reason = error.strerror or str(error)
            text = f"{self.where}: no trusted connection: {reason}"
            raise SinkError(text) from error
        except OSError as error:
            raise self._told(error, "beginning TLS") from error

    def write(self, data: bytes) -> None:
        """Send all of it; raises SinkError."""
        try:
            self._at_hand().sendall(data)
        except OSError as error:
            raise self._told(error, "sending") from error

    def read_line(self) -> bytes:
        """Return the next line without its end; raises SinkError."""
        while (end := self._unread.find(b"\n")) < 0:
            if len(self._unread) > LINE_BYTES_MAX:
                raise SinkError(f"{self.where}: what it says has no end")
            try:
                piece = self._at_hand().recv(PIECE_BYTES)
            except OSError as error:
                raise self._told(error, "waiting for an answer") from error
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
        wire = self._at_hand()
        seconds = min(self.left(), END_SECONDS)
        ends = self._clock.monotonic() + seconds
        wire.settimeout(seconds)
        try:
            _shut(wire)
            while wire.recv(PIECE_BYTES) and self._clock.monotonic() < ends:
                pass
        except TIMEOUTS:
            return
        except OSError as error:
            raise self._told(error, "ending") from error

    def hears_refusal(self, seconds: float) -> bool:
        """Tell whether a datagram was refused, as a host nearby says at once."""
        wire = self._at_hand()
        wire.settimeout(min(self.left(), seconds))
        try:
            wire.recv(1)
        except TIMEOUTS:
            return False
        except ConnectionRefusedError:
            return True
        except OSError as error:
            raise self._told(error, "sending") from error
        return False

    def _at_hand(self) -> socket.socket:
        assert self._wire is not None, "it is connected"
        self._wire.settimeout(self.left())
        return self._wire

    def _told(self, error: OSError, doing: str) -> SinkError:
        if isinstance(error, TIMEOUTS):
            return SinkError(f"{self.where}: no time left while {doing}")
        if isinstance(error, ConnectionRefusedError):
            return SinkError(f"{self.where}: nobody listens there")
        if isinstance(error, ConnectionError) or error.errno == errno.ENOTCONN:
            return SinkError(f"{self.where}: the connection ended while {doing}")
        reason = error.strerror or str(error)
        return SinkError(f"{self.where}: {reason} while {doing}")


def _shut(wire: socket.socket) -> None:
    """Say that nothing follows."""
    unwrap: Callable[[], object] | None = getattr(wire, "unwrap", None)
    if unwrap is not None:
        # Of TLS the end is said by a record; a bare end of the bytes would look cut.
        with contextlib.suppress(OSError, ValueError):
            unwrap()
            return
    wire.shutdown(socket.SHUT_WR)
