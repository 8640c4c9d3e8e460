"""The statements that write one record, made of the names of its columns.

To add does nothing where the key is taken; to update or remove does nothing unless the
row is still the one that was read. The caller looks at the number of rows. Tables and
columns are names of this program, and all values are parameters.
"""

import functools
from collections.abc import Sequence

TAKE_SAFETY = (
    "INSERT INTO safety (scope, revision) VALUES (?, 1)"
    " ON CONFLICT (scope) DO UPDATE SET revision = safety.revision + 1"
)
"""Write the safety row of a scope, so that of those who do only one goes on."""


def get(table: str, key: str) -> str:
    """Return what gets the row with a key."""
    return f"SELECT * FROM {table} WHERE {key} = ?"  # noqa: S608


def every(table: str, key: str) -> str:
    """Return what gets all rows, in the order of the key."""
    return f"SELECT * FROM {table} ORDER BY {key}"  # noqa: S608


@functools.cache
def add(table: str, columns: Sequence[str], key: str = "") -> str:
    """Return what adds a row; with a `key`, only if it is free."""
    places = ", ".join("?" * len(columns))
    sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608
    return f"{sql} ON CONFLICT ({key}) DO NOTHING" if key else sql


@functools.cache
def update(table: str, columns: Sequence[str], guards: Sequence[str]) -> str:
    """Return what sets columns of the row in which the guards are as given."""
    return f"UPDATE {table} SET {_equal(columns, ', ')} WHERE {_equal(guards)}"  # noqa: S608


@functools.cache
def remove(table: str, guards: Sequence[str]) -> str:
    """Return what removes the row in which the guards are as given."""
    return f"DELETE FROM {table} WHERE {_equal(guards)}"  # noqa: S608


def _equal(columns: Sequence[str], between: str = " AND ") -> str:
    return between.join(f"{name} = ?" for name in columns)
