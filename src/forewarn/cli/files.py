"""Files that a user names."""

import errno
import os
import sys
from pathlib import Path

from forewarn.cli.command_table import CommandError, Exit
from forewarn.problems import line_of
from forewarn.settings.files import read_bounded, read_file

STANDARD_INPUT = "-"

TEXT_BYTES_MAX = 512 << 20
"""Maximum bytes of a file that a user names: a service reads a fleet file of this size
when it starts, which is the longest kind. A larger file than the operator API accepts is
refused by the API."""

LINKS_MAX = 40
"""Maximum symbolic links that a name leads through, as in the kernel."""


def read_text(name: str) -> tuple[str, str]:
    """Return a file's text, and its name for messages; raises CommandError.

    The name can be that of a pipe, such as `<(program)` in a shell.
    """
    try:
        if name == STANDARD_INPUT:
            data = read_bounded(sys.stdin.buffer, bytes_max=TEXT_BYTES_MAX)
            return data.decode("utf-8-sig"), "(standard input)"
        data = read_file(Path(name), bytes_max=TEXT_BYTES_MAX)
        return data.decode("utf-8-sig"), name
    except OSError as error:
        raise CommandError(
            Exit.USAGE, f"{name} cannot be read: {error.strerror}"
        ) from error
    except UnicodeDecodeError as error:
        raise CommandError(
            Exit.USAGE, f"{name}:{line_of(error)}: is not UTF-8"
        ) from error


def need_writable(name: str) -> None:
    """Check before long work that its file can be written at the end.

    Nothing is created or changed. Raises CommandError.
    """
    file = Path(name).absolute()
    why = 0
    if file.is_dir():
        why = errno.EISDIR
    elif not file.exists() and not file.parent.is_dir():
        why = errno.ENOENT
    elif not os.access(file if file.exists() else file.parent, os.W_OK):
        why = errno.EACCES
    if why:
        raise CommandError(
            Exit.USAGE,
            f"{name} cannot be written: {os.strerror(why)}",
            hint="Nothing was done. Name a file in a directory that exists.",
        )


def write_text(name: str, text: str) -> None:
    """Write a file; raises CommandError."""
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(
            Exit.FAILED, f"{name} cannot be written: {error.strerror}"
        ) from error


def is_replaceable(name: str) -> bool:
    """Return whether a name is that of a file, or of a future file: not a pipe or
    device, and not an open file of a process such as `/dev/stdout`."""
    file = Path(name).absolute()
    for _ in range(LINKS_MAX):
        file = file.parent.resolve() / file.name
        if file.is_relative_to("/proc"):
            return False
        if not file.is_symlink():
            return file.is_file() or not file.exists()
        file = file.parent / file.readlink()
    return False


def replace_text(name: str, text: str) -> None:
    """Write a file atomically, for programs that read it meanwhile.

    A file that cannot be replaced, such as a pipe, is written directly. Raises
    CommandError.
    """
    if not (is_replaceable(name) and os.access(Path(name).resolve().parent, os.W_OK)):
        write_text(name, text)
        return
    file = Path(name).resolve()
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        if file.exists():
            beside.chmod(file.stat().st_mode & 0o777)
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise CommandError(
            Exit.FAILED, f"{name} cannot be written: {error.strerror}"
        ) from error
