"""What can be wrong with what somebody wrote, said so that they can mend it.

A problem has a place (file and line), the key that is at fault and a sentence.
Files of any kind are told of in this form: fleets, settings, scenarios. What may
be in them is not known here. The standard library only, since the agent uses it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import islice

from forewarn.protocol.frozen import frozen_dataclass
from forewarn.texts import printable

PROBLEMS_MAX = 50
"""Problems told at once: more are mostly one mistake, repeated."""

NAMES_LISTED_MAX = 5
"""Names in one sentence: more are not read."""

NAMES_COMPARED_MAX = 1_000
"""Names among which a misspelt one is looked for; each takes microseconds."""

LIKENESS = 0.6
"""How like a name must be to be meant, from 0 to 1: the library's own."""

NUMBER_SHOWN_MAX = 10**18
"""Longer numbers are not read; and Python refuses to write very long ones."""

_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_AT_END = " (at end of document)"


@frozen_dataclass
class Problem:
    """One thing that is wrong."""

    file: str
    line: int
    """Counted from 1; 0 where no line is to blame."""
    key: str
    """Table and key, such as `vm.host`; empty for the file as a whole."""
    message: str
    name: str = ""
    """The object's name, where it has one."""

    def __str__(self) -> str:
        """Return the line for a person: `fleet.toml:12: vm.host: …`."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        key = self.key if self.line or not self.name else f"{self.key} of {self.name}"
        return ": ".join(part for part in (where, key, self.message) if part)


def quoted(text: str) -> str:
    """Return `text` in double quotes, on one line, whatever it contains."""
    return f'"{printable(text)}"'


def unreadable(error: OSError | UnicodeDecodeError, *, file: str) -> Problem:
    """Return the problem of a file that cannot be read, or is no text."""
    if isinstance(error, UnicodeDecodeError):
        line, message = line_of(error), "is not UTF-8"
    else:
        line, message = 0, f"cannot be read: {error.strerror}"
    return Problem(file=file, line=line, key="", message=message)


def line_of(error: UnicodeDecodeError) -> int:
    """Return the line, from 1 on, of the first byte that is no text."""
    return error.object.count(b"\n", 0, error.start) + 1


def number(value: float) -> str:
    """Return a number for a sentence, however long its author made it."""
    return str(value) if abs(value) < NUMBER_SHOWN_MAX else "a number of that length"


def listed(names: Collection[str]) -> str:
    """Return the first few names for a sentence: `h1, h2 and 12 more`."""
    shown = ", ".join(islice(names, NAMES_LISTED_MAX))
    rest = len(names) - NAMES_LISTED_MAX
    return f"{shown} and {rest} more" if rest > 0 else shown


def did_you_mean(
    wrong: str, names: Iterable[str], *, likeness: float = LIKENESS
) -> str:
    """Return ` (did you mean "h1"?)`, or nothing if no name is like it."""
    near = nearest(wrong, names, likeness=likeness)
    return f" (did you mean {quoted(near[0])}?)" if near else ""


def nearest(
    wrong: str, names: Iterable[str], *, likeness: float = LIKENESS
) -> list[str]:
    """Return up to `NAMES_LISTED_MAX` names like a wrong one, the likest first."""
    # Only what goes wrong needs it, and it is no small module.
    import difflib  # noqa: PLC0415

    compared = islice(names, NAMES_COMPARED_MAX)
    return difflib.get_close_matches(
        wrong, compared, n=NAMES_LISTED_MAX, cutoff=likeness
    )


def not_toml(error: Exception, *, file: str, text: str) -> Problem:
    """Return the problem of a `text` that `tomllib` refused with `error`.

    That is a ValueError, or a RecursionError, whose own words would tell nobody.
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
