"""Pods that leave a node before its VM goes down: which, in what order, and by when."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handlers.run_context import HandlerError, StoppedError, TimeUpError
from forewarn.clock import VirtualClock
from forewarn.instants import SECOND
from tests.support.agent_journals import START
from tests.support.fake_kubernetes import TOKEN, Budget, serving
from tests.support.kubernetes_workers import Cluster

LOCAL: list[Any] = [{"name": "scratch", "emptyDir": {}}]
WEB = {"app": "web"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    clock = VirtualClock(START)
    with serving(clock) as fake:
        fake.add_node("web-0")
        yield Cluster(fake, clock, tmp_path)


def evictions(cluster: Cluster) -> list[str]:
    return [
        request.path.split("/")[-2]
        for request in cluster.fake.asked("POST", "eviction")
    ]


def graces(cluster: Cluster) -> list[int | None]:
    return [
        request.body["deleteOptions"].get("gracePeriodSeconds")
        for request in cluster.fake.asked("POST", "eviction")
    ]


def seconds(cluster: Cluster) -> float:
    """Return how long it has taken, on the cluster's clock."""
    return (cluster.clock.now() - START) / SECOND


def test_drain_waits_until_pods_are_gone(cluster: Cluster) -> None:
    cluster.fake.add_pod("web-1", takes=20)
    cluster.fake.add_pod("web-2")
    cluster.fake.add_pod("elsewhere", "web-1")
    assert (
        cluster.prepare(cluster.worker()).detail
        == "tainted, cordoned, excluded from load balancers, 2 pods evicted"
    )
    assert cluster.fake.names() == []
    assert cluster.fake.names("web-1") == ["elsewhere"]
    assert 20 <= seconds(cluster) < 23
    assert graces(cluster) == [None, None]


def test_daemonset_static_and_finished_pods_are_not_evicted(cluster: Cluster) -> None:
    fake = cluster.fake
    fake.add_pod("agent", owner="DaemonSet")
    fake.add_pod("proxy", owner="DaemonSet")
    fake.add_pod("apiserver", annotations={"kubernetes.io/config.mirror": "hash"})
    fake.add_pod("etcd", owner="Node")
    fake.add_pod("done", owner="Job", phase="Succeeded")
    fake.add_pod("web-1")
    worker = cluster.worker()
    detail = cluster.prepare(worker).detail
    assert detail == (
        "tainted, cordoned, excluded from load balancers, 1 pod evicted, "
        "5 left (2 of a DaemonSet, 1 finished, 2 static)"
    )
    assert evictions(cluster) == ["web-1"]


def test_user_pods_are_evicted_before_system_pods(cluster: Cluster) -> None:
    fake = cluster.fake
    fake.add_pod("dns", namespace="kube-system", takes=3)
    fake.add_pod("mesh", priorityClassName="system-cluster-critical")
    fake.add_pod("web-1", takes=10)
    cluster.prepare(cluster.worker())
    assert evictions(cluster) == ["web-1", "dns", "mesh"]
    assert seconds(cluster) >= 13


def test_system_pods_are_evicted_even_if_user_pods_remain(cluster: Cluster) -> None:
    fake = cluster.fake
    fake.budgets.append(Budget("web", "shop", WEB, 1))
    fake.add_pod("web-1", labels=WEB)
    fake.add_pod("dns", namespace="kube-system")
    with pytest.raises(TimeUpError, match="timed out with 1 pod left: shop/web-1"):
        cluster.prepare(cluster.worker(), seconds=100)
    assert fake.names() == ["web-1"]
    # Asked every five seconds: the 17th time is after 80 of 100.
    assert evictions(cluster).index("dns") == 17


def test_eviction_blocked_by_a_budget_is_retried(cluster: Cluster) -> None:
    fake = cluster.fake
    fake.budgets.append(Budget("web", "shop", WEB, 2))
    fake.add_pod("web-1", labels=WEB, takes=2)
    fake.add_pod("web-2", labels=WEB, takes=2)
    fake.add_pod("web-3", "web-1", labels=WEB)

    worker = cluster.worker()
    real = fake.answer

    def replacing(request: Any) -> tuple[int, Any]:
        # A new pod is ready elsewhere twelve seconds later.
        if seconds(cluster) > 12 and ("shop", "web-4") not in fake.pods:
            fake.add_pod("web-4", "web-1", labels=WEB)
        return real(request)

    fake.answer = replacing
    assert "2 pods evicted" in cluster.prepare(worker).detail
    # One at once, the other asked for every five seconds.
    assert evictions(cluster) == ["web-1", "web-2", "web-2", "web-2", "web-2"]
    assert not fake.asked("DELETE")


