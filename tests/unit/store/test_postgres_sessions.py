"""The sessions of a store in PostgreSQL: what is set in each, and how long one may idle."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from forewarn.cluster.port import ReplicaRow
from forewarn.fleet.model import Host
from forewarn.store.postgres.cluster import PostgresCluster
from forewarn.store.postgres.store import PostgresStore
from tests.support import postgres

pytestmark = postgres.needing_postgres

WRITTEN = ("lease", "fence", "replicas", "feed", "feed_floor", "hosts")
"""Tables that replicas and the store write."""


@pytest.fixture
def url() -> Iterator[str]:
    with postgres.one_database() as new_url:
        yield new_url


def sql(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


# Durable commits


def record_settings(url: str) -> None:
    """Record at the server with which setting each table is written."""
    sql(url, "CREATE TABLE settings (name text, setting text)")
    sql(
        url,
        "CREATE FUNCTION record_setting() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO settings VALUES"
        " (TG_TABLE_NAME, current_setting('synchronous_commit')); RETURN NULL; END $$",
    )
    for name in WRITTEN:
        sql(
            url,
            f"CREATE TRIGGER recorded AFTER INSERT OR UPDATE OR DELETE ON {name}"
            " EXECUTE FUNCTION record_setting()",
        )


@pytest.mark.parametrize("setting", ["off", "local", "remote_write", "remote_apply"])
def test_commits_of_replicas_and_stores_are_durable_even_if_the_server_says_otherwise(
    url: str, setting: str
) -> None:
    """A standby that lacks a renewal would let two replicas lead after its promotion."""
    name = urlsplit(url).path[1:]
    record_settings(url)
    sql(url, f"ALTER DATABASE {name} SET synchronous_commit = {setting}")
    cluster = PostgresCluster(url)
    row = cluster.take(cluster.lease(), holder="a", url="")
    assert row is not None
    store = PostgresStore(url, term=row.term)
    store.transact(lambda tx: tx.add(Host(name="h1")))
    store.close()
    cluster.renew(row.term)
    cluster.write_replica(ReplicaRow(key="a", name="a", url="", position=0))
    cluster.remove_replica(cluster.replicas()[0])
    cluster.prune(row.number + 1)
    cluster.release(row.term)
    cluster.close()
    PostgresStore(url).close()
    expected = setting if setting == "remote_apply" else "on"
    assert sql(url, "SELECT DISTINCT name, setting FROM settings ORDER BY name") == [
        (table, expected) for table in sorted(WRITTEN)
    ]
