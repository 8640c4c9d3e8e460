"""Answers of an API server that are believed: objects, pages, changes, NotFound."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handlers.run_context import HandlerError
from forewarn.agent.integrations.kubernetes import answers
from forewarn.agent.integrations.kubernetes.node import ANNOTATION, EXCLUDED
from forewarn.clock import VirtualClock
from tests.support.agent_journals import START
from tests.support.fake_kubernetes import serving
from tests.support.fake_kubernetes_requests import Request, StatusError
from tests.support.kubernetes_workers import Cluster

PODS = "/api/v1/pods"
NODE = "/api/v1/nodes/web-0"

Saying = Callable[[Request, int, Any], tuple[int, Any]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    clock = VirtualClock(START)
    with serving(clock) as fake:
        fake.add_node("web-0")
        yield Cluster(fake, clock, tmp_path)


def saying(cluster: Cluster, say: Saying) -> None:
    """Have something else said than the fake does, which has done it."""
    real = cluster.fake.answer

    def answer(request: Request) -> tuple[int, Any]:
        return say(request, *real(request))

    cluster.fake.answer = answer


# A node


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (200, {"kind": "Status", "status": "Failure"}),
        (200, {"kind": "Node", "metadata": {"name": "web-1"}}),
        (200, {"kind": "Pod", "metadata": {"name": "web-0"}}),
        (200, {"metadata": {"name": "web-0"}}),
        (200, {}),
        (404, "404 page not found"),
        (404, {"kind": "Status", "status": "Failure", "reason": "Unknown"}),
        (404, {"reason": "NotFound"}),
    ],
)
def test_only_a_missing_node_means_nothing_to_undo(
    cluster: Cluster, status: int, said: Any
) -> None:
    worker = cluster.worker()
    cluster.prepare(worker)
    real = cluster.fake.answer
    cluster.fake.answer = lambda request: (status, said)
    for act in (cluster.recover, cluster.prepare):
        with pytest.raises(HandlerError) as raised:
            act(worker)
        assert f"GET {NODE} was answered {status}" in raised.value.message
    cluster.fake.answer = real
    assert cluster.recover(worker).detail == "node web-0 is open"
    assert "unschedulable" not in cluster.fake.node()["spec"]


def test_missing_node_ends_recovery_and_fails_preparation(cluster: Cluster) -> None:
    worker = cluster.worker()
    cluster.prepare(worker)
    del cluster.fake.nodes["web-0"]
    assert cluster.recover(worker).detail == "node web-0 no longer exists"
    with pytest.raises(HandlerError, match=r"^the cluster has no node web-0$"):
        cluster.prepare(worker)


# A change


def without(part: str) -> Saying:
    """Take a part out of each node that is answered, as an admission webhook does."""

    def say(request: Request, status: int, said: Any) -> tuple[int, Any]:
        if request.method != "PATCH" or said.get("kind") != "Node":
            return status, said
        node = copy.deepcopy(said)
        if part == "condition":
            node["status"]["conditions"] = []
        elif part in {"annotations", "labels"}:
            node["metadata"][part] = {}
        else:
            node["spec"].pop(part, None)
        return status, node

    return say


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        ("annotations", f"the annotation {ANNOTATION}"),
        ("labels", f"the label {EXCLUDED}"),
        ("taints", "the taint forewarn/maintenance:NoSchedule"),
        ("unschedulable", "spec.unschedulable"),
    ],
)
def test_change_removed_by_a_webhook_is_reported(
    cluster: Cluster, part: str, missing: str
) -> None:
    saying(cluster, without(part))
    with pytest.raises(HandlerError) as raised:
        cluster.prepare(cluster.worker())
    assert raised.value.message.startswith(
        f"the API server accepted the change of node web-0 without {missing}: does an "
        "admission webhook remove it?"
    )


def test_changes_without_an_annotation_are_undone(cluster: Cluster) -> None:
    """A webhook takes the annotation away, and the cordon and the taint stay."""
    real = cluster.fake.answer
    fail_from = [100]

    def answer(request: Request) -> tuple[int, Any]:
        if request.method == "PATCH" and request.path == NODE:
            request.body["metadata"].pop("annotations", None)
            fail_from[0] -= 1
            if fail_from[0] < 0:
                return 403, StatusError(403, "Forbidden", "no more").body
        return real(request)

    cluster.fake.answer = answer
    theirs = {"key": "gpu", "value": "", "effect": "NoSchedule"}
    cluster.fake.node()["spec"]["taints"] = [theirs]
    with pytest.raises(HandlerError, match=r"The other changes were undone$"):
        cluster.prepare(cluster.worker())
    assert cluster.fake.node()["spec"] == {"taints": [theirs]}
    assert EXCLUDED not in cluster.fake.node()["metadata"].get("labels", {})
    fail_from[0] = 1
    with pytest.raises(HandlerError, match=r"no recovery will undo them: .* no more"):
        cluster.prepare(cluster.worker())
    assert cluster.fake.node()["spec"]["unschedulable"] is True


def test_removed_condition_is_reported(cluster: Cluster) -> None:
    saying(cluster, without("condition"))
    cluster.fake.add_pod("web-1")
    with pytest.raises(HandlerError) as raised:
        cluster.prepare(cluster.worker())
    assert raised.value.message == (
        "the condition ForewarnMaintenance could not be set: it is not in the response: "
        "does an admission webhook remove it?"
    )
    # It holds up no drain.
    assert cluster.fake.names() == []


def test_node_that_stays_closed_is_reported(cluster: Cluster) -> None:
    worker = cluster.worker()
    cluster.prepare(worker)
    closed = copy.deepcopy(cluster.fake.node())

    def say(request: Request, status: int, said: Any) -> tuple[int, Any]:
        is_change = request.method == "PATCH" and request.path == NODE
        return (200, closed) if is_change else (status, said)

    saying(cluster, say)
    with pytest.raises(HandlerError) as raised:
        cluster.recover(worker)
    for part in (ANNOTATION, EXCLUDED, "spec.unschedulable", "forewarn/maintenance:No"):
        assert part in raised.value.message
    # The annotation is there, so it is tried again, and nothing is taken back.
    assert "taken back" not in raised.value.message
    assert "unschedulable" not in cluster.fake.node()["spec"]


def test_additions_by_others_are_ignored(cluster: Cluster) -> None:
    def say(request: Request, status: int, said: Any) -> tuple[int, Any]:
        if request.method == "PATCH" and request.path == NODE:
            theirs = {"key": "gpu", "effect": "NoSchedule"}
            said["spec"].setdefault("taints", []).append(theirs)
            for taint in said["spec"]["taints"]:
                taint["timeAdded"] = "2026-11-21T10:00:00Z"
            said["metadata"]["labels"] = {**said["metadata"].get("labels", {}), "a": ""}
        return status, said

    saying(cluster, say)
    worker = cluster.worker()
    cluster.prepare(worker)
    assert cluster.recover(worker).detail == "node web-0 is open"


# A list


class Pages:
    """Returns lists of pods in pages of one; the test decides when tokens expire."""

    def __init__(self, cluster: Cluster, *, expire: int = 0) -> None:
        self.expire = expire
        """How many tokens have become too old."""
        self.asked = 0
        real = cluster.fake.answer

        def answer(request: Request) -> tuple[int, Any]:
            if request.path != PODS:
                return real(request)
            self.asked += 1
            token = request.query.pop("continue", "")
            if token:
                # As the API has it: the token knows them.
                assert "resourceVersion" not in request.query
                assert "resourceVersionMatch" not in request.query
                if self.expire:
                    self.expire -= 1
                    return 410, StatusError(410, "Expired", "too old").body
            status, whole = real(request)
            first = int(token or "0")
            left = whole["items"][first + 1 :]
            # A first page may well be empty, where all that it would have has gone.
            whole["items"] = whole["items"][first : first + 1]
            if left:
                whole["metadata"]["continue"] = str(first + 1)
            return status, whole

        cluster.fake.answer = answer


def test_pods_of_all_pages_are_evicted(cluster: Cluster) -> None:
    for name in ("web-1", "web-2", "web-3"):
        cluster.fake.add_pod(name)
    pages = Pages(cluster)
    assert "3 pods evicted" in cluster.prepare(cluster.worker()).detail
    assert cluster.fake.names() == []
    assert pages.asked > 3


def test_expired_list_is_restarted(cluster: Cluster) -> None:
    cluster.fake.add_pod("web-1")
    cluster.fake.add_pod("web-2")
    Pages(cluster, expire=answers.RESTARTS_MAX - 1)
    assert "2 pods evicted" in cluster.prepare(cluster.worker()).detail


def test_list_that_keeps_expiring_is_rejected(cluster: Cluster) -> None:
    cluster.fake.add_pod("web-1")
    cluster.fake.add_pod("web-2")
    pages = Pages(cluster, expire=1_000)
    with pytest.raises(HandlerError, match="expired 5 times before its last page"):
        cluster.prepare(cluster.worker())
    assert pages.asked == 2 * answers.RESTARTS_MAX


def test_list_with_too_many_pages_is_rejected(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PAGES_MAX", 3)

    def say(request: Request, status: int, said: Any) -> tuple[int, Any]:
        if request.path == PODS:
            said["metadata"]["continue"] = "on"
        return status, said

    real = cluster.fake.answer
    cluster.fake.answer = lambda request: real(
        replace(request, query=_plain(request.query))
    )
    saying(cluster, say)
    with pytest.raises(HandlerError, match="the list of pods has more than 3 pages"):
        cluster.prepare(cluster.worker())


def _plain(query: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in query.items() if name != "continue"}


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        ({"items": None}, "no list of pods"),
        ({"kind": "Status"}, "no list of pods"),
        ({"items": [None]}, "a pod without name, namespace and uid"),
        ({"items": [{"metadata": {"name": "a", "namespace": "b"}}]}, "a pod without"),
        (
            {"items": [{"metadata": {"name": "a", "namespace": "b", "uid": "c"}}]},
            "a pod of another node than web-0",
        ),
    ],
)
def test_invalid_list_of_pods_is_reported(
    cluster: Cluster, spoilt: dict[str, Any], why: str
) -> None:
    def say(request: Request, status: int, said: Any) -> tuple[int, Any]:
        return status, {**said, **spoilt} if request.path == PODS else said

    saying(cluster, say)
    with pytest.raises(HandlerError) as raised:
        cluster.prepare(cluster.worker())
    assert f"GET {PODS} was answered 200 with {why}" in raised.value.message


def test_unrelated_404_does_not_count_as_an_eviction(cluster: Cluster) -> None:
    cluster.fake.add_pod("web-1")

    def answer(request: Request) -> tuple[int, Any]:
        is_eviction = request.path.endswith("/eviction")
        return (404, "no route") if is_eviction else real(request)

    real = cluster.fake.answer
    cluster.fake.answer = answer
    with pytest.raises(HandlerError, match=r"cannot be evicted: shop/web-1 .* 404"):
        cluster.prepare(cluster.worker())


def test_invalid_access_review_is_reported(cluster: Cluster) -> None:
    def say(request: Request, status: int, said: Any) -> tuple[int, Any]:
        is_review = request.path.endswith("selfsubjectaccessreviews")
        return status, {"kind": "Status"} if is_review else said

    saying(cluster, say)
    (problem,) = cluster.worker().check()
    assert "with no SelfSubjectAccessReview" in problem
