"""To whom PostgreSQL's lead is handed over, and to whom not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handlers.port import Worker
from forewarn.agent.handlers.run_context import HandlerError
from forewarn.agent.integrations import patroni as patroni_worker
from forewarn.instants import MILLISECOND, SECOND
from tests.support.fake_patroni import FakePatroni, serving
from tests.support.jobs import prepare, recover, worker_of


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patroni_worker, "POLL_SECONDS", 0.005)
    monkeypatch.setattr(patroni_worker, "AGAIN_SECONDS", 0.01)


@pytest.fixture
def cluster() -> Iterator[FakePatroni]:
    with serving(FakePatroni("pg1", "pg2", "pg3")) as fake:
        yield fake


def worker(cluster: FakePatroni, tmp_path: Path, **more: Any) -> Worker:
    options = {"url": cluster.url, "candidate_wait": 50 * MILLISECOND, **more}
    return worker_of("patroni", tmp_path, **options)


UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"tags": {"nofailover": True}}, "its tags forbid it"),
    ({"tags": {"failover_priority": 0}}, "its tags forbid it"),
    ({"state": "stopped"}, "its state is stopped"),
    ({"state": ""}, "its state is unknown"),
    ({"state": "in archive recovery"}, "it does not stream"),
    ({"state": "running"}, "it does not stream"),
    ({"lag": 2 << 20}, "its lag is 2.0 MiB"),
    ({"lag": "unknown"}, "its lag is unknown"),
    ({"timeline": 3}, "it is on timeline 3, not 4"),
    ({"name": "web_1"}, "the event affects it too"),
    ({"host": "web_1"}, "the event affects it too"),
]


@pytest.mark.parametrize(("members", "why"), UNFIT)
def test_unfit_member_is_skipped(
    cluster: FakePatroni, tmp_path: Path, members: dict[str, Any], why: str
) -> None:
    cluster.set("pg2", **members)
    handler = worker(cluster, tmp_path)
    assert prepare(handler) == "pg3 leads instead of pg1"
    cluster.lead("pg1")
    cluster.set("pg2", **members)
    cluster.set("pg3", state="crashed")
    name = members.get("name", "pg2")
    with pytest.raises(HandlerError) as raised:
        prepare(handler)
    assert raised.value.message == (
        f"no member can take over: {name}: {why}; pg3: its state is crashed"
    )


def test_member_with_least_lag_and_highest_priority_is_chosen(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    cluster.set("pg2", lag=1000)
    handler = worker(cluster, tmp_path)
    assert prepare(handler).startswith("pg3 ")
    cluster.lead("pg1")
    cluster.set("pg2", tags={"failover_priority": 2})
    assert prepare(handler).startswith("pg2 ")


@pytest.mark.parametrize("mode", [True, "on", "Quorum"])
def test_synchronous_mode_allows_only_synchronous_standbys(
    cluster: FakePatroni, tmp_path: Path, mode: object
) -> None:
    cluster.config = {"synchronous_mode": mode}
    handler = worker(cluster, tmp_path)
    with pytest.raises(HandlerError, match="pg3: it is not a synchronous standby"):
        prepare(handler)
    role = "quorum_standby" if mode == "Quorum" else "sync_standby"
    cluster.set("pg3", role=role)
    assert prepare(handler).startswith("pg3 ")


def test_maximum_lag_comes_from_the_cluster_or_the_settings(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    cluster.config = {"maximum_lag_on_failover": 100}
    cluster.set("pg2", lag=101)
    cluster.set("pg3", lag=101)
    with pytest.raises(HandlerError, match=r"pg2: its lag is 0\.0 MiB"):
        prepare(worker(cluster, tmp_path))
    assert prepare(worker(cluster, tmp_path, lag_max=101)).startswith("pg2 ")
    cluster.lead("pg1")
    # A cluster whose configuration was never written has Patroni's own bound.
    cluster.config = None
    assert prepare(worker(cluster, tmp_path)).startswith("pg2 ")


def test_switchover_waits_for_a_readable_config(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    handler = worker(cluster, tmp_path, switch_back=True)
    cluster.is_config_away = True
    with pytest.raises(HandlerError, match="GET /config was answered 503"):
        prepare(handler)
    assert cluster.posts == []
    cluster.steps = [lambda: setattr(cluster, "is_config_away", False)]
    handler = worker(cluster, tmp_path, switch_back=True, candidate_wait=10 * SECOND)
    assert prepare(handler).startswith("pg2 ")
    cluster.is_config_away = True
    cluster.steps = [
        lambda: None,
        lambda: setattr(cluster, "is_config_away", False),
    ]
    assert recover(handler) == "pg1 is the leader again"


def test_candidates_are_tried_in_the_configured_order(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    handler = worker(cluster, tmp_path, candidates=("pg3", "pg2"))
    assert prepare(handler).startswith("pg3 ")
    cluster.lead("pg1")
    cluster.set("pg3", state="stopped")
    assert prepare(handler).startswith("pg2 ")
    cluster.lead("pg1")
    handler = worker(cluster, tmp_path, candidates=("pg4",))
    with pytest.raises(HandlerError, match="pg4: there is no such member"):
        prepare(handler)


def test_a_cluster_of_one_cannot_switch_over(tmp_path: Path) -> None:
    alone = "there is no other member"
    with (
        serving(FakePatroni("pg1")) as cluster,
        pytest.raises(HandlerError, match=alone),
    ):
        prepare(worker(cluster, tmp_path))


def test_a_replica_that_catches_up_is_waited_for(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    for name in ("pg2", "pg3"):
        cluster.set(name, lag="unknown")
    cluster.steps = [lambda: None, lambda: None, lambda: cluster.set("pg3", lag=5)]
    handler = worker(cluster, tmp_path, candidate_wait=10 * SECOND)
    assert prepare(handler).startswith("pg3 ")


def test_old_patroni_needs_the_member_setting(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    cluster.names_itself = False
    cluster.tells_streams = False
    with pytest.raises(HandlerError, match=r"set `member`"):
        prepare(worker(cluster, tmp_path))
    handler = worker(cluster, tmp_path, member="pg1", switch_back=True)
    assert prepare(handler).startswith("pg2 ")
    assert recover(handler) == "pg1 is the leader again"


def test_leader_of_a_standby_cluster_is_reported(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    cluster.lead("pg1", "standby_leader")
    handler = worker(cluster, tmp_path)
    # The new leader leads the same kind of cluster.
    switch = cluster.switch

    def as_standby(leader: str, candidate: str) -> None:
        switch(leader, candidate)
        cluster.steps = [lambda: cluster.lead(candidate, "standby_leader")]

    cluster.switch = as_standby
    assert prepare(handler) == "pg2 leads instead of pg1, in a standby cluster"
