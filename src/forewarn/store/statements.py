"""The statements that write one record, created from the names of its columns.

An insert does nothing if the key exists. An update or delete does nothing if the row
has changed after it was read. The caller checks the number of changed rows. Tables and
columns are constants of this program, and all values are parameters.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.protocol.enumerations import Enumeration


class Verb(Enumeration):
    """The effect of a statement on rows."""

    ADD = "add"
    UPDATE = "update"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Write:
    """A statement that writes one row: by its parts, and as SQL for SQLite.

    Equal statements are the same object, so that it can be compared by identity.
    """

    verb: Verb
    table: str
    columns: tuple[str, ...]
    """The columns that it sets. Their values come first."""
    guards: tuple[str, ...]
    """The columns whose values it compares."""
    sql: str
    new_key: str = ""
    """The key that must be new; otherwise it does nothing."""


def get(table: str, names: Sequence[str], key: str) -> str:
    """Return the statement that gets the row with a key."""
    return f"SELECT {', '.join(names)} FROM {table} WHERE {key} = ?"  # noqa: S608


def every(table: str, names: Sequence[str], key: str) -> str:
    """Return the statement that gets all rows, in the order of the key."""
    return columns(table, names, [key])


def among(table: str, names: Sequence[str], column: str) -> str:
    """Return the statement that gets the rows whose column has a value of a JSON array.

    `column` can have other conditions before its name.
    """
    chosen = f"{column} IN (SELECT value FROM json_each(?))"  # noqa: S608
    return f"SELECT {', '.join(names)} FROM {table} WHERE {chosen}"  # noqa: S608


def columns_for(names: Sequence[str]) -> list[str]:
    """Return the columns for these names of fields: `moves` for `moves.vm`."""
    return [*dict.fromkeys(name.partition(".")[0] for name in names)]


def columns(source: str, columns: Sequence[str], order: Sequence[str]) -> str:
    """Return the statement that gets columns of rows, in an order.

    `source` is a table, and a condition if not all of its rows are wanted.
    """
    return f"SELECT {', '.join(columns)} FROM {source} ORDER BY {', '.join(order)}"  # noqa: S608


def columns_of(table: str, names: Sequence[str], key: str) -> str:
    """Return the statement that gets columns of the rows whose keys are in a JSON array."""
    chosen = f"{key} IN (SELECT value FROM json_each(?))"  # noqa: S608
    return columns(f"{table} WHERE {chosen}", names, [key])


def those_found(table: str, column: str) -> str:
    """Return the statement that gets the values of a JSON array which a column has.

    `column` can have other conditions before its name.
    """
    # One look into the index for each value, however many rows have it.
    there = f"SELECT 1 FROM {table} WHERE {column} = given.value"  # noqa: S608
    return f"SELECT value FROM json_each(?) AS given WHERE EXISTS ({there})"  # noqa: S608


@functools.cache
def add(table: str, columns: tuple[str, ...], key: str = "") -> Write:
    """Return the statement that adds a row; with `key`, only if the key is new."""
    places = ", ".join("?" * len(columns))
    sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608
    return Write(
        verb=Verb.ADD,
        table=table,
        columns=columns,
        guards=(),
        sql=f"{sql} ON CONFLICT ({key}) DO NOTHING" if key else sql,
        new_key=key,
    )


@functools.cache
def update(table: str, columns: tuple[str, ...], guards: tuple[str, ...]) -> Write:
    """Return the statement that sets columns of the row with the guard values."""
    return Write(
        verb=Verb.UPDATE,
        table=table,
        columns=columns,
        guards=guards,
        sql=f"UPDATE {table} SET {_equal(columns, ', ')} WHERE {_equal(guards)}",  # noqa: S608
    )


@functools.cache
def remove(table: str, guards: tuple[str, ...]) -> Write:
    """Return the statement that removes the row with the guard values."""
    return Write(
        verb=Verb.REMOVE,
        table=table,
        columns=(),
        guards=guards,
        sql=f"DELETE FROM {table} WHERE {_equal(guards)}",  # noqa: S608
    )


def _equal(columns: Sequence[str], between: str = " AND ") -> str:
    return between.join(f"{name} = ?" for name in columns)
