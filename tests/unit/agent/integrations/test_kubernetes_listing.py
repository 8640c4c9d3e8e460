"""A webhook that lists the pods on its node."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.making import make_workers
from forewarn.agent.handlers.port import Ground, Worker
from forewarn.agent.handlers.records import RunRecords
from forewarn.agent.integrations.kubernetes.listing import PODS_MAX
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.agent.settings_model import HandlerSettings
from forewarn.clock import VirtualClock
from tests.support.agent_journals import START
from tests.support.fake_kubernetes import Right, serving
from tests.support.kubernetes_workers import Cluster, kubeconfig
from tests.support.receivers import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    clock = VirtualClock(START)
    with serving(clock) as fake:
        fake.add_node("web-0")
        yield Cluster(fake, clock, tmp_path)


def webhook(cluster: Cluster, receiver: Receiver, **more: Any) -> Worker:
    file = cluster.directory / "kubeconfig"
    file.write_text(kubeconfig(cluster.fake.url), encoding="utf-8")
    file.chmod(0o600)
    keys: dict[str, Any] = {"pods": True, "pods_kubeconfig": str(file), **more}
    settings = HandlerSettings(
        name="tell", kind="webhook", prepare=(receiver.url,), **keys
    )
    ground = Ground(
        records=RunRecords(cluster.directory / "runs"),
        environment={"NODE_NAME": "web-0"},
        clock=cluster.clock,
    )
    return make_workers([settings], ground)["tell"]


def prepare(cluster: Cluster, worker: Worker) -> str:
    job = cluster.job(Phase.PREPARE, None, name="tell")
    return worker.prepare(job, cluster.context_of(job)).detail


def test_default_body_lists_the_running_workload_pods(
    cluster: Cluster, receiver: Receiver
) -> None:
    fake = cluster.fake
    fake.add_pod("web-2")
    fake.add_pod("web-1")
    fake.add_pod("alone", owner="")
    fake.add_pod("proxy", owner="DaemonSet")
    fake.add_pod("done", owner="Job", phase="Succeeded")
    fake.add_pod("elsewhere", "web-1")
    assert prepare(cluster, webhook(cluster, receiver)) == ""
    [came] = receiver.came
    assert json.loads(came.body)["pods"] == ["shop/alone", "shop/web-1", "shop/web-2"]
    # Nothing was done to them.
    assert {request.method for request in fake.came} == {"GET"}


def test_template_placeholder_contains_the_pods_as_text(
    cluster: Cluster, receiver: Receiver
) -> None:
    cluster.fake.add_pod("web-1")
    cluster.fake.add_pod("web-2")
    prepare(cluster, webhook(cluster, receiver, body='{"text": "{vm}: {pods}"}'))
    [came] = receiver.came
    assert json.loads(came.body) == {"text": "web_0: shop/web-1, shop/web-2"}


def test_request_is_sent_without_pods_if_they_cannot_be_listed(
    cluster: Cluster, receiver: Receiver
) -> None:
    cluster.fake.allowed = set()
    message = prepare(cluster, webhook(cluster, receiver))
    assert message.startswith("sent without the pods: ")
    assert "cannot list" in message
    [came] = receiver.came
    assert json.loads(came.body)["pods"] is None


def test_pods_are_listed_once_for_all_retries(
    cluster: Cluster, receiver: Receiver
) -> None:
    receiver.script = [503, 503]
    prepare(cluster, webhook(cluster, receiver))
    assert len(receiver.came) == 3
    assert len(cluster.fake.came) == 1


def test_number_of_listed_pods_is_limited(cluster: Cluster, receiver: Receiver) -> None:
    for number in range(PODS_MAX + 10):
        cluster.fake.add_pod(f"web-{number}")
    prepare(cluster, webhook(cluster, receiver))
    [came] = receiver.came
    assert len(json.loads(came.body)["pods"]) == PODS_MAX


def test_check_reports_why_pods_cannot_be_listed(
    cluster: Cluster, receiver: Receiver
) -> None:
    worker = webhook(cluster, receiver, body='{"text": "{pods}"}')
    assert not worker.check()
    cluster.fake.allowed = {Right("get", "", "nodes")}
    [fault] = worker.check()
    assert fault.startswith("the pods: ")
    assert "cannot list" in fault


def test_pods_placeholder_is_unknown_if_pods_are_disabled(
    cluster: Cluster, receiver: Receiver
) -> None:
    worker = webhook(cluster, receiver, pods=False, body='{"text": "{pods}"}')
    assert worker.check() == ("the body has an unknown placeholder {pods}",)
    assert not cluster.fake.came


def test_pod_settings_without_pods_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(
        '[[handler]]\nname = "tell"\nkind = "webhook"\nprepare = "http://h"\n'
        'pods_node = "web-0"\n',
        encoding="utf-8",
    )
    with pytest.raises(AgentSettingsError, match="with pods = true"):
        load_settings(file=str(file), environ={}, flags={})


@pytest.mark.parametrize(
    "said",
    [
        [],
        {"kind": "PodList", "metadata": {}},
        {"kind": "Status", "status": "Failure", "message": "no etcd"},
        {"kind": "PodList", "items": [{"metadata": {"name": "web-1"}}]},
    ],
)
def test_invalid_list_of_pods_is_sent_as_null(
    cluster: Cluster, receiver: Receiver, said: Any
) -> None:
    cluster.fake.add_pod("web-1")
    cluster.fake.answer = lambda request: (200, said)
    message = prepare(cluster, webhook(cluster, receiver))
    assert message.startswith(
        "sent without the pods: GET /api/v1/pods was answered 200"
    )
    [came] = receiver.came
    assert json.loads(came.body)["pods"] is None
