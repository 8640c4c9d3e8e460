"""A node of a Slurm cluster with an agent, by the settings that the page shows."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import Ground, ground
from tests.support.fake_slurm import FakeSlurm

pytestmark = [pytest.mark.system, pytest.mark.slow]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "integrations" / "slurm.md"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Ground]:
    loop = LoopThread()
    with ground(loop, tmp_path, fleet=fleets.fleet_text(1)) as made:
        yield made
    loop.close()


def test_a_node_is_drained_approved_and_resumed(
    place: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = FakeSlurm(tmp_path)
    slurm.job("12", looks=2)
    monkeypatch.setenv("PATH", slurm.environment["PATH"])
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    found = re.search(
        r"^```toml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    agent = place.agent(settings=found[1]).wait_ready()
    checked = agent.command("check")
    assert "ok   handler node: is as it should be" in checked.stdout, checked.stdout

    event = place.event()
    place.wait_approved(event, "web_0")
    assert slurm.shown == "IDLE+DRAIN"
    assert slurm.read()["reason"] == f"forewarn: Reboot {event}"
    assert not slurm.read()["jobs"]

    place.move(event, "gone")
    agent.wait(lambda agent: "recovered" in agent.told(event), "a recovery")
    assert slurm.shown == "IDLE"
    assert "n1 is drained, and no job is left" in agent.log()
