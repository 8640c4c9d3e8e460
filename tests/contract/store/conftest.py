"""The stores that must keep the contract; a new store is one more entry here."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store
from forewarn.store.postgres.store import PostgresStore
from forewarn.store.sqlite import SqliteStore
from tests.support import postgres


@pytest.fixture(
    params=[
        pytest.param("memory"),
        pytest.param("sqlite"),
        pytest.param("postgres", marks=postgres.needing_postgres),
    ]
)
def new_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], Store]]:
    """Yield what makes one empty store after the other."""
    numbers = count()
    stores: list[Store] = []
    with postgres.lent_databases() as lend:

        def make() -> Store:
            if request.param == "memory":
                return MemoryStore()
            if request.param == "postgres":
                return PostgresStore(lend())
            return SqliteStore(tmp_path / f"{next(numbers)}.db")

        def new() -> Store:
            stores.append(make())
            return stores[-1]

        yield new
        for store in stores:
            store.close()


@pytest.fixture
def store(new_store: Callable[[], Store]) -> Store:
    return new_store()
