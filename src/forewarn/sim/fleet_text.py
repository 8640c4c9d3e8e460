"""Convert the text of a fleet file to tables, and back.

Nothing is checked here: the reader of fleet files does that.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from forewarn import toml

Tables: TypeAlias = dict[str, dict[str, dict[str, Any]]]
"""Objects by kind and name."""

KINDS = ("tenant", "scope", "host", "vm")


def read(text: str) -> Tables:
    """Return the tables of a fleet file; raises ValueError if it is not TOML."""
    document = toml.loads(text)
    return {
        kind: {each["name"]: each for each in document.get(kind, [])} for kind in KINDS
    }


def write(tables: Tables) -> str:
    """Return the fleet file."""
    return write_tables({kind: each.values() for kind, each in tables.items()})


def write_tables(tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> str:
    """Return the text of a fleet file with these tables, by kind."""
    return "".join(
        f"[[{kind}]]\n" + "".join(_pairs(values))
        for kind in KINDS
        for values in tables.get(kind, ())
    )


def _pairs(values: Mapping[str, Any]) -> Iterable[str]:
    return (f"{toml.key(key)} = {toml.value(each)}\n" for key, each in values.items())
