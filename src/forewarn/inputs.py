"""Files that people name: read whole, within a bound, and only where they end.

A device such as `/dev/zero` never ends, and a named pipe that nobody writes to never
begins. Neither is what anybody means by a file of settings or VMs. The standard
library only.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = (
    (stat.S_ISCHR, "it is a device, not a file"),
    (stat.S_ISBLK, "it is a device, not a file"),
    (stat.S_ISFIFO, "it is a pipe, not a file"),
    (stat.S_ISSOCK, "it is a socket, not a file"),
)


class UnfitFileError(OSError):
    """What has this name is nothing to read, or too long; `strerror` says why."""

    def __init__(self, why: str) -> None:
        """Say why."""
        super().__init__(errno.EINVAL, why)


def read_file(file: Path, *, most: int, pipes: bool = True) -> bytes:
    """Return what a file has, which may be `most` bytes; raises OSError.

    With `pipes`, a pipe is read to its end, so that a shell's `<(program)` works: for
    what a person's command reads once, and Ctrl-C ends the wait for whoever writes.
    """
    check(file, pipes=pipes)
    with file.open("rb") as opened:
        return read_bounded(opened, most=most)


def check(file: Path, *, pipes: bool = True) -> None:
    """Raise OSError for what is no file, without opening it; /dev/null is an empty one."""
    mode = file.stat().st_mode
    if stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode)):
        return
    if stat.S_ISCHR(mode) and file.samefile(os.devnull):
        return
    for is_kind, why in _KINDS:
        if is_kind(mode):
            raise UnfitFileError(why)
    # A folder is left to `open`, which says so.


def read_bounded(opened: BinaryIO, *, most: int) -> bytes:
    """Return the rest of what is open, which may be `most` bytes; raises OSError."""
    data = opened.read(most + 1)
    if len(data) > most:
        raise UnfitFileError(f"it has more than {shown(most)}")
    return data


def shown(size: int) -> str:
    """Return a number of bytes for a person."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and not size % unit:
            return f"{size // unit} {name}"
    return f"{size} bytes"
