"""Read files that somebody names: settings, secrets, certificates, fleets, recordings.

Such a name may be that of a FIFO, whose opening waits for ever, of a device without an
end, or of a directory. Only regular files, and links to them, are read, and no more of
one than its reader says; `/dev/null` is an empty file. What is something else is an
OSError whose `strerror` says so, so that whoever tells why a file cannot be read tells
this, too. The standard library only, on Python 3.9 and newer, and without pathlib.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import BinaryIO

CERTIFICATE_BYTES_MAX = 16 * 1024 * 1024
"""Of a file of certificates or keys: the bundle of a whole system has 220,000."""

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
"""A FIFO that takes a file's place at the last moment must not be waited for."""


class UnreadError(OSError):
    """A file is none that is read; `strerror` says why, and what to do."""

    def __str__(self) -> str:
        """Return the sentence, without a number and the name of the file."""
        return self.strerror or ""


def read_file(path: str | os.PathLike[str], *, most: int, pipes: bool = True) -> bytes:
    """Return what a file has, which may be `most` bytes; raises OSError.

    With `pipes`, a FIFO is read to its end, so that a shell's `<(program)` works: for
    what a person's command reads once, and Ctrl-C ends the wait for whoever writes.
    """
    with opened(os.fspath(path), pipes=pipes) as file:
        return read_bounded(file, most=most)


def read_bounded(opened: BinaryIO, *, most: int) -> bytes:
    """Return the rest of what is open, which may be `most` bytes; raises OSError."""
    data = opened.read(most + 1)
    if len(data) > most:
        raise UnreadError(errno.EFBIG, f"it has more than {shown(most)}")
    return data


def begin_of(path: str, most: int) -> bytes:
    """Return a regular file's first bytes, at most so many; raises OSError.

    It waits for no other program.
    """
    with opened(path) as file:
        return file.read(most)


def opened(path: str, *, pipes: bool = False) -> BinaryIO:
    """Return a regular file, open to be read; raises OSError.

    It waits for no other program, unless `pipes` lets it read a FIFO.
    """
    # Before it is opened: some devices do something when that happens.
    found = os.stat(path)
    if pipes and stat.S_ISFIFO(found.st_mode):
        return open(path, "rb")
    _refuse(found, path)
    return open(_opened(path, os.O_RDONLY), "rb")


def claimed(path: str, mode: int) -> int:
    """Return a regular file's descriptor to read and write; raises OSError.

    It is made where there is none, with this mode.
    """
    with contextlib.suppress(FileNotFoundError):
        _refuse(os.stat(path), path)
    return _opened(path, os.O_RDWR | os.O_CREAT, mode)


def _opened(path: str, flags: int, mode: int = 0o777) -> int:
    """Return the descriptor of a regular file; raises OSError, with none open."""
    descriptor = os.open(path, flags | _FLAGS, mode)
    try:
        _refuse(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def refuse_unreadable(path: str, most: int = CERTIFICATE_BYTES_MAX) -> None:
    """Raise OSError for what is no regular file, or has more bytes than that.

    For readers that take nothing but a name, as those of OpenSSL do.
    """
    found = os.stat(path)
    _refuse(found, path)
    if found.st_size > most:
        raise UnreadError(errno.EFBIG, f"it has more than {shown(most)}", path)


def shown(size: int) -> str:
    """Return a number of bytes for a person."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and not size % unit:
            return f"{size // unit} {name}"
    return f"{size} bytes"


def _refuse(found: os.stat_result, path: str) -> None:
    is_null = stat.S_ISCHR(found.st_mode) and os.path.realpath(path) == os.devnull
    if stat.S_ISREG(found.st_mode) or is_null:
        return
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
    number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
    sentence = f"it is {kind}, and must be a regular file or a link to one"
    raise UnreadError(number, sentence, path)
