"""The handler `consul` in a real agent: maintenance while the event is there."""

import pytest

from forewarn.agent.core.model import Stage
from tests.support.agents import Ground
from tests.support.fake_consul import NODE_CHECK, FakeConsul
from tests.support.recipes import integration_settings

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_node_is_in_maintenance_during_the_event(place: Ground) -> None:
    with FakeConsul(token="s3cret") as consul:
        (place.directory / "web_0").mkdir()
        (place.directory / "web_0" / "token").write_text("s3cret\n")
        settings = integration_settings(
            "consul", url=consul.url, token_file="DIRECTORY/token", wait="200ms"
        )
        agent = place.agent(settings=settings).wait_ready()
        assert "ok   handler catalogue" in agent.command("check").stdout
        event = place.event()
        place.wait_approved(event, "web_0")
        enabled, *_ = (asked for asked in consul.asked if asked.method == "PUT")
        assert enabled.query["enable"] == "true"
        assert enabled.query["reason"].startswith("forewarn catalogue: Reboot since 2")
        agent.wait_stage(event, Stage.FINISHED)
        assert NODE_CHECK not in consul.maintained()
        assert "s3cret" not in agent.log()
