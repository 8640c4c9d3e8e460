"""Where the service listens: addresses of settings, and what is said if one is taken."""

import asyncio
import contextlib
import socket
from collections.abc import Generator
from pathlib import Path

from forewarn.fleet.validators import split_listener
from forewarn.metadata.server import Address
from forewarn.protocol.errors import ForewarnError
from forewarn.service import open_files, unix_socket

ADMIN_BACKLOG = 128
"""Connections of operators that the kernel keeps while nobody takes them: operators
are few, and their API's process is back within a second."""


class StartError(ForewarnError):
    """The service could not start; nothing is left running."""


def address_of(listen: str) -> Address:
    """Return the host and the port of a setting that was checked."""
    address = split_listener(listen)
    assert address is not None, listen
    return address


class AdminListener:
    """A socket at which operators are served, in whichever process."""

    def __init__(self, opened: socket.socket, *, is_tls: bool = False) -> None:
        """Name what is `opened`, which is the listener's to close."""
        self.socket = opened
        name = opened.getsockname()
        self._path = str(name) if opened.family == socket.AF_UNIX else ""
        self.address: Address = ("", 0) if self._path else (name[0], name[1])
        """Its host and its port; of a Unix socket none."""
        self.url = url_of(self.address, is_tls=is_tls)
        """What clients call it."""
        if self._path:
            self.url = f"{unix_socket.PREFIX}{self._path}"

    def close(self) -> None:
        """Listen no more, and remove the path of a Unix socket."""
        if self._path:
            Path(self._path).unlink(missing_ok=True)
        self.socket.close()


@contextlib.contextmanager
def refused(key: str, listen: str) -> Generator[None]:
    """Raise StartError where the address of the setting `key` cannot be had."""
    try:
        yield
    except OSError as error:
        raise StartError(
            f"cannot listen at {listen}: {error.strerror or error}",
            hint=open_files.hint(
                error, f"Stop what listens there, or set another address: {key}."
            ),
        ) from error


async def open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raises OSError where the address cannot be had."""
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
    """Return a socket that listens where a setting says; raises OSError."""
    if path := unix_socket.path_of(listen):
        return unix_socket.open_socket(path)
    return await open_listener(*address_of(listen))


def url_of(address: Address, *, is_tls: bool = False) -> str:
    """Return the URL of an address that was bound."""
    host, port = address
    scheme = "https" if is_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
