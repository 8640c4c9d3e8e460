"""What `cluster show` says of a real synchronous standby."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from forewarn.cluster.port import StandbyState
from forewarn.service.cluster.postgres import PostgresBackend
from forewarn.store.postgres.cluster import PostgresCluster
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
