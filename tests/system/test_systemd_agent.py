"""An agent that stops units of systemd for an event, and starts them after it."""

import os
from pathlib import Path

import pytest

from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import ground
from tests.support.fake_systemctl import FakeSystemd
from tests.support.processes import eventually
from tests.support.pythons import Python
from tests.support.recipes import integration_settings

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_units_are_stopped_before_the_approval_and_started_after_the_event(
    loop: LoopThread, python: Python, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd = FakeSystemd(tmp_path)
    for name in ("web.service", "db.service", "queue@1.service"):
        systemd.unit(name, stop=2, start=1)
    systemd.unit("drain.target", "inactive")
    monkeypatch.setenv("PATH", f"{systemd.path}:{os.environ['PATH']}")
    with ground(
        loop, tmp_path, fleet=fleets.fleet_text(2), speed=1, python=python
    ) as place:
        agent = place.agent(settings=integration_settings("systemd")).wait_ready()
        checked = agent.command("check")
        assert "ok   handler units: no problem found" in checked.stdout

        event = place.event()
        place.wait_approved(event, "web_0")
        order = ["drain.target", "web.service", "db.service", "queue@1.service"]
        assert systemd.orders() == [
            "start drain.target",
            *(f"stop {name}" for name in order[1:]),
        ]
        assert {systemd.active(name) for name in order[1:]} == {"inactive"}

        systemd.forget_orders()
        place.move(event, "removed")
        eventually(lambda: agent.told(event), lambda kinds: "recovered" in kinds)
        assert systemd.active("web.service") == "active"
        assert systemd.active("queue@1.service") == "active"
        assert systemd.active("drain.target") == "inactive"


def test_a_unit_that_does_not_come_down_withholds_the_approval(
    loop: LoopThread, python: Python, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd = FakeSystemd(tmp_path)
    systemd.unit("web.service", refuse="Access denied")
    monkeypatch.setenv("PATH", f"{systemd.path}:{os.environ['PATH']}")
    settings = '[[handler]]\nname = "units"\nkind = "systemd"\nstop = "web.service"\n'
    with ground(
        loop, tmp_path, fleet=fleets.fleet_text(2), speed=1, python=python
    ) as place:
        agent = place.agent(settings=settings).wait_ready()
        event = place.event()
        eventually(lambda: agent.told(event), lambda kinds: "withheld" in kinds)
        eventually(agent.log, lambda log: "Access denied" in log, what="the reason")
        assert place.approvals(event) == []
