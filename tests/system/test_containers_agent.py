"""An agent that stops containers for an event, and starts them after it."""

import os
from pathlib import Path

import pytest

from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import ground
from tests.support.fake_containers import FakeContainers
from tests.support.processes import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.mark.parametrize("program", ["docker", "podman"])
def test_containers_are_stopped_before_the_approval_and_started_after_the_event(
    loop: LoopThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    engine = FakeContainers(tmp_path, program)
    for name in ("proxy", "web", "worker"):
        engine.run(name)
    engine.run("idle", "exited")
    monkeypatch.setenv("PATH", f"{engine.path}:{os.environ['PATH']}")
    settings = (
        f'[[handler]]\nname = "containers"\nkind = "{program}"\n'
        'containers = ["proxy", ["web", "worker", "idle"]]\n'
    )
    with ground(loop, tmp_path, fleet=fleets.fleet_text(2)) as place:
        agent = place.agent(settings=settings).wait_ready()
        checked = agent.command("check")
        assert "ok   handler containers: is as it should be" in checked.stdout

        event = place.event()
        place.wait_approved(event, "web_0")
        assert engine.orders() == ["stop proxy", "stop web worker"]
        # The agent ends and comes back while the event is there.
        agent.kill()
        agent.again()

        engine.forget_orders()
        place.move(event, "gone")
        eventually(lambda: agent.told(event), lambda told: "recovered" in told)
        assert engine.orders() == ["start web worker", "start proxy"]
        assert engine.status("idle") == "exited"