def test_budget_that_blocks_until_the_deadline_is_reported(cluster: Cluster) -> None:
    cluster.fake.budgets.append(Budget("web", "shop", WEB, 1))
    cluster.fake.add_pod("web-1", labels=WEB)
    with pytest.raises(TimeUpError) as error:
        cluster.prepare(cluster.worker(), seconds=30)
    assert error.value.message == (
        "timed out with 1 pod left: shop/web-1 (The disruption budget web needs "
        "1 healthy pods and has 1 currently)"
    )
    assert cluster.fake.names() == ["web-1"]


def test_two_budgets_of_one_pod_are_reported(cluster: Cluster) -> None:
    cluster.fake.budgets += [Budget(name, "shop", WEB, 0) for name in ("a", "b")]
    cluster.fake.add_pod("web-1", labels=WEB)
    with pytest.raises(TimeUpError, match="more than one PodDisruptionBudget"):
        cluster.prepare(cluster.worker(), seconds=30)


def test_force_deletes_a_blocked_pod_near_the_deadline(
    cluster: Cluster,
) -> None:
    cluster.fake.budgets.append(Budget("web", "shop", WEB, 1))
    cluster.fake.add_pod("web-1", labels=WEB, takes=60)
    cluster.prepare(cluster.worker(force=True), seconds=120)
    assert 90 <= seconds(cluster) <= 120
    [deleted] = cluster.fake.asked("DELETE")
    assert deleted.body["gracePeriodSeconds"] == 28
    assert deleted.body["preconditions"]["uid"]


def test_force_shortens_the_grace_period_of_a_slow_pod(cluster: Cluster) -> None:
    """A pod was deleted before, with a grace period that exceeds the remaining time."""
    pod = cluster.fake.add_pod("slow", takes=600, terminationGracePeriodSeconds=600)
    cluster.fake._end(pod, {})
    worker = cluster.worker(force=True, force_lead=10 * SECOND)
    assert "1 pod evicted" in cluster.prepare(worker, seconds=60).detail
    assert not evictions(cluster)
    [deleted] = cluster.fake.asked("DELETE")
    assert deleted.body["gracePeriodSeconds"] == 8


def test_forced_deletion_starts_at_half_time_at_the_earliest(cluster: Cluster) -> None:
    cluster.fake.budgets.append(Budget("web", "shop", WEB, 1))
    cluster.fake.add_pod("web-1", labels=WEB)
    cluster.prepare(cluster.worker(force=True), seconds=20)
    assert 10 <= seconds(cluster) <= 13
    assert len(evictions(cluster)) > 1


def test_grace_period_never_exceeds_the_remaining_time(cluster: Cluster) -> None:
    cluster.fake.add_pod("slow", takes=600, terminationGracePeriodSeconds=600)
    cluster.prepare(cluster.worker(), seconds=60)
    assert graces(cluster) == [58]
    cluster.fake.add_pod("quick", terminationGracePeriodSeconds=5)
    cluster.fake.add_pod("slow", takes=600, terminationGracePeriodSeconds=600)
    cluster.prepare(cluster.worker(grace=20 * SECOND), seconds=60)
    assert graces(cluster) == [58, None, 20]
    cluster.fake.add_pod("last", takes=600)
    cluster.prepare(cluster.worker(), seconds=1.5)
    assert graces(cluster)[-1] == 1


def test_stop_ends_the_drain(cluster: Cluster) -> None:
    cluster.fake.add_pod("web-1", takes=25)
    real = cluster.fake.answer

    def stopping(request: Any) -> tuple[int, Any]:
        if seconds(cluster) > 5 and cluster.context is not None:
            cluster.context.stop(0)
        return real(request)

    cluster.fake.answer = stopping
    with pytest.raises(
        StoppedError, match=r"was removed with 1 pod left: shop/web-1 \(end"
    ):
        cluster.prepare(cluster.worker())


