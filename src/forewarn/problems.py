"""Problems of files that people write, reported so that the author can fix them.

A problem has a file, a line, a key and a message. Files of all kinds use this form:
fleets, settings, scenarios. This module knows nothing about their content. It uses only
the standard library, since the agent imports it.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterable
from itertools import islice

from forewarn.protocol.frozen import frozen_dataclass
from forewarn.texts import printable

PROBLEMS_MAX = 50
"""Maximum problems in one report: more are usually one repeated mistake."""

NAMES_LISTED_MAX = 5
"""Maximum names in one message, to keep it readable."""

NAMES_COMPARED_MAX = 1_000
"""Maximum names compared with a misspelled one; each comparison takes microseconds."""

LIKENESS = 0.6
"""Minimum similarity of a suggested name, from 0 to 1: the default of difflib."""

NUMBER_SHOWN_MAX = 10**18
"""Larger numbers are described instead of printed: Python refuses to format huge ones."""

_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_AT_END = " (at end of document)"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def hint_for(error: OSError) -> str:
    """Return a hint about a directory that accepts no file."""
    if error.errno in _FULL:
        return "Free some space on the disk of that directory."
    if error.errno == errno.EROFS:
        return (
            "Mount that file system for writing. `dmesg` shows whether its disk fails."
        )
    return "Allow the service's user to write in that directory."


@frozen_dataclass
class Problem:
    """One problem in a file."""

    file: str
    line: int
    """Counted from 1; 0 if the problem has no line."""
    key: str
    """Table and key, such as `vm.host`; empty for the whole file."""
    message: str
    name: str = ""
    """The name of the object, if it has one."""

    def __str__(self) -> str:
        """Return the message with its place: `fleet.toml:12: vm.host: …`."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        key = self.key if self.line or not self.name else f"{self.key} of {self.name}"
        return ": ".join(part for part in (where, key, self.message) if part)


def quoted(text: str) -> str:
    """Return `text` in double quotes on one line, with control characters escaped."""
    return f'"{printable(text)}"'


def unreadable(error: OSError | UnicodeDecodeError, *, file: str) -> Problem:
    """Return the problem of a file that cannot be read or is not UTF-8."""
    if isinstance(error, UnicodeDecodeError):
        line, message = line_of(error), "is not UTF-8"
    else:
        line, message = 0, f"cannot be read: {error.strerror}"
    return Problem(file=file, line=line, key="", message=message)


def line_of(error: UnicodeDecodeError) -> int:
    """Return the line, counted from 1, of the first invalid byte."""
    return error.object.count(b"\n", 0, error.start) + 1


def number(value: float) -> str:
    """Format a number for a message; very long numbers are only described."""
    return str(value) if abs(value) < NUMBER_SHOWN_MAX else "a number of that length"


def listed(names: Collection[str], names_max: int = NAMES_LISTED_MAX) -> str:
    """Return the first few names for a message: `h1, h2 and 12 more`."""
    shown = ", ".join(islice(names, names_max))
    rest = len(names) - names_max
    return f"{shown} and {rest} more" if rest > 0 else shown


def did_you_mean(
    wrong: str, names: Iterable[str], *, likeness: float = LIKENESS
) -> str:
    """Return ` (did you mean "h1"?)`, or an empty text if no name is similar."""
    near = nearest(wrong, names, likeness=likeness)
    return f" (did you mean {quoted(near[0])}?)" if near else ""


def nearest(
    wrong: str, names: Iterable[str], *, likeness: float = LIKENESS
) -> list[str]:
    """Return up to `NAMES_LISTED_MAX` names similar to `wrong`, the best match first."""
    # Imported late: difflib is large, and only errors need it.
    import difflib  # noqa: PLC0415

    compared = islice(names, NAMES_COMPARED_MAX)
    return difflib.get_close_matches(
        wrong, compared, n=NAMES_LISTED_MAX, cutoff=likeness
    )


def not_toml(error: Exception, *, file: str, text: str) -> Problem:
    """Return the problem of a `text` that `tomllib` rejected with `error`.

    `error` is a ValueError or a RecursionError. The text of the latter would not help
    users, so it gets another message.
    """
    line, message = 0, str(error)
    if at := _AT_LINE.search(message):
        line, message = int(at[1]), message[: at.start()]
    if message.endswith(_AT_END):
        line, message = text.count("\n") + 1, message.removesuffix(_AT_END)
    elif isinstance(error, RecursionError):
        message = "lists or tables are nested too deeply"
    elif type(error) is ValueError:
        message = "a number is too long"
    return Problem(file=file, line=line, key="", message=f"this is not TOML: {message}")
