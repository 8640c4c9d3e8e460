"""Read files that a test names, with errors that a test's author understands.

Other modules parse their content.
"""

import os
from pathlib import Path

from forewarn.problems import quoted
from forewarn.protocol.errors import RefusedError
from forewarn.settings.files import read_file

TEXT_BYTES_MAX = 16 << 20
"""Maximum length of such a file, in bytes: enough for the VMs of any simulation."""


def text_of(file: Path) -> str:
    """Return the text of a file; raises OSError, or RefusedError if it is not text."""
    check_name(file)
    try:
        # No pipe: a test may read the file again, and a pipe has its data only once.
        return read_file(file, bytes_max=TEXT_BYTES_MAX, pipes=False).decode("utf-8")
    except OSError as error:
        if not file.is_absolute():
            error.add_note(f"hint: {str(file)!r} is relative to {Path.cwd()}")
        raise
    except UnicodeDecodeError as error:
        raise RefusedError(
            f"{file} is not UTF-8", hint="Save the file as UTF-8."
        ) from error


def fleet_text(fleet: str | Path) -> str:
    """Return a fleet file's text, from a Path or a string; raises what `text_of` raises."""
    if isinstance(fleet, Path):
        return text_of(fleet)
    refuse_name(fleet, "a fleet file's text")
    return fleet


def refuse_name(text: str, wanted: str) -> None:
    """Raise RefusedError if a string is the name of a file."""
    if text.endswith(".toml") and "\n" not in text:
        raise RefusedError(
            f"{quoted(text)} is the name of a file, not {wanted}",
            hint=f"Use pathlib.Path({text!r}).",
        )


def check_name(file: Path) -> None:
    """Raise RefusedError for an invalid file name."""
    try:
        is_name = b"\0" not in os.fsencode(file)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise RefusedError(f"{str(file)!r} is not a valid file name")