def test_pods_with_local_data_or_no_owner_are_kept_by_default(
    cluster: Cluster,
) -> None:
    fake = cluster.fake
    fake.add_pod("cache", volumes=LOCAL)
    fake.add_pod("lonely", owner="")
    fake.add_pod("both", owner="", volumes=LOCAL)
    fake.add_pod("web-1")
    with pytest.raises(HandlerError) as error:
        cluster.prepare(cluster.worker())
    assert error.value.message == (
        "3 pods not evicted because of the settings: "
        "shop/cache (with data in an emptyDir), shop/lonely (without a controller), "
        "shop/both (with data in an emptyDir)"
    )
    # All other pods were still evicted.
    assert fake.names() == ["both", "cache", "lonely"]

    detail = cluster.prepare(
        cluster.worker(empty_dir="leave", bare_pods="leave")
    ).detail
    assert detail.endswith(
        "0 pods evicted, 3 left (1 without a controller, 2 with data in an emptyDir)"
    )
    cluster.prepare(cluster.worker(empty_dir="evict", bare_pods="leave"))
    assert fake.names() == ["both", "lonely"]
    cluster.prepare(cluster.worker(empty_dir="evict", bare_pods="evict"))
    assert fake.names() == []


def test_pod_deleted_by_others_is_awaited(cluster: Cluster) -> None:
    pod = cluster.fake.add_pod("lonely", owner="", takes=10)
    cluster.fake._end(pod, {})
    assert "1 pod evicted" in cluster.prepare(cluster.worker()).detail
    assert seconds(cluster) >= 10
    assert not evictions(cluster)


def test_selector_limits_the_evicted_pods(cluster: Cluster) -> None:
    cluster.fake.add_pod("batch-1", labels={"tier": "batch"})
    cluster.fake.add_pod("web-1", labels=WEB)
    cluster.prepare(cluster.worker(selector="tier!=batch,app=web"))
    assert cluster.fake.names() == ["batch-1"]


def test_a_successor_of_the_same_name_is_another_pod(cluster: Cluster) -> None:
    fake = cluster.fake
    fake.add_pod("db-0", owner="StatefulSet", takes=3)
    real = fake.answer

    def returning(request: Any) -> tuple[int, Any]:
        if "db-0" not in fake.names() and "db-0" not in fake.names("web-1"):
            fake.add_pod("db-0", "web-1", owner="StatefulSet")
        return real(request)

    fake.answer = returning
    assert "1 pod evicted" in cluster.prepare(cluster.worker()).detail
    assert fake.names("web-1") == ["db-0"]


def test_pod_that_arrives_during_the_drain_is_evicted_too(cluster: Cluster) -> None:
    """A pod that keeps returning, since it tolerates every taint, is reported."""
    fake = cluster.fake
    fake.add_pod("web-1")
    real, late = fake.answer, iter(["late-1", "late-2", "late-3", "late-4"])

    def coming(request: Any) -> tuple[int, Any]:
        if not fake.names():
            fake.add_pod(next(late))
        return real(request)

    fake.answer = coming
    detail = cluster.prepare(cluster.worker()).detail
    assert detail.endswith("2 pods evicted, 1 left (1 new in the meantime)")


def test_pod_that_ends_before_its_eviction_counts_as_gone(cluster: Cluster) -> None:
    """A pod ends between list and eviction, and another one takes its name."""
    fake = cluster.fake
    fake.add_pod("web-1")
    fake.add_pod("db-0")
    real = fake.answer

    def vanishing(request: Any) -> tuple[int, Any]:
        if "eviction" in request.path:
            fake.pods.pop(("shop", "web-1"), None)
            fake.pods["shop", "db-0"]["metadata"]["uid"] = "another"
            fake.pods["shop", "db-0"]["spec"]["nodeName"] = "web-1"
        return real(request)

    fake.answer = vanishing
    assert "2 pods evicted" in cluster.prepare(cluster.worker()).detail
    assert fake.names("web-1") == ["db-0"]


def test_pods_of_a_deleted_namespace_are_waited_for(cluster: Cluster) -> None:
    fake = cluster.fake
    pod = fake.add_pod("web-1", takes=8)
    fake.ending_namespaces.add("shop")
    real = fake.answer

    def ending(request: Any) -> tuple[int, Any]:
        if seconds(cluster) > 3 and "deletionTimestamp" not in pod["metadata"]:
            fake._end(pod, {})
        return real(request)

    fake.answer = ending
    assert "1 pod evicted" in cluster.prepare(cluster.worker()).detail
    assert len(evictions(cluster)) == 1


