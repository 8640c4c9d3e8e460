"""The handler `patroni` in a real agent: the lead goes before the event, and comes back."""

from pathlib import Path

import pytest

from forewarn.agent.core.model import Stage
from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import ground
from tests.support.fake_patroni import FakePatroni, serving
from tests.support.processes import eventually
from tests.support.pythons import Python
from tests.support.recipes import integration_settings

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_leader_role_moves_away_and_stays(
    loop: LoopThread, python: Python, tmp_path: Path
) -> None:
    patroni = FakePatroni("web_0", "web_1", "web_2", me="web_0")
    with (
        serving(patroni),
        ground(loop, tmp_path, fleet=fleets.fleet_text(3), python=python) as place,
    ):
        settings = integration_settings("patroni", url=patroni.url)
        agent = place.agent(settings=settings).wait_ready()
        assert "ok   handler lead: no problem found" in agent.command("check").stdout
        event = place.event()
        place.wait_approved(event, "web_0")
        agent.wait_stage(event, Stage.FINISHED)
        assert patroni.posts == [{"leader": "web_0", "candidate": "web_1"}]


def test_leader_role_moves_away_and_returns(
    loop: LoopThread, python: Python, tmp_path: Path
) -> None:
    patroni = FakePatroni("web_0", "web_1", "web_2", me="web_0")
    with (
        serving(patroni),
        ground(loop, tmp_path, fleet=fleets.fleet_text(3), python=python) as place,
    ):
        settings = integration_settings("patroni", url=patroni.url, switch_back=True)
        agent = place.agent(settings=settings).wait_ready()
        assert "ok   handler lead" in agent.command("check").stdout
        event = place.event()
        place.wait_approved(event, "web_0")
        eventually(lambda: len(patroni.posts), lambda count: count >= 2)
        agent.wait_stage(event, Stage.FINISHED)
        assert patroni.posts == [
            {"leader": "web_0", "candidate": "web_1"},
            {"leader": "web_1", "candidate": "web_0"},
        ]
