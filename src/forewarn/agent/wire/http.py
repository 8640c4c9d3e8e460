"""A small HTTP/1.1 client on a socket: one exchange, one deadline.

An exchange ends in time whatever the other side does, drips included; it follows no
redirect and knows no proxy, since the endpoint must be asked by this machine itself.
All that goes wrong is an `HttpError`. TLS is imported where a URL needs it. A
`Client` belongs to one thread; only `interrupt` may be called from another.
"""

from __future__ import annotations

import contextlib
import errno
import re
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from forewarn.agent.wire.answers import (
    BODY_BYTES_MAX,
    Answer,
    HttpError,
    Reader,
    Trouble,
)
from forewarn.agent.wire.timeouts import TIMEOUTS
from forewarn.agent.wire.urls import Url, parse_url
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings import files

if TYPE_CHECKING:
    import ssl

__all__ = ["Answer", "Client", "HttpError", "Trouble", "Url", "parse_url"]

CONNECT_TIMEOUT: Micros = 5 * SECOND
"""For the connection, where the answer may take longer: who is there says so soon."""

PIECE_BYTES = 65_536
"""Read at once: a usual document in one piece."""

ADDRESSES_MAX = 4
"""Of a name that are tried: each gets its share of the time."""

KEEPALIVE_SECONDS = (4, 2, 3)
"""When a silent connection is probed, how often, and how many probes may be lost:
a connection whose other side vanished is known after ten seconds, well inside the
half minute that a Preempt gives."""

_SLEEP_MIN_SECONDS = 0.001
"""A socket's time-out of 0 would mean that it does not wait at all."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"/[\x21-\x7e]*", re.ASCII)

_UNREACHABLE = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}
    | {errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM}
)

Address = tuple[socket.AddressFamily, Any]


@frozen_dataclass
class Request:
    """What to send."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None


