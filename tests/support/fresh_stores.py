"""Stores that share what is the same for all of them: the schema.

Its steps take a tenth of a second of processor time, and each waits for the disk. Thousands
of tests need a new store. So the first new store of a process runs the steps, and later
ones get a copy of its pages, in one transaction.

A process that loads its own modules shares nothing. Neither do the tests of the steps,
which call `migrate` (`tests/unit/store/test_migrate.py`).
"""

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from forewarn.store import file_target, migrate, sqlite
from forewarn.store.connection import Connection, translate
from forewarn.store.migrate import Step


class _Shared:
    """A replacement for `migrate` in the modules that make new files."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._first: sqlite3.Connection | None = None
        """The pages of the first new store, in memory."""

    def migrate(self, connection: Connection, steps: Sequence[Step]) -> None:
        if steps != migrate.load_steps():
            migrate.migrate(connection, steps)
            return
        with self._guard:
            if self._first is None:
                migrate.migrate(connection, steps)
                self._first = sqlite3.connect(":memory:", check_same_thread=False)
                connection._sqlite.backup(self._first)
                return
            try:
                self._first.backup(connection._sqlite)
            except sqlite3.Error as error:
                raise translate(error, connection._path) from error


def share() -> None:
    """Let the stores that this process opens from now on share what they can."""
    shared = _Shared()
    for module in (sqlite, file_target):
        module.__dict__.update(migrate=shared.migrate)


def prepare() -> None:
    """Share, and have the first store: processes that are forked from this one copy it."""
    share()
    with TemporaryDirectory() as directory:
        sqlite.SqliteStore(Path(directory, "first.db")).close()
