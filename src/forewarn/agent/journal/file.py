"""One connection to the journal's file, and the translation of its errors.

Only this module calls `sqlite3`. Every error becomes a JournalError with a hint.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Generator, Sequence
from typing import Any, Union

from forewarn.agent import forms
from forewarn.agent.journal import schema
from forewarn.agent.journal.port import (
    JournalDamagedError,
    JournalError,
    JournalRefusedError,
    Place,
)

Row = tuple[Any, ...]
Parameters = Union[Sequence[Any], dict[str, Any]]

BUSY_SECONDS = 2.0
"""How long to wait for another connection's write. Each is one small commit, for an
approval request or a delivered notification."""

BUSY_SECONDS_AGAIN = 0.1
"""How long to wait after a timeout, until a write succeeds: another program may hold
the lock for a long time, and decisions must be carried out without delay."""

CACHE_KIBIBYTES = 256
"""Page cache of a connection: the agent reads only a few pages repeatedly."""

LOG_PAGES_MAX = 256
"""Pages in the write-ahead log before a commit moves them to the file: 1 MiB."""

_READABLE = 0o600
"""Only the agent's user may read events and the output of handlers."""

# SQLite's error codes, which Python names only since 3.11.
FULL = 13
IOERR = 10
READONLY = 8
CANTOPEN = 14
NOTADB = 26
CORRUPT = 11
BUSY = 5
PERM = 3

HINTS = {
    FULL: "Free some disk space.",
    IOERR: "Check the disk and the system log.",
    READONLY: "Make the file writable for the agent's user.",
    CANTOPEN: "Give the agent's user access to the file and its directory.",
    NOTADB: "If it is another program's file, set `state` to another file. "
    "Otherwise, restart the agent, which sets it aside.",
    CORRUPT: "Restart the agent, which sets it aside and creates a new one.",
    BUSY: "Stop the other process that locks the file.",
}
_KINDS = {
    # Only `opening` can tell whether a file with such an error is a journal.
    CORRUPT: JournalDamagedError,
    NOTADB: JournalDamagedError,
    CANTOPEN: JournalRefusedError,
    PERM: JournalRefusedError,
}

_TEXTS = (
    ("disk is full", FULL),
    ("disk I/O error", IOERR),
    ("readonly database", READONLY),
    ("unable to open database", CANTOPEN),
    ("access permission denied", PERM),
    ("is not a database", NOTADB),
    ("malformed", CORRUPT),
    ("database is locked", BUSY),
)
"""The texts of these errors: before 3.11, Python has no error codes."""


def translate(error: Exception, path: str) -> JournalError:
    """Return the JournalError for an error of SQLite."""
    code = code_of(error)
    return _KINDS.get(code, JournalError)(
        f"the journal {path} failed: {error}",
        hint=HINTS.get(code, "This should not happen: please report it."),
    )


