"""The operator API at a Unix socket, where the kernel identifies the caller.

A token can be copied; the credentials of a local process cannot. Operators are root,
the service's user, and the members of its group. The directory and the mode of the
socket prevent other users from connecting.
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
from forewarn.service.options import SOCKET_PREFIX

MODE = 0o660

BACKLOG = 128
"""Maximum pending connections in the kernel: operators are few."""

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
    raw = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    groups = {gid, *_groups(connection)}
    return UnixPeer(
        name=f"{SOCKET_PREFIX}{_name(pwd.getpwuid, uid)}",
        where=f"pid {pid}, uid {uid}",
        is_operator=uid in {0, os.geteuid()} or os.getegid() in groups,
        wanted=_name(grp.getgrgid, os.getegid()),
    )


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
