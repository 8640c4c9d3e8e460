"""A node of a Pacemaker cluster, with a fake of the cluster's commands."""

import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handlers import run_context
from forewarn.agent.settings import AgentSettingsError
from tests.support.fake_pacemaker import NEVER, FakePacemaker
from tests.support.handled import Turned
from tests.support.jobs import PATIENT_SECONDS

pytestmark = pytest.mark.slow


class Story:
    """A cluster of two nodes, and handlers of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cluster = FakePacemaker(directory, "n1", "n2")

    def handler(self, settings: str = "", **environment: str) -> Turned:
        environ = {**self.cluster.environment, **environment}
        return Turned("pacemaker", settings, self.directory, environ)


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    # Four looks fit into a run.
    monkeypatch.setattr(run_context, "LOOK_SECONDS_MIN", PATIENT_SECONDS / 4)
    monkeypatch.setattr(run_context, "LOOK_SECONDS_MAX", PATIENT_SECONDS / 4)
    return Story(tmp_path)


# Away and back


def test_resources_are_moved_away_and_allowed_back(story: Story) -> None:
    story.cluster.resource("db", leaves=1, starts=1)
    story.cluster.resource("ip")
    handler = story.handler()
    assert handler.prepare() == "moved away: db, ip"
    assert story.cluster.where("db") == story.cluster.where("ip") == "n2"
    assert story.cluster.attributes("n1") == {
        "standby": "on",
        "forewarn": "standby forever -",
    }
    needs = json.loads(handler.memo.read_text())["needs"]
    assert needs == [["db", False], ["ip", False]]
    assert handler.recover() == "n1 hosts resources again"
    assert story.cluster.attributes("n1") == {}
    assert not handler.memo.exists()
    name = "--node=n1 --name"
    assert story.cluster.orders() == [
        # The mark comes first and goes last, so that nothing is set without it.
        f"{name}=forewarn --lifetime=forever --update=standby forever -",
        f"{name}=standby --lifetime=forever --update=on",
        f"{name}=standby --lifetime=forever --delete",
        f"{name}=forewarn --lifetime=forever --delete",
    ]


def test_node_without_resources_needs_no_quorum_or_other_node(story: Story) -> None:
    story.cluster.node("n2", online=False)
    story.cluster.set(quorum=False)
    assert story.handler().prepare() == "n1 hosts no resources, and nothing runs on it"
    assert "standby" in story.cluster.attributes("n1")


def test_prepare_and_recover_are_idempotent(story: Story) -> None:
    story.cluster.resource("db")
    handler = story.handler()
    handler.prepare()
    handler.again()
    assert handler.prepare() == "n1 hosts no resources, and nothing runs on it"
    handler.recover()
    handler.again()
    assert handler.recover() == "n1 was not put into standby by forewarn"
    assert story.cluster.attributes("n1") == {}


def test_crash_between_mark_and_standby_is_recovered(story: Story) -> None:
    story.cluster.resource("db")
    story.cluster.attribute("n1", "forewarn", "standby forever E1")
    handler = story.handler()
    assert handler.prepare() == "moved away: db"
    story.cluster.attribute("n1", "standby")
    assert handler.recover() == "n1 hosts resources again"
    assert story.cluster.attributes("n1") == {}


def test_mark_is_sufficient_for_recovery_without_the_memo(story: Story) -> None:
    story.cluster.attribute("n1", "forewarn", "standby forever E1")
    story.cluster.attribute("n1", "standby", "on")
    assert story.handler().recover() == "n1 hosts resources again"
    assert story.cluster.attributes("n1") == {}


def test_attributes_of_earlier_settings_are_removed(story: Story) -> None:
    story.cluster.set(options={"node-health-strategy": "migrate-on-red"})
    story.handler('mode = "health"').prepare()
    assert story.handler('lifetime = "reboot"').recover() == "n1 hosts resources again"
    assert story.cluster.attributes("n1") == {}


def test_repeated_preparation_keeps_the_mode_of_the_first(story: Story) -> None:
    story.cluster.set(options={"node-health-strategy": "migrate-on-red"})
    story.handler('lifetime = "reboot"').prepare()
    story.handler('mode = "health"').prepare()
    begun = {"forewarn": "standby reboot -", "standby": "on"}
    assert story.cluster.attributes("n1") == begun
    assert story.handler().recover() == "n1 hosts resources again"
    assert story.cluster.attributes("n1") == {}


def test_mark_written_by_others_is_treated_as_a_standby(story: Story) -> None:
    story.cluster.attribute("n1", "forewarn", "yes")
    story.cluster.attribute("n1", "standby", "on")
    assert story.handler().recover() == "n1 hosts resources again"


def test_standby_may_last_until_the_next_reboot(story: Story) -> None:
    handler = story.handler('lifetime = "reboot"')
    handler.prepare()
    assert story.cluster.attributes("n1")["forewarn"] == "standby reboot -"
    # As the cluster does when the node joins again.
    story.cluster.attribute("n1", "standby")
    assert handler.recover() == "n1 hosts resources again"
    removed = "--node=n1 --name=standby --lifetime=reboot --delete"
    assert story.cluster.orders()[2] == removed


def test_recovery_waits_until_the_node_is_online(story: Story) -> None:
    handler = story.handler()
    handler.prepare()
    story.cluster.node("n1", pending=True)
    message = handler.fails("recover")
    assert message == "timed out while waiting for n1 to be online"
    # It is owed as long as the mark is there.
    assert story.cluster.attributes("n1") == {"forewarn": "standby forever -"}
    story.cluster.node("n1", pending=False)
    assert handler.recover() == "n1 hosts resources again"


# Values that others set stay


def test_standby_by_an_operator_is_kept(story: Story) -> None:
    story.cluster.attribute("n1", "standby", "on")
    handler = story.handler()
    assert handler.prepare() == "n1 was already in standby; nothing runs on it"
    assert handler.recover() == "n1 was not put into standby by forewarn"
    assert story.cluster.attributes("n1") == {"standby": "on"}
    assert story.cluster.orders() == []


def test_operator_keeps_the_standby_by_removing_the_mark(story: Story) -> None:
    handler = story.handler()
    handler.prepare()
    story.cluster.attribute("n1", "forewarn")
    assert handler.recover() == "n1 was not put into standby by forewarn"
    assert story.cluster.attributes("n1") == {"standby": "on"}
    assert not handler.memo.exists()


def test_standby_of_another_lifetime_is_reported_and_kept(story: Story) -> None:
    story.cluster.attribute("n1", "forewarn", "standby reboot E1")
    story.cluster.attribute("n1", "standby", "on")
    assert (
        story.handler().recover()
        == "n1 stays in standby, which this handler did not set"
    )


# When it refuses


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        (
            {"quorum": False},
            "the cluster has no quorum, so it starts nothing on other nodes",
        ),
        ({"dc": False}, "the cluster has no designated controller, so it moves "),
        (
            {"options": {"maintenance-mode": "true"}},
            "the cluster is in maintenance mode, so it moves nothing",
        ),
    ],
)
def test_prepare_waits_while_the_cluster_cannot_move_resources(
    story: Story, trouble: dict[str, Any], why: str
) -> None:
    story.cluster.resource("db")
    story.cluster.set(**trouble)
    for settings in ("", 'alone = "stop"'):
        message = story.handler(settings).fails("prepare")
        assert message.startswith(
            f"timed out while waiting for the end of this problem: {why}"
        )
    assert story.cluster.orders() == []


def test_no_quorum_policy_ignore_allows_the_preparation(story: Story) -> None:
    story.cluster.resource("db", node="n1", unhealthy=True)
    story.cluster.set(options={"no-quorum-policy": "ignore"})
    assert story.handler().prepare() == "moved away: db"


@pytest.mark.parametrize(
    "other",
    [
        {"online": False},
        {"maintenance": True},
        {"pending": True},
        {"unclean": True},
        {"type": "guest"},
        {"attributes": {"standby": {"value": "on", "lifetime": "forever"}}},
    ],
)
def test_prepare_fails_without_other_node(story: Story, other: dict[str, Any]) -> None:
    story.cluster.resource("db")
    story.cluster.resource("ip")
    story.cluster.node("n2", **other)
    message = story.handler().fails("prepare")
    assert message == (
        "timed out while waiting for the end of this problem: no other node can host the "
        "resources: db, ip"
    )
    assert story.cluster.orders() == []
    assert story.handler().recover() == "n1 was not put into standby by forewarn"


def test_preparation_succeeds_after_the_problem_ends(story: Story) -> None:
    """As when the other node's own event is just over."""
    story.cluster.resource("db")
    story.cluster.node("n2", online=False)
    handler = story.handler()
    handler.fails("prepare")
    story.cluster.node("n2", online=True)
    assert handler.prepare() == "moved away: db"


