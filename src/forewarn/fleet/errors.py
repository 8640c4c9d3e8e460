"""What can be wrong with a fleet, said so that its author can mend it.

All problems of a fleet are told together, up to a limit: who mends one should
not have to come back for the next.
"""

import enum
from dataclasses import dataclass
from typing import Protocol

from forewarn.settings.tables import FileError


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


class FleetFileError(FileError):
    """The fleet file cannot be used, and nothing was changed."""

    advice = "mend the fleet file; nothing was changed"
