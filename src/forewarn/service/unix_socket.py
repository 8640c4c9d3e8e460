"""The operator API at a Unix socket, where the kernel says who asks.

A token can be copied; the credentials of a local process cannot. Operators are root,
the service's own user, and the members of its group. The directory of the socket and
its mode keep out others before they can connect.
"""

import errno
import grp
import os
import pwd
import socket
import stat
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from forewarn.admin.access import UnixPeer

PREFIX = "unix:"
"""Of the setting `admin.listen`, before the path of a socket."""

MODE = 0o660

BACKLOG = 128
"""Connections that the kernel keeps while the loop is busy: operators are few."""

_CREDENTIALS = struct.Struct("iII")
"""What SO_PEERCRED tells: process, user and group."""

_SO_PEERGROUPS = 59
"""Linux' option that tells all groups of the peer; Python has no name for it."""

_GROUPS_BYTES = 65_536 * 4
"""The kernel's limit of groups, four bytes each."""


def path_of(listen: str) -> str:
    """Return the path of a Unix socket that a setting names, or nothing."""
    return listen.removeprefix(PREFIX) if listen.startswith(PREFIX) else ""


def open_socket(path: str) -> socket.socket:
    """Return a socket that listens at `path`; raises OSError.

    A socket that a killed service has left is replaced; one that is served, and any
    other file, is not.
    """
    _remove_stale(path)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        # No instant at which others can connect.
        before = os.umask(0o777 & ~MODE)
        try:
            opened.bind(path)
        finally:
            os.umask(before)
        opened.listen(BACKLOG)
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
        raise OSError(errno.EEXIST, "a file that is not a socket is there", path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink(missing_ok=True)
            return
    raise OSError(errno.EADDRINUSE, "another program listens there", path)


def peer_of(connection: socket.socket) -> UnixPeer:
    """Return who is at the other end, as the kernel knows it."""
    raw = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    groups = {gid, *_groups(connection)}
    return UnixPeer(
        name=f"{PREFIX}{_name(pwd.getpwuid, uid)}",
        where=f"pid {pid}, uid {uid}",
        is_operator=uid in {0, os.geteuid()} or os.getegid() in groups,
        wanted=_name(grp.getgrgid, os.getegid()),
    )


def _groups(connection: socket.socket) -> tuple[int, ...]:
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_BYTES)
    except OSError:
        # An old kernel: the peer's first group must do.
        return ()
    return struct.unpack(f"{len(raw) // 4}I", raw)


def _name(look_up: Callable[[int], Sequence[Any]], number: int) -> str:
    """Return the name of a user or a group, or its number if it has none."""
    try:
        return look_up(number)[0]
    except KeyError:
        return str(number)