def code_of(error: Exception) -> int:
    """Return SQLite's code for an error; 1: any other error."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        # The low byte is the primary code.
        return code & 0xFF
    text = str(error)
    return next((code for part, code in _TEXTS if part in text), 1)


class File:
    """An open file. Any thread may use it, but only one at a time."""

    def __init__(
        self,
        path: Place,
        *,
        read_only: bool = False,
        may_make: bool = False,
        without_log: bool = False,
    ) -> None:
        """Open the file; raises JournalError.

        With `may_make`, the file and its schema are created or upgraded if needed.

        With `without_log`, the file is read as if it was never written: nothing is
        created next to it, and the content of a write-ahead log is not seen.
        """
        self._path = path = os.fspath(path)
        mode = "ro" if read_only or without_log else "rw"
        if without_log:
            mode += "&immutable=1"
        try:
            if may_make:
                _make(path)
            self._sqlite = sqlite3.connect(
                f"{_uri(path)}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        except (PermissionError, IsADirectoryError) as error:
            raise JournalRefusedError(
                f"the journal {path} cannot be opened: {error.strerror}",
                hint="Set `state` to a file that the agent's user can write.",
            ) from error
        except OSError as error:
            raise JournalError(
                f"the journal {path} cannot be opened: {error.strerror}",
                hint="Check the disk and the system log.",
            ) from error
        except sqlite3.Error as error:
            raise translate(error, path) from error
        self._opened = _identity(path)
        if may_make:
            try:
                self._set_up()
            except BaseException:
                self.close()
                raise

    def is_in_place(self) -> bool:
        """Return whether the path still leads to the open file."""
        return _identity(self._path) == self._opened

    def _set_up(self) -> None:
        """Create or upgrade the schema, and make commits durable."""
        # This comes first, since another program's file must not change, and switching
        # on a write-ahead log is a permanent change.
        done = self.version()
        [(mode,)] = self.rows("PRAGMA journal_mode = WAL")
        if mode != "wal":
            raise JournalError(
                f"the journal {self._path} cannot have a write-ahead log",
                hint="Set `state` to a file on a local disk.",
            )
        self.run("PRAGMA synchronous = FULL")
        self.tune()
        for number, step in enumerate(schema.STEPS[done:], start=done + 1):
            with self.transaction():
                for statement in _statements(step):
                    self.run(statement)
                self.run(f"PRAGMA user_version = {number}")
                self.run(f"PRAGMA application_id = {schema.APPLICATION_ID}")

    def tune(self) -> None:
        """Limit the memory and the log of the connection."""
        self.run(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
        self.run(f"PRAGMA wal_autocheckpoint = {LOG_PAGES_MAX}")
        self.run(f"PRAGMA journal_size_limit = {LOG_PAGES_MAX * 4096}")

    def wait_for_others(self, seconds: float) -> None:
        """Set how long writes wait for other connections."""
        self.run(f"PRAGMA busy_timeout = {round(seconds * 1_000)}")

    def version(self) -> int:
        """Return the number of schema steps done; raises JournalRefusedError."""
        [(made_by,)] = self.rows("PRAGMA application_id")
        [(done,)] = self.rows("PRAGMA user_version")
        [(tables,)] = self.rows("SELECT count(*) FROM sqlite_master")
        if made_by != schema.APPLICATION_ID and (made_by or done or tables):
            raise JournalRefusedError(
                f"{self._path} is a database of another program",
                hint="Set `state` to another file.",
            )
        if done > len(schema.STEPS):
            raise JournalRefusedError(
                f"the journal {self._path} was written by a newer version of forewarn "
                f"(schema {done}; this version supports {len(schema.STEPS)})",
                hint="Start that version, or move the file away to begin with an empty journal.",
            )
        return done

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement; return how many rows it changed."""
        try:
            return self._sqlite.execute(sql, parameters).rowcount
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return all rows of a query."""
        try:
            return self._sqlite.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        """Commit the writes of the block, or roll them back after an error."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._sqlite.rollback()
            raise

    def close(self) -> None:
        """Close the file; an open transaction is rolled back."""
        with contextlib.suppress(sqlite3.Error):
            self._sqlite.close()


def _uri(path: str) -> str:
    """Return a file's path as a URI for SQLite."""
    whole = os.fsencode(os.path.abspath(path))
    if os.name != "posix":  # pragma: no cover
        whole = b"/" + whole.replace(b"\\", b"/")
    return f"file://{forms.percent_quoted(whole, keep=b'/:')}"


def has_content(path: Place) -> bool:
    """Return whether a file exists and is not empty, or cannot be looked at."""
    try:
        return os.path.getsize(path) > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _identity(path: Place) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _make(path: str) -> None:
    """Create an empty file that only its user can read; keep an existing one."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, _READABLE))


def _statements(text: str) -> Sequence[str]:
    statements: list[str] = []
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            statements.append(statement)
            statement = ""
    return statements
