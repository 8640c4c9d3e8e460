"""The handler `nomad` in a real agent: drained before the approval, eligible after it."""

import pytest

from forewarn.agent.core.model import Stage
from tests.support.agents import Ground
from tests.support.fake_nomad import Allocation, FakeNomad
from tests.support.processes import eventually
from tests.support.recipes import integration_settings

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_node_is_drained_during_the_event(place: Ground) -> None:
    web = Allocation("web.web[0]", looks=-1)
    with FakeNomad(allocations=[web]) as nomad:
        settings = integration_settings("nomad", url=nomad.url)
        agent = place.agent(settings=settings).wait_ready()
        assert "ok   handler node" in agent.command("check").stdout
        event = place.event()
        eventually(lambda: nomad.drain, lambda drain: drain is not None)
        assert not place.posts(event)
        web.looks = 1
        place.wait_approved(event, "web_0")
        agent.wait_stage(event, Stage.FINISHED)
        assert (nomad.drain, nomad.eligibility) == (None, "eligible")
        assert len(nomad.writes()) == 2
