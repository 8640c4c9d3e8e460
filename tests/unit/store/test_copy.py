"""A copy of a store is equal to it, whatever the kinds of the two; or it is nothing."""

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from forewarn.store import kinds
from forewarn.store.check import check
from forewarn.store.copy import copy
from forewarn.store.file_target import FileTarget
from forewarn.store.open import open_store
from forewarn.store.port import Store, StoreError, every
from forewarn.store.postgres.whole import DatabaseTarget
from forewarn.store.records import LEADER_KEY, Leader
from forewarn.store.sequence import raise_term
from forewarn.store.snapshot import Source
from forewarn.store.sqlite import SqliteStore
from tests.support import postgres

New = Callable[[], str]


@pytest.fixture
def database() -> Iterator[New]:
    with postgres.lent_databases() as lend:
        yield lend


def raise_term_of(store: Store) -> int:
    return store.transact(raise_term)


def secret_of(store: Store) -> str:
    leader = store.read(lambda reader: reader.get(Leader, LEADER_KEY))
    return leader.secret if leader else ""


def rows_of(url: str) -> int:
    with psycopg.connect(url) as connection:
        cursor = connection.execute(
            "SELECT (SELECT count(*) FROM vms) + (SELECT count(*) FROM leader)"
        )
        [(rows,)] = cursor.fetchall()
        return rows


@postgres.needing_postgres
def test_copies_there_and_back_have_the_same_rows(
    written: Path, tmp_path: Path, database: New
) -> None:
    """From a file to a database, to another one, to a file, and to another file."""
    places: list[Source] = [
        written,
        database(),
        database(),
        tmp_path / "back.db",
        tmp_path / "again.db",
    ]
    copied = [copy(*pair) for pair in itertools.pairwise(places)]
    assert all(rows == copied[0] for rows in copied)
    with closing(sqlite3.connect(written)) as file:
        for table in copied[0]:
            [(rows,)] = file.execute(f"SELECT count(*) FROM {table.name}")
            assert table.rows == rows
    assert [check(place) for place in places] == [[]] * len(places)
    with (
        closing(sqlite3.connect(written)) as old,
        closing(sqlite3.connect(places[-1])) as new,
    ):
        assert sorted(old.iterdump()) == sorted(new.iterdump())


@postgres.needing_postgres
def test_service_continues_on_a_copy(written: Path, database: New) -> None:
    """Its term, secret and records are those of the source."""
    copy(written, url := database())
    store, old = open_store(url), SqliteStore(written)
    for query in kinds.EVERYTHING.values():
        wanted = old.read(lambda reader, query=query: [*every(reader, query)])
        assert store.read(lambda reader, query=query: [*every(reader, query)]) == wanted
    assert secret_of(store) == secret_of(old) != ""
    assert raise_term_of(store) == raise_term_of(old)
    store.close()
    old.close()


@postgres.needing_postgres
def test_target_with_rows_is_refused_and_unchanged(
    written: Path, tmp_path: Path, database: New
) -> None:
    copy(written, url := database())
    with pytest.raises(StoreError, match="is not empty: it has audit"):
        copy(written, url)
    (tmp_path / "there.db").touch()
    with pytest.raises(StoreError, match="exists already"):
        copy(written, tmp_path / "there.db")
    with pytest.raises(StoreError, match="there is no store"):
        copy(tmp_path / "missing.db", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


@postgres.needing_postgres
def test_database_that_a_service_uses_is_refused_as_a_target(
    written: Path, database: New
) -> None:
    store = open_store(url := database())
    with pytest.raises(StoreError, match="another service uses the store"):
        copy(written, url)
    store.close()


def _spoiled(pages: Callable[..., Iterator[list[tuple[object, ...]]]]) -> object:
    """Return what reads the rows of a target with one value changed."""

    def read(self: object, sql: str, rows: int) -> Iterator[list[tuple[object, ...]]]:
        for page in pages(self, sql, rows):
            yield [(*row[:-1], 77) for row in page] if "FROM tenants" in sql else page

    return read


@postgres.needing_postgres
def test_rows_that_differ_in_the_copy_are_not_committed(
    written: Path, tmp_path: Path, database: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileTarget, "pages", _spoiled(FileTarget.pages))
    monkeypatch.setattr(DatabaseTarget, "pages", _spoiled(DatabaseTarget.pages))
    url = database()
    with pytest.raises(StoreError, match="table tenants of the copy is different"):
        copy(written, url)
    assert rows_of(url) == 0
    with pytest.raises(StoreError, match="table tenants of the copy is different"):
        copy(written, tmp_path / "new.db")
    assert [path.name for path in tmp_path.iterdir()] == []
