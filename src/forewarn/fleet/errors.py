"""Errors of a fleet file, and the places in the file that they refer to.

All problems of a fleet are reported together, up to a limit, so that the author can fix
them in one pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from forewarn.protocol.enumerations import Enumeration
from forewarn.settings.lines import Lines
from forewarn.settings.tables import FileError


class Kind(Enumeration):
    """The four kinds of object in a fleet; the value is the name of the table."""

    TENANT = "tenant"
    SCOPE = "scope"
    HOST = "host"
    VM = "vm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A place in a file."""

    file: str = ""
    line: int = 0
    """Line number from 1; 0: not in the file."""


class Place(Protocol):
    """Finds the place of a value in the fleet file."""

    def __call__(self, kind: Kind, name: str, key: str, *, occurrence: int = 0) -> Spot:
        """Return the place of `key` of the object, or of the object.

        `occurrence` selects among objects that have the same name by mistake.
        """
        ...


def nowhere(kind: Kind, name: str, key: str, *, occurrence: int = 0) -> Spot:
    """Return an empty place, for fleets that were not read from a file."""
    del kind, name, key, occurrence
    return Spot()


class FleetFileError(FileError):
    """The fleet file is invalid, and nothing was changed."""

    advice = "fix the fleet file; nothing was changed"


class FilePlaces:
    """Finds the places of one file. Lines are counted only when a problem needs them."""

    def __init__(
        self,
        text: str,
        *,
        file: str,
        names: Mapping[Kind, list[str | None]],
        within: str = "",
    ) -> None:
        """Keep the text. `names` has the names of the entries in order.

        The caller can still add to `names`. `within` is the table that contains the
        tables of the fleet.
        """
        self._prefix = f"{within}." if within else ""
        self._text = text
        self._file = file
        self._names = names
        self._lines: Lines | None = None
        self._indexes: dict[Kind, dict[str, list[int]]] = {}

    def __call__(self, kind: Kind, name: str, key: str, *, occurrence: int = 0) -> Spot:
        """Return the place of `key` of the named object, or of the VM with its own scope."""
        indexes = self._index(kind).get(name)
        if indexes is None:
            if kind is Kind.SCOPE:
                return self(Kind.VM, name, key, occurrence=occurrence)
            return Spot(file=self._file)
        return self.entry(kind, indexes[occurrence], key)

    def entry(self, kind: Kind, index: int, key: str) -> Spot:
        """Return the place of `key` in the entry, or of the entry without such a key."""
        return self.root(f"{kind.value}.{index + 1}.{key}".rstrip("."))

    def root(self, name: str) -> Spot:
        """Return the place of a table or key, or of the table that contains it."""
        if self._lines is None:
            self._lines = Lines(self._text)
        return Spot(file=self._file, line=self._lines.line(f"{self._prefix}{name}"))

    def _index(self, kind: Kind) -> dict[str, list[int]]:
        if kind not in self._indexes:
            indexes: dict[str, list[int]] = {}
            for index, name in enumerate(self._names[kind]):
                if name is not None:
                    indexes.setdefault(name, []).append(index)
            self._indexes[kind] = indexes
        return self._indexes[kind]
