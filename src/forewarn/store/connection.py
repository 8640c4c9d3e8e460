"""One connection to an SQLite file, and the door for its errors.

Nothing else calls `sqlite3`, so every error leaves here as a StoreError that
says what to do next, and a file that others write to as a ConflictError.
"""

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from forewarn.store.codec import Row
from forewarn.store.port import ConflictError, StoreError

Parameters: TypeAlias = Mapping[str, str | int] | Row

BUSY_MILLISECONDS = 100
"""How long to wait for another program's write, such as a backup's. Writers of
this process take turns before they get here; `transact` tries again anyway."""

STATEMENTS_KEPT = 256
"""Prepared statements of one connection: all of them, with room."""

CACHE_KIBIBYTES = 16 * 1024
"""Pages that one connection keeps: the working set of a large fleet."""

JOURNAL_BYTES_KEPT = 64 * 1024 * 1024
"""What a large load leaves of the write-ahead log is cut back to this."""

LOG_PAGES_MAX = JOURNAL_BYTES_KEPT // 4096
"""Beyond so many pages a commit itself brings the log into the file (`checkpoints`)."""

HINTS = {
    sqlite3.SQLITE_FULL: "Free some space on its disk.",
    sqlite3.SQLITE_IOERR: "Look at its disk and at the system's log.",
    sqlite3.SQLITE_READONLY: (
        "The service's user must be able to write the file and its directory."
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "The service's user must be able to open the file and its directory."
    ),
    sqlite3.SQLITE_NOTADB: "Name another file in [store] url, or restore a backup.",
    sqlite3.SQLITE_CORRUPT: "The file is damaged: restore a backup.",
}
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def translate(error: sqlite3.Error, path: Path) -> StoreError:
    """Return what `error` means for who called the store."""
    # The low byte is the kind, the rest is which of its kind.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _BUSY:
        return ConflictError(f"another writer holds the store {path}")
    return StoreError(
        f"the store {path} cannot do its work: {error}",
        hint=HINTS.get(code, "This should not happen: please report it."),
    )


class Connection:
    """An open file in which every statement is run as it is given.

    It may go from thread to thread, but serves one at a time.
    """

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        may_make: bool = False,
        busy_milliseconds: int = BUSY_MILLISECONDS,
    ) -> None:
        """Open the file, which is made only if it `may_make` it; raises StoreError."""
        self._path = path
        self._failure: StoreError | None = None
        self._is_closed = False
        mode = "ro" if read_only else "rwc" if may_make else "rw"
        try:
            self._sqlite = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=busy_milliseconds / 1000,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=STATEMENTS_KEPT,
            )
        except sqlite3.Error as error:
            raise translate(error, path) from error

    def make_durable(self) -> None:
        """Have each commit on the disk before it returns."""
        [(mode,)] = self.rows("PRAGMA journal_mode = WAL")
        if mode != "wal":
            raise StoreError(
                f"the store {self._path} cannot have a write-ahead log",
                hint="The store must be on a local disk.",
            )
        self.run("PRAGMA synchronous = FULL")
        self.run(f"PRAGMA journal_size_limit = {JOURNAL_BYTES_KEPT}")
        self.run(f"PRAGMA wal_autocheckpoint = {LOG_PAGES_MAX}")
        self.run(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement; return how many rows it changed."""
        return self._execute(sql, parameters).rowcount

    def _execute(self, sql: str, parameters: Parameters) -> sqlite3.Cursor:
        try:
            return self._sqlite.execute(sql, parameters)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def run_each(self, sql: str, rows: Collection[Row]) -> int:
        """Run a statement once for each row of parameters; return as `run` does."""
        if not rows:
            return 0
        try:
            return self._sqlite.executemany(sql, rows).rowcount
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return all rows that a statement finds."""
        try:
            return self._sqlite.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def each(self, sql: str) -> Iterator[Row]:
        """Yield the rows that a statement finds, without holding all of them."""
        try:
            yield from self._sqlite.execute(sql)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def columns(self, sql: str, parameters: Parameters = ()) -> list[str]:
        """Return the names of the columns that a statement gives."""
        return [column[0] for column in self._execute(sql, parameters).description]

    def copy_to(self, target: "Connection") -> None:
        """Copy the whole file as it is now; others may go on writing meanwhile."""
        try:
            # In one step: it reads one moment, and no writer makes it begin anew.
            self._sqlite.backup(target._sqlite, pages=-1)  # noqa: SLF001
        except sqlite3.Error as error:
            raise self._failed(error) from error

    @property
    def rows_changed(self) -> int:
        """Return how many rows were changed since it was opened."""
        return self._sqlite.total_changes

    def checkpoint(self) -> None:
        """Bring the write-ahead log into the file, as far as nobody is in the way."""
        self.rows("PRAGMA wal_checkpoint(PASSIVE)")

    def begin(self, *, immediate: bool = False) -> None:
        """Open a transaction; an immediate one is the only that may write."""
        self._failure = None
        self.run("BEGIN IMMEDIATE" if immediate else "BEGIN")

    def commit(self) -> None:
        """Make the open transaction durable, or raise: then roll it back.

        A transaction in which a statement failed is never committed, whoever
        caught the error.
        """
        if self._failure:
            raise self._failure
        self.run("COMMIT")

    def rollback(self) -> None:
        """Forget the open transaction, if there is one."""
        if not self._is_closed and self._sqlite.in_transaction:
            self.run("ROLLBACK")

    def settle(self) -> bool:
        """Roll back what is open; close it and return False if that fails."""
        try:
            self.rollback()
        except StoreError:
            self.close()
        return not self._is_closed

    def close(self) -> None:
        """Close it; an open transaction is rolled back."""
        self._is_closed = True
        try:
            self._sqlite.close()
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    def _failed(self, error: sqlite3.Error) -> StoreError:
        self._failure = translate(error, self._path)
        return self._failure
