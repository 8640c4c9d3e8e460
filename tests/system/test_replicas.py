"""Real replicas and PostgreSQL: the leader is killed or stopped, and another takes over."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from forewarn.clock import SystemClock
from forewarn.store import kinds
from forewarn.store.port import Reader
from forewarn.store.postgres.cluster import PostgresCluster
from tests.support import postgres
from tests.support.unpacked import ROOT

pytestmark = [pytest.mark.system, pytest.mark.slow, postgres.needing_postgres]

FAILOVER_SECONDS = 20.0
"""Far above the lease of 1.5 s, for a busy machine."""

FIRST, SECOND = "leads 2", "leads 3"
"""The terms after that of the store which made the schema."""


class Running:
    """A process of a replica."""

    def __init__(self, url: str, key: str, *more: str) -> None:
        self.process = subprocess.Popen[str](
            [sys.executable, "-m", "tests.support.replica_process", url, key, *more],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """Return its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self) -> None:
        """Continue the process."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def url() -> Iterator[str]:
    with postgres.one_database() as database:
        yield database


@pytest.fixture
def replicas(url: str) -> Iterator[list[Running]]:
    running: list[Running] = []
    yield running
    for replica in running:
        replica.end()


def hosts(url: str) -> set[str]:
    def names(reader: Reader, _moment: object) -> set[str]:
        return {host.name for host in reader.select(kinds.ALL_HOSTS)}

    cluster = PostgresCluster(url)
    host_names = cluster.follow(None, names)
    cluster.close()
    return host_names


def test_another_replica_leads_after_the_leader_was_killed(
    url: str, replicas: list[Running]
) -> None:
    first = Running(url, "a")
    replicas.append(first)
    assert first.line() == FIRST
    assert first.line() == "committed a.0"
    second = Running(url, "b")
    replicas.append(second)
    first.process.kill()
    clock = SystemClock()
    began = clock.monotonic()
    assert second.line() == SECOND
    assert clock.monotonic() - began < FAILOVER_SECONDS
    assert second.line() == "committed b.0"
    assert hosts(url) == {"a.0", "b.0"}


def test_stopped_leader_writes_nothing_when_it_goes_on(
    url: str, replicas: list[Running]
) -> None:
    first = Running(url, "a")
    replicas.append(first)
    assert first.line() == FIRST
    assert first.line() == "committed a.0"
    first.process.send_signal(signal.SIGSTOP)
    second = Running(url, "b")
    replicas.append(second)
    assert second.line() == SECOND
    assert second.line() == "committed b.0"
    first.tell()
    first.process.send_signal(signal.SIGCONT)
    # Its thread finds out by itself, too.
    assert {first.line(), first.line()} == {"refused", "follows"}
    assert hosts(url) == {"a.0", "b.0"}


def test_leader_that_is_stopped_within_a_transaction_does_not_keep_the_lease(
    url: str, replicas: list[Running]
) -> None:
    first = Running(url, "a", "within")
    replicas.append(first)
    assert first.line() == FIRST
    assert first.line() == "within"
    first.process.send_signal(signal.SIGSTOP)
    second = Running(url, "b")
    replicas.append(second)
    assert second.line() == SECOND
    assert second.line() == "committed b.0"
    first.tell()
    first.process.send_signal(signal.SIGCONT)
    assert {first.line(), first.line()} == {"refused", "follows"}
    assert hosts(url) == {"b.0"}
