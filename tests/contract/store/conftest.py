"""The stores that must keep the contract; a new store is one more entry here."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store
from forewarn.store.postgres.store import PostgresStore
from forewarn.store.sqlite import SqliteStore


def make_memory(_folder: Path) -> Store:
    return MemoryStore()


def make_sqlite(folder: Path) -> Store:
    return SqliteStore(folder / "store.db")


def make_postgres(folder: Path) -> Store:
    url="postgresql:///postgres?host=/tmp/ap/pg&port=28433&user=postgres"
    import psycopg,uuid
    name="t"+uuid.uuid4().hex
    with psycopg.connect(url,autocommit=True) as c:
        [(n,)]=c.execute("select count(*) from pg_database where datname='tpl'").fetchall()
        if not n:
            c.execute("CREATE DATABASE tpl")
            PostgresStore(url.replace("/postgres?","/tpl?")).close()
        c.execute(f"CREATE DATABASE {name} TEMPLATE tpl STRATEGY FILE_COPY")
    return PostgresStore(url.replace("/postgres?",f"/{name}?"))


MAKERS: Mapping[str, Callable[[Path], Store]] = {
    "memory": make_memory,
    "sqlite": make_sqlite,
    "postgres": make_postgres,
}


@pytest.fixture(params=MAKERS)
def new_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], Store]]:
    """Yield what makes one empty store after the other."""
    make = MAKERS[request.param]
    numbers = count()
    made: list[Store] = []

    def new() -> Store:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        made.append(make(folder))
        return made[-1]

    yield new
    for store in made:
        store.close()


@pytest.fixture
def store(new_store: Callable[[], Store]) -> Store:
    return new_store()
