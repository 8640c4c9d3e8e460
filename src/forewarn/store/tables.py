"""The tables of a store's schema, as the steps of the schema leave them.

They have all that a store remembers. The other tables in PostgreSQL belong to the services
that use the database: which of them leads, and what they tell each other.
"""

import contextlib
import functools
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forewarn.store.migrate import Step


@dataclass(frozen=True, slots=True)
class Table:
    """A table by its name and columns, whose order is the same in every store."""

    name: str
    columns: tuple[str, ...]

    @property
    def every(self) -> str:
        """Return the statement that gets all rows, in any order."""
        return f"SELECT {', '.join(self.columns)} FROM {self.name}"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Definitions:
    """The statements that create the tables, and then the indexes by their names."""

    tables: tuple[str, ...]
    indexes: Mapping[str, str]


def made_by(steps: Sequence[Step]) -> tuple[Table, ...]:
    """Return the tables that `steps` end with, in the order of their names."""
    return _schema(tuple(steps))[0]


def definitions(steps: Sequence[Step]) -> Definitions:
    """Return the definitions of the tables and indexes that `steps` end with."""
    return _schema(tuple(steps))[1]


@functools.cache
def _schema(steps: tuple[Step, ...]) -> tuple[tuple[Table, ...], Definitions]:
    """Run `steps` in memory once; return the tables and their definitions."""
    with contextlib.closing(sqlite3.connect(":memory:")) as memory:
        for step in steps:
            memory.executescript(step.sql)
        rows = memory.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
            " ORDER BY name"
        ).fetchall()
        columns = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
        tables = tuple(
            Table(name, tuple(column for (column,) in memory.execute(columns, (name,))))
            for kind, name, _ in rows
            if kind == "table"
        )
    return tables, Definitions(
        tables=tuple(sql for kind, _, sql in rows if kind == "table"),
        indexes={name: sql for kind, name, sql in rows if kind == "index"},
    )
