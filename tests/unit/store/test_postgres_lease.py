"""A store without a cluster in a database of replicas, and the other way round."""

import json
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest

from forewarn.cluster.port import LeaseRow, ReplicaRow
from forewarn.cluster.times import LEASE
from forewarn.fleet.model import Host
from forewarn.store import kinds
from forewarn.store.migrate import Step, load_steps, statements
from forewarn.store.port import (
    NotLeaderError,
    Reader,
    StoreBusyError,
    StoreError,
    StoreTooNewError,
    Transaction,
)
from forewarn.store.postgres.cluster import PostgresCluster
from forewarn.store.postgres.connection import PREPARE_AFTER, PostgresConnection
from forewarn.store.postgres.migrate import bring_up_to_date, translated
from forewarn.store.postgres.store import BUSY_SECONDS, PostgresStore
from forewarn.store.snapshot import snapshots_of
from tests.support import postgres
from tests.support.replicas import HandClock

pytestmark = postgres.needing_postgres

NEXT = "ALTER TABLE tenants ADD COLUMN colour TEXT NOT NULL DEFAULT '';"
"""A step of the next version."""


@pytest.fixture
def url() -> Iterator[str]:
    with postgres.lent_databases() as lend:
        yield lend()


@pytest.fixture
def cluster(url: str) -> Iterator[PostgresCluster]:
    new_cluster = PostgresCluster(url)
    yield new_cluster
    new_cluster.close()


def take(cluster: PostgresCluster) -> LeaseRow:
    row = cluster.take(cluster.lease(), holder="a", url="http://a")
    assert row is not None
    return row


def add(store: PostgresStore, name: str) -> int:
    def work(tx: Transaction) -> None:
        tx.add(Host(name=name, capacity=0))

    store.transact(work)
    return store.number


def test_store_is_busy_while_a_replica_renews_its_lease(
    url: str, cluster: PostgresCluster
) -> None:
    row = take(cluster)
    clock = HandClock()

    def pause(seconds: float) -> None:
        clock.advance(seconds)
        cluster.renew(row.term)

    with pytest.raises(StoreBusyError, match="replica a at http://a"):
        PostgresStore(url, clock=clock, pause=pause)
    assert cluster.lease().term == row.term


def test_store_begins_a_term_when_no_replica_renews(
    url: str, cluster: PostgresCluster
) -> None:
    leader = PostgresStore(url, term=take(cluster).term)
    number = add(leader, "h1")
    clock = HandClock()
    began = clock.monotonic()
    store = PostgresStore(url, clock=clock, pause=clock.advance)
    assert clock.monotonic() - began >= LEASE
    with pytest.raises(NotLeaderError):
        add(leader, "h2")
    assert add(store, "h2") == number + 1
    store.close()
    leader.close()


def test_store_waits_for_the_end_of_a_long_lease_that_no_replica_renews(
    url: str, cluster: PostgresCluster
) -> None:
    seconds, clock = BUSY_SECONDS + 1.0, HandClock()
    free = cluster.lease()
    assert cluster.take(free, holder="a", url="http://a", seconds=seconds)
    began = clock.monotonic()
    store = PostgresStore(url, clock=clock, pause=clock.advance)
    assert clock.monotonic() - began >= seconds
    add(store, "h1")
    store.close()


def test_store_does_not_wait_for_a_long_lease_that_a_replica_renews(
    url: str, cluster: PostgresCluster
) -> None:
    seconds, clock = 60.0, HandClock()
    row = cluster.take(cluster.lease(), holder="a", url="http://a", seconds=seconds)
    assert row is not None
    began = clock.monotonic()

    def pause(seconds: float) -> None:
        clock.advance(seconds)
        if clock.monotonic() - began < 1.0:
            cluster.renew(row.term)

    with pytest.raises(StoreBusyError, match="replica a at http://a"):
        PostgresStore(url, clock=clock, pause=pause)
    assert clock.monotonic() - began < seconds
    assert cluster.lease().term == row.term


def test_follower_reads_everything_after_writes_without_a_feed(
    url: str, cluster: PostgresCluster
) -> None:
    store = PostgresStore(url)
    number = add(store, "h1")
    store.close()
    assert cluster.follow(number, lambda _reader, moment: moment.rows) == ()
    leader = PostgresStore(url, term=take(cluster).term)
    assert cluster.follow(number - 1, lambda _reader, moment: moment.rows) is None
    assert cluster.follow(number, lambda _reader, moment: moment.rows) == ()
    assert add(leader, "h2") == number + 1
    rows = cluster.follow(number, lambda _reader, moment: moment.rows)
    assert rows is not None
    assert [row.changes for row in rows] == [(("Host", "h2"),)]
    with pytest.raises(NotLeaderError):
        PostgresStore(url, term=cluster.lease().term - 1)
    leader.close()


def test_connections_that_were_lost_are_made_again(
    url: str, cluster: PostgresCluster
) -> None:
    row = take(cluster)
    cluster.wait(0)
    cluster.follow(None, lambda _reader, _moment: None)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid != pg_backend_pid()"
        )
    cluster.wait(0)
    for _ in range(2):
        try:
            renewed = cluster.renew(row.term)
        except StoreError:
            continue
        assert renewed is not None
    leader = PostgresStore(url, term=row.term)
    cluster.wait(0)
    add(leader, "h1")
    assert cluster.wait(30.0)
    leader.close()


