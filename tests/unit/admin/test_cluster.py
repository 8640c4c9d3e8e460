"""The route of the cluster."""

import dataclasses

from starlette.testclient import TestClient

from forewarn.admin import cluster as routes
from forewarn.admin.app import create_app
from forewarn.cluster.port import Condition, Role, StandbyState
from forewarn.cluster.view import View
from forewarn.reporting.problem import ProblemKind
from forewarn.reporting.replicas import problems, report
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.test_checks import token
from tests.unit.admin.test_description import check
from tests.unit.cluster.test_view import Watcher, row

PAIR = Watcher().look(12, 10)


class Replicas:
    """Knows two replicas, or none (admin.gateways.ClusterGateway)."""

    def __init__(self) -> None:
        self.found: View | None = PAIR

    async def cluster(self) -> View | None:
        return self.found


def test_every_member_of_the_answer_is_described() -> None:
    replicas = Replicas()
    app = create_app(LocalGateway(), tokens=None, version="1", replicas=replicas)
    with TestClient(app, base_url="http://127.0.0.1:8200") as client:
        body = client.get("/v1/cluster").json()
        check(body, routes.ClusterShape)
        assert body["leader"] == "a"
        assert body["led_for_seconds"] == 50.0
        for replica in body["replicas"]:
            check(replica, routes.ReplicaShape)
        assert [replica["role"] for replica in body["replicas"]] == ["leads", "follows"]
        assert body["replicas"][1]["behind_entries"] == 2
        replicas.found = None
        check(client.get("/v1/cluster").json(), routes.ClusterShape)
        viewer = token(client, roles=["view"])
        assert client.get("/v1/cluster", headers=viewer).status_code == 200


def test_answer_without_the_database_says_unknown() -> None:
    watcher = Watcher()
    watcher.look(10, 10)
    status = report(watcher.view(9.5))
    assert (status["leader"], status["term"], status["asked_ago_seconds"]) == (
        None,
        None,
        9.5,
    )
    assert [replica["role"] for replica in status["replicas"]] == ["unknown", "unknown"]
    assert status["synchronous_standby"] is None


def kinds(replicas: Replicas) -> list[str]:
    app = create_app(LocalGateway(), tokens=None, version="1", replicas=replicas)
    with TestClient(app, base_url="http://127.0.0.1:8200") as client:
        shown = client.get("/v1/problems").json()["problems"]
    assert all(problem["actions"] == ["cluster show"] for problem in shown)
    return [problem["kind"] for problem in shown]


def test_problems_of_replicas_need_attention() -> None:
    replicas, watcher = Replicas(), Watcher()
    replicas.found = None
    assert kinds(replicas) == []
    replicas.found = watcher.look(10, 10)
    assert kinds(replicas) == []
    condition = Condition(standby=StandbyState.NOT_SET)
    watcher.watch = dataclasses.replace(watcher.watch, condition=condition)
    lost = row("c", 30, 1, role=Role.BEHIND)
    for _ in range(12):
        replicas.found = watcher.look(12, 10, lost, term=9)
    assert kinds(replicas) == [
        "no-standby",
        "leader-changes",
        "replica-behind",
        "replica-behind",
    ]
    leases = [
        row(name, 12, 1, lease=seconds) for name, seconds in (("d", 3), ("e", 2.4))
    ]
    replicas.found = watcher.look(12, 12, *leases, term=9)
    assert kinds(replicas) == ["no-standby", "leader-changes", "leases-differ"]
    [problem_shown] = (
        problem
        for problem in problems(replicas.found)
        if problem.kind is ProblemKind.LEASES_DIFFER
    )
    assert problem_shown.text == (
        "the replicas have different leases (d 3s, e 2s400ms), so a takeover can take as "
        "long as the longest of them"
    )
    assert report(replicas.found)["leases_differ"]
    replicas.found = watcher.look(12, 12, row("c", 30, 2, role=Role.BEHIND), term=9)
    assert kinds(replicas) == ["database-lost", "no-standby", "leader-changes"]
    replicas.found = watcher.look(12, 12, holder="", term=9)
    assert kinds(replicas)[0] == "no-leader"
    replicas.found = watcher.view(60)
    assert kinds(replicas) == ["no-leader", "leader-changes"]
