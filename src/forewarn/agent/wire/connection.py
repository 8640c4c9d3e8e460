"""A connection to one host, with one deadline for all of its waits.

Every wait ends in time, even if the other side sends single bytes. Every failure is an
`HttpError`, or the error of a subclass. TLS is imported only when it is needed. A
connection belongs to one thread; other threads may only call `interrupt`.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from forewarn.agent.wire.answers import HttpError, Trouble
from forewarn.agent.wire.urls import Url
from forewarn.clock import Clock
from forewarn.protocol.errors import ForewarnError
from forewarn.settings import files

if TYPE_CHECKING:
    import ssl

TIMEOUTS = (TimeoutError, socket.timeout)
"""The timeout errors of sockets: before Python 3.10, there are two."""

PIECE_BYTES = 65_536
"""Maximum number of bytes per read: a usual document fits."""

ADDRESSES_MAX = 4
"""Maximum number of a host's addresses to try; each gets a share of the time."""

KEEPALIVE_SECONDS = (4, 2, 3)
"""Idle seconds before the first keep-alive probe, seconds between probes, and number of
lost probes. A dead connection is detected after ten seconds, well within the 30 seconds
of a Preempt."""

_SLEEP_MIN_SECONDS = 0.001
"""Minimum socket timeout: 0 would make the socket non-blocking."""

_UNREACHABLE = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}
    | {errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM}
)

Address = tuple[socket.AddressFamily, Any]


