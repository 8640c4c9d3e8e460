"""The route of the cluster."""

from typing import Any

from starlette.testclient import TestClient

from forewarn.admin import cluster as routes
from forewarn.admin.app import create_app
from forewarn.service.cluster.showing import ALONE, report
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.test_checks import token
from tests.unit.admin.test_description import check
from tests.unit.cluster.test_view import Watcher

PAIR: dict[str, Any] = report(Watcher().look(12, 10), name="b")


class Replicas:
    """Knows two replicas, or none (admin.gateways.ClusterGateway)."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = PAIR

    async def cluster(self) -> dict[str, Any]:
        return self.found


def test_every_member_of_the_answer_is_described() -> None:
    replicas = Replicas()
    app = create_app(LocalGateway(), tokens=None, version="1", replicas=replicas)
    with TestClient(app, base_url="http://127.0.0.1:8200") as client:
        found = client.get("/v1/cluster").json()
        check(found, routes.ClusterShape)
        assert found["leader"] == "a"
        assert found["led_for_seconds"] == 50.0
        for each in found["replicas"]:
            check(each, routes.ReplicaShape)
        assert [each["role"] for each in found["replicas"]] == ["leads", "follows"]
        assert found["replicas"][1]["behind_entries"] == 2
        replicas.found = dict(ALONE)
        check(client.get("/v1/cluster").json(), routes.ClusterShape)
        viewer = token(client, roles=["view"])
        assert client.get("/v1/cluster", headers=viewer).status_code == 200


def test_answer_without_the_database_says_unknown() -> None:
    watcher = Watcher()
    watcher.look(10, 10)
    found = report(watcher.view(9.5), name="b")
    assert (found["leader"], found["term"], found["asked_ago_seconds"]) == (
        None,
        None,
        9.5,
    )
    assert [each["role"] for each in found["replicas"]] == ["unknown", "unknown"]
    assert found["synchronous_standby"] == "unknown"
