"""The clusters that must keep the contract; a new one is one more entry here."""

from collections.abc import Iterator
from typing import Protocol

import pytest

from forewarn.store.feed import FollowedCluster, LeaderStore
from forewarn.store.memory_cluster import MemoryCluster, MemoryLeaderStore, SharedMemory
from forewarn.store.postgres.cluster import PostgresCluster
from forewarn.store.postgres.store import PostgresStore
from tests.support import postgres


class Database(Protocol):
    """One database, to which replicas connect."""

    def cluster(self) -> FollowedCluster:
        """Return the connection of another replica."""
        ...

    def store(self, term: int) -> LeaderStore:
        """Return the store of the leader of a term."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class MemoryDatabase:
    def __init__(self) -> None:
        self.shared = SharedMemory()

    def cluster(self) -> FollowedCluster:
        return MemoryCluster(self.shared)

    def store(self, term: int) -> LeaderStore:
        return MemoryLeaderStore(self.shared, term)

    def close(self) -> None:
        self.shared.state.close()


class PostgresDatabase:
    def __init__(self, url: str) -> None:
        self.url = url
        self.clusters: list[FollowedCluster] = []
        self.stores: list[LeaderStore] = []

    def cluster(self) -> FollowedCluster:
        self.clusters.append(PostgresCluster(self.url))
        return self.clusters[-1]

    def store(self, term: int) -> LeaderStore:
        self.stores.append(PostgresStore(self.url, term=term))
        return self.stores[-1]

    def close(self) -> None:
        for opened in (*self.clusters, *self.stores):
            opened.close()


@pytest.fixture(
    params=[
        pytest.param("memory"),
        pytest.param("postgres", marks=postgres.needing_postgres),
    ]
)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with postgres.lent_databases() as lend:
        is_memory = request.param == "memory"
        new_database: Database = (
            MemoryDatabase() if is_memory else PostgresDatabase(lend())
        )
        yield new_database
        new_database.close()
