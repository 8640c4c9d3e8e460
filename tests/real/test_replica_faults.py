"""Two replicas under load, while their database or the network between them fails.

After each fault everything continues without a restart of ours, and the answers that
clients and the reader got are compared with the database.
"""

import os
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from forewarn.instants import SECOND
from tests.support.namespaces import no_namespaces
from tests.support.postgres_places import Server, url_of
from tests.support.processes import eventually
from tests.support.relay_hosts import Machine
from tests.support.unpacked import needing
from tests.system.replica_pair import LEASE_SECONDS, NAMES, Pair

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.system,
    needing("postgres", "initdb", "pg_basebackup"),
]

LOAD_SECONDS = 3.0
"""Load before and after a fault."""

LONG_SECONDS = 3.0
"""A fault that outlasts the lease many times, and not the patience of a service."""

GAP_SECONDS = 5.0
"""The read lease: while the database answers, no VM is without a document for longer."""

OFFSETS = (-3600.0, -20.0, 20.0, 3600.0)
"""Steps of the wall clock of one machine, in seconds."""


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a directory that the user who runs PostgreSQL can reach."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


@pytest.fixture
def server(place: Path) -> Iterator[Server]:
    new_server = Server(place / "first", fsync="on")
    new_server.make()
    new_server.start()
    yield new_server
    new_server.stop()


@contextmanager
def loaded(pair: Pair) -> Generator[Pair]:
    """Run a pair under load; at the end, judge it."""
    try:
        pair.begin()
        pause(LOAD_SECONDS)
        yield pair
        pause(LOAD_SECONDS)
        pair.part()
        pair.end()
        assert pair.approvals()
        assert not pair.ended, "a replica was started again"
    finally:
        pair.close()


@contextmanager
def followed(server: Server, place: Path) -> Generator[Server]:
    """Run a standby for which each commit of the server waits."""
    server.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
    standby = Server(place / "second", fsync="on")
    standby.follow(server)
    standby.start()
    try:
        server.run("SELECT pg_reload_conf()")
        yield standby
    finally:
        standby.stop()


def test_database_is_restarted(server: Server, tmp_path: Path) -> None:
    with loaded(Pair(url_of([server]), tmp_path / "pair", 1)):
        for seconds in (0.2, LONG_SECONDS):
            server.stop()
            pause(seconds)
            server.start()
            pause(LOAD_SECONDS)


@pytest.mark.long
def test_synchronous_standby_is_promoted(
    server: Server, place: Path, tmp_path: Path
) -> None:
    with followed(server, place) as standby:
        url = url_of([server, standby], target_session_attrs="read-write")
        with loaded(Pair(url, tmp_path / "pair", 1)):
            server.stop()
            # The data of the standby have the setting too, and it has no standby.
            standby.run("ALTER SYSTEM RESET synchronous_standby_names")
            standby.run("SELECT pg_reload_conf(), pg_promote()")


@pytest.mark.long
def test_commits_that_wait_for_a_standby_are_only_late(
    server: Server, place: Path, tmp_path: Path
) -> None:
    with (
        followed(server, place) as standby,
        loaded(Pair(url_of([server]), tmp_path / "pair", 1)),
    ):
        for _ in range(2):
            standby.signal(signal.SIGSTOP)
            pause(LONG_SECONDS)
            standby.signal(signal.SIGCONT)
            pause(LOAD_SECONDS)


SLOW_COMMIT = "2s"
"""How late a commit is answered: longer than the short lease, and shorter than the usual."""

SLOW_SECONDS = 12.0
"""Commits are slow for so long: several usual leases."""


