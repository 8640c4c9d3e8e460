"""The handler `haproxy` in a real agent: drained before the approval, ready after it."""

import pytest

from forewarn.agent.core.model import Stage
from tests.support.agents import Ground
from tests.support.fake_haproxy import FakeHaproxy, serving
from tests.support.processes import eventually
from tests.support.recipes import integration_settings

pytestmark = [pytest.mark.system, pytest.mark.slow]

IS_WELL = "ok   handler rotation: no problem found"


def test_server_is_drained_during_the_event(place: Ground) -> None:
    haproxy = FakeHaproxy("app/web_0", "app/web_1")
    haproxy.servers["app/web_0"].sessions = [1]
    with serving(haproxy):
        settings = integration_settings("haproxy", socket=haproxy.place)
        agent = place.agent(settings=settings).wait_ready()
        assert IS_WELL in agent.command("check").stdout
        event = place.event()
        eventually(lambda: haproxy.servers["app/web_0"].admin, lambda flag: flag == 8)
        assert not place.posts(event)
        haproxy.servers["app/web_0"].sessions = [0]
        place.wait_approved(event, "web_0")
        agent.wait_stage(event, Stage.FINISHED)
        assert haproxy.orders() == [
            "set server app/web_0 state drain",
            "set server app/web_0 state ready",
        ]


def test_missing_server_is_reported_by_check_and_withholds_approval(
    place: Ground,
) -> None:
    haproxy = FakeHaproxy("app/web_1")
    with serving(haproxy):
        settings = integration_settings("haproxy", socket=haproxy.place)
        agent = place.agent(settings=settings).wait_ready()
        checked = agent.command("check")
        assert checked.returncode == 1
        assert "BAD  handler rotation: there is no server app/web_0" in checked.stdout
        event = place.event()
        why = "there is no server app/web_0"
        agent.wait(lambda agent: why in agent.log(), "a refusal")
        agent.wait(lambda agent: "withheld" in agent.told(event), "no approval")
        assert place.approvals(event) == []
