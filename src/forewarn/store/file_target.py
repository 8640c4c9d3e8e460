"""A new file for a store, which gets its name when it is complete.

It is written under another name, and renamed at the end. If the process is killed, the
unfinished file stays, and no later command uses it.
"""

import contextlib
import os
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from forewarn.replacing import make_durable
from forewarn.store import statements
from forewarn.store.codec import Row
from forewarn.store.connection import Connection
from forewarn.store.migrate import load_steps, migrate
from forewarn.store.port import StoreError
from forewarn.store.tables import Table, definitions

MODE = 0o600
"""Mode of the file: only its owner may read it, because it has data of all tenants."""


@contextlib.contextmanager
def new_file(target: Path) -> Generator[Path]:
    """Yield an empty file, which gets the name `target` if the caller does not fail.

    Raises StoreError if `target` exists or cannot be written.
    """
    if target.exists():
        raise StoreError(
            f"{target} exists already",
            hint="Name another file, or remove this one.",
        )
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        # Created here with its mode, so that no other user can ever read it.
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE))
        yield unfinished
        make_durable(unfinished)
        # A link, not a rename: it fails if the name was taken meanwhile.
        os.link(unfinished, target)
        make_durable(target.parent)
    except OSError as error:
        raise StoreError(
            f"the file {target} cannot be written: {error.strerror}",
            hint="Check that its directory exists and has space for the store.",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


def make_single(connection: Connection, place: str) -> None:
    """Check the pages of a file without a name, and leave no log beside it.

    A service creates a new log. Raises StoreError.
    """
    connection.rows("PRAGMA journal_mode = DELETE")
    if faults := integrity_faults(connection):
        raise StoreError(
            f"{place} is damaged: {faults[0]}",
            hint="Run `forewarn store check` to see whether the store is damaged, too.",
        )


def integrity_faults(connection: Connection) -> list[str]:
    """Return the problems that SQLite finds in the pages of a file."""
    faults = [str(row[0]) for row in connection.rows("PRAGMA integrity_check(20)")]
    return [] if faults == ["ok"] else faults


class FileTarget:
    """The target of a copy: an empty file without a name, which one transaction fills."""

    def __init__(self, file: Path) -> None:
        """Create the tables; raises StoreError."""
        self._file = file
        self._connection = connection = Connection(file)
        steps = load_steps()
        try:
            # The caller makes the whole file durable at the end.
            connection.rows("PRAGMA journal_mode = OFF")
            connection.run("PRAGMA synchronous = OFF")
            migrate(connection, steps)
            connection.begin(immediate=True)
            self._indexes = definitions(steps).indexes
            # Rows without indexes, and then each index at once, is faster.
            for name in self._indexes:
                connection.run(f"DROP INDEX {name}")
        except BaseException:
            connection.close()
            raise

    def write(self, table: Table, pages: Iterable[list[Row]]) -> None:
        """Write all rows of a table."""
        add = statements.add(table.name, table.columns)
        for page in pages:
            self._connection.write(add, page)

    def pages(self, sql: str, rows: int) -> Iterator[list[Row]]:
        """Yield the rows that were written, so many at a time."""
        return self._connection.pages(sql, rows)

    def finish(self) -> None:
        """Create the indexes, commit, and check the pages."""
        for sql in self._indexes.values():
            self._connection.run(sql)
        self._connection.commit()
        make_single(self._connection, f"the copy {self._file}")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
