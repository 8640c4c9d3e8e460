"""Marks of a node that others read: its label for load balancers, its conditions."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.run_context import StoppedError
from forewarn.agent.integrations.kubernetes.conditions import ANY_EVENT, PREEMPTION
from forewarn.agent.integrations.kubernetes.node import ANNOTATION, EXCLUDED
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.clock import VirtualClock
from forewarn.instants import SECOND, parse_http_date
from tests.support.agent_journals import START
from tests.support.fake_kubernetes import serving
from tests.support.jobs import VirtualContext
from tests.support.kubernetes_workers import EVENT_ID, Cluster, notice


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    clock = VirtualClock(START)
    with serving(clock) as fake:
        fake.add_node("web-0")
        yield Cluster(fake, clock, tmp_path)


def labels(cluster: Cluster) -> Any:
    return cluster.fake.node()["metadata"].get("labels", {})


def condition(cluster: Cluster, kind: str) -> tuple[str, str, str]:
    [found] = cluster.fake.conditions(kind)
    return found["status"], found["reason"], found["message"]


# Load balancers


def test_node_leaves_load_balancers_before_pods_are_evicted(cluster: Cluster) -> None:
    fake = cluster.fake
    fake.add_pod("web-1")
    worker = cluster.worker()
    cluster.prepare(worker)
    assert labels(cluster) == {EXCLUDED: "true"}
    patch = next(request for request in fake.came if request.method == "PATCH")
    eviction = next(
        request for request in fake.came if request.path.endswith("/eviction")
    )
    assert EXCLUDED in json.dumps(patch.body)
    assert fake.came.index(patch) < fake.came.index(eviction)
    cluster.recover(worker, notice())
    assert labels(cluster) == {}
    assert ANNOTATION not in fake.node()["metadata"]["annotations"]


def test_an_operators_label_stays(cluster: Cluster) -> None:
    cluster.fake.node()["metadata"]["labels"] = {EXCLUDED: "", "zone": "1"}
    worker = cluster.worker(drain=False, exclude=True)
    cluster.prepare(worker)
    cluster.recover(worker, notice())
    assert labels(cluster) == {EXCLUDED: "", "zone": "1"}


def test_the_label_stays_while_another_handler_wants_it(cluster: Cluster) -> None:
    one, two = cluster.worker("one"), cluster.worker("two")
    cluster.prepare(one, name="one")
    cluster.prepare(two, name="two")
    cluster.recover(one, notice(), name="one")
    assert EXCLUDED in labels(cluster)
    cluster.recover(two, notice(), name="two")
    assert EXCLUDED not in labels(cluster)


def test_label_removed_by_others_does_not_fail_recovery(cluster: Cluster) -> None:
    worker = cluster.worker()
    cluster.prepare(worker)
    cluster.fake.node()["metadata"]["labels"].clear()
    assert cluster.recover(worker, notice()).detail == "node web-0 is open"


def test_handler_without_drain_keeps_the_node_in_load_balancers(
    cluster: Cluster,
) -> None:
    cluster.prepare(cluster.worker(drain=False))
    assert labels(cluster) == {}


@pytest.mark.parametrize(
    ("seconds", "waits"),
    [
        pytest.param(600, 30, id="there-is-time"),
        pytest.param(25, 5, id="a-fifth-of-a-preempt"),
    ],
)
def test_eviction_waits_for_load_balancers(
    cluster: Cluster, seconds: int, waits: int
) -> None:
    fake = cluster.fake
    fake.add_pod("web-1")
    worker = cluster.worker(exclude_wait=30 * SECOND)
    cluster.prepare(worker, seconds=seconds)
    assert (cluster.clock.now() - START) / SECOND == pytest.approx(waits, abs=1.5)
    assert fake.names() == []


class Ending(VirtualContext):
    """Its event goes while the handler waits."""

    def sleep(self, seconds: float) -> bool:
        self.stop(START)
        return super().sleep(seconds)


def test_removed_event_ends_the_wait(cluster: Cluster) -> None:
    worker = cluster.worker(exclude_wait=30 * SECOND)
    job = cluster.job(Phase.PREPARE, notice())
    with pytest.raises(StoppedError, match="load balancers"):
        worker.prepare(job, Ending(120, cluster.clock))
    cluster.recover(worker, notice())
    assert labels(cluster) == {}


# The conditions of AKS

KARPENTER_SCHEDULED = re.compile(
    r"Preempt Scheduled: (?P<due>[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} "
    r"\d\d:\d\d:\d\d GMT)\. "
)
"""How the provider of Karpenter for Azure takes the moment from the message."""


def test_condition_has_the_preempt_time_in_karpenter_format(cluster: Cluster) -> None:
    worker = cluster.worker(drain=False, aks_conditions=True)
    due = START + 30 * SECOND
    cluster.prepare(worker, notice("Preempt", not_before=due, duration_seconds=-1))
    status, reason, message = condition(cluster, PREEMPTION)
    assert (status, reason) == ("True", "SpotEvictionIncoming")
    match = KARPENTER_SCHEDULED.match(message)
    assert match is not None
    assert parse_http_date(match["due"]) == due - due % SECOND
    assert message.endswith(f"EventId: {EVENT_ID}")
    assert condition(cluster, ANY_EVENT) == ("True", "VMEventScheduled", message)
    cluster.recover(worker, notice("Preempt"))
    assert condition(cluster, PREEMPTION)[0] == "False"
    assert condition(cluster, ANY_EVENT)[:2] == ("False", "NoVMEventScheduled")
    assert condition(cluster, "ForewarnMaintenance")[0] == "False"


def test_reboot_is_not_marked_as_preemption(cluster: Cluster) -> None:
    worker = cluster.worker(drain=False, aks_conditions=True, condition="")
    cluster.prepare(worker, notice("Reboot"))
    assert not cluster.fake.conditions(PREEMPTION)
    assert condition(cluster, ANY_EVENT)[2].startswith("Reboot Scheduled: ")
    assert not cluster.fake.conditions("ForewarnMaintenance")


@pytest.mark.parametrize(
    ("more", "begins"),
    [
        pytest.param({"not_before": None}, "Preempt Scheduled. ", id="no-moment"),
        pytest.param({"status": "Started"}, "Preempt Started. ", id="started"),
    ],
)
def test_condition_without_a_known_start_time_contains_no_time(
    cluster: Cluster, more: dict[str, Any], begins: str
) -> None:
    """Karpenter's provider takes no moment from a message without a colon."""
    worker = cluster.worker(drain=False, aks_conditions=True)
    cluster.prepare(worker, notice("Preempt", **more))
    assert condition(cluster, PREEMPTION)[2].startswith(begins)


def test_all_conditions_are_set_in_one_request(cluster: Cluster) -> None:
    worker = cluster.worker(drain=False, aks_conditions=True)
    cluster.prepare(worker, notice("Preempt"))
    assert (
        len([request for request in cluster.fake.came if "status" in request.path]) == 1
    )


# The settings


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("exclude = false\nexclude_wait = '5s'", "requires exclude = true"),
        ("drain = false\nexclude_wait = '5s'", "requires exclude = true"),
        ("exclude_wait = '1h'", "at most"),
        (
            "drain = false\ncordon = false\ntaint = ''\ncondition = ''",
            "it does nothing",
        ),
    ],
)
def test_invalid_settings_are_reported(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(
        f'[[handler]]\nname = "node"\nkind = "kubernetes"\n{line}\n'
        '[[rule]]\nhandlers = ["node"]\n',
        encoding="utf-8",
    )
    with pytest.raises(AgentSettingsError, match=told):
        load_settings(file=str(file), environ={}, flags={})
