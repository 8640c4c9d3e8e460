"""A real synchronous standby: what `cluster show` says of it, and what commits wait for."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from forewarn.cluster.port import LeaseRow, ReplicaRow, StandbyState
from forewarn.fleet.model import Host
from forewarn.service.cluster.postgres import PostgresBackend
from forewarn.store.port import LostError, StoreError
from forewarn.store.postgres.cluster import PostgresCluster
from forewarn.store.postgres.store import PostgresStore
from tests.support.postgres_places import Server, url_of
from tests.support.processes import eventually
from tests.support.unpacked import needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.system,
    needing("postgres", "initdb", "pg_basebackup"),
]


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    """Yield a server, and the place of its standby."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        first, second = Server(directory / "first"), Server(directory / "second")
        first.make()
        first.start()
        yield first, second
        first.stop()


def test_each_state_of_the_standby_is_shown(servers: tuple[Server, Server]) -> None:
    server, standby = servers
    url = url_of([server])
    PostgresBackend(url).prepare().close()
    cluster = PostgresCluster(url)

    def shown() -> StandbyState:
        return cluster.condition().standby

    assert shown() is StandbyState.NOT_SET
    standby.follow(server)
    standby.start()
    with pytest.raises(StoreError, match="is a standby, whose records can be older"):
        PostgresCluster(url_of([standby])).follow(None, lambda _reader, _moment: None)
    # It streams, and no commit waits for it.
    assert shown() is StandbyState.NOT_SET
    server.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
    server.run("SELECT pg_reload_conf()")
    eventually(shown, lambda state: state is StandbyState.STREAMING)
    server.run("CREATE ROLE viewer LOGIN; GRANT SELECT ON feed TO viewer")
    viewer = PostgresCluster(url.replace("user=postgres", "user=viewer"))
    assert viewer.condition().standby is StandbyState.UNKNOWN
    server.run("GRANT pg_read_all_stats TO viewer")
    assert viewer.condition().standby is StandbyState.STREAMING
    viewer.close()
    standby.stop()
    eventually(shown, lambda state: state is StandbyState.MISSING)
    cluster.close()


def led(server: Server, standby: Server) -> tuple[PostgresCluster, LeaseRow]:
    """Let the standby be synchronous, and take the lease; return its row."""
    url = url_of([server])
    PostgresBackend(url).prepare().close()
    standby.follow(server)
    standby.start()
    server.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
    server.run("SELECT pg_reload_conf()")
    cluster = PostgresCluster(url)
    eventually(
        lambda: cluster.condition().standby,
        lambda state: state is StandbyState.STREAMING,
    )
    row = cluster.take(cluster.lease(), holder="a", url="")
    assert row is not None
    return cluster, row


def test_renewal_counts_only_when_the_standby_has_it(
    servers: tuple[Server, Server],
) -> None:
    """After its promotion, the standby would let another replica take the lease sooner."""
    server, standby = servers
    cluster, row = led(server, standby)
    waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    standby.stop()
    writes: tuple[Callable[[], object], ...] = (
        lambda: cluster.renew(row.term),
        lambda: cluster.write_replica(
            ReplicaRow(key="a", name="a", url="", position=0)
        ),
    )
    for write in writes:
        with ThreadPoolExecutor(1) as thread:
            result = thread.submit(write)
            eventually(lambda: server.run(f"SELECT pid {waiting}"), bool)
            server.run(f"SELECT pg_cancel_backend(pid) {waiting}")
            with pytest.raises(LostError, match="has not confirmed a commit"):
                result.result()
    standby.start()
    renewed = cluster.renew(row.term)
    assert renewed is not None
    assert renewed.beat == row.beat + 2
    cluster.close()
    standby.stop()


@pytest.mark.parametrize("how", ["pg_terminate_backend", "pg_cancel_backend"])
def test_no_commit_counts_before_the_standby_has_it(
    servers: tuple[Server, Server], how: str
) -> None:
    """An administrator ends the wait for the standby at this server only."""
    server, standby = servers
    cluster, row = led(server, standby)
    store = PostgresStore(url_of([server]), term=row.term)
    waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"

    def waits() -> bool:
        return bool(server.run(f"SELECT pid {waiting}"))

    standby.stop()
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(store.transact, lambda tx: tx.add(Host(name="h1")))
        eventually(waits, bool)
        server.run(f"SELECT {how}(pid) {waiting}")
        # The records are visible now, although the standby lacks them.
        eventually(lambda: server.run("SELECT name FROM hosts"), bool)
        eventually(waits, bool)
        assert not result.done()
        standby.start()
        assert result.result().name == "h1"
    assert store.number == row.number + 1
    store.close()
    cluster.close()
    standby.stop()