def test_resources_without_another_node_are_stopped_if_so_set(story: Story) -> None:
    story.cluster.resource("db")
    story.cluster.node("n2", online=False)
    message = story.handler('alone = "stop"').prepare()
    assert message == "stopped, since no other node can host them: db"
    assert story.cluster.where("db") == ""


def test_simultaneous_standby_of_two_nodes_is_undone(story: Story) -> None:
    """The other one's standby is seen only after this one's was set."""
    story.cluster.resource("db")
    both = {"standby": "on", "forewarn": "standby forever E1"}
    # A look by prepare, a look before, and then the look after.
    story.cluster.then({}, {}, {"n2": both})
    message = story.handler().fails("prepare")
    assert message.endswith("no other node can host the resources: db")
    assert story.cluster.attributes("n1") == {}
    deletes = [order for order in story.cluster.orders() if order.endswith("--delete")]
    assert len(deletes) == 2
    story.cluster.attribute("n2", "standby")
    story.cluster.attribute("n2", "forewarn")
    assert story.handler().prepare() == "moved away: db"


def test_operator_standby_of_another_node_does_not_cancel_ours(story: Story) -> None:
    story.cluster.resource("db")
    story.cluster.then({}, {}, {"n2": {"standby": "on"}})
    message = story.handler().fails("prepare")
    assert message.endswith("waiting for db to run on another node")


