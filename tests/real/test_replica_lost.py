"""A standby that lacks the last commits is promoted under running replicas.

Commits did not wait for it, so approvals that were answered are lost. No replica serves or
decides from the shortened database before an operator has accepted it.
"""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from forewarn.cli import main
from tests.support.postgres_places import Server, url_of
from tests.support.processes import Serving, eventually, http
from tests.support.unpacked import needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.system,
    needing("postgres", "initdb", "pg_basebackup"),
]

FLEET = (
    '[[host]]\nname = "h1"\n[[vm]]\nname = "web"\nhost = "h1"\nlisten = "127.0.0.1:0"\n'
)

NAMES = ("a", "b")

CALM_SECONDS = 3.0
"""Longer than the lease of 1 s and a round of the follower."""


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


@pytest.fixture
def servers(place: Path) -> Iterator[tuple[Server, Server]]:
    """Yield a server, and a standby for which no commit waits."""
    first, second = Server(place / "first"), Server(place / "second")
    first.make()
    first.start()
    second.follow(first)
    second.start()
    yield first, second
    for server in (first, second):
        server.stop()


class Replicas:
    """Two replicas, and what their VM was served."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url, self.directory = url, directory
        self.running: dict[str, Serving] = {}
        self.incarnations: list[int] = []
        self.is_over = threading.Event()
        self.watcher = threading.Thread(target=self._watch)

    def start(self, name: str) -> Serving:
        self.running[name] = Serving(
            self.directory / name,
            FLEET,
            store_url=self.url,
            cluster_name=name,
            cluster_lease="1s",
            metadata_listen="127.0.0.1:0",
            driver_simulated_freeze="60s",
        ).wait_ready()
        return self.running[name]

    def leader(self) -> Serving:
        for replica in self.running.values():
            with suppress(OSError):
                if replica.role() == "leads":
                    return replica
        raise AssertionError("no replica leads")

    def ask(self, name: str) -> tuple[int, Any]:
        service = self.running[name]
        try:
            return http(service.vm_url("web"))
        except OSError:
            return 0, None

    def _watch(self) -> None:
        """Read the document of the VM at both replicas, again and again."""
        while not self.is_over.wait(0.02):
            for name in tuple(self.running):
                status, document = self.ask(name)
                if status == 200:
                    self.incarnations.append(document["DocumentIncarnation"])

    def end(self) -> None:
        self.is_over.set()
        if self.watcher.is_alive():
            self.watcher.join()
        for replica in self.running.values():
            replica.process.kill()
            replica.process.wait()


@pytest.fixture
def replicas(servers: tuple[Server, Server], tmp_path: Path) -> Iterator[Replicas]:
    url = url_of(servers, target_session_attrs="read-write")
    replicas = Replicas(url, tmp_path)
    yield replicas
    replicas.end()


def roles(service: Serving) -> dict[str, str]:
    shown = service.admin("/v1/cluster")["replicas"]
    return {row["name"]: row["role"] for row in shown}


@pytest.mark.long
def test_standby_that_lacks_commits_is_promoted(
    servers: tuple[Server, Server], replicas: Replicas
) -> None:
    first, standby = servers
    for name in NAMES:
        replicas.start(name)
    leader = eventually(replicas.leader, bool)
    eventually(lambda: replicas.ask("b")[0], (200).__eq__)
    leader.admin("/v1/maintain", {"hosts": ["h1"], "impact": "freeze"})
    [event] = eventually(
        lambda: [replicas.ask(name)[1]["Events"] for name in NAMES],
        all,
    )[0]
    eventually(
        lambda: standby.run("SELECT status FROM events"), bool, what="the replication"
    )
    # From here on, the standby gets nothing.
    standby.stop()
    assert leader.approve("web", event["EventId"]) == 200
    served = [
        eventually(
            lambda name=name: replicas.ask(name)[1],
            lambda found: found["Events"][0]["EventStatus"] == "Started",
        )
        for name in NAMES
    ]
    newest = max(document["DocumentIncarnation"] for document in served)
    replicas.watcher.start()
    first.stop()
    standby.start()
    standby.run("SELECT pg_promote()")

    for name in NAMES:
        shown = eventually(
            lambda name=name: roles(replicas.running[name]),
            lambda shown: {*shown.values()} == {"refuses"} and len(shown) == len(NAMES),
            what=replicas.running[name].log(),
        )
        assert {*shown} == {*NAMES}
    threading.Event().wait(CALM_SECONDS)
    eventually(lambda: [replicas.ask(name)[0] for name in NAMES], [503, 503].__eq__)
    assert standby.run("SELECT status FROM events") == [("Scheduled",)]

    # One that is started again does not lead it either.
    replicas.running["a"].kill()
    again = replicas.start("a")
    eventually(lambda: roles(again), lambda found: found.get("a") == "refuses")
    assert replicas.ask("a")[0] == 503
    replicas.is_over.set()
    replicas.watcher.join()
    assert {*replicas.incarnations} <= {newest}, replicas.incarnations

    for replica in replicas.running.values():
        assert replica.terminate() == 0, replica.log()
    assert main(["store", "restored", replicas.url]) == 0
    for name in NAMES:
        replicas.start(name)
    leader = eventually(replicas.leader, bool)
    for name in NAMES:
        _, document = eventually(
            lambda name=name: replicas.ask(name), lambda found: found[0] == 200
        )
        assert document["DocumentIncarnation"] > newest
    # Its owner approves again.
    assert leader.approve("web", event["EventId"]) == 200