class Connection:
    """A connection to a host, with at most one open socket."""

    def __init__(
        self,
        url: Url,
        *,
        clock: Clock,
        ca_file: str = "",
        ca_text: str = "",
        cert_file: str = "",
        key_file: str = "",
        kind: socket.SocketKind = socket.SOCK_STREAM,
    ) -> None:
        """Store the parameters, without connecting.

        Only the authorities in `ca_file`, or those in `ca_text` as PEM, are trusted;
        without both, the system's. `cert_file` is the client certificate, whose key may
        be in the same file.
        """
        self.url = url
        self.where = url.base
        """The name of the other side in messages."""
        self._clock = clock
        self._ca_file = ca_file
        self._ca_text = ca_text
        self._cert_file = cert_file
        self._key_file = key_file
        self._kind = kind
        self._wire: socket.socket | None = None
        self._ends: float = 0.0
        """The deadline, in seconds of the monotonic clock."""
        self._lookup = Lookup(url)
        self._context: ssl.SSLContext | None = None
        self._is_stopped = False

    def close(self) -> None:
        """Close the connection, if any. A new one can be opened later."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def interrupt(self) -> None:
        """End the connection for good, even if another thread waits on it."""
        self._is_stopped = True
        wire = self._wire
        if wire is not None:
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)

    def left(self) -> float:
        """Return the seconds until the deadline; raises an error after it."""
        if self._is_stopped:
            raise self._fault(Trouble.STOPPED, "the agent itself ended the exchange")
        left = self._ends - self._clock.monotonic()
        if left <= 0:
            raise self._fault(Trouble.TIMEOUT, "there was no complete answer in time")
        return max(left, _SLEEP_MIN_SECONDS)

    def _fault(self, trouble: Trouble, message: str) -> ForewarnError:
        """Return the error for a failure."""
        return HttpError(trouble, message)

    def _allow(self, seconds: float) -> None:
        """Set the deadline."""
        self._ends = self._clock.monotonic() + seconds

    def _connect(self, seconds: float) -> None:
        """Connect within this time, to the first address that answers."""
        whole = self._ends
        self._ends = min(whole, self._clock.monotonic() + seconds)
        try:
            addresses = self._lookup.addresses(self.left)
        except HttpError as error:
            raise self._fault(error.trouble, error.message) from error
        for tried, (family, address) in enumerate(addresses):
            try:
                share = self.left() / (len(addresses) - tried)
                wire = self._wire = socket.socket(family, self._kind)
                wire.settimeout(share)
                wire.connect(address)
                if self._kind is socket.SOCK_STREAM:
                    _tune(wire)
                if self.url.is_secure:
                    self._secure()
            except OSError as error:
                self.close()
                if tried + 1 == len(addresses):
                    raise self._told(error, "connecting") from None
            except BaseException:
                self.close()
                raise
            else:
                self._ends = whole
                return

    def _ready(self) -> socket.socket:
        """Return the socket, with its timeout set to the remaining time."""
        assert self._wire is not None, "it is connected"
        self._wire.settimeout(self.left())
        return self._wire

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._ready().send(left) :]

    def _read(self) -> bytes:
        return self._ready().recv(PIECE_BYTES)

    # TLS and errors

    def _secure(self) -> None:
        """Switch to TLS, with a certificate for this host; raises OSError too."""
        if self._context is None:
            try:
                context = trusting(ca_file=self._ca_file, ca_text=self._ca_text)
            except (OSError, ValueError) as error:
                source = self._ca_file or "the authorities to trust"
                raise self._fault(
                    Trouble.TLS, f"cannot read {source}: {error}"
                ) from None
            self._show_certificate(context)
            self._context = context
        name = self.url.host.partition("%")[0]
        try:
            self._wire = self._context.wrap_socket(self._ready(), server_hostname=name)
        except UnicodeError:
            raise self._fault(
                Trouble.TLS, f"{name!r} is not a valid host name"
            ) from None

    def _show_certificate(self, context: ssl.SSLContext) -> None:
        if not self._cert_file:
            return
        try:
            for file in filter(None, (self._cert_file, self._key_file)):
                files.refuse_unreadable(file)
            # A key with a passphrase must fail, and not prompt for it.
            context.load_cert_chain(
                self._cert_file, self._key_file or None, password=str
            )
        except (OSError, ValueError) as error:
            file = self._cert_file
            if isinstance(error, files.UnreadError):
                file = error.filename
            raise self._fault(
                Trouble.TLS, f"cannot use the certificate {file}: {error}"
            ) from None

    def _told(self, error: OSError, doing: str) -> ForewarnError:
        """Return the error for an exception of a socket."""
        reason = error.strerror or str(error)
        if self._is_stopped:
            return self._fault(Trouble.STOPPED, "the agent itself ended the exchange")
        is_refused = isinstance(error, ConnectionRefusedError)
        is_ended = isinstance(error, ConnectionError) or error.errno == errno.ENOTCONN
        troubles = (
            (
                isinstance(error, TIMEOUTS),
                Trouble.TIMEOUT,
                f"no time left while {doing}",
            ),
            (is_refused, Trouble.REFUSED, "connection refused"),
            (is_ended, Trouble.RESET, f"the connection ended while {doing}"),
            (is_tls(error), Trouble.TLS, f"no trusted connection: {reason}"),
            (error.errno in _UNREACHABLE, Trouble.UNREACHABLE, reason),
            (True, Trouble.RESET, f"{reason} while {doing}"),
        )
        trouble, text = next((kind, text) for is_so, kind, text in troubles if is_so)
        return self._fault(trouble, f"{self.where}: {text}")


class Lookup:
    """Resolves a host name within a deadline.

    The system's resolver has no deadline, so it runs in a thread. If it hangs, the next
    exchange waits for the same thread, and no second one is started.
    """

    def __init__(self, url: Url) -> None:
        """Store the host, without resolving it."""
        self._url = url
        self._found: list[Address] | None = None
        self._is_literal = False
        """The host is an address, which does not change."""
        self._error = ""
        self._thread: threading.Thread | None = None

    def addresses(self, left: Callable[[], float]) -> list[Address]:
        """Return the addresses to connect to; raises HttpError."""
        if self._found is not None and self._is_literal:
            return self._found
        if self._thread is None:
            self._found, self._error = None, ""
            self._resolve(socket.AI_NUMERICHOST)
            if self._found is not None:
                self._is_literal = True
                return self._found
            self._thread = threading.Thread(
                target=self._resolve, name="lookup", daemon=True
            )
            self._thread.start()
        thread = self._thread
        thread.join(left())
        if thread.is_alive():
            raise HttpError(
                Trouble.TIMEOUT, f"{self._url.host}: the name was not found in time"
            )
        self._thread = None
        if not self._found:
            raise HttpError(Trouble.UNREACHABLE, f"{self._url.host}: {self._error}")
        return self._found

    def _resolve(self, flags: int = 0) -> None:
        try:
            addresses = look_up(self._url.host, self._url.port, flags)
        except OSError as error:
            self._error = getattr(error, "strerror", None) or str(error)
            return
        self._found = [(address[0], address[4]) for address in addresses][
            :ADDRESSES_MAX
        ]


def look_up(host: str, port: int, flags: int) -> list[Any]:
    """Return the result of `socket.getaddrinfo` for an ASCII host; raises OSError."""
    # Bytes, since for text Python loads a codec of 0.2 MiB.
    return socket.getaddrinfo(
        host.encode("ascii"), port, type=socket.SOCK_STREAM, flags=flags
    )


def _tune(wire: socket.socket) -> None:
    """Send small requests at once, and detect dead connections."""
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
    for name, value in zip(names, KEEPALIVE_SECONDS):
        # Not every system has these options. The deadline works without them.
        option = getattr(socket, name, None)
        if option is not None:
            with contextlib.suppress(OSError):
                wire.setsockopt(socket.IPPROTO_TCP, option, value)


def is_tls(error: OSError) -> bool:
    """Return whether an error comes from TLS, without importing it."""
    return any(class_.__name__ == "SSLError" for class_ in type(error).__mro__)


def trusting(*, ca_file: str = "", ca_text: str = "") -> ssl.SSLContext:
    """Return a TLS context that trusts these authorities, or the system's.

    Raises OSError and ValueError.
    """
    # It takes 6 MiB, which an agent without TLS saves.
    import ssl  # noqa: PLC0415 - see above

    if ca_file:
        files.refuse_unreadable(ca_file)
    context = ssl.create_default_context(cafile=ca_file or None, cadata=ca_text or None)
    # Python 3.9 allows older versions. A system may require a newer one.
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    return context
