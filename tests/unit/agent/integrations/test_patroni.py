"""Handing PostgreSQL's lead over: to whom, when not, and back again."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.port import Worker
from forewarn.agent.handlers.run_context import (
    HandlerError,
    LostError,
    StoppedError,
    TimeUpError,
)
from forewarn.agent.integrations import patroni as patroni_worker
from forewarn.agent.integrations.api import ApiError
from forewarn.instants import HOUR, MILLISECOND, MINUTE, SECOND, format_instant
from tests.support.agent_journals import notice_of
from tests.support.fake_patroni import FakePatroni, serving
from tests.support.jobs import CLOCK, context, job_of, prepare, recover, worker_of


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


def test_leader_switches_over_and_stays_a_replica(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    handler = worker(cluster, tmp_path)
    assert prepare(handler) == "pg2 leads instead of pg1"
    assert cluster.posts == [{"leader": "pg1", "candidate": "pg2"}]
    # It has waited for all of it: the old leader runs as a replica.
    assert cluster.steps == []
    assert recover(handler) == "pg2 stays the leader"
    assert recover(handler) == "this handler had not switched over"
    assert cluster.leader() == "pg2"


def test_a_replica_has_nothing_to_do(cluster: FakePatroni, tmp_path: Path) -> None:
    cluster.me = "pg2"
    cluster.is_paused = True
    cluster.set("pg2", state="stopped")
    handler = worker(cluster, tmp_path, switch_back=True)
    assert prepare(handler) == "nothing to do: pg1 leads, not pg2"
    assert recover(handler) == "this handler had not switched over"
    assert cluster.posts == []


def test_overlapping_events_switch_over_and_back_once(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    handler = worker(cluster, tmp_path, switch_back=True)
    prepare(handler)
    assert prepare(handler) == "pg2 leads instead of pg1"
    assert recover(handler) == "pg1 is the leader again"
    assert cluster.posts == [
        {"leader": "pg1", "candidate": "pg2"},
        {"leader": "pg2", "candidate": "pg1"},
    ]
    assert recover(handler) == "this handler had not switched over"


# -- when not -----------------------------------------------------------------------


def test_paused_cluster_is_not_changed(cluster: FakePatroni, tmp_path: Path) -> None:
    cluster.is_paused = True
    handler = worker(cluster, tmp_path, switch_back=True)
    with pytest.raises(HandlerError) as raised:
        prepare(handler)
    assert raised.value.message == (
        "the cluster demo is paused, so it is not changed: run patronictl resume"
    )
    assert cluster.posts == []
    cluster.is_paused = False
    prepare(handler)
    cluster.is_paused = True
    with pytest.raises(HandlerError, match="is paused"):
        recover(handler)
    cluster.is_paused = False
    assert recover(handler) == "pg1 is the leader again"


def test_paused_cluster_is_no_error_with_the_leave_option(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    cluster.is_paused = True
    handler = worker(cluster, tmp_path, switch_back=True, paused="leave")
    assert handler.check() == []
    assert prepare(handler) == "not changed: the cluster demo is paused, and pg1 leads"
    assert recover(handler) == "this handler had not switched over"
    cluster.is_paused = False
    prepare(handler)
    cluster.is_paused = True
    assert recover(handler) == "not changed: the cluster demo is paused, and pg2 leads"
    assert cluster.posts == [{"leader": "pg1", "candidate": "pg2"}]


def at(micros: int) -> str:
    return format_instant(CLOCK.now() // SECOND * SECOND + micros)


def test_switchover_scheduled_for_later_is_not_replaced(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    cluster.plan = {"at": at(HOUR), "from": "pg1", "to": "pg3"}
    with pytest.raises(HandlerError, match="a switchover to pg3 is scheduled for"):
        prepare(worker(cluster, tmp_path))
    assert cluster.posts == []
    handler = worker(cluster, tmp_path, replace_scheduled=True, switch_back=True)
    assert prepare(handler).startswith("pg2 ")
    cluster.plan = {"at": "soon"}
    handler = worker(cluster, tmp_path, switch_back=True)
    with pytest.raises(HandlerError, match="a switchover is scheduled for soon"):
        recover(handler)


def test_switchover_scheduled_soon_is_waited_for(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    def happen() -> None:
        cluster.plan = {}
        cluster.lead("pg3")

    cluster.plan = {"at": at(10 * SECOND), "from": "pg1", "to": "pg3"}
    cluster.steps = [*[lambda: None] * 30, happen]
    handler = worker(cluster, tmp_path, candidate_wait=0, switch_back=True)
    assert prepare(handler) == "nothing to do: pg3 leads, not pg1"
    assert cluster.posts == []
    # It was not handed over by us, so it is not taken back.
    assert recover(handler) == "this handler had not switched over"


def test_scheduled_switchover_to_this_member_is_reported(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    cluster.me = "pg2"
    cluster.plan = {"at": at(30 * MINUTE), "from": "pg1", "to": "pg2"}
    handler = worker(cluster, tmp_path)
    with pytest.raises(HandlerError, match="a switchover to this member is scheduled"):
        prepare(handler)
    cluster.plan["at"] = at(2 * HOUR)
    assert prepare(handler).startswith("nothing to do")


def test_a_cluster_without_a_leader_is_waited_for(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    cluster.unlock()
    handler = worker(cluster, tmp_path)
    with pytest.raises(HandlerError, match="the cluster has no leader"):
        prepare(handler)
    cluster.steps = [lambda: None, lambda: cluster.lead("pg2")]
    patient = worker(cluster, tmp_path, candidate_wait=10 * SECOND)
    assert prepare(patient) == "nothing to do: pg2 leads, not pg1"


# -- what Patroni refuses -----------------------------------------------------------


def test_temporary_refusal_is_retried(cluster: FakePatroni, tmp_path: Path) -> None:
    cluster.refusals = [(503, "Switchover failed"), (412, "leader name does not match")]
    handler = worker(cluster, tmp_path, candidate_wait=10 * SECOND)
    assert prepare(handler).startswith("pg2 ")
    assert len(cluster.posts) == 3


def test_permanent_refusal_is_reported(cluster: FakePatroni, tmp_path: Path) -> None:
    cluster.refusals = [(503, "failed to write failover key into DCS")] * 1000
    with pytest.raises(HandlerError) as raised:
        prepare(worker(cluster, tmp_path))
    assert raised.value.message == (
        "a switchover to pg2: POST /switchover was answered 503: failed to write "
        "failover key into DCS"
    )
    with pytest.raises(TimeUpError, match="a switchover to pg2: "):
        prepare(worker(cluster, tmp_path, candidate_wait=MINUTE), looks=6)


def test_a_request_that_is_wrong_is_not_repeated(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    cluster.refusals = [(400, "no")]
    with pytest.raises(ApiError, match="was answered 400: no"):
        prepare(worker(cluster, tmp_path))
    assert len(cluster.posts) == 1


def test_lost_answer_is_resolved_from_the_cluster_state(
    cluster: FakePatroni, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patroni_worker, "ORDER_SECONDS", 0.1)
    cluster.refusals = [(0, "")]
    assert prepare(worker(cluster, tmp_path, candidate_wait=0)).startswith("pg2 ")
    assert len(cluster.posts) == 1


def test_member_other_than_the_candidate_may_become_leader(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    switch = cluster.switch
    cluster.switch = lambda leader, _: switch(leader, "pg3")  # pyright: ignore[reportAttributeAccessIssue]
    handler = worker(cluster, tmp_path, switch_back=True)
    assert prepare(handler) == "pg3 leads instead of pg1"
    cluster.switch = switch
    assert recover(handler) == "pg1 is the leader again"


def test_unfinished_switchover_is_reported(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    handler = worker(cluster, tmp_path)

    def stuck(leader: str, candidate: str) -> None:
        cluster.set(leader, role="replica", state="start failed")
        cluster.set(candidate, role="leader", state="running")

    cluster.switch = stuck
    with pytest.raises(TimeUpError, match="pg2 leads, but pg1 is start failed"):
        prepare(handler, looks=6)
    # It was handed over nevertheless, and the next attempt waits for the rest of it.
    with pytest.raises(TimeUpError, match="pg2 leads, but pg1 is start failed"):
        prepare(handler, looks=6)
    del cluster.members["pg1"]
    with pytest.raises(TimeUpError, match="the cluster has no member pg1"):
        prepare(handler, looks=6)
    assert len(cluster.posts) == 1


def test_hanging_promotion_is_reported(cluster: FakePatroni, tmp_path: Path) -> None:
    def half(leader: str, candidate: str) -> None:
        cluster.set(leader, role="replica")
        cluster.set(candidate, role="promoted", state="running")

    cluster.switch = half
    with pytest.raises(TimeUpError, match="pg2 is being promoted"):
        prepare(worker(cluster, tmp_path), looks=6)


def test_unchanged_leader_is_reported(cluster: FakePatroni, tmp_path: Path) -> None:
    cluster.switch = lambda *_: None  # pyright: ignore[reportAttributeAccessIssue]
    handler = worker(cluster, tmp_path)
    with pytest.raises(TimeUpError, match="the leader has not changed yet"):
        prepare(handler, looks=6)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([], "with no JSON object"),
        ({"status": "ok"}, "is not Patroni"),
    ],
)
def test_answer_not_from_patroni_is_reported(
    cluster: FakePatroni, tmp_path: Path, said: object, why: str
) -> None:
    cluster._patroni = lambda: said  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(HandlerError, match=why):
        prepare(worker(cluster, tmp_path))


def test_answer_without_a_cluster_is_reported(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    cluster._cluster = dict
    with pytest.raises(HandlerError, match="reports no cluster"):
        prepare(worker(cluster, tmp_path))


def test_unavailable_patroni_is_retried_until_the_deadline(tmp_path: Path) -> None:
    with serving(FakePatroni("pg1")) as cluster:
        pass
    with pytest.raises(TimeUpError, match="connection refused"):
        prepare(worker(cluster, tmp_path), looks=6)


def test_removed_event_ends_the_run(cluster: FakePatroni, tmp_path: Path) -> None:
    held = context()
    cluster.switch = lambda *_: held.stop(CLOCK.now())  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(StoppedError, match="the event was removed"):
        worker(cluster, tmp_path).prepare(job_of(), held)


# -- back again ---------------------------------------------------------------------


def test_switch_back_waits_until_this_member_is_healthy(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    handler = worker(cluster, tmp_path, switch_back=True)
    prepare(handler)
    cluster.set("pg1", state="starting")
    cluster.steps = [lambda: None, lambda: cluster.set("pg1", state="streaming")]
    assert recover(handler) == "pg1 is the leader again"
    cluster.lead("pg1")
    prepare(handler)
    cluster.set("pg1", lag=5 << 20)
    with pytest.raises(TimeUpError, match=r"pg1 cannot lead: its lag is 5\.0 MiB"):
        recover(handler, looks=6)
    member = cluster.members.pop("pg1")
    with pytest.raises(TimeUpError, match="the cluster has no member pg1"):
        recover(handler, looks=6)
    cluster.members["pg1"] = {**member, "lag": 0}
    assert recover(handler) == "pg1 is the leader again"


def test_no_switch_back_if_another_member_leads(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    handler = worker(cluster, tmp_path, switch_back=True)
    prepare(handler)
    cluster.lead("pg3")
    assert recover(handler) == (
        "not changed: pg3 leads, which is not the member that took over"
    )
    assert recover(handler) == "this handler had not switched over"


def test_switch_back_waits_for_a_leader(cluster: FakePatroni, tmp_path: Path) -> None:
    handler = worker(cluster, tmp_path, switch_back=True)
    prepare(handler)
    cluster.unlock()
    with pytest.raises(TimeUpError, match="the cluster has no leader"):
        recover(handler, looks=6)
    cluster.lead("pg1")
    assert recover(handler) == "pg1 is the leader again"


def test_refused_switch_back_is_reported(cluster: FakePatroni, tmp_path: Path) -> None:
    handler = worker(cluster, tmp_path, switch_back=True)
    prepare(handler)
    cluster.refusals = [(503, "Switchover status unknown")] * 1000
    with pytest.raises(TimeUpError, match="a switchover to pg1: "):
        recover(handler, looks=6)
    cluster.refusals = []
    assert recover(handler) == "pg1 is the leader again"


def test_switch_back_waits_for_the_promotion(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    handler = worker(cluster, tmp_path, switch_back=True)
    prepare(handler)

    def half(leader: str, candidate: str) -> None:
        cluster.set(leader, role="replica")
        cluster.set(candidate, role="promoted", state="running")

    cluster.switch = half
    with pytest.raises(TimeUpError, match="pg1 is being promoted"):
        recover(handler, looks=6)


# -- who asks, and before it is needed ----------------------------------------------


def test_request_contains_the_configured_password(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    cluster.secret = "admin:geheim"
    with pytest.raises(ApiError, match="was answered 401: no auth header received"):
        prepare(worker(cluster, tmp_path))
    file = tmp_path / "secret"
    handler = worker(cluster, tmp_path, secret_file=str(file))
    with pytest.raises(HandlerError, match="No such file"):
        prepare(handler)
    file.write_text("geheim\n")
    with pytest.raises(HandlerError, match="must have the form USER:PASSWORD"):
        prepare(handler)
    file.write_text("admin:falsch\n")
    with pytest.raises(ApiError, match="401: not authenticated"):
        prepare(handler)
    [problem] = handler.check()
    assert problem.endswith("401: not authenticated; `secret_file` is not valid")
    [problem] = worker(cluster, tmp_path).check()
    assert problem.endswith("401: no auth header received; `secret_file` is required")
    file.write_text("admin:geheim\n")
    assert handler.check() == []
    assert prepare(handler).startswith("pg2 ")
    assert "geheim" not in json.dumps(cluster.posts)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: setattr(c, "is_paused", True), "the cluster demo is paused"),
        (lambda c: setattr(c, "me", "pg9"), "the cluster demo has no member pg9"),
        (
            lambda c: [c.set(n, state="stopped") for n in ("pg2", "pg3")],
            "no member could take over: pg2: its state is stopped; pg3: its state is stopped",
        ),
        (lambda c: setattr(c, "names_itself", False), "set `member`"),
    ],
)
def test_check_reports_what_would_fail(
    cluster: FakePatroni,
    tmp_path: Path,
    change: Callable[[FakePatroni], None],
    why: str,
) -> None:
    handler = worker(cluster, tmp_path)
    assert handler.check() == []
    change(cluster)
    [problem] = handler.check()
    assert why in problem
    assert cluster.posts == []


def test_check_of_a_replica_needs_no_candidate(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    cluster.me = "pg2"
    cluster.set("pg3", state="stopped")
    assert worker(cluster, tmp_path).check() == []


def test_recovery_without_an_event_uses_the_memo(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    handler = worker(cluster, tmp_path, switch_back=True)
    # A preparation can have no event; then no other member is known to be affected.
    handler.prepare(replace(job_of(), notice=None), context())
    job = replace(job_of(Phase.RECOVER), notice=None)
    assert handler.recover(job, context()).detail == "pg1 is the leader again"


def test_run_interrupted_by_an_agent_restart_is_lost(
    cluster: FakePatroni, tmp_path: Path
) -> None:
    with pytest.raises(LostError):
        worker(cluster, tmp_path).resume(job_of(), context())


def test_event_names_the_members_to_avoid() -> None:
    assert "web_1" in notice_of().resources