@pytest.mark.parametrize("trouble", [0, 500, 503, 429])
def test_failed_eviction_request_is_retried(cluster: Cluster, trouble: int) -> None:
    cluster.fake.add_pod("web-1")
    real = cluster.fake.answer

    def troubling(request: Any) -> tuple[int, Any]:
        if "eviction" in request.path and seconds(cluster) < 12:
            return trouble, {"message": f"said {trouble}"}
        return real(request)

    if trouble:
        cluster.fake.answer = troubling
    # The sixth request is for the eviction.
    cluster.fake.script = [] if trouble else [*[None] * 5, 0]
    assert "1 pod evicted" in cluster.prepare(cluster.worker()).detail
    assert seconds(cluster) >= (12 if trouble else 5)


def test_temporarily_unavailable_server_is_waited_for(cluster: Cluster) -> None:
    fake = cluster.fake
    fake.add_pod("web-1", takes=20)
    real = fake.answer

    def away(request: Any) -> tuple[int, Any]:
        fake.script = [0] * 4 if 5 < seconds(cluster) < 15 else []
        return real(request)

    fake.answer = away
    assert "1 pod evicted" in cluster.prepare(cluster.worker()).detail


def test_permanent_refusal_is_reported_at_once(cluster: Cluster) -> None:
    fake = cluster.fake
    fake.add_pod("web-1")
    fake.add_pod("web-2", namespace="other", takes=4)
    real = fake.answer

    def refusing(request: Any) -> tuple[int, Any]:
        if "shop" in request.path:
            return 403, {"message": "pods is forbidden"}
        return real(request)

    fake.answer = refusing
    with pytest.raises(HandlerError, match="1 pod cannot be evicted: shop/web-1"):
        cluster.prepare(cluster.worker(force=True))
    assert seconds(cluster) < 10
    assert fake.names() == ["web-1"]
    assert not fake.asked("DELETE")


def test_timeout_during_evictions_is_reported(cluster: Cluster) -> None:
    for number in range(3):
        cluster.fake.add_pod(f"web-{number}", takes=60)
    worker = cluster.worker()
    access, asked = worker._access(), iter(range(100))

    def slow() -> str:
        # From the sixth request on, the first eviction, each takes ten seconds.
        if next(asked) >= 5:
            cluster.clock.advance_to(cluster.clock.now() + 10 * SECOND)
        return TOKEN

    worker._access = lambda: replace(access, token=slow)
    with pytest.raises(TimeUpError, match="with 3 pods left: ") as error:
        cluster.prepare(worker, seconds=20)
    assert error.value.message.count("(ending)") == 2
    assert "shop/web-2 (waiting for the other pods to end first)" in error.value.message


def test_force_does_not_delete_a_pod_twice_if_the_list_is_stale(
    cluster: Cluster,
) -> None:
    """The server's memory does not show yet that a pod is ending."""
    fake = cluster.fake
    fake.budgets.append(Budget("web", "shop", WEB, 1))
    fake.add_pod("web-1", labels=WEB, takes=20)
    real = fake.answer

    def lagging(request: Any) -> tuple[int, Any]:
        status, answer = real(request)
        if request.path.endswith("/pods"):
            for pod in answer["items"]:
                pod["metadata"].pop("deletionTimestamp", None)
        return status, answer

    fake.answer = lagging
    cluster.prepare(cluster.worker(force=True))
    assert len(fake.asked("DELETE")) == 1


def test_error_names_at_most_five_pods(cluster: Cluster) -> None:
    for number in range(8):
        cluster.fake.add_pod(f"web-{number}", owner="")
    with pytest.raises(HandlerError, match=r"8 pods not evicted .* 3 more$"):
        cluster.prepare(cluster.worker())


def test_answer_without_a_list_is_not_an_empty_node(cluster: Cluster) -> None:
    real = cluster.fake.answer

    def strange(request: Any) -> tuple[int, Any]:
        return (200, {}) if request.path.endswith("/pods") else real(request)

    cluster.fake.answer = strange
    with pytest.raises(
        HandlerError, match=r"200 with no list of pods: application/json, \{\}"
    ):
        cluster.prepare(cluster.worker())
