"""One connection to an SQLite file, and the conversion of its errors.

Only this module calls `sqlite3`. It converts every error to a StoreError with a hint,
or to a ConflictError if another writer has locked the file.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from forewarn.store.codec import Row
from forewarn.store.database import Parameters
from forewarn.store.port import ConflictError, NoSpaceError, StoreError
from forewarn.store.statements import Write

BUSY_MILLISECONDS = 100
"""Maximum wait for another program's write, such as a backup's. Writers of this process
wait before they get here, and `transact` retries in any case."""

STATEMENTS_KEPT = 256
"""Maximum prepared statements of one connection: forewarn has fewer."""

CACHE_KIBIBYTES = 16 * 1024
"""Page cache of one connection: the working set of a large fleet."""

JOURNAL_BYTES_KEPT = 64 * 1024 * 1024
"""Size to which SQLite truncates the write-ahead log after a large load."""

LOG_PAGES_MAX = JOURNAL_BYTES_KEPT // 4096
"""Number of log pages above which a commit itself does a checkpoint (`checkpoints`)."""

HINTS = {
    sqlite3.SQLITE_IOERR: "Check its disk and the system's log.",
    sqlite3.SQLITE_READONLY: (
        "Allow the service's user to write the file and its directory."
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "Allow the service's user to open the file and its directory."
    ),
    sqlite3.SQLITE_NOTADB: "Name another file in [store] url, or restore a backup.",
    sqlite3.SQLITE_CORRUPT: "Restore a backup: the file is damaged.",
}
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def translate(error: sqlite3.Error, path: Path) -> StoreError:
    """Return the StoreError or ConflictError for `error`."""
    # The low byte is the primary code, the rest is the extended one.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _BUSY:
        return ConflictError(f"another writer has locked the store {path}")
    message = f"the store {path} cannot do its work: {error}"
    if code == sqlite3.SQLITE_FULL:
        return NoSpaceError(message, hint="Free some space on the disk of the store.")
    return StoreError(message, hint=HINTS.get(code, "Report this as a bug."))


class Connection:
    """An open file that runs statements unchanged.

    Several threads may use it, but only one at a time.
    """

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        may_make: bool = False,
        busy_milliseconds: int = BUSY_MILLISECONDS,
    ) -> None:
        """Open the file; create it only if `may_make`; raises StoreError."""
        self._path = path
        self._failure: StoreError | None = None
        self._is_closed = False
        self._version = 0
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
        """Configure that each commit is on the disk before it returns."""
        [(mode,)] = self.rows("PRAGMA journal_mode = WAL")
        if mode != "wal":
            raise StoreError(
                f"the store {self._path} cannot have a write-ahead log",
                hint="Put the store on a local disk.",
            )
        self.run("PRAGMA synchronous = FULL")
        self.run(f"PRAGMA journal_size_limit = {JOURNAL_BYTES_KEPT}")
        self.run(f"PRAGMA wal_autocheckpoint = {LOG_PAGES_MAX}")
        self.run(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement; return the number of changed rows."""
        return self._execute(sql, parameters).rowcount

    def _execute(self, sql: str, parameters: Parameters) -> sqlite3.Cursor:
        try:
            return self._sqlite.execute(sql, parameters)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def write(self, statement: Write, rows: Sequence[Row]) -> int:
        """Run a statement once for each row of parameters; return as `run` does."""
        try:
            return self._sqlite.executemany(statement.sql, rows).rowcount
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return all rows of a statement."""
        try:
            return self._sqlite.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def each(self, sql: str) -> Iterator[Row]:
        """Yield the rows of a statement, without loading all of them."""
        try:
            yield from self._sqlite.execute(sql)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def pages(
        self, sql: str, rows: int, parameters: Parameters = ()
    ) -> Iterator[list[Row]]:
        """Yield the rows of a statement, so many at a time."""
        try:
            cursor = self._sqlite.execute(sql, parameters)
            while page := cursor.fetchmany(rows):
                yield page
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def copy_to(self, target: "Connection") -> None:
        """Copy the whole file as of now; others may write meanwhile."""
        try:
            # Copy in one step, so that the copy has the state of one moment and no
            # writer restarts it.
            self._sqlite.backup(target._sqlite, pages=-1)  # noqa: SLF001
        except sqlite3.Error as error:
            raise self._failed(error) from error

    @property
    def rows_changed(self) -> int:
        """Return the number of rows that this connection has changed."""
        return self._sqlite.total_changes

    def checkpoint(self) -> None:
        """Do a checkpoint of the write-ahead log, without waiting for readers."""
        self.rows("PRAGMA wal_checkpoint(PASSIVE)")

    def begin(self, *, immediate: bool = False) -> None:
        """Open a transaction; only an immediate one takes the write lock."""
        self._failure = None
        self.run("BEGIN IMMEDIATE" if immediate else "BEGIN")

    def was_changed(self) -> bool:
        """Return whether others may have written to the file since the last call."""
        before = self._version
        [(self._version,)] = self.rows("PRAGMA data_version")
        return self._version != before

    def begin_snapshot(self) -> None:
        """Open a transaction that sees one moment, from its first statement."""
        self.begin()

    def commit(self) -> None:
        """Make the open transaction durable; after an error, the caller rolls it back.

        A transaction with a failed statement is never committed, even if the caller
        caught the error.
        """
        if self._failure:
            raise self._failure
        self.run("COMMIT")

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one."""
        if not self._is_closed and self._sqlite.in_transaction:
            self.run("ROLLBACK")

    def end(self) -> bool:
        """Roll back an open transaction; close and return False if that fails."""
        try:
            self.rollback()
        except StoreError:
            self.close()
        return not self._is_closed

    def close(self) -> None:
        """Close the connection; this rolls back an open transaction."""
        self._is_closed = True
        try:
            self._sqlite.close()
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    def _failed(self, error: sqlite3.Error) -> StoreError:
        self._failure = translate(error, self._path)
        return self._failure
