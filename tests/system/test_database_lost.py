"""A replica whose database has lost what it has served, and the operator who accepts it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from forewarn.cli import main
from tests.support import postgres
from tests.support.processes import Serving, eventually, http

pytestmark = [pytest.mark.system, pytest.mark.slow, postgres.needing_postgres]

FLEET = (
    '[[host]]\nname = "h1"\n[[vm]]\nname = "web"\nhost = "h1"\nlisten = "127.0.0.1:0"\n'
)


@pytest.fixture
def url() -> Iterator[str]:
    with postgres.one_database(is_empty=True) as database:
        yield database


class Replica:
    """One replica, which is started again and again in one directory."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url, self.directory = url, directory
        self.process: Serving | None = None

    def start(self) -> Serving:
        self.process = Serving(
            self.directory,
            FLEET,
            store_url=self.url,
            cluster_name="a",
            cluster_lease="600ms",
            metadata_listen="127.0.0.1:0",
        ).wait_ready()
        return self.process

    def end(self) -> None:
        if self.process is not None:
            self.process.process.kill()
            self.process.process.wait()


@pytest.fixture
def replica(url: str, tmp_path: Path) -> Iterator[Replica]:
    replica = Replica(url, tmp_path)
    yield replica
    replica.end()


def lose_transactions(url: str) -> None:
    """Do what the promotion of a standby does that lacks the last transactions."""
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE fence SET number = number - 3, fed = number - 3")
        connection.execute("UPDATE lease SET holder = ''")
        connection.execute("DELETE FROM replicas")


def refusal(service: Serving) -> dict[str, Any]:
    """Return the health of a replica when it refuses."""
    return eventually(
        lambda: http(service.urls["operators"] + "/readyz")[1],
        lambda health: "has lost transactions" in str(health),
        what=service.log(),
    )


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_replica_that_is_started_again_does_not_forget_what_it_has_served(
    replica: Replica, url: str, how: str
) -> None:
    service = replica.start()
    service.document("web")
    service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "freeze"})
    served = eventually(lambda: service.document("web"), lambda doc: doc["Events"])
    file = replica.directory / "forewarn.replica"
    with psycopg.connect(url) as connection:
        [(number,)] = connection.execute("SELECT number FROM fence").fetchall()
    if how == "killed":
        # It writes the number once a second.
        eventually(
            lambda: file.read_text() if file.exists() else "",
            lambda text: f"{number}" in text,
        )
        service.kill()
    else:
        assert service.terminate() == 0
    lose_transactions(url)

    service = replica.start()
    assert not refusal(service)["ready"]
    assert http(service.vm_url("web"))[0] == 503
    [shown] = eventually(
        lambda: service.admin("/v1/cluster")["replicas"],
        lambda found: [row["role"] for row in found] == ["refuses"],
    )
    assert shown["name"] == "a"
    assert "accept the loss with" in service.log()
    assert service.terminate() == 0

    assert main(["store", "restored", url]) == 0
    service = replica.start()
    eventually(service.role, "leads".__eq__)
    document = service.document("web")
    assert document["DocumentIncarnation"] > served["DocumentIncarnation"]
    assert service.terminate() == 0
