"""A real agent at a node: it drains before it approves, and opens the node again."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import Stage
from forewarn.clock import SystemClock
from tests.support.agents import Ground
from tests.support.fake_kubernetes import Budget, FakeKubernetes, serving
from tests.support.kubernetes_workers import kubeconfig
from tests.support.processes import eventually
from tests.support.recipes import integration_settings

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def fake() -> Iterator[FakeKubernetes]:
    with serving(SystemClock()) as new_cluster:
        new_cluster.add_node("web-0")
        yield new_cluster


@pytest.mark.clause("8.3", "8.5")
def test_node_is_drained_before_the_approval_and_uncordoned_after_it(
    still_place: Ground, fake: FakeKubernetes, tmp_path: Path
) -> None:
    fake.add_pod("proxy", owner="DaemonSet")
    fake.add_pod("web-1", labels={"app": "web"})
    fake.budgets.append(Budget("web", "shop", {"app": "web"}, 1))
    directory = tmp_path / "web_0"
    directory.mkdir()
    file = directory / "kubeconfig"
    file.write_text(kubeconfig(fake.url), encoding="utf-8")
    file.chmod(0o600)
    settings = integration_settings(
        "kubernetes", node="web-0", kubeconfig="DIRECTORY/kubeconfig"
    )
    agent = still_place.agent(settings=settings).wait_ready()
    assert "ok   handler node: no problem found" in agent.command("check").stdout

    event = still_place.event()
    eventually(lambda: fake.asked("POST", "eviction"), bool, what="an eviction")
    # The budget holds it, and the agent holds the approval.
    assert fake.node()["spec"]["unschedulable"] is True
    assert still_place.approvals(event) == []
    fake.budgets.clear()
    still_place.wait_approved(event, "web_0")
    assert fake.names() == ["proxy"]
    [condition] = fake.conditions("ForewarnMaintenance")
    assert (condition["status"], condition["reason"]) == ("True", "RebootScheduled")

    still_place.move(event, "removed")
    agent.wait_stage(event, Stage.FINISHED)
    spec: dict[str, Any] = fake.node()["spec"]
    assert spec == {}
    assert condition["status"] == "False"
    assert [event["reason"] for event in fake.events.values()] == [
        "RebootScheduled",
        "RebootOver",
    ]


@pytest.mark.clause("8.8")
def test_node_with_a_lost_disk_is_uncordoned(
    still_place: Ground, fake: FakeKubernetes, tmp_path: Path
) -> None:
    """As after a Redeploy: the agent is a new one, and the node's mark says the rest."""
    directory = tmp_path / "web_0"
    directory.mkdir()
    file = directory / "kubeconfig"
    file.write_text(kubeconfig(fake.url), encoding="utf-8")
    file.chmod(0o600)
    settings = integration_settings(
        "kubernetes", node="web-0", kubeconfig="DIRECTORY/kubeconfig"
    )
    assert "always" not in settings
    agent = still_place.agent(settings=settings).wait_ready()
    event = still_place.event("Redeploy")
    still_place.wait_approved(event, "web_0")
    assert fake.node()["spec"]["unschedulable"] is True
    agent.kill()
    for path in sorted(directory.glob("agent.db*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    still_place.move(event, "removed")
    agent.again()
    eventually(
        lambda: fake.node()["spec"], lambda spec: spec == {}, what="an end of it"
    )
    agent.wait(lambda agent: not agent.memory().lost_journal)
