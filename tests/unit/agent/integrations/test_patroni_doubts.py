"""The leader, if Patroni reports different states of the cluster and of this node."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handlers.port import Worker
from forewarn.agent.handlers.run_context import HandlerError
from forewarn.agent.integrations import patroni as patroni_worker
from forewarn.instants import MILLISECOND, MINUTE
from tests.support.fake_patroni import FakePatroni, serving
from tests.support.jobs import prepare, worker_of


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patroni_worker, "POLL_SECONDS", 0.005)


@pytest.fixture
def cluster() -> Iterator[FakePatroni]:
    """A cluster that another member leads."""
    with serving(FakePatroni("pg2", "pg1", "pg3", me="pg1")) as fake:
        yield fake


def worker(cluster: FakePatroni, directory: Path, **more: Any) -> Worker:
    options = {"url": cluster.url, "candidate_wait": 30 * MILLISECOND, **more}
    return worker_of("patroni", directory, **options)


def call_itself(cluster: FakePatroni, role: str, state: str = "running") -> None:
    real = FakePatroni._patroni
    cluster._patroni = lambda: {**real(cluster), "role": role, "state": state}


@pytest.mark.parametrize("role", ["primary", "master", "promoted", "standby_leader"])
def test_second_primary_stops_the_switchover(
    cluster: FakePatroni, tmp_path: Path, role: str
) -> None:
    call_itself(cluster, role)
    with pytest.raises(
        HandlerError, match=r"^pg2 leads, but pg1 also reports that it is the primary$"
    ):
        prepare(worker(cluster, tmp_path))
    assert cluster.posts == []


def test_stopped_primary_is_not_the_leader(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    call_itself(cluster, "primary", "stopped")
    assert prepare(worker(cluster, tmp_path)) == "nothing to do: pg2 leads, not pg1"


def test_member_missing_from_the_cluster_is_reported(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    del cluster.members["pg1"]
    with pytest.raises(
        HandlerError, match=r"^pg2 leads, but the cluster has no member pg1$"
    ):
        prepare(worker(cluster, tmp_path))


@pytest.mark.parametrize("state", ["stopped", "crashed", "start failed", ""])
def test_leader_that_is_not_running_is_reported(
    cluster: FakePatroni, tmp_path: Path, state: str
) -> None:
    cluster.set("pg2", state=state)
    with pytest.raises(HandlerError) as raised:
        prepare(worker(cluster, tmp_path))
    assert raised.value.message == f"pg2 leads, but its state is {state or 'unknown'}"


def test_two_leaders_are_reported(cluster: FakePatroni, tmp_path: Path) -> None:
    cluster.set("pg3", role="leader", state="running")
    with pytest.raises(HandlerError, match=r"^pg2 and pg3 lead at the same time$"):
        prepare(worker(cluster, tmp_path))


def test_temporary_disagreement_is_waited_for(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    """As in a failover that is nearly over."""
    cluster.set("pg2", role="promoted", state="starting")
    call_itself(cluster, "primary")
    cluster.steps = [
        lambda: None,
        lambda: cluster.lead("pg2"),
        lambda: call_itself(cluster, "replica"),
    ]
    handler = worker(cluster, tmp_path, candidate_wait=MINUTE)
    assert prepare(handler) == "nothing to do: pg2 leads, not pg1"
    assert cluster.steps == []
