"""The database of replicas in PostgreSQL (`replica.Backend`)."""

from forewarn.cluster.port import LeaseRow
from forewarn.store.feed import FollowedCluster, LeaderStore
from forewarn.store.migrate import load_steps
from forewarn.store.postgres.cluster import PostgresCluster
from forewarn.store.postgres.connection import PostgresConnection
from forewarn.store.postgres.migrate import bring_up_to_date
from forewarn.store.postgres.store import PostgresStore
from forewarn.store.postgres.url import place_of
from forewarn.store.snapshot import SnapshotStore, snapshots_of


class PostgresBackend:
    """A database in PostgreSQL, by its URL."""

    def __init__(self, url: str) -> None:
        """Store the URL, without connecting."""
        self._url = url

    def prepare(self) -> SnapshotStore:
        """Bring the tables up to date, and return a reader; raises StoreError."""
        connection = PostgresConnection(self._url)
        try:
            connection.limit_statements(is_limited=False)
            place, steps = place_of(self._url), load_steps()
            bring_up_to_date(connection, place, steps, ends_term=True)
        finally:
            connection.close()
        return snapshots_of(self._url)

    def connect(self) -> FollowedCluster:
        """Return a new connection for one thread, which connects when it is used."""
        return PostgresCluster(self._url)

    def lead(self, row: LeaseRow) -> LeaderStore:
        """Return the store of a term; raises NotLeaderError if it has ended."""
        return PostgresStore(self._url, term=row.term)