@contextmanager
def slow_commits(server: Server, standby: Server) -> Generator[None]:
    """Answer each commit late, as a standby does that applies it late."""
    standby.run(f"ALTER SYSTEM SET recovery_min_apply_delay = '{SLOW_COMMIT}'")
    standby.run("SELECT pg_reload_conf()")
    server.run("ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
    server.run("SELECT pg_reload_conf()")
    yield
    # The reload runs in no transaction, so it does not wait.
    server.run("ALTER SYSTEM RESET synchronous_commit")
    server.run("SELECT pg_reload_conf()")


@pytest.mark.long
@pytest.mark.parametrize("lease", ["3s", "600ms"])
def test_commits_are_slow(
    server: Server, place: Path, tmp_path: Path, lease: str
) -> None:
    with followed(server, place) as standby:
        # A notice of 15 minutes is 15 seconds, so commits are not too late for approvals.
        settings = {"cluster_lease": lease, "timing_speed": "60"}
        pair = Pair(url_of([server]), tmp_path / "pair", 1, **settings)
        with loaded(pair):
            [(term,)] = server.run("SELECT term FROM lease")
            before = pair.approvals()
            with slow_commits(server, standby):
                pause(SLOW_SECONDS)
                if lease == "3s":
                    eventually(
                        lambda: pair.approvals() > before, bool, what="approvals"
                    )
            if lease == "3s":
                assert server.run("SELECT term FROM lease") == [(term,)]
            eventually(pair.leader, bool, what="a leader")
        assert pair.told["longest"] < GAP_SECONDS


@pytest.mark.long
def test_wall_clocks_are_set(server: Server, tmp_path: Path) -> None:
    pair, rng = Pair(url_of([server]), tmp_path / "pair", 1), Random(1)
    for name in NAMES:
        pair.set_clock(name, 0)
        pair.crowds[name].ahead = round(max(OFFSETS) * SECOND)
    with loaded(pair):
        for _ in range(6):
            pair.set_clock(rng.choice(NAMES), rng.choice(OFFSETS))
            pause(LEASE_SECONDS)
        leader = pair.leader()
        for name in NAMES:
            pair.set_clock(name, max(OFFSETS) if name == leader else min(OFFSETS))
        pause(LEASE_SECONDS * 3)
        for name in NAMES:
            pair.set_clock(name, 0)


CUT = "inet forewarn"
"""The table of nftables with what is cut off."""

DATABASES = {name: f"10.78.0.{at}" for at, name in enumerate(NAMES, 1)}
"""The address at which each replica reaches the database."""

DOORS = {name: f"127.0.9.{at}" for at, name in enumerate(NAMES, 1)}
"""The address at which each replica is reached by the other one only."""


class Network:
    """Two replicas in one network namespace, and their database in another."""

    def __init__(self, place: Path, directory: Path) -> None:
        self.place, self.directory = place, directory
        self.here = Machine(f"fw{os.getpid()}-here")
        self.there = Machine(f"fw{os.getpid()}-there")
        addresses = ",".join(DATABASES.values())
        self.server = Server(place / "first", fsync="on", listen_addresses=addresses)

    def begin(self) -> None:
        """Connect the namespaces, and start the database."""
        self.here.begin()
        self.there.begin()
        self.here.ip(f"link add db type veth peer name app netns {self.there.name}")
        self.here.ip("addr add 10.78.0.9/24 dev db")
        self.here.ip("link set db up")
        for address in DATABASES.values():
            self.there.ip(f"addr add {address}/24 dev app")
        self.there.ip("link set app up")
        self.here.run("nft", f"add table {CUT}")
        hook = "{ type filter hook output priority 0; }"
        self.here.run("nft", f"add chain {CUT} out {hook}")
        self.server.make("10.78.0.0/24")
        self.there.inside(self.server.start)

    def cut(self, address: str) -> None:
        """Drop everything that is sent to an address."""
        self.here.run("nft", f"add rule {CUT} out ip daddr {address} drop")

    def heal(self) -> None:
        """Drop nothing any more."""
        self.here.run("nft", f"flush chain {CUT} out")

    def pair(self) -> Pair:
        """Return the replicas; all that asks them must be inside of `here`."""
        pair = Pair(url_of([self.server]), self.directory, 1)
        pair.space = self.here.name
        for name, place in pair.places.items():
            port = place.metadata.rpartition(":")[2]
            pair.own[name] = {
                "store_url": f"postgresql://postgres@{DATABASES[name]}/postgres",
                "metadata_listen": f"0.0.0.0:{port}",
                "cluster_metadata_url": f"http://{DOORS[name]}:{port}",
            }
        return pair

    def end(self) -> None:
        """Remove everything."""
        self.server.stop()
        self.here.end()
        self.there.end()


@pytest.fixture
def network(place: Path, tmp_path: Path) -> Iterator[Network]:
    new_network = Network(place, tmp_path / "pair")
    try:
        new_network.begin()
        yield new_network
    finally:
        new_network.end()


partitions = pytest.mark.skipif(
    bool(no_namespaces("nft", "list", "ruleset")),
    reason=no_namespaces("nft", "list", "ruleset") or "there are namespaces",
)


@pytest.mark.long
@partitions
def test_leader_is_cut_off_from_the_database(network: Network) -> None:
    def live() -> None:
        with loaded(network.pair()) as pair:
            for _ in range(2):
                leader = eventually(pair.leader, bool)
                [other] = {*NAMES} - {leader}
                network.cut(DATABASES[leader])
                eventually(pair.leader, other.__eq__)
                pause(LONG_SECONDS)
                network.heal()
                pause(LOAD_SECONDS)

    network.here.inside(live)


@partitions
@pytest.mark.long
def test_replicas_are_cut_off_from_each_other(network: Network) -> None:
    def live() -> None:
        with loaded(network.pair()) as pair:
            leader = eventually(pair.leader, bool)
            for address in DOORS.values():
                network.cut(address)
            pause(LONG_SECONDS)
            assert pair.leader() == leader, "no lease was lost"
            network.heal()

    network.here.inside(live)
