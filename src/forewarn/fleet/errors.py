"""What can be wrong with a fleet, said so that its author can mend it.

All problems of a fleet are told together, up to a limit: who mends one should
not have to come back for the next.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from forewarn.problems import PROBLEMS_MAX, Problem
from forewarn.protocol.errors import ForewarnError


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
