"""What can be wrong with a fleet, said so that its author can mend it.

All problems of a fleet are told together, up to a limit: who mends one should
not have to come back for the next.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from forewarn.settings.lines import Lines
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


class FilePlaces:
    """The `Place` of one file."""

    def __init__(
        self,
        text: str,
        *,
        file: str,
        names: Mapping[Kind, list[str | None]],
        within: str = "",
    ) -> None:
        """Keep the text; `names` has the name of each entry in order.

        The caller may still be filling `names`. `within`: the table that has the
        fleet's.
        """
        self._prefix = f"{within}." if within else ""
        self._text = text
        self._file = file
        self._names = names
        self._lines: Lines | None = None
        self._indexes: dict[Kind, dict[str, list[int]]] = {}

    def __call__(self, kind: Kind, name: str, key: str, *, occurrence: int = 0) -> Spot:
        """Return where `key` of the named object is; a scope may be its VM's own."""
        indexes = self._index(kind).get(name)
        if indexes is None:
            if kind is Kind.SCOPE:
                return self(Kind.VM, name, key, occurrence=occurrence)
            return Spot(file=self._file)
        return self.entry(kind, indexes[occurrence], key)

    def entry(self, kind: Kind, index: int, key: str) -> Spot:
        """Return where `key` of the entry is, or the entry if it has none such."""
        return self.root(f"{kind.value}.{index + 1}.{key}".rstrip("."))

    def root(self, name: str) -> Spot:
        """Return where a table or key is, by its whole name, or what it is in."""
        if self._lines is None:
            self._lines = Lines(self._text)
        line = self._lines.line(f"{self._prefix}{name}")
        return Spot(file=self._file, line=line)

    def _index(self, kind: Kind) -> dict[str, list[int]]:
        if kind not in self._indexes:
            indexes: dict[str, list[int]] = {}
            for index, name in enumerate(self._names[kind]):
                if name is not None:
                    indexes.setdefault(name, []).append(index)
            self._indexes[kind] = indexes
        return self._indexes[kind]
