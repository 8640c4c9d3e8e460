"""A node of a Pacemaker cluster with an agent, by the settings that the page shows."""

from pathlib import Path

import pytest

from tests.support.agents import Ground
from tests.support.fake_pacemaker import FakePacemaker
from tests.support.recipes import integration_settings

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_node_is_emptied_approved_and_readmitted(
    still_place: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakePacemaker(tmp_path, "n1", "n2")
    cluster.resource("db", leaves=1, starts=1)
    monkeypatch.setenv("PATH", cluster.environment["PATH"])
    agent = still_place.agent(settings=integration_settings("pacemaker")).wait_ready()
    checked = agent.command("check")
    assert "ok   handler cluster: no problem found" in checked.stdout, checked.stdout

    event = still_place.event()
    still_place.wait_approved(event, "web_0")
    assert cluster.where("db") == "n2"
    assert cluster.attributes("n1") == {
        "standby": "on",
        "forewarn": f"standby forever {event}",
    }

    still_place.move(event, "removed")
    agent.wait(lambda agent: "recovered" in agent.told(event), "a recovery")
    assert cluster.attributes("n1") == {}
    assert "moved away: db" in agent.log()


def test_event_of_the_only_online_node_is_not_approved(
    still_place: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakePacemaker(tmp_path, "n1", "n2")
    cluster.resource("db")
    cluster.node("n2", online=False)
    monkeypatch.setenv("PATH", cluster.environment["PATH"])
    settings = (
        '[[handler]]\nname = "cluster"\nkind = "pacemaker"\ntimeout = "3s"\n\n'
        '[[rule]]\nhandlers = ["cluster"]\n'
    )
    agent = still_place.agent(settings=settings).wait_ready()
    event = still_place.event()
    why = "no other node can host the resources: db"
    agent.wait(lambda agent: why in agent.log(), "a refusal")
    agent.wait(lambda agent: "withheld" in agent.told(event), "no approval")
    assert still_place.approvals(event) == []
    assert cluster.where("db") == "n1"
