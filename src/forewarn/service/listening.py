"""Listeners of the service: addresses from settings, sockets, and errors."""

import asyncio
import contextlib
import socket
from collections.abc import Generator
from pathlib import Path

from forewarn.fleet.validators import split_listener
from forewarn.metadata.server import Address
from forewarn.protocol.errors import ForewarnError
from forewarn.service import open_files, unix_socket
from forewarn.service.options import SOCKET_PREFIX, socket_path

ADMIN_BACKLOG = 128
"""Maximum pending connections of operators in the kernel: operators are few, and their
API's process restarts within a second."""


class StartError(ForewarnError):
    """The service could not start, and nothing is left running."""


def address_of(listen: str) -> Address:
    """Return the host and port of a valid setting."""
    address = split_listener(listen)
    assert address is not None, listen
    return address


class AdminListener:
    """A listening socket of the operator API, in either process."""

    def __init__(self, opened: socket.socket, *, is_tls: bool = False) -> None:
        """Take over the socket `opened`, which `close` closes."""
        self.socket = opened
        name = opened.getsockname()
        self._path = str(name) if opened.family == socket.AF_UNIX else ""
        self.address: Address = ("", 0) if self._path else (name[0], name[1])
        """Host and port; empty for a Unix socket."""
        self.url = url_of(self.address, is_tls=is_tls)
        """The URL that clients use."""
        if self._path:
            self.url = f"{SOCKET_PREFIX}{self._path}"

    def close(self) -> None:
        """Close the socket, and remove the path of a Unix socket."""
        if self._path:
            Path(self._path).unlink(missing_ok=True)
        self.socket.close()


@contextlib.contextmanager
def refused(key: str, listen: str) -> Generator[None]:
    """Raise StartError if the address of the setting `key` cannot be opened."""
    try:
        yield
    except OSError as error:
        raise StartError(
            f"cannot listen at {listen}: {error.strerror or error}",
            hint=open_files.hint(
                error, f"Stop the program that listens there, or change {key}."
            ),
        ) from error


async def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises OSError."""
    infos = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, address = infos[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setblocking(False)
        opened.bind(address)
        opened.listen(ADMIN_BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened


async def open_at(listen: str) -> socket.socket:
    """Return a listening socket at the address of a setting; raises OSError."""
    if path := socket_path(listen):
        return unix_socket.open_socket(path)
    return await open_listener(*address_of(listen))


def url_of(address: Address, *, is_tls: bool = False) -> str:
    """Return the URL of a bound address."""
    host, port = address
    scheme = "https" if is_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
