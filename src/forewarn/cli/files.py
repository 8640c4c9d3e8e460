"""Files that a person names."""

import sys
from pathlib import Path

from forewarn.cli.failure import CommandError, Exit
from forewarn.problems import line_of

STANDARD_INPUT = "-"


def read_text(name: str) -> tuple[str, str]:
    """Return a file's text, and its name for messages; raises CommandError."""
    try:
        if name == STANDARD_INPUT:
            return sys.stdin.buffer.read().decode("utf-8-sig"), "(standard input)"
        return Path(name).read_bytes().decode("utf-8-sig"), name
    except OSError as error:
        raise CommandError(
            Exit.USAGE, f"{name} cannot be read: {error.strerror}"
        ) from error
    except UnicodeDecodeError as error:
        message = f"{name}:{line_of(error)}: is not UTF-8"
        raise CommandError(Exit.USAGE, message) from error


def write_text(name: str, text: str) -> None:
    """Write a file; raises CommandError."""
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(
            Exit.FAILED, f"{name} cannot be written: {error.strerror}"
        ) from error
