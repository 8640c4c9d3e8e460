"""Listeners of the service: addresses from settings, sockets, and errors.

At a Unix socket, the kernel identifies the caller of the operator API. A token can be
copied; the credentials of a local process cannot. Operators are root, the service's user,
and the members of its group. The directory and the mode of the socket prevent other users
from connecting.
"""

import asyncio
import contextlib
import errno
import grp
import os
import pwd
import socket
import stat
import struct
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from forewarn.admin.access import LOCAL_USER, UnixPeer
from forewarn.fleet.validators import split_listener
from forewarn.metadata.server import Address
from forewarn.protocol.errors import ForewarnError
from forewarn.service import open_files
from forewarn.service.options import SOCKET_PREFIX, socket_path
from forewarn.settings.forms import flag_of

ADMIN_BACKLOG = 4096
"""Maximum pending connections of operators and relays in the kernel: after a restart, all
relays connect while the API's process still starts. With fewer, the kernel drops
connections, and relays notice only after seconds."""

RELEASE_SECONDS = 2.0
"""Maximum time to wait for an address that is in use: the process of the operator API of
a killed service holds it until the kernel has ended that process, some milliseconds
later, or longer on a busy machine."""

RELEASE_POLL_SECONDS = 0.02
"""Pause between two attempts to listen: a start is delayed by no more than that."""


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
                error,
                "Stop the program that listens there, or choose another address with "
                f"{flag_of(key)} (setting {key}).",
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


async def open_at(listen: str, *, seconds: float = RELEASE_SECONDS) -> socket.socket:
    """Return a listening socket at the address of a setting; raises OSError.

    It waits at most so many `seconds` for an address that is in use.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        try:
            return await _open_now(listen)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or loop.time() >= deadline:
                raise
        await asyncio.sleep(RELEASE_POLL_SECONDS)


async def _open_now(listen: str) -> socket.socket:
    if path := socket_path(listen):
        return open_socket(path)
    return await open_listener(*address_of(listen))


def url_of(address: Address, *, is_tls: bool = False) -> str:
    """Return the URL of a bound address."""
    host, port = address
    scheme = "https" if is_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


MODE = 0o660

_CREDENTIALS = struct.Struct("iII")
"""The result of SO_PEERCRED: process, user and group."""

_SO_PEERGROUPS = 59
"""The Linux socket option for all groups of the peer; Python has no constant for it."""

_GROUPS_BYTES = 65_536 * 4
"""Buffer size: the kernel's limit of groups, with four bytes each."""


def open_socket(path: str) -> socket.socket:
    """Return a socket that listens at `path`; raises OSError.

    It replaces the socket of a killed service, but no socket that is in use and no other
    file.
    """
    _remove_stale(path)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        # The umask sets the mode at once, so that other users can never connect.
        before = os.umask(0o777 & ~MODE)
        try:
            opened.bind(path)
        finally:
            os.umask(before)
        opened.listen(ADMIN_BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened


def _remove_stale(path: str) -> None:
    try:
        mode = Path(path).lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "a file that is not a socket exists there", path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink(missing_ok=True)
            return
    raise OSError(errno.EADDRINUSE, "another program listens at this socket", path)


def peer_of(connection: socket.socket) -> UnixPeer:
    """Return the identity of the process at the other end, from the kernel."""
    pid, uid, gid = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    groups = {gid, *_groups(connection)}
    return UnixPeer(
        name=f"{LOCAL_USER}{_name(pwd.getpwuid, uid)}",
        where=f"pid {pid}, uid {uid}",
        is_operator=uid in {0, os.geteuid()} or os.getegid() in groups,
        wanted=_name(grp.getgrgid, os.getegid()),
    )


def local_operators_of(listen: str) -> Callable[[str], bool] | None:
    """Return how to ask whether a local user is an operator.

    None: this address identifies no local user.
    """
    return _is_local_operator if socket_path(listen) else None


def _is_local_operator(name: str) -> bool:
    """Return whether a local user, named as in the history, is an operator.

    It asks the databases of users and groups of the machine, so it can block.
    """
    user = name.removeprefix(LOCAL_USER)
    try:
        account = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except (KeyError, OverflowError):
        return False
    if account.pw_uid in {0, os.geteuid()}:
        return True
    return os.getegid() in os.getgrouplist(account.pw_name, account.pw_gid)


def _groups(connection: socket.socket) -> tuple[int, ...]:
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_BYTES)
    except OSError:
        # An old kernel: only the primary group of the peer is known.
        return ()
    return struct.unpack(f"{len(raw) // 4}I", raw)


def _name(look_up: Callable[[int], Sequence[Any]], number: int) -> str:
    """Return the name of a user or a group, or its number if it has none."""
    try:
        return look_up(number)[0]
    except KeyError:
        return str(number)
