"""The handler `consul` in a real agent: maintenance while the event is there."""

from pathlib import Path

import pytest

from forewarn.agent.core.model import Stage
from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import ground
from tests.support.fake_consul import NODE_CHECK, FakeConsul

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
[[handler]]
name = "catalogue"
kind = "consul"
url = "PLACE"
token_file = "FOLDER/token"
wait = "200ms"

[[rule]]
handlers = ["catalogue"]
"""


def test_it_is_in_maintenance_while_the_event_is_there(tmp_path: Path) -> None:
    loop = LoopThread()
    with (
        FakeConsul(token="s3cret") as consul,
        ground(loop, tmp_path, fleet=fleets.fleet_text(1)) as place,
    ):
        (tmp_path / "web_0").mkdir()
        (tmp_path / "web_0" / "token").write_text("s3cret\n")
        agent = place.agent(settings=SETTINGS.replace("PLACE", consul.url)).wait_ready()
        assert "ok   handler catalogue" in agent.command("check").stdout
        event = place.event()
        place.wait_approved(event, "web_0")
        enabled, *_ = (asked for asked in consul.asked if asked.method == "PUT")
        assert enabled.query["enable"] == "true"
        assert enabled.query["reason"].startswith("forewarn catalogue: Reboot since 2")
        agent.wait_stage(event, Stage.OVER)
        assert NODE_CHECK not in consul.maintained()
        assert "s3cret" not in agent.log()
    loop.close()