# Resources that do not move


def test_remaining_resource_is_named(story: Story) -> None:
    story.cluster.resource("db", leaves=NEVER)
    story.cluster.resource("ip")
    message = story.handler().fails("prepare")
    assert message == "timed out while waiting for db to leave n1"


def test_number_of_named_resources_is_limited(story: Story) -> None:
    for number in range(10):
        story.cluster.resource(f"r{number}", leaves=NEVER)
    message = story.handler().fails("prepare")
    assert message.endswith(
        "waiting for r0, r1, r2, r3, r4, r5, r6, r7 and 2 more to leave n1"
    )


def test_resources_that_do_not_move_are_reported_at_once(
    story: Story,
) -> None:
    story.cluster.resource("db", managed=False)
    story.cluster.resource("fs", blocked=True)
    story.cluster.resource("ip", leaves=1)
    message = story.handler().fails("prepare")
    assert (
        message
        == "the cluster does not move all resources: db (unmanaged), fs (blocked)"
    )
    assert story.cluster.where("ip") == ""


def test_resources_allowed_to_stay_are_not_awaited(story: Story) -> None:
    story.cluster.resource("db")
    story.cluster.resource("events", managed=False)
    assert story.handler('leave = ["events"]').prepare() == "moved away: db"


def test_ignored_resources_do_not_block_standby(story: Story) -> None:
    story.cluster.resource("events", managed=False)
    story.cluster.node("n2", online=False)
    assert story.handler('leave = "events"').prepare() == (
        "n1 hosts no resources, and nothing runs on it"
    )


def test_resource_that_runs_nowhere_fails_the_preparation(story: Story) -> None:
    story.cluster.resource("db", starts=NEVER)
    handler = story.handler()
    message = handler.fails("prepare")
    assert message == "timed out while waiting for db to run on another node"
    # Nothing runs here any more, and the next attempt knows what did.
    handler.again()
    assert handler.fails("prepare") == message


def test_an_instance_of_a_clone_is_only_stopped(story: Story) -> None:
    story.cluster.resource("ping:0", cloned=True)
    assert story.handler().prepare() == "moved away: ping"


def test_promoted_resource_must_run_on_another_node(story: Story) -> None:
    story.cluster.resource("db", promoted=True, starts=NEVER)
    message = story.handler().fails("prepare")
    assert message.endswith("waiting for db to run on another node")


def test_error_names_remaining_resources_if_the_cluster_is_lost(story: Story) -> None:
    story.cluster.resource("db", leaves=NEVER)
    handler = story.handler()
    worker: Any = handler.worker
    worker._pacemaker.commands = _Leaving(worker, story.cluster)
    message = handler.fails("prepare")
    assert "waiting for db to leave n1: crm_mon: Connection" in message


class _Leaving:
    """Commands whose cluster goes away at the sixth look."""

    def __init__(self, worker: Any, cluster: FakePacemaker) -> None:
        self._commands = worker._pacemaker.commands
        self._cluster = cluster
        self._looks = 0

    def patiently(self, words: list[str], *more: Any, **named: Any) -> Any:
        self._looks += words[0] == "crm_mon"
        if self._looks == 6:
            self._cluster.set(away=1000)
        return self._commands.patiently(words, *more, **named)


# Health


