"""One connection to the journal's file, and the door for its errors.

Nothing else calls `sqlite3`, so every error leaves here as a JournalError that says
what to do next.
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
"""How long to wait for another's write: an order's, or a notification's that is done.
Each is one small commit; on a disk where that takes longer nothing else goes well."""

BUSY_SECONDS_AGAIN = 0.1
"""The same after a wait in vain, until a write has succeeded: who holds the file so
long may go on, and each decision that could not be kept is to be carried out now."""

CACHE_KIBIBYTES = 256
"""Pages that a connection keeps: what an agent asks again and again is a few."""

LOG_PAGES_MAX = 256
"""Pages of the write-ahead log before a commit brings them into the file: 1 MiB."""

_READABLE = 0o600
"""Events and what handlers said are for the agent's user."""

# SQLite's own numbers, for which Python has no names before 3.11.
FULL = 13
IOERR = 10
READONLY = 8
CANTOPEN = 14
NOTADB = 26
CORRUPT = 11
BUSY = 5
PERM = 3

HINTS = {
    FULL: "Free some space on its disk.",
    IOERR: "Look at its disk and at the system's log.",
    READONLY: "The agent's user must be able to write the file.",
    CANTOPEN: "The agent's user must be able to open it and its folder.",
    NOTADB: "If it was the agent's, it is set aside at the next start; "
    "if it is not, name another file in `state`.",
    CORRUPT: "It is set aside at the next start, and a new one begun.",
    BUSY: "Something else keeps the file locked: find it and stop it.",
}
_DAMAGED = frozenset({CORRUPT, NOTADB})
"""Whether a file with such a fault is ours at all, only `opening` can tell."""

_REFUSED = frozenset({CANTOPEN, PERM})

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
"""What SQLite writes of each: before 3.11, Python tells nothing else of an error."""


def translate(error: Exception, path: str) -> JournalError:
    """Return what an error means for the agent."""
    code = code_of(error)
    kind = JournalError
    if code in _DAMAGED:
        kind = JournalDamagedError
    elif code in _REFUSED:
        kind = JournalRefusedError
    return kind(
        f"the journal {path} cannot do its work: {error}",
        hint=HINTS.get(code, "This should not happen: please report it."),
    )


def code_of(error: Exception) -> int:
    """Return SQLite's number for an error; 1, as SQLite, where it is any other."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        # The low byte is the kind, the rest is which of its kind.
        return code & 0xFF
    text = str(error)
    return next((code for part, code in _TEXTS if part in text), 1)


class File:
    """An open file. It may go from thread to thread, but serves one at a time."""

    def __init__(
        self,
        path: Place,
        *,
        read_only: bool = False,
        may_make: bool = False,
        without_log: bool = False,
    ) -> None:
        """Open it, and make it where it `may_make` it; raises JournalError.

        `without_log`, for reading: as if nobody wrote, so that nothing is made beside
        it; what only a write-ahead log has is not seen.
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
                hint="Name a file in `state` that the agent's user may write.",
            ) from error
        except OSError as error:
            raise JournalError(
                f"the journal {path} cannot be opened: {error.strerror}",
                hint="Look at its disk and at the system's log.",
            ) from error
        except sqlite3.Error as error:
            raise translate(error, path) from error
        self._opened = _identity(path)

    def is_in_place(self) -> bool:
        """Tell whether its path still leads to the file that is open."""
        return _identity(self._path) == self._opened

    def set_up(self) -> None:
        """Make or bring up the schema, and have commits durable from now on."""
        # First of all: another program's file must not be changed, and to have a
        # write-ahead log is a change that stays.
        done = self.version()
        [(mode,)] = self.rows("PRAGMA journal_mode = WAL")
        if mode != "wal":
            raise JournalError(
                f"the journal {self._path} cannot have a write-ahead log",
                hint="It must be on a local disk: name another file in `state`.",
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
        """Keep it small."""
        self.run(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
        self.run(f"PRAGMA wal_autocheckpoint = {LOG_PAGES_MAX}")
        self.run(f"PRAGMA journal_size_limit = {LOG_PAGES_MAX * 4096}")

    def wait_for_others(self, seconds: float) -> None:
        """Have writes wait so long from now on for another's."""
        self.run(f"PRAGMA busy_timeout = {round(seconds * 1_000)}")

    def version(self) -> int:
        """Return how many steps of the schema were done; raises JournalRefusedError."""
        [(made_by,)] = self.rows("PRAGMA application_id")
        [(done,)] = self.rows("PRAGMA user_version")
        [(tables,)] = self.rows("SELECT count(*) FROM sqlite_master")
        if made_by != schema.APPLICATION_ID and (made_by or done or tables):
            raise JournalRefusedError(
                f"{self._path} is a database of another program",
                hint="Name another file in `state`.",
            )
        if done > len(schema.STEPS):
            raise JournalRefusedError(
                f"the journal {self._path} was written by a newer forewarn (its schema "
                f"is {done}, this program knows {len(schema.STEPS)})",
                hint="Start that version. To begin anew with this one, move the file "
                "away.",
            )
        return done

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement; return how many rows it changed."""
        try:
            return self._sqlite.execute(sql, parameters).rowcount
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return all rows that a statement finds."""
        try:
            return self._sqlite.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        """Make what is written inside durable at the end, or none of it."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._sqlite.rollback()
            raise

    def close(self) -> None:
        """Close it; an open transaction is rolled back."""
        with contextlib.suppress(sqlite3.Error):
            self._sqlite.close()


def _uri(path: str) -> str:
    """Return a file's name as SQLite takes it with a mode."""
    whole = os.fsencode(os.path.abspath(path))
    if os.name != "posix":  # pragma: no cover
        whole = b"/" + whole.replace(b"\\", b"/")
    return f"file://{forms.percent_quoted(whole, keep=b'/:')}"


def _identity(path: Place) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make(path: str) -> None:
    """Make an empty file, for our eyes only; an existing one is left as it is."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, _READABLE))


def _statements(text: str) -> Sequence[str]:
    found: list[str] = []
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found
