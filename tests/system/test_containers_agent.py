"""An agent that stops containers for an event, by the settings that the pages show."""

import os
from pathlib import Path

import pytest

from tests.support.agents import Ground
from tests.support.fake_containers import FakeContainers
from tests.support.processes import eventually
from tests.support.recipes import integration_settings

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.mark.parametrize(
    ("program", "down", "up"),
    [
        (
            "docker",
            ["stop proxy", "stop web worker", "stop db"],
            ["start db", "start web worker", "start proxy"],
        ),
        ("podman", ["stop -t 20 web", "stop -t 20 db"], ["start db", "start web"]),
    ],
)
def test_containers_are_stopped_before_the_approval_and_started_after_the_event(
    still_place: Ground,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    down: list[str],
    up: list[str],
) -> None:
    engine = FakeContainers(tmp_path, program)
    for name in ("proxy", "web", "worker", "db"):
        engine.run(name)
    monkeypatch.setenv("PATH", f"{engine.path}:{os.environ['PATH']}")
    agent = still_place.agent(settings=integration_settings(program)).wait_ready()
    checked = agent.command("check")
    assert "ok   handler containers: no problem found" in checked.stdout

    event = still_place.event()
    still_place.wait_approved(event, "web_0")
    assert engine.orders() == down
    # The agent ends and comes back while the event is there.
    agent.kill()
    agent.again()

    engine.forget_orders()
    still_place.move(event, "removed")
    eventually(lambda: agent.told(event), lambda kinds: "recovered" in kinds)
    assert engine.orders() == up


def test_freeze_pauses_and_unpauses_the_container(
    still_place: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeContainers(tmp_path, "docker")
    for name in ("proxy", "web", "worker", "db"):
        engine.run(name)
    engine.run("night", Labels={"tier": "batch"})
    monkeypatch.setenv("PATH", f"{engine.path}:{os.environ['PATH']}")
    agent = still_place.agent(settings=integration_settings("docker")).wait_ready()
    event = still_place.event("Freeze")
    still_place.wait_approved(event, "web_0")
    assert engine.orders() == ["pause night"]
    still_place.move(event, "removed")
    eventually(lambda: agent.told(event), lambda kinds: "recovered" in kinds)
    assert engine.orders() == ["pause night", "unpause night"]
