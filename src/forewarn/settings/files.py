"""Read files named by users: settings, secrets, certificates, fleets, recordings.

The name may be that of a FIFO, which blocks when opened, of an endless device, or of a
directory. These functions read only regular files and links to them, up to a maximum
size. `/dev/null` counts as an empty file. For anything else they raise OSError with a
`strerror` that describes the file, so that callers can report it like any other OSError.
The module uses only the standard library, runs on Python 3.9, and avoids pathlib.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import BinaryIO

CERTIFICATE_BYTES_MAX = 16 * 1024 * 1024
"""Maximum size of a file with certificates or keys: a system's bundle has 220,000."""

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
}

_FLAGS = (
    getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
"""Flags that avoid blocking on a FIFO that replaced the file after the check."""


class UnreadError(OSError):
    """A file of a kind or size that is not read; `strerror` says why."""

    def __str__(self) -> str:
        """Return the message without the error number and the file name."""
        return self.strerror or ""


def read_file(
    path: str | os.PathLike[str], *, bytes_max: int, pipes: bool = True
) -> bytes:
    """Return the content of a file of at most `bytes_max` bytes; raises OSError.

    With `pipes`, a FIFO is read to its end, so that a shell's `<(program)` works. This
    is for commands, which read a file once and which the user can stop with Ctrl-C.
    """
    with opened(os.fspath(path), pipes=pipes) as file:
        return read_bounded(file, bytes_max=bytes_max)


def read_bounded(opened: BinaryIO, *, bytes_max: int) -> bytes:
    """Return the rest of an open file, at most `bytes_max` bytes; raises OSError."""
    data = opened.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise UnreadError(errno.EFBIG, f"it has more than {shown(bytes_max)}")
    return data


def begin_of(path: str, bytes_max: int) -> bytes:
    """Return at most the first `bytes_max` bytes of a regular file; raises OSError.

    It never waits for another program.
    """
    with opened(path) as file:
        return file.read(bytes_max)


def opened(path: str, *, pipes: bool = False) -> BinaryIO:
    """Return a regular file, opened for reading; raises OSError.

    It waits for another program only if `pipes` is set and the file is a FIFO.
    """
    # Check before opening, since opening some devices has side effects.
    status = os.stat(path)
    if pipes and stat.S_ISFIFO(status.st_mode):
        return open(path, "rb")
    _refuse(status, path)
    return open(_opened(path, os.O_RDONLY), "rb")


def claimed(path: str, mode: int) -> int:
    """Return a descriptor for reading and writing a regular file; raises OSError.

    If the file does not exist, it is created with the mode `mode`.
    """
    with contextlib.suppress(FileNotFoundError):
        _refuse(os.stat(path), path)
    return _opened(path, os.O_RDWR | os.O_CREAT, mode)


def _opened(path: str, flags: int, mode: int = 0o777) -> int:
    """Return the descriptor of a regular file; raises OSError without leaking it."""
    descriptor = os.open(path, flags | _FLAGS, mode)
    try:
        _refuse(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def refuse_unreadable(path: str, bytes_max: int = CERTIFICATE_BYTES_MAX) -> None:
    """Raise OSError if `path` is not a regular file or is larger than `bytes_max` bytes.

    This is for libraries that accept only a file name, such as OpenSSL.
    """
    status = os.stat(path)
    _refuse(status, path)
    if status.st_size > bytes_max:
        raise UnreadError(errno.EFBIG, f"it has more than {shown(bytes_max)}", path)


def shown(size: int) -> str:
    """Format a number of bytes for people."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and not size % unit:
            return f"{size // unit} {name}"
    return f"{size} bytes"


def _refuse(status: os.stat_result, path: str) -> None:
    is_null = stat.S_ISCHR(status.st_mode) and os.path.realpath(path) == os.devnull
    if stat.S_ISREG(status.st_mode) or is_null:
        return
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
    number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
    sentence = f"it is {kind}, and must be a regular file or a link to one"
    raise UnreadError(number, sentence, path)