class Client:
    """Talks to one server; keeps a connection between GETs."""

    def __init__(
        self,
        url: Url,
        *,
        clock: Clock,
        ca_file: str = "",
        ca_text: str = "",
        cert_file: str = "",
        key_file: str = "",
        body_max: int = BODY_BYTES_MAX,
    ) -> None:
        """Connect nowhere yet; `ca_file` has the only authorities that are trusted.

        Or `ca_text` has them, as PEM; without both, the machine's are. `cert_file` is
        shown to a server that wants to know us; its key may be in the same file.
        """
        self.url = url
        self._clock = clock
        self._ca_file = ca_file
        self._ca_text = ca_text
        self._cert_file = cert_file
        self._key_file = key_file
        self._body_max = body_max
        self._wire: socket.socket | None = None
        self._lookup = Lookup(url)
        self._context: ssl.SSLContext | None = None
        self._is_stopped = False

    def get(
        self,
        target: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        timeout: Micros,
        connect_timeout: Micros = CONNECT_TIMEOUT,
    ) -> Answer:
        """Return the answer to a GET; raises HttpError.

        A kept connection that the server has closed meanwhile is made anew, once.
        """
        request = Request(method="GET", target=target, headers=tuple(headers))
        ends = self._ends(timeout)
        if self._take_kept():
            try:
                return self._talk(request, ends=ends, may_be_stale=True)
            except _StaleError:
                pass
        self._connect(ends=ends, connect_timeout=connect_timeout)
        return self._talk(request, ends=ends)

    def send(
        self,
        method: str,
        target: str,
        body: bytes,
        *,
        headers: Sequence[tuple[str, str]] = (),
        timeout: Micros,
        connect_timeout: Micros = CONNECT_TIMEOUT,
    ) -> Answer:
        """Send a body once, over a connection of its own; raises HttpError.

        An error does not say that the server has not got it.
        """
        request = Request(
            method=method, target=target, headers=tuple(headers), body=body
        )
        ends = self._ends(timeout)
        self.close()
        self._connect(ends=ends, connect_timeout=connect_timeout)
        try:
            return self._talk(request, ends=ends)
        finally:
            self.close()

    def reach(self, *, timeout: Micros) -> None:
        """Connect and say nothing, to see whether that can be; raises HttpError."""
        self.close()
        self._connect(ends=self._ends(timeout), connect_timeout=timeout)
        self.close()

    def close(self) -> None:
        """Close the connection that is kept, if any; another may follow."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def interrupt(self) -> None:
        """End for good, also an exchange that another thread waits for."""
        self._is_stopped = True
        wire = self._wire
        if wire is not None:
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)

    # One exchange

    def _ends(self, timeout: Micros) -> float:
        return self._clock.monotonic() + timeout / SECOND

    def _left(self, ends: float) -> float:
        """Return the seconds that are left; raises HttpError."""
        if self._is_stopped:
            raise HttpError(Trouble.STOPPED, "the exchange was ended by ourselves")
        left = ends - self._clock.monotonic()
        if left <= 0:
            raise HttpError(Trouble.TIMEOUT, "there was no whole answer in time")
        return max(left, _SLEEP_MIN_SECONDS)

    def _take_kept(self) -> bool:
        """Tell whether a connection is kept and the server still has it."""
        if self._wire is None:
            return False
        try:
            self._wire.settimeout(0)
            self._wire.recv(1)
        except OSError as error:
            # Nothing to read is as it should be; of TLS it has another name.
            if isinstance(error, BlockingIOError) or _is_want_read(error):
                return True
        # It has ended, or says something that nobody asked for.
        self.close()
        return False

    def _connect(self, *, ends: float, connect_timeout: Micros) -> None:
        ends = min(ends, self._ends(connect_timeout))
        addresses = self._lookup.addresses(lambda: self._left(ends))
        for tried, (family, address) in enumerate(addresses):
            share = self._left(ends) / (len(addresses) - tried)
            is_open = False
            try:
                wire = self._wire = socket.socket(family, socket.SOCK_STREAM)
                wire.settimeout(share)
                wire.connect(address)
                _tune(wire)
                if self.url.is_secure:
                    wire.settimeout(self._left(ends))
                    self._wire = self._secure(wire)
                is_open = True
                return
            except OSError as error:
                if tried + 1 == len(addresses):
                    raise self._told(error, "connecting") from None
            finally:
                if not is_open:
                    self.close()

    def _talk(
        self, request: Request, *, ends: float, may_be_stale: bool = False
    ) -> Answer:
        """Send a request and read its answer; raises HttpError.

        Where the connection was kept and ends before a byte of the answer has come,
        it raises _StaleError: the server gave it up before it saw the request.
        """
        reader = Reader(body_max=self._body_max)
        try:
            self._write(_written(request, self.url), ends=ends)
            while (answer := reader.answer) is None:
                piece = self._read(ends=ends)
                if not piece and may_be_stale and not reader.has_begun:
                    raise _StaleError
                if piece:
                    reader.feed(piece)
                else:
                    reader.end()
            return answer
        except OSError as error:
            if may_be_stale and not reader.has_begun and _is_gone(error):
                raise _StaleError from None
            raise self._told(error, "waiting for the answer") from None
        finally:
            if reader.answer is None or not reader.answer.keeps:
                self.close()

    def _write(self, data: bytes, *, ends: float) -> None:
        wire = self._wire
        assert wire is not None, "it is connected"
        left = memoryview(data)
        while left:
            wire.settimeout(self._left(ends))
            left = left[wire.send(left) :]

    def _read(self, *, ends: float) -> bytes:
        wire = self._wire
        assert wire is not None, "it is connected"
        wire.settimeout(self._left(ends))
        piece = wire.recv(PIECE_BYTES)
        if not piece and self._is_stopped:
            self._left(ends)
        return piece

    # TLS, and words for what went wrong

    def _secure(self, wire: socket.socket) -> socket.socket:
        if self._context is None:
            # Six megabytes, which whoever needs no TLS does without.
            from forewarn.agent.wire import tls  # noqa: PLC0415 - see above

            try:
                self._context = tls.trusting(
                    ca_file=self._ca_file, ca_text=self._ca_text
                )
            except (OSError, ValueError) as error:
                what = self._ca_file or "the authorities to trust"
                raise HttpError(Trouble.TLS, f"cannot read {what}: {error}") from None
            self._show_certificate(self._context)
        name = self.url.host.partition("%")[0]
        try:
            return self._context.wrap_socket(wire, server_hostname=name)
        except UnicodeError:
            raise HttpError(Trouble.TLS, f"{name!r} is no name of a host") from None

    def _show_certificate(self, context: ssl.SSLContext) -> None:
        if not self._cert_file:
            return
        try:
            for file in filter(None, (self._cert_file, self._key_file)):
                files.refuse_unreadable(file)
            # A key with a passphrase would ask whoever sits there; nobody does.
            context.load_cert_chain(
                self._cert_file, self._key_file or None, password=str
            )
        except (OSError, ValueError) as error:
            self._context = None
            file = self._cert_file
            if isinstance(error, files.UnreadError):
                file = error.filename
            raise HttpError(
                Trouble.TLS, f"cannot use the certificate {file}: {error}"
            ) from None

    def _told(self, error: OSError, doing: str) -> HttpError:
        where = self.url.base
        if self._is_stopped:
            return HttpError(Trouble.STOPPED, "the exchange was ended by ourselves")
        if isinstance(error, TIMEOUTS):
            return HttpError(Trouble.TIMEOUT, f"{where}: no time left while {doing}")
        if isinstance(error, ConnectionRefusedError):
            return HttpError(Trouble.REFUSED, f"{where}: nobody listens there")
        if isinstance(error, ConnectionError):
            return HttpError(
                Trouble.RESET, f"{where}: the connection ended while {doing}"
            )
        reason = error.strerror or str(error)
        if self.url.is_secure and _is_tls(error):
            return HttpError(Trouble.TLS, f"{where}: no trusted connection: {reason}")
        if error.errno in _UNREACHABLE:
            return HttpError(Trouble.UNREACHABLE, f"{where}: {reason}")
        return HttpError(Trouble.RESET, f"{where}: {reason} while {doing}")


class _StaleError(Exception):
    """A kept connection had ended before the request was seen."""


class Lookup:
    """Finds a host's addresses without waiting longer than there is time.

    The system's resolver knows no deadline, so a name is looked up in a thread; one
    that hangs is waited for again by the next exchange, and no second is started.
    """

    def __init__(self, url: Url) -> None:
        """Look for nothing yet."""
        self._url = url
        self._found: list[Address] | None = None
        self._is_literal = False
        """The host is an address, which stays."""
        self._error = ""
        self._thread: threading.Thread | None = None

    def addresses(self, left: Callable[[], float]) -> list[Address]:
        """Return what to connect to; raises HttpError."""
        if self._found is not None and self._is_literal:
            return self._found
        if self._thread is None:
            self._found, self._error = None, ""
            self._look(socket.AI_NUMERICHOST)
            if self._found is not None:
                self._is_literal = True
                return self._found
            self._thread = threading.Thread(
                target=self._look, name="lookup", daemon=True
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

    def _look(self, flags: int = 0) -> None:
        try:
            found = look_up(self._url.host, self._url.port, flags)
        except OSError as error:
            self._error = getattr(error, "strerror", None) or str(error)
            return
        self._found = [(each[0], each[4]) for each in found][:ADDRESSES_MAX]


def look_up(host: str, port: int, flags: int) -> list[Any]:
    """Return what `socket.getaddrinfo` finds for a host in ASCII; raises OSError."""
    # Bytes: for text, Python loads a codec of 0.2 MiB.
    name = host.encode("ascii")
    return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=flags)


def _written(request: Request, url: Url) -> bytes:
    """Return a request as bytes; raises HttpError where it would be another one."""
    if not _TOKEN.fullmatch(request.method) or not _TARGET.fullmatch(request.target):
        raise HttpError(
            Trouble.REQUEST, "the request has no method or path that is one"
        )
    headers = [
        ("Host", url.authority),
        ("User-Agent", "forewarn-agent"),
        ("Accept-Encoding", "identity"),
        *request.headers,
    ]
    if request.body is not None:
        headers += [("Content-Length", str(len(request.body))), ("Connection", "close")]
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise HttpError(Trouble.REQUEST, f"the header {name!r} cannot be sent")
    lines = [f"{request.method} {request.target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers]
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head + (request.body or b"")


def _tune(wire: socket.socket) -> None:
    """Send small requests at once, and notice when the other side has vanished."""
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
    for name, value in zip(names, KEEPALIVE_SECONDS):
        # Not every system has them; the deadline holds without them.
        option = getattr(socket, name, None)
        if option is not None:
            with contextlib.suppress(OSError):
                wire.setsockopt(socket.IPPROTO_TCP, option, value)


def _is_gone(error: OSError) -> bool:
    return isinstance(error, ConnectionError) or _is_tls(error)


def _is_want_read(error: OSError) -> bool:
    return type(error).__name__ == "SSLWantReadError"


def _is_tls(error: OSError) -> bool:
    """Tell whether it is an error of TLS, without importing it."""
    return any(each.__name__ == "SSLError" for each in type(error).__mro__)
