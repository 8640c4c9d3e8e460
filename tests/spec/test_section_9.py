"""Section 9: testing aids, on a simulator as a program under test meets it."""

from collections.abc import Iterator

import pytest

from forewarn.sim.loop import LoopThread
from forewarn.sim.scenario import builtin
from forewarn.sim.scenario.demands import Expected
from forewarn.sim.scenario.file import read_scenario
from forewarn.sim.scenario.run import Runner
from forewarn.sim.scenario.setup import setup_for, virtual_stage
from forewarn.sim.scenario.time import VirtualTime
from tests.support.loops import in_loop
from tests.support.simulators import Simulation, simulation

MICROSOFTS = (
    "Live Migration",
    "Host Agent Maintenance",
    "User Reboot",
    "Redeploy",
    "User Redeploy",
    "Canceled Maintenance",
    "Spot Eviction",
)
"""The events of Microsoft's mock server, by its own names."""

MINE = """
name = "mine"
description = "A restart of my own."

[[step]]
reboot = "web_0"

[[step]]
expect = { status = "Started", within = "16m" }
"""


@pytest.fixture(scope="module")
def running() -> Iterator[Simulation]:
    loop = LoopThread()
    with simulation(loop) as sim:
        yield sim
    loop.close()


@pytest.fixture
def fresh(running: Simulation) -> Simulation:
    """Return a simulator in which nothing has happened; `web_0` listens."""
    running.sim("reset", {})
    assert running.document() == {"DocumentIncarnation": 1, "Events": []}
    return running


# 9.1


@pytest.mark.clause("9.1")
@pytest.mark.parametrize(
    ("path", "order", "event_type"),
    [
        ("maintain", {"hosts": ["h0"], "impact": "freeze"}, "Freeze"),
        ("maintain", {"hosts": ["h0"], "impact": "reboot"}, "Reboot"),
        ("reboot", {"vms": ["web_0"]}, "Reboot"),
        ("redeploy", {"vms": ["web_0"]}, "Redeploy"),
        ("terminate", {"vms": ["web_0"]}, "Terminate"),
        ("fail", {"names": ["h0"]}, "Reboot"),
    ],
)
def test_request_creates_an_event_without_a_hypervisor(
    fresh: Simulation, path: str, order: dict[str, object], event_type: str
) -> None:
    status, _ = fresh.api(path, order)
    assert status in {200, 201}
    [event] = fresh.events()
    assert (event["EventType"], event["Resources"]) == (event_type, ["web_0"])
    if event["EventStatus"] == "Scheduled":
        # It continues by the same rules as any other: this one by its approval.
        assert fresh.approve(event["EventId"]) == 200
        assert fresh.events() == [
            {**event, "EventStatus": "Started", "NotBefore": ""},
        ]


@pytest.mark.clause("9.1")
def test_manual_event_can_have_any_notice(fresh: Simulation) -> None:
    fresh.sim("events", {"type": "Preempt", "vms": ["web_0"], "notice": "0s"})
    [event] = fresh.events()
    assert (event["EventType"], event["EventStatus"]) == ("Preempt", "Started")


# 9.2


@pytest.mark.clause("9.2")
def test_scenarios_cover_the_most_common_cases() -> None:
    assert len(builtin.names()) >= 9
    for name in MICROSOFTS:
        assert builtin.find(name).steps, name


@pytest.mark.clause("9.2")
@in_loop
async def test_custom_scenario_is_played() -> None:
    scenario = read_scenario(MINE, file="mine.toml")
    stage = virtual_stage(setup_for([scenario]))
    # No client asks for its events here: only the platform is judged.
    runner = Runner(stage, VirtualTime(stage), expected=Expected.NONE)
    [result] = await runner.run_together([scenario])
    assert not result.failures


# 9.4


@pytest.mark.clause("9.4")
def test_history_and_downtime_of_a_vm_can_be_queried(
    fresh: Simulation,
) -> None:
    fresh.api("fail", {"names": ["h0"]})
    [event] = fresh.events()
    fresh.api("restore", {"names": ["h0"]})
    _, history = fresh.api(f"history?event={event['EventId']}")
    steps = [entry["what"] for entry in history["entries"]]
    assert steps[0] == "event started"
    _, history = fresh.api("availability?vm=web_0")
    [of_vm] = history["vms"]
    assert (of_vm["down_now"], of_vm["interruptions"]) == (0, 1)
