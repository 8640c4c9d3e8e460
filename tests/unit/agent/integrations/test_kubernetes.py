"""A node is closed before an event, and only the handler that closed it opens it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.run_context import (
    HandlerError,
    LostError,
    StoppedError,
    TimeUpError,
)
from forewarn.agent.integrations.kubernetes.node import ANNOTATION
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.clock import VirtualClock
from forewarn.instants import format_instant
from tests.support.agent_journals import START
from tests.support.fake_kubernetes import Right, serving
from tests.support.kubernetes_workers import EVENT_ID, Cluster, notice

OURS = {"key": "forewarn/maintenance", "value": "Reboot", "effect": "NoSchedule"}
THEIRS = {"key": "gpu", "value": "", "effect": "NoSchedule"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    clock = VirtualClock(START)
    with serving(clock) as fake:
        fake.add_node("web-0", taints=[THEIRS])
        yield Cluster(fake, clock, tmp_path)


def closes(cluster: Cluster, name: str = "node", **more: Any) -> Any:
    return cluster.worker(name, drain=False, **more)


def test_node_is_cordoned_and_uncordoned(cluster: Cluster) -> None:
    worker, node = closes(cluster), cluster.fake.node()
    assert cluster.prepare(worker).detail == "tainted, cordoned"
    assert node["spec"] == {"unschedulable": True, "taints": [THEIRS, OURS]}
    assert json.loads(node["metadata"]["annotations"][ANNOTATION]) == {
        "cordoned": True,
        "handlers": {
            "node": {
                "cordon": True,
                "taints": ["forewarn/maintenance:NoSchedule"],
                "conditions": ["ForewarnMaintenance"],
            }
        },
    }
    assert cluster.recover(worker, notice()).detail == "node web-0 is open"
    assert node["spec"] == {"taints": [THEIRS]}
    assert ANNOTATION not in node["metadata"]["annotations"]


def test_prepare_and_recover_are_idempotent(cluster: Cluster) -> None:
    worker, fake = closes(cluster), cluster.fake
    cluster.prepare(worker)
    first = json.dumps(fake.node()["spec"])
    assert cluster.prepare(worker).detail == "tainted, cordoned"
    assert json.dumps(fake.node()["spec"]) == first
    assert (
        len(
            [request for request in fake.asked("PATCH") if "status" not in request.path]
        )
        == 1
    )
    cluster.recover(worker, notice())
    assert cluster.recover(worker).detail == "nothing had to be undone"
    assert len(fake.events) == 2


def test_an_operators_cordon_stays(cluster: Cluster) -> None:
    node, worker = cluster.fake.node(), closes(cluster)
    node["spec"]["unschedulable"] = True
    cluster.prepare(worker)
    detail = cluster.recover(worker, notice()).detail
    assert detail == "node web-0 stays cordoned, which this handler did not do"
    assert node["spec"] == {"unschedulable": True, "taints": [THEIRS]}


def test_an_operators_taint_stays_as_it_is(cluster: Cluster) -> None:
    node, worker = cluster.fake.node(), closes(cluster, cordon=False)
    by_hand = {**OURS, "value": "by-hand"}
    node["spec"]["taints"] = [by_hand]
    cluster.prepare(worker)
    assert node["spec"]["taints"] == [by_hand]
    cluster.recover(worker, notice())
    assert node["spec"]["taints"] == [by_hand]


def test_undo_by_an_operator_does_not_fail_recovery(cluster: Cluster) -> None:
    node, worker = cluster.fake.node(), closes(cluster)
    cluster.prepare(worker)
    node["spec"] = {"taints": [THEIRS]}
    assert cluster.recover(worker, notice()).detail == "node web-0 is open"
    assert node["spec"] == {"taints": [THEIRS]}
    assert ANNOTATION not in node["metadata"]["annotations"]


def test_recovery_keeps_changes_that_another_handler_needs(cluster: Cluster) -> None:
    """A Freeze only taints, a Reboot closes it all: each undoes what no other wants."""
    node = cluster.fake.node()
    freeze, reboot = closes(cluster, "freeze", cordon=False), closes(cluster)
    cluster.prepare(freeze, notice("Freeze", "E1"), name="freeze")
    assert node["spec"] == {"taints": [THEIRS, {**OURS, "value": "Freeze"}]}
    cluster.prepare(reboot)
    assert node["spec"] == {"unschedulable": True, "taints": [THEIRS, OURS]}
    detail = cluster.recover(freeze, notice("Freeze", "E1"), name="freeze").detail
    assert detail == "node web-0 stays closed for handler node"
    assert node["spec"] == {"unschedulable": True, "taints": [THEIRS, OURS]}
    [condition] = cluster.fake.conditions("ForewarnMaintenance")
    assert condition["status"] == "True"
    cluster.recover(reboot, notice())
    assert node["spec"] == {"taints": [THEIRS]}
    assert condition["status"] == "False"


def test_another_handlers_cordon_is_not_undone(cluster: Cluster) -> None:
    node = cluster.fake.node()
    one, two = closes(cluster, "one"), closes(cluster, "two")
    cluster.prepare(one, name="one")
    cluster.prepare(two, name="two")
    cluster.recover(one, notice(), name="one")
    assert node["spec"]["unschedulable"]
    cluster.recover(two, notice(), name="two")
    assert node["spec"] == {"taints": [THEIRS]}


def test_changes_of_earlier_settings_are_undone_too(cluster: Cluster) -> None:
    node = cluster.fake.node()
    cluster.prepare(closes(cluster, condition="Old", taint="old=x:NoExecute"))
    worker = closes(cluster, cordon=False)
    cluster.prepare(worker)
    assert len(node["spec"]["taints"]) == 3
    cluster.recover(worker, notice())
    assert node["spec"] == {"taints": [THEIRS]}
    assert [condition["status"] for condition in cluster.fake.conditions("Old")] == [
        "False"
    ]


def test_node_changed_by_others_is_read_again(cluster: Cluster) -> None:
    fake = cluster.fake

    def someone(node: dict[str, Any]) -> None:
        node["spec"]["taints"].append({**THEIRS, "key": "new"})

    fake.before_patch = someone
    cluster.prepare(closes(cluster))
    keys = [taint["key"] for taint in fake.node()["spec"]["taints"]]
    assert keys == ["gpu", "new", "forewarn/maintenance"]


def test_overwritten_annotation_undoes_nothing(
    cluster: Cluster,
) -> None:
    node, worker = cluster.fake.node(), closes(cluster)
    cluster.prepare(worker)
    for text in (
        "no JSON",
        '["node"]',
        '{"handlers": {"node": 1, "x": {"taints": 2}}}',
    ):
        node["metadata"]["annotations"][ANNOTATION] = text
        assert cluster.recover(worker, notice()).detail
        assert node["spec"]["unschedulable"]


def test_condition_and_events_describe_the_event(cluster: Cluster) -> None:
    worker, fake = closes(cluster), cluster.fake
    cluster.prepare(worker)
    [condition] = fake.conditions("ForewarnMaintenance")
    text = (
        "Reboot of this VM, not before 2026-11-21T11:00:00Z: "
        "Host is going to be updated."
    )
    since = format_instant(START)
    assert condition == {
        "type": "ForewarnMaintenance",
        "status": "True",
        "reason": "RebootScheduled",
        "message": text,
        "lastHeartbeatTime": since,
        "lastTransitionTime": since,
    }
    cluster.clock.advance_to(START + 90_500_000)
    cluster.prepare(worker, notice(status="Started"))
    [condition] = fake.conditions("ForewarnMaintenance")
    assert condition["reason"] == "RebootStarted"
    assert condition["lastTransitionTime"] == since
    assert condition["lastHeartbeatTime"] == format_instant(START + 90_000_000)
    cluster.recover(worker, notice())
    [condition] = fake.conditions("ForewarnMaintenance")
    assert (condition["status"], condition["reason"]) == ("False", "NoMaintenance")
    scheduled, over = fake.events.values()
    assert scheduled["metadata"]["name"] == f"web-0.{EVENT_ID.lower()}-prepare-node"
    assert scheduled["involvedObject"]["uid"] == "uid-web-0"
    assert (scheduled["reason"], scheduled["type"]) == ("RebootScheduled", "Warning")
    assert scheduled["message"] == text
    assert (over["reason"], over["type"]) == ("RebootOver", "Normal")


@pytest.mark.parametrize(
    ("about", "reason", "value"),
    [
        (notice("Über Nacht!", not_before=None), "berNachtScheduled", "ber-Nacht"),
        (notice("", description=""), "EventScheduled", ""),
        (notice("x" * 300, description="y" * 4000), f"{'x' * 100}", "x" * 63),
    ],
)
def test_unusual_event_texts_become_valid_node_values(
    cluster: Cluster, about: Any, reason: str, value: str
) -> None:
    cluster.prepare(closes(cluster), about)
    [condition] = cluster.fake.conditions("ForewarnMaintenance")
    assert condition["reason"].startswith(reason)
    assert cluster.fake.node()["spec"]["taints"][1]["value"] == value
    assert len(cluster.fake.events) == 1


def test_each_change_can_be_disabled(cluster: Cluster) -> None:
    node, fake = cluster.fake.node(), cluster.fake
    only: dict[str, Any] = {
        "cordon": False,
        "taint": "",
        "condition": "",
        "exclude": False,
        "events": False,
    }
    cluster.prepare(cluster.worker("node", **only))
    assert (node["spec"], node["metadata"]["annotations"]) == ({"taints": [THEIRS]}, {})
    assert not fake.asked("PATCH")
    assert not fake.events
    cluster.prepare(
        closes(cluster, "node", **only | {"taint": "a/b=c:PreferNoSchedule"})
    )
    taint = {"key": "a/b", "value": "c", "effect": "PreferNoSchedule"}
    assert node["spec"] == {"taints": [THEIRS, taint]}
    assert not fake.conditions("ForewarnMaintenance")


def test_recovery_works_after_a_lost_journal(cluster: Cluster) -> None:
    worker = closes(cluster)
    cluster.prepare(worker)
    assert cluster.recover(worker, None).detail == "node web-0 is open"
    assert cluster.recover(worker, None).detail == "nothing had to be undone"
    assert "EventOver" in [event["reason"] for event in cluster.fake.events.values()]


def test_missing_node_fails_prepare_and_not_recovery(cluster: Cluster) -> None:
    worker = closes(cluster)
    del cluster.fake.nodes["web-0"]
    with pytest.raises(HandlerError, match="the cluster has no node web-0"):
        cluster.prepare(worker)
    assert cluster.recover(worker).detail == "node web-0 no longer exists"


@pytest.mark.parametrize("trouble", [0, 500, 503, 429])
def test_unavailable_server_is_retried(cluster: Cluster, trouble: int) -> None:
    worker = closes(cluster)
    cluster.fake.script = [trouble] * 6
    assert cluster.prepare(worker).detail == "tainted, cordoned"
    cluster.fake.script = [trouble] * 2
    assert cluster.recover(worker, notice()).detail == "node web-0 is open"


def test_server_that_stays_unavailable_fails_before_the_deadline(
    cluster: Cluster,
) -> None:
    cluster.fake.is_away = True
    with pytest.raises(TimeUpError, match="timed out while retrying"):
        cluster.prepare(closes(cluster))
    assert cluster.clock.now() <= START + 120_000_000
    assert cluster.context is not None
    cluster.context.stop(0)
    with pytest.raises(StoppedError):
        closes(cluster)._read(
            closes(cluster)._access().api(cluster.clock), cluster.context
        )


def test_lost_answer_does_not_cause_a_second_change(cluster: Cluster) -> None:
    """The patch was taken and its answer lost: the node is read again, and is ours."""
    worker, fake = closes(cluster, events=False), cluster.fake
    real = fake.answer

    def losing(request: Any) -> tuple[int, Any]:
        status, answer = real(request)
        if request.method == "PATCH" and "status" not in request.path:
            fake.answer = real
            return 504, {"message": "lost"}
        return status, answer

    fake.answer = losing
    assert cluster.prepare(worker).detail == "tainted, cordoned"
    assert len(fake.asked("PATCH", "web-0")) == 3
    cluster.recover(worker, notice())
    assert fake.node()["spec"] == {"taints": [THEIRS]}


def allow(cluster: Cluster, *, but: tuple[str, str] = ("", "")) -> None:
    rights = [
        ("get", "nodes"),
        ("patch", "nodes"),
        ("patch", "nodes/status"),
        ("list", "pods"),
        ("create", "pods/eviction"),
        ("delete", "pods"),
        ("create", "events"),
    ]
    cluster.fake.allowed = {
        Right(verb, "", what) for verb, what in rights if (verb, what) != but
    }


@pytest.mark.parametrize(
    ("but", "wrong"),
    [
        (("get", "nodes"), "nodes"),
        (("patch", "nodes"), "nodes"),
        (("patch", "nodes/status"), "nodes/status"),
        (("list", "pods"), "pods"),
    ],
)
def test_missing_permission_withholds_the_approval(
    cluster: Cluster, but: tuple[str, str], wrong: str
) -> None:
    allow(cluster, but=but)
    worker = cluster.worker(force=True)
    with pytest.raises(HandlerError, match=f'cannot {but[0]} resource "{wrong}"'):
        cluster.prepare(worker)
    [fault] = worker.check()
    assert fault.endswith(f"may not {but[0]} {wrong}: add it to the role")


def test_forbidden_event_creation_does_not_fail_the_run(cluster: Cluster) -> None:
    allow(cluster, but=("create", "events"))
    worker = closes(cluster)
    assert "no Event: POST" in cluster.prepare(worker).detail
    assert "no Event: POST" in cluster.recover(worker, notice()).detail
    [fault] = worker.check()
    assert fault.endswith(
        "may not create events in namespace default: add it to the role"
    )


def test_forbidden_node_status_does_not_prevent_the_drain(
    cluster: Cluster,
) -> None:
    allow(cluster, but=("patch", "nodes/status"))
    cluster.fake.add_pod("web-1")
    with pytest.raises(HandlerError, match=r"the condition .* could not be set"):
        cluster.prepare(cluster.worker())
    assert cluster.fake.names() == []


def test_check_reports_missing_permissions_and_access(cluster: Cluster) -> None:
    allow(cluster)
    worker, fake = cluster.worker(force=True), cluster.fake
    assert worker.check() == []
    changed = [
        request for request in fake.came if request.method not in {"GET", "POST"}
    ]
    assert not changed
    fake.allowed = {Right("get", "", "nodes")}
    assert len(worker.check()) == 6
    fake.allowed = None
    fake.tokens = {"another"}
    assert worker.check() == ["GET /api/v1/nodes/web-0 was answered 401: Unauthorized"]
    del fake.nodes["web-0"]
    fake.tokens = {"a-token"}
    assert worker.check() == ["the cluster has no node web-0: set node"]
    fake.script = [200, 0]
    assert len(worker.check()) == 1
    fake.is_away = True
    [fault] = worker.check()
    assert "the connection ended" in fault
    (cluster.directory / "kubeconfig").chmod(0o644)
    assert worker.check()[0].startswith("other users can read ")
    (cluster.directory / "kubeconfig").unlink()
    [fault] = worker.check()
    assert fault.startswith("the kubeconfig cannot be read: ")


def test_node_deleted_during_recovery_is_no_error(cluster: Cluster) -> None:
    worker, fake = closes(cluster, condition=""), cluster.fake
    cluster.prepare(worker)
    real = fake.answer

    def vanishing(request: Any) -> tuple[int, Any]:
        if request.method == "PATCH":
            fake.nodes.clear()
        return real(request)

    fake.answer = vanishing
    detail = cluster.recover(worker, notice()).detail
    assert detail == "node web-0 no longer exists"


def test_repeated_patch_conflicts_end_at_the_deadline(
    cluster: Cluster,
) -> None:
    real = cluster.fake.answer

    def faster(request: Any) -> tuple[int, Any]:
        cluster.fake.before_patch = lambda _: None
        return real(request)

    cluster.fake.answer = faster
    with pytest.raises(TimeUpError, match="while changing node web-0"):
        cluster.prepare(closes(cluster), seconds=5)


def test_change_that_the_server_rejects_is_reported(cluster: Cluster) -> None:
    cluster.fake.before_patch = lambda node: node["spec"].update(taints=[OURS, OURS])
    node = cluster.fake.node()
    node["spec"]["taints"] = [OURS, OURS]
    with pytest.raises(HandlerError, match=r"answered 4\d\d"):
        cluster.prepare(closes(cluster, taint="a:NoSchedule"))


def test_lost_answer_to_event_creation_does_not_fail_the_run(cluster: Cluster) -> None:
    cluster.fake.script = [None, None, None, 0]
    detail = cluster.prepare(closes(cluster)).detail
    assert detail.startswith("tainted, cordoned; no Event: ")


def test_run_interrupted_by_an_agent_restart_is_lost(cluster: Cluster) -> None:
    worker = closes(cluster)
    job = cluster.job(Phase.PREPARE, notice())
    with pytest.raises(LostError):
        worker.resume(job, cluster.context_of(job))


def settings(directory: Path, *lines: str) -> Any:
    file = directory / "agent.toml"
    head = ["[[handler]]", 'name = "node"', 'kind = "kubernetes"']
    file.write_text("\n".join([*head, *lines]), encoding="utf-8")
    return load_settings(file=str(file), environ={}, flags={})


def test_handler_works_without_options(tmp_path: Path) -> None:
    assert settings(tmp_path).handlers[0].more == {}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('taint = "maintenance"', "is not a valid taint such as"),
        ('taint = "a/b:Never"', "is not a valid taint such as"),
        ('condition = "two words"', "is not a valid condition type such as"),
        ('empty_dir = "delete"', "must be one of refuse, leave, evict"),
        ('force_lead = "10s"', "requires force = true"),
        ("drain = false\nforce = true", "requires drain = true"),
        (
            'drain = false\ncordon = false\ntaint = ""\ncondition = ""',
            "it does nothing",
        ),
    ],
)
def test_invalid_settings_are_reported(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(AgentSettingsError, match=told):
        settings(tmp_path, line)
