"""What can be wrong with a fleet, said so that its author can mend it.

A problem has a place (file and line), the key that is at fault and a sentence.
All problems of a fleet are told together, up to a limit: who mends one should
not have to come back for the next.
"""

import difflib
import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from forewarn.protocol.errors import ForewarnError

PROBLEMS_MAX = 50
"""Problems told at once: more are mostly one mistake, repeated."""

NAMES_LISTED_MAX = 5
"""Names in one sentence: more are not read."""

NAMES_COMPARED_MAX = 1_000
"""Names among which a misspelt one is looked for; each takes microseconds."""

NUMBER_SHOWN_MAX = 10**18
"""Longer numbers are not read; and Python refuses to write very long ones."""


class Kind(enum.Enum):
    """The four kinds of object of a fleet; the value is the table's name."""

    TENANT = "tenant"
    SCOPE = "scope"
    HOST = "host"
    VM = "vm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where something is written."""

    file: str = ""
    line: int = 0
    """Counted from 1; 0 where it is in no line of the file."""


class Place(Protocol):
    """Finds where a fleet's author wrote something."""

    def __call__(self, kind: Kind, name: str, key: str, *, occurrence: int = 0) -> Spot:
        """Return where `key` of the object is written, or where the object is.

        `occurrence` tells objects apart that wrongly have one name.
        """
        ...


def nowhere(kind: Kind, name: str, key: str, *, occurrence: int = 0) -> Spot:
    """Place everything outside any file: for fleets that were not read from one."""
    del kind, name, key, occurrence
    return Spot()


@dataclass(frozen=True, slots=True, kw_only=True)
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


class FleetFileError(ForewarnError):
    """The fleet file cannot be used, and nothing was changed."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Tell of the problems in the order of their lines."""
        told = self._told = tuple(islice(problems, PROBLEMS_MAX + 1))
        self.problems = tuple(sorted(told[:PROBLEMS_MAX], key=lambda each: each.line))
        lines = [str(problem) for problem in self.problems]
        if len(told) > PROBLEMS_MAX:
            lines.append(f"and more: these are the first {PROBLEMS_MAX}")
        super().__init__(
            "\n".join(lines), hint="mend the fleet file; nothing was changed"
        )

    def __reduce__(self) -> tuple[type["FleetFileError"], tuple[object, ...]]:
        """Go from one process to another as what it was made of."""
        return type(self), (self._told,)


def quoted(text: str) -> str:
    """Return `text` in double quotes, on one line, whatever it contains."""
    return '"' + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text) + '"'


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


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """Return ` (did you mean "h1"?)`, or nothing if no name is like it."""
    near = difflib.get_close_matches(wrong, islice(names, NAMES_COMPARED_MAX), n=1)
    return f" (did you mean {quoted(near[0])}?)" if near else ""
