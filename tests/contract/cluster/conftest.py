"""The clusters that must keep the contract; a new one is one more entry here."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import pytest

from forewarn.store.feed import FollowedCluster, LeaderStore
from forewarn.store.memory_cluster import MemoryCluster, MemoryLeaderStore, SharedMemory


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


MAKERS: Mapping[str, Callable[[], Database]] = {"memory": MemoryDatabase}


@pytest.fixture(params=MAKERS)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    made = MAKERS[request.param]()
    yield made
    made.close()
