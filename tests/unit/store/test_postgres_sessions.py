"""The sessions of a store in PostgreSQL: what is set in each, and how long one may idle."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest

from forewarn.cluster.port import LeaseRow, ReplicaRow
from forewarn.fleet.model import Host
from forewarn.store.migrate import Step, load_steps
from forewarn.store.port import LostError
from forewarn.store.postgres import connection as connections
from forewarn.store.postgres import lease, migrate
from forewarn.store.postgres.cluster import PostgresCluster
from forewarn.store.postgres.connection import PostgresConnection
from forewarn.store.postgres.migrate import bring_up_to_date
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


WARNING = "canceling wait for synchronous replication due to user request"


@pytest.mark.parametrize("table", ["lease", "replicas"])
def test_write_that_the_server_confirms_with_a_warning_is_unknown(
    url: str, table: str
) -> None:
    """As that of a session whose wait for the standby was cancelled.

    `tests/real/test_replica_standby.py` cancels such a wait.
    """
    row = ReplicaRow(key="a", name="a", url="", position=0)
    with closing(PostgresCluster(url)) as cluster:
        taken = cluster.take(cluster.lease(), holder="a", url="")
        assert taken is not None
        cluster.write_replica(row)
        sql(
            url,
            "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" RAISE WARNING '{WARNING}'; RETURN NULL; END $$",
        )
        sql(
            url,
            f"CREATE CONSTRAINT TRIGGER warns AFTER INSERT OR UPDATE OR DELETE ON {table}"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION warn()",
        )
        writes: tuple[Callable[[], object], ...] = (
            (lambda: cluster.renew(taken.term), lambda: cluster.release(taken.term))
            if table == "lease"
            else (
                lambda: cluster.write_replica(row),
                lambda: cluster.remove_replica(cluster.replicas()[0]),
            )
        )
        for write in writes:
            with pytest.raises(
                LostError, match="has not confirmed a commit: canceling"
            ):
                write()


# Pauses within transactions

NEXT = Step(
    number=len(load_steps()) + 1,
    name="next",
    sql="ALTER TABLE tenants ADD COLUMN colour TEXT NOT NULL DEFAULT '';",
)
"""A step of the next version."""


def test_candidate_that_is_paused_in_its_takeover_keeps_no_other_one_away(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, other = PostgresCluster(url), PostgresCluster(url)
    free, read = paused.lease(), lease.read
    assert other.lease() == free

    def read_after_a_pause(connection: PostgresConnection) -> LeaseRow:
        monkeypatch.setattr(lease, "read", read)
        # This takeover waits until the server has ended the session of the paused one.
        assert other.take(free, holder="b", url="") is not None
        return read(connection)

    monkeypatch.setattr(connections, "IDLE_MILLISECONDS", 50)
    monkeypatch.setattr(lease, "read", read_after_a_pause)
    with pytest.raises(LostError):
        paused.take(free, holder="a", url="")
    assert paused.lease().holder == "b"
    paused.close()
    other.close()


def test_replica_that_is_paused_in_a_step_of_the_schema_keeps_no_other_one_away(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    do, steps = migrate._do, [*load_steps(), NEXT]
    options = "options=-c%20lock_timeout%3D5s"

    def do_after_a_pause(
        connection: PostgresConnection, sql: Sequence[str], steps: Sequence[Step]
    ) -> None:
        monkeypatch.setattr(migrate, "_do", do)
        with closing(PostgresConnection(f"{url}&{options}")) as other:
            bring_up_to_date(other, url, [*load_steps(), NEXT], ends_term=True)
        do(connection, sql, steps)

    monkeypatch.setattr(connections, "IDLE_MILLISECONDS", 50)
    monkeypatch.setattr(migrate, "_do", do_after_a_pause)
    with closing(PostgresConnection(url)) as paused, pytest.raises(LostError):
        bring_up_to_date(paused, url, steps, ends_term=True)
    assert sql(url, "SELECT max(number) FROM schema_steps") == [(NEXT.number,)]


def test_takeover_waits_for_no_replica_that_looks_at_the_schema(url: str) -> None:
    cluster = PostgresCluster(url)
    row = cluster.take(cluster.lease(), holder="a", url="")
    assert row is not None
    options = "options=-c%20lock_timeout%3D1s"
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (migrate.LOCK,))
        PostgresStore(f"{url}&{options}", term=row.term).close()
    cluster.close()


@pytest.mark.parametrize(
    ("seconds", "wait"), [(0.0, "480ms"), (1.0, "200ms"), (60.0, "1s")]
)
def test_step_waits_for_a_table_for_a_part_of_the_leaders_lease(
    url: str, monkeypatch: pytest.MonkeyPatch, seconds: float, wait: str
) -> None:
    do, waits = migrate._do, list[object]()

    def recording(
        connection: PostgresConnection, sql: Sequence[str], steps: Sequence[Step]
    ) -> None:
        waits.extend(connection.raw("SHOW lock_timeout"))
        do(connection, sql, steps)

    monkeypatch.setattr(migrate, "_do", recording)
    with (
        closing(PostgresCluster(url)) as cluster,
        closing(PostgresConnection(url)) as new,
    ):
        cluster.take(cluster.lease(), holder="a", url="", seconds=seconds)
        bring_up_to_date(new, url, [*load_steps(), NEXT], ends_term=True)
    assert waits == [(wait,)]


def test_step_that_waits_for_a_long_reader_lets_the_leader_renew(url: str) -> None:
    """The replica tries again later, until the reader has ended."""
    steps, cluster = [*load_steps(), NEXT], PostgresCluster(url)
    row = cluster.take(cluster.lease(), holder="a", url="")
    assert row is not None
    options = "options=-c%20statement_timeout%3D5s"
    with closing(PostgresConnection(f"{url}&{options}")) as new:
        with psycopg.connect(url) as reader:
            reader.execute("SELECT * FROM tenants")
            with pytest.raises(LostError, match="another session uses them"):
                bring_up_to_date(new, url, steps, ends_term=True)
            assert cluster.renew(row.term) is not None
        bring_up_to_date(new, url, steps, ends_term=True)
    assert cluster.renew(row.term) is None
    assert sql(url, "SELECT max(number) FROM schema_steps") == [(NEXT.number,)]
    cluster.close()
