"""Files that a test names, read so that a slip in one is told in a sentence.

What a file means, others know.
"""

import os
from pathlib import Path

from forewarn.problems import quoted
from forewarn.protocol.errors import RefusedError
from forewarn.settings.files import read_file

TEXT_BYTES_MAX = 16 << 20
"""Maximum length of such a file, in bytes: more VMs than a simulation has."""


def text_of(file: Path) -> str:
    """Return the text of a file; raises OSError, and RefusedError for no text."""
    check_name(file)
    try:
        # No pipe: a test names it again, and nobody would write it once more.
        data = read_file(file, most=TEXT_BYTES_MAX, pipes=False)
        return data.decode("utf-8")
    except OSError as error:
        if not file.is_absolute():
            error.add_note(f"hint: {str(file)!r} is looked for in {Path.cwd()}")
        raise
    except UnicodeDecodeError as error:
        raise RefusedError(f"{file} is not UTF-8", hint="save it as UTF-8") from error


def fleet_text(fleet: str | Path) -> str:
    """Return the text of a fleet file, or the text that it is; raises as `text_of`."""
    if isinstance(fleet, Path):
        return text_of(fleet)
    refuse_name(fleet, "a fleet file's text")
    return fleet


def refuse_name(text: str, wanted: str) -> None:
    """Raise RefusedError for a text that is the name of a file."""
    if text.endswith(".toml") and "\n" not in text:
        raise RefusedError(
            f"{quoted(text)} is the name of a file, and not {wanted}",
            hint=f"use pathlib.Path({text!r})",
        )


def check_name(file: Path) -> None:
    """Raise RefusedError for a name that no file can have."""
    try:
        is_name = b"\0" not in os.fsencode(file)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise RefusedError(f"{str(file)!r} is no name of a file")
