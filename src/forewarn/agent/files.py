"""Reads files that somebody else names: settings, secrets, certificates, a lock's lists.

Such a name may be that of a FIFO, whose opening waits for ever, of a device without an
end, or of a directory. Only regular files, and links to them, are read, and no more of
one than its reader says. What is something else is an OSError whose `strerror` says so,
so that whoever tells why a file cannot be read tells this, too.
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


def begin_of(path: str, most: int) -> bytes:
    """Return a regular file's first bytes, at most so many; raises OSError.

    It waits for no other program.
    """
    with opened(path) as file:
        return file.read(most)


def opened(path: str) -> BinaryIO:
    """Return a regular file, open to be read; raises OSError. It waits for nobody."""
    # Before it is opened: some devices do something when that happens.
    _refuse(os.stat(path), path)
    file = open(os.open(path, os.O_RDONLY | _FLAGS), "rb")  # noqa: SIM115 - its caller closes it
    try:
        _refuse(os.fstat(file.fileno()), path)
    except OSError:
        file.close()
        raise
    return file


def claimed(path: str, mode: int) -> int:
    """Return a regular file's descriptor to read and write; raises OSError.

    It is made where there is none, with this mode.
    """
    with contextlib.suppress(FileNotFoundError):
        _refuse(os.stat(path), path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, mode)
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
        raise UnreadError(errno.EFBIG, f"it has more than {most} bytes", path)


def _refuse(found: os.stat_result, path: str) -> None:
    if stat.S_ISREG(found.st_mode):
        return
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
    number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
    sentence = f"it is {kind}, and must be a regular file or a link to one"
    raise UnreadError(number, sentence, path)