@pytest.mark.parametrize(
    ("strategy", "value"), [("migrate-on-red", "red"), ("custom", "-1000000")]
)
def test_health_attribute_moves_resources(
    story: Story, strategy: str, value: str
) -> None:
    story.cluster.set(options={"node-health-strategy": strategy})
    story.cluster.resource("db")
    story.cluster.resource("agent", unhealthy=True)
    handler = story.handler(
        'mode = "health"\nhealth_attribute = "#health-azure"\nleave = ["agent"]'
    )
    assert handler.prepare() == "moved away: db"
    assert story.cluster.attributes("n1") == {
        "forewarn": "#health-azure forever -",
        "#health-azure": value,
    }
    assert story.cluster.where("agent") == "n1"
    assert handler.recover() == "n1 hosts resources again"
    assert story.cluster.attributes("n1") == {}


def test_previous_health_value_is_restored(story: Story) -> None:
    story.cluster.set(options={"node-health-strategy": "custom"})
    story.cluster.attribute("n1", "#health-forewarn", "0")
    handler = story.handler('mode = "health"')
    handler.prepare()
    handler.again()
    handler.prepare()
    assert story.cluster.attributes("n1")["forewarn"] == "#health-forewarn forever - 0"
    assert handler.recover() == "n1 hosts resources again"
    assert story.cluster.attributes("n1") == {"#health-forewarn": "0"}


def test_node_that_was_unhealthy_stays_unhealthy(story: Story) -> None:
    story.cluster.set(options={"node-health-strategy": "custom"})
    story.cluster.attribute("n1", "#health-forewarn", "-1000000")
    handler = story.handler('mode = "health"')
    assert handler.prepare() == "n1 was already unhealthy; nothing runs on it"
    assert handler.recover() == "n1 was not put into standby by forewarn"
    assert story.cluster.orders() == []


def test_unhealthy_node_cannot_host_the_resources(story: Story) -> None:
    story.cluster.set(options={"node-health-strategy": "custom"})
    story.cluster.resource("db")
    story.cluster.attribute("n2", "#health-forewarn", "-1000000")
    message = story.handler('mode = "health"').fails("prepare")
    assert message.endswith("no other node can host the resources: db")


def test_cluster_that_ignores_node_health_is_an_error(story: Story) -> None:
    message = story.handler('mode = "health"').fails("prepare")
    assert message == (
        "the cluster ignores the health of its nodes: set its "
        'node-health-strategy, or use mode = "standby"'
    )
    assert story.handler('mode = "health"').check() == [message]


# Output of the commands


@pytest.mark.parametrize("status", [102, 105])
def test_unavailable_cluster_is_retried(story: Story, status: int) -> None:
    """Some commands then report a missing object, which is not a valid answer."""
    story.cluster.set(away=2, away_status=status)
    assert story.handler().prepare() == "n1 hosts no resources, and nothing runs on it"
    story.cluster.set(away=1000)
    for phase in ("prepare", "recover"):
        assert story.handler().fails(phase) == (
            "timed out while asking Pacemaker (crm_node): "
            "Could not connect to the CIB: Connection refused"
        )


def test_errors_in_xml_are_parsed(story: Story) -> None:
    story.cluster.set(away=1000)
    assert story.handler('node = "n1"').fails("prepare") == (
        "timed out while asking Pacemaker (crm_mon): "
        "crm_mon: Connection to cluster failed: Connection refused"
    )


def test_refused_change_is_reported_at_once(story: Story) -> None:
    story.cluster.set(denied=True)
    assert story.handler().fails("prepare") == (
        "cannot set forewarn of n1: Error performing operation: Permission denied"
    )


def test_unknown_node_is_an_error(story: Story) -> None:
    message = story.handler('node = "web_0"').fails("prepare")
    assert message == (
        "the cluster has no node web_0: set `node` to one of these names: n1, n2"
    )


# Settings and check


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ('health_attribute = "#health-a"', "requires mode"),
        ('mode = "health"\nhealth_attribute = "ill"', "must start with #health"),
    ],
)
def test_invalid_attribute_is_rejected(story: Story, settings: str, fault: str) -> None:
    with pytest.raises(AgentSettingsError, match=fault):
        story.handler(settings)


def test_check_reports_each_problem(story: Story) -> None:
    assert story.handler().check() == []
    missing = story.handler(PATH="/nowhere").check()
    assert missing[0] == (
        "there is no program crm_node: it comes with Pacemaker (pacemaker-cli-utils)"
    )
    assert len(missing) == 3
    assert "has no node web_0" in story.handler('node = "web_0"').check()[0]
    story.cluster.node("n2", online=False)
    assert story.handler().check() == [
        "no other node than n1 can host resources now, so a preparation would fail"
    ]
    assert story.handler('alone = "stop"').check() == []
    assert story.cluster.orders() == []
