"""Files that a test names, read so that a slip in one is told in a sentence.

What a file means, others know.
"""

import os
from pathlib import Path

from forewarn.protocol.errors import RefusedError


def text_of(file: Path) -> str:
    """Return the text of a file; raises OSError, and RefusedError for no text."""
    check_name(file)
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError(f"{file} is not UTF-8", hint="save it as UTF-8") from error


def check_name(file: Path) -> None:
    """Raise RefusedError for a name that no file can have."""
    try:
        is_name = b"\0" not in os.fsencode(file)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise RefusedError(f"{str(file)!r} is no name of a file")
