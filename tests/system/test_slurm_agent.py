"""A node of a Slurm cluster with an agent, by the settings that the page shows."""

from pathlib import Path

import pytest

from tests.support.agents import Ground
from tests.support.fake_slurm import FakeSlurm
from tests.support.recipes import integration_settings

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_a_node_is_drained_approved_and_resumed(
    still_place: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = FakeSlurm(tmp_path)
    slurm.job("12", looks=2)
    monkeypatch.setenv("PATH", slurm.environment["PATH"])
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    agent = still_place.agent(settings=integration_settings("slurm")).wait_ready()
    checked = agent.command("check")
    assert "ok   handler node: no problem found" in checked.stdout, checked.stdout

    event = still_place.event()
    still_place.wait_approved(event, "web_0")
    assert slurm.shown == "IDLE+DRAIN"
    assert slurm.read()["reason"] == f"forewarn: Reboot {event}"
    assert not slurm.read()["jobs"]

    still_place.move(event, "removed")
    agent.wait(lambda agent: "recovered" in agent.told(event), "a recovery")
    assert slurm.shown == "IDLE"
    assert "n1 is drained, and no job is left" in agent.log()
