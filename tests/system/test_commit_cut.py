"""The leader loses its connection while the commit of an approval waits.

The database then commits it, so the leader must carry on from it: call the driver, and
serve the document that the other replica has.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest

from tests.support import postgres
from tests.support.database_proxy import DatabaseProxy
from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow, postgres.needing_postgres]

FLEET = (
    '[[host]]\nname = "h1"\n[[vm]]\nname = "web"\nhost = "h1"\nlisten = "127.0.0.1:0"\n'
)

LOCK = 7
"""An advisory lock: while the test holds it, commits that change an event wait."""

WAIT_AT_COMMITS = f"""
CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared({LOCK}); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER UPDATE ON events
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit()
"""

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    " AND datname = current_database()"
)


@pytest.fixture
def url() -> Iterator[str]:
    with postgres.one_database(is_empty=True) as url:
        yield url


@pytest.fixture
def proxy(url: str) -> Iterator[DatabaseProxy]:
    with TemporaryDirectory() as name:
        proxy = DatabaseProxy(Path(name), url)
        yield proxy
        proxy.close()


@pytest.fixture
def replicas(
    url: str, proxy: DatabaseProxy, tmp_path: Path
) -> Iterator[tuple[Serving, Serving]]:
    """Yield a leader behind the proxy, and a replica that follows it."""
    replicas: list[Serving] = []
    for name, place in (("a", proxy.url), ("b", url)):
        replicas.append(
            Serving(
                tmp_path / name,
                FLEET,
                store_url=place,
                cluster_name=name,
                # So it leads throughout.
                cluster_lease="12s",
                metadata_listen="127.0.0.1:0",
                driver_simulated_freeze="1s",
                timing_recovery="1h",
            ).wait_ready()
        )
    yield replicas[0], replicas[1]
    for replica in replicas:
        replica.process.kill()
        replica.process.wait()


def test_approval_whose_commit_was_cut_off_is_carried_out(
    replicas: tuple[Serving, Serving], url: str, proxy: DatabaseProxy
) -> None:
    leader, other = replicas
    leader.document("web")
    leader.admin("/v1/maintain", {"hosts": ["h1"], "impact": "freeze"})
    [event] = eventually(lambda: leader.document("web")["Events"], bool)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(WAIT_AT_COMMITS.encode())
        connection.execute("SELECT pg_advisory_lock(%s)", (LOCK,))

        def sessions_wait(count: int) -> None:
            eventually(
                lambda: connection.execute(WAITING).fetchone(),
                lambda row: row is not None and row[0] >= count,
                what=f"{count} waits",
            )

        answers: list[int] = []

        def approve() -> None:
            answers.append(leader.approve("web", event["EventId"]))

        approving = threading.Thread(target=approve)
        approving.start()
        sessions_wait(1)
        assert proxy.cut()
        # The leader asks for the outcome, and waits for the end of the commit.
        sessions_wait(2)
        connection.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))
    approving.join()
    assert answers == [200]

    def served() -> list[dict[str, Any]]:
        return [replica.document("web") for replica in (leader, other)]

    def are_right(documents: list[dict[str, Any]]) -> bool:
        [status] = [event["EventStatus"] for event in documents[0]["Events"]]
        return documents[0] == documents[1] and status == "Started"

    eventually(served, are_right)
    # The call was made, and has ended.
    eventually(
        lambda: str(leader.admin("/v1/history?limit=100")),
        lambda history: "driver done" in history,
    )
    assert leader.role() == "leads"
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT term FROM lease").fetchone() == (1,)
