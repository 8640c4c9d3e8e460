"""The schema and its history: numbered steps, each run once in a transaction.

A new file runs all steps too, so new and old files end with the same schema.
A released step never changes; a change of the schema is a new step.
"""

import functools
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from forewarn.store.codec import Row
from forewarn.store.connection import Connection
from forewarn.store.port import StoreError, StoreTooNewError
from forewarn.store.queries import read_sql

_FILE = re.compile(r"(\d{4})_\w+\.sql")

_TABLE = """
-- The steps of the schema that were done on this file.
CREATE TABLE schema_steps (
    number INTEGER NOT NULL PRIMARY KEY,
    name TEXT NOT NULL
)
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One step from a schema to the next."""

    number: int
    name: str
    sql: str


@functools.cache
def load_steps() -> tuple[Step, ...]:
    """Return the steps of this version, in order."""
    files = resources.files("forewarn.store").joinpath("sql").iterdir()
    matches = (_FILE.fullmatch(file.name) for file in files)
    names = sorted(match[0] for match in matches if match)
    steps = tuple(Step(int(name[:4]), name, read_sql(name)) for name in names)
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    return steps


def statements(text: str) -> Iterator[str]:
    """Yield the statements of `text`, one by one."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def tables_of(connection: Connection) -> Sequence[Row]:
    """Return the names of the file's tables as rows; a new file has none."""
    return connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")


def count_done(connection: Connection, path: Path, steps: Sequence[Step]) -> int:
    """Return the number of `steps` that the file has; change nothing.

    Raises StoreTooNewError if the file has more steps, and StoreError if the file
    belongs to another program.
    """
    tables = tables_of(connection)
    if not tables:
        return 0
    if ("schema_steps",) not in tables:
        raise StoreError(
            f"{path} is a database of another program",
            hint="Name another file in [store] url.",
        )
    [(done,)] = connection.rows("SELECT count(*) FROM schema_steps")
    assert isinstance(done, int)
    if done > len(steps):
        raise StoreTooNewError(
            f"the store {path} was written by a newer forewarn (its schema is"
            f" {done}, this version has {len(steps)})",
            hint="Start that version, or restore a backup from before the upgrade.",
        )
    return done


def migrate(connection: Connection, steps: Sequence[Step]) -> None:
    """Run these steps, each in its own transaction."""
    for step in steps:
        _do(connection, step)


def _do(connection: Connection, step: Step) -> None:
    connection.begin(immediate=True)
    try:
        if step.number == 1:
            connection.run(_TABLE)
        for statement in statements(step.sql):
            connection.run(statement)
        connection.run(
            "INSERT INTO schema_steps (number, name) VALUES (?, ?)",
            (step.number, step.name),
        )
        connection.commit()
    finally:
        connection.rollback()
