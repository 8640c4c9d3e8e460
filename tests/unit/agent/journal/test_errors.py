"""The meaning of SQLite's errors, even if Python has only their text."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.agent.journal import file
from forewarn.agent.journal.file import code_of, translate
from forewarn.agent.journal.port import (
    JournalDamagedError,
    JournalError,
    JournalRefusedError,
)

PAGE_BYTES = 4_096


def made(path: Path) -> sqlite3.Connection:
    """Return a file with some pages of rows."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    connection.execute("CREATE TABLE t (x)")
    connection.executemany("INSERT INTO t VALUES (?)", [["x" * 1_000]] * 20)
    return connection


def full(path: Path) -> None:
    with contextlib.closing(made(path)) as opened:
        [(pages,)] = opened.execute("PRAGMA page_count").fetchall()
        opened.execute(f"PRAGMA max_page_count = {pages}")
        opened.executemany("INSERT INTO t VALUES (?)", [["x" * 1_000]] * 20)


def only_read(path: Path) -> None:
    made(path).close()
    with contextlib.closing(
        sqlite3.connect(f"file://{path}?mode=ro", uri=True)
    ) as opened:
        opened.execute("INSERT INTO t VALUES (1)")


def not_there(path: Path) -> None:
    sqlite3.connect(path / "directory" / "a.db").close()


def of_something_else(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)
    with contextlib.closing(sqlite3.connect(path)) as opened:
        opened.execute("SELECT * FROM t")


def damaged(path: Path) -> None:
    made(path).close()
    whole = path.read_bytes()
    path.write_bytes(
        whole[:PAGE_BYTES] + b"\xff" * (len(whole) - PAGE_BYTES),
    )
    with contextlib.closing(sqlite3.connect(path)) as opened:
        opened.execute("SELECT * FROM t").fetchall()


def with_a_schema_that_is_none(path: Path) -> None:
    with contextlib.closing(made(path)) as opened:
        opened.execute("PRAGMA writable_schema = ON")
        opened.execute("UPDATE sqlite_master SET sql = 'rubbish'")
    with contextlib.closing(sqlite3.connect(path)) as opened:
        opened.execute("SELECT * FROM t")


def held(path: Path) -> None:
    with contextlib.closing(made(path)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with contextlib.closing(
            sqlite3.connect(path, isolation_level=None, timeout=0)
        ) as opened:
            opened.execute("BEGIN IMMEDIATE")


def asked_for_what_is_not_there(path: Path) -> None:
    with contextlib.closing(made(path)) as opened:
        opened.execute("SELECT * FROM other")


Fault = Callable[[Path], None]
FAULTS: list[tuple[Fault, int, type[JournalError]]] = [
    (full, file.FULL, JournalError),
    (only_read, file.READONLY, JournalError),
    (not_there, file.CANTOPEN, JournalRefusedError),
    (of_something_else, file.NOTADB, JournalDamagedError),
    (damaged, file.CORRUPT, JournalDamagedError),
    (with_a_schema_that_is_none, file.CORRUPT, JournalDamagedError),
    (held, file.BUSY, JournalError),
    (asked_for_what_is_not_there, 1, JournalError),
]


@pytest.mark.parametrize(
    ("fault", "code", "kind"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS]
)
def test_error_is_recognized_by_code_or_text(
    fault: Fault, code: int, kind: type[JournalError], tmp_path: Path
) -> None:
    with pytest.raises(sqlite3.Error) as caught:
        fault(tmp_path / "a.db")
    assert code_of(caught.value) == code
    # As before Python 3.11, which hands no code on.
    bare = sqlite3.OperationalError(str(caught.value))
    assert code_of(bare) == code
    assert type(translate(bare, "a.db")) is kind


@pytest.mark.parametrize("name", ["FULL", "IOERR", "READONLY", "CANTOPEN", "NOTADB"])
def test_error_numbers_match_sqlite(name: str) -> None:
    known = getattr(sqlite3, f"SQLITE_{name}", None)
    if known is None:
        pytest.skip("this Python has no names for them")
    assert getattr(file, name) == known
