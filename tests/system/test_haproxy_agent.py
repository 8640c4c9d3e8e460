"""The handler `haproxy` in a real agent: drained before the approval, ready after it."""

import pytest

from forewarn.agent.core.model import Stage
from tests.support.agents import Ground
from tests.support.fake_haproxy import FakeHaproxy, serving
from tests.support.processes import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
[[handler]]
name = "rotation"
kind = "haproxy"
socket = "PLACE"
servers = ["app/{vm}"]

[[rule]]
handlers = ["rotation"]
"""


def test_it_is_drained_while_the_event_is_there(place: Ground) -> None:
    haproxy = FakeHaproxy("app/web_0", "app/web_1")
    haproxy.servers["app/web_0"].sessions = [1]
    with serving(haproxy):
        settings = SETTINGS.replace("PLACE", haproxy.place)
        agent = place.agent(settings=settings).wait_ready()
        assert "ok   handler rotation" in agent.command("check").stdout
        event = place.event()
        eventually(lambda: haproxy.servers["app/web_0"].admin, lambda flag: flag == 8)
        assert not place.posts(event)
        haproxy.servers["app/web_0"].sessions = [0]
        place.wait_approved(event, "web_0")
        agent.wait_stage(event, Stage.OVER)
        assert haproxy.orders() == [
            "set server app/web_0 state drain",
            "set server app/web_0 state ready",
        ]
