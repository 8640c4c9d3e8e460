"""The stores that must keep the contract; a new store is one more entry here."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store
from forewarn.store.sqlite import SqliteStore


def make_memory(_folder: Path) -> Store:
    return MemoryStore()


def make_sqlite(folder: Path) -> Store:
    return SqliteStore(folder / "store.db")


MAKERS: Mapping[str, Callable[[Path], Store]] = {
    "memory": make_memory,
    "sqlite": make_sqlite,
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