def test_replica_that_takes_over_waits_for_the_database(
    url: str, cluster: PostgresCluster
) -> None:
    row = take(cluster)
    name = urlsplit(url).path[1:]

    def accept(*, is_open: bool) -> None:
        with psycopg.connect(postgres.server(), autocommit=True) as connection:
            connection.execute(
                f"ALTER DATABASE {name} ALLOW_CONNECTIONS {is_open}".encode()
            )

    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        accept(is_open=True)

    accept(is_open=False)
    leader = PostgresStore(url, term=row.term, pause=pause)
    assert len(pauses) == 1
    leader.close()


def test_replica_of_an_old_version_reads_on_and_does_not_lead_after_a_new_column() -> (
    None
):
    with postgres.one_database() as url, closing(PostgresCluster(url)) as old:
        row = take(old)
        leader = PostgresStore(url, term=row.term)
        snapshots = snapshots_of(url)

        def hosts(reader: Reader, *_: object) -> list[Host | None]:
            return [*reader.select(kinds.ALL_HOSTS), reader.get(Host, "h1")]

        add(leader, "h1")
        # Statements are prepared when they run often.
        for _ in range(PREPARE_AFTER + 2):
            assert len(old.follow(None, hosts)) == len(snapshots.read(hosts)) == 2
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "ALTER TABLE hosts ADD COLUMN invented TEXT NOT NULL DEFAULT ''"
            )
            number = load_steps()[-1].number + 1
            connection.execute(
                "INSERT INTO schema_steps VALUES (%s, 'invented')", (number,)
            )
        add(leader, "h2")
        hosts_read = old.follow(None, hosts)
        assert [host.name for host in hosts_read if host] == ["h1", "h2", "h1"]
        assert snapshots.read(hosts) == hosts_read
        with pytest.raises(StoreTooNewError, match="newer forewarn"):
            take(old)
        assert old.lease().term == row.term
        snapshots.close()
        leader.close()


def test_new_version_ends_the_term_of_an_old_leader_with_its_first_step() -> None:
    following = Step(number=len(load_steps()) + 1, name="next", sql=NEXT)
    with postgres.one_database() as url, closing(PostgresCluster(url)) as old:
        row = take(old)
        leader = PostgresStore(url, term=row.term)
        add(leader, "h1")
        with closing(PostgresConnection(url)) as new:
            steps = [*load_steps(), following]
            bring_up_to_date(new, url, steps, ends_term=True)
            bring_up_to_date(new, url, steps, ends_term=True)
        with pytest.raises(NotLeaderError):
            add(leader, "h2")
        assert old.renew(row.term) is None
        lease_row = old.lease()
        assert (lease_row.term, lease_row.holder) == (row.term + 1, row.holder)
        leader.close()


def test_tables_of_an_older_version_get_the_leases_of_replicas() -> None:
    with postgres.one_database() as url, closing(PostgresCluster(url)) as cluster:
        with closing(PostgresConnection(url)) as new:
            new.run("ALTER TABLE replicas DROP COLUMN lease")
            new.run(
                "INSERT INTO replicas (key, name, url, position, beat, role, version)"
                " VALUES ('old', 'old', '', 0, 1, 'Follows', '0.1')"
            )
            bring_up_to_date(new, url, load_steps())
            bring_up_to_date(new, url, load_steps())
        cluster.write_replica(
            ReplicaRow(key="new", name="new", url="", position=0, lease=2.4)
        )
        assert [row.lease for row in cluster.replicas()] == [2.4, None]


def test_upgrade_keeps_the_rest_of_a_half_planned_list() -> None:
    left = [["op-2", "h2"], ["op-3", "h3"]]
    (step,) = (s for s in load_steps() if s.name.endswith("_unplanned_pages.sql"))
    with postgres.one_database() as url:
        with closing(PostgresConnection(url)) as connection:
            # As the version before the step had it.
            connection.run("DROP TABLE unplanned_hosts")
            connection.run("DROP TABLE unplanned_pages")
            connection.run("DROP INDEX requests_unplanned")
            connection.run("ALTER TABLE requests DROP COLUMN hosts_unplanned")
            connection.run("CREATE INDEX requests_unplanned ON requests (request_id)")
            connection.run(
                "INSERT INTO requests (request_id, verb, actor, reason, state, together,"
                " is_rollout, created, revision, at_once, hosts, unplanned) VALUES"
                """ ('ro-1', 'maintain', '{"kind":"operator","name":"alice"}', '',"""
                " 'Open', 0, 1, 1, 0, 1, 3, %s)",
                (json.dumps(left),),
            )
            for statement in statements(step.sql):
                connection.run(translated(statement))
        with closing(PostgresStore(url)) as store:
            (request,) = store.read(lambda r: r.select(kinds.REQUESTS_UNPLANNED))
            pages = store.read(lambda r: r.select(kinds.UNPLANNED_OF_REQUEST, "ro-1"))
            of_host = store.read(lambda r: r.select(kinds.UNPLANNED_OF_HOST, "h3"))
    assert request.hosts_unplanned == len(left)
    assert [[*pair] for page in pages for pair in page.hosts] == left
    assert of_host == pages[1:]
