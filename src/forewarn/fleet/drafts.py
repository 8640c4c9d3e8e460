"""The entries of a fleet file, before what they leave out is filled in.

What is refused here concerns one entry: unknown tables and keys, wrong types,
missing keys. An entry with such a problem still counts as far as it can be
used, so that what refers to it is not refused as well.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from forewarn.fleet.errors import Kind
from forewarn.fleet.fields import FIELDS, Field, Forms
from forewarn.fleet.model import ScopeKind
from forewarn.fleet.places import FilePlaces
from forewarn.problems import PROBLEMS_MAX, Problem, did_you_mean, listed, quoted
from forewarn.settings.forms import Option, from_toml

_STAND_INS: dict[Kind, dict[str, object]] = {
    Kind.TENANT: {},
    Kind.SCOPE: {"kind": ScopeKind.SCALE_SET, "tenant": ""},
    Kind.HOST: {},
    Kind.VM: {"host": "", "tenant": ""},
}
"""What stands in for a key that is missing or wrong while the other problems are
looked for: a value that causes none, or none but at its own key."""

_NEEDED: dict[Kind, tuple[str, ...]] = {
    Kind.TENANT: ("name",),
    Kind.SCOPE: ("name", "kind"),
    Kind.HOST: ("name",),
    Kind.VM: ("name", "host"),
}

_TEXT = Option(form=Forms.TEXT)

_OWN_TENANT = Field(key="tenant", attribute="tenant", option=_TEXT, default="")
"""Whose a VM without a scope is: no field of the VM, but the file says it there."""

_KEYS: dict[Kind, dict[str, Field]] = {
    kind: {
        field.key: field
        for field in (
            Field(key="name", attribute="name", option=_TEXT, default=""),
            *FIELDS[kind],
            *((_OWN_TENANT,) if kind is Kind.VM else ()),
        )
        if field.written
    }
    for kind in Kind
}


class _Shape(NamedTuple):
    """What an entry of one kind looks like."""

    stand_ins: dict[str, object]
    needed: tuple[str, ...]
    keys: dict[str, Field]


_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(slots=True, kw_only=True)
class Draft:
    """An entry of a table."""

    name: str
    index: int
    given: Collection[str]
    """The keys that it has, also those with a value that cannot be used."""
    values: dict[str, Any]
    """What can be used, by attribute of the model."""


class DraftReader:
    """The reading of one file's tables."""

    def __init__(
        self, tables: Mapping[str, object], *, text: str, file: str, within: str = ""
    ) -> None:
        """Take the parsed `tables` of `text`, or of one table in it."""
        self._tables = tables
        self._names: dict[Kind, list[str | None]] = {kind: [] for kind in Kind}
        self.drafts: dict[Kind, list[Draft]] = {kind: [] for kind in Kind}
        self.problems: list[Problem] = []
        self.places = FilePlaces(text, file=file, names=self._names, within=within)

    @property
    def is_full(self) -> bool:
        """Tell whether there are more problems than will be told."""
        return len(self.problems) > PROBLEMS_MAX

    def read(self) -> None:
        """Fill `drafts` and `problems`."""
        kinds = {kind.value: kind for kind in Kind}
        for key, table in self._tables.items():
            if kind := kinds.get(key):
                self._read_table(kind, table)
            else:
                message = f"there is no such table; tables are {listed(kinds)}"
                self._add_root(key, message + did_you_mean(key, kinds))

    def add(self, kind: Kind, draft: Draft, key: str, message: str) -> None:
        """Tell of a problem of an entry, unless enough are told."""
        self._add(kind, draft.index, key, message, name=draft.name)

    def _add(
        self, kind: Kind, index: int, key: str, message: str, *, name: str
    ) -> None:
        if self.is_full:
            return
        spot = self.places.entry(kind, index, key)
        self.problems.append(
            Problem(
                file=spot.file,
                line=spot.line,
                key=f"{kind.value}.{_shown(key)}",
                message=message,
                name=name,
            )
        )

    def _add_root(self, key: str, message: str) -> None:
        if self.is_full:
            return
        spot = self.places.root(key)
        self.problems.append(
            Problem(file=spot.file, line=spot.line, key=_shown(key), message=message)
        )

    def _read_table(self, kind: Kind, table: object) -> None:
        entries = cast("list[object]", table) if isinstance(table, list) else [None]
        if not all(isinstance(entry, dict) for entry in entries):
            message = f"must be an array of tables: [[{kind.value}]]"
            self._add_root(kind.value, message)
            return
        # Looked up once for all entries: an enumeration's hash is slow to get.
        shape = _Shape(_STAND_INS[kind], _NEEDED[kind], _KEYS[kind])
        names, drafts = self._names[kind], self.drafts[kind]
        for index, entry in enumerate(cast("list[dict[str, object]]", entries)):
            if self.is_full:
                return
            name = entry.get("name")
            known = name if isinstance(name, str) else None
            values, faults = _read_entry(shape, entry)
            for key, fault in faults.items():
                self._add(kind, index, key, fault, name=known or "")
            names.append(known)
            if known is not None:
                drafts.append(
                    Draft(name=known, index=index, given=entry.keys(), values=values)
                )


def _read_entry(
    shape: _Shape, entry: dict[str, object]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what can be used of an entry, by attribute, and its faults by key."""
    keys = shape.keys
    values = dict(shape.stand_ins)
    faults: dict[str, str] = {}
    for key, value in entry.items():
        field = keys.get(key)
        if field is None:
            faults[key] = f"there is no such key{did_you_mean(key, keys)}"
        elif field.option.form is Forms.TEXT and isinstance(value, str):
            values[field.attribute] = value  # most keys of a large file
        else:
            try:
                values[field.attribute] = from_toml(field.option, value)
            except ValueError as error:
                faults[key] = str(error)
    for key in shape.needed:
        if key not in entry:
            faults[key] = "is missing"
    return values, faults


def _shown(key: str) -> str:
    return key if _BARE.fullmatch(key) else quoted(key)
