"""The choices on the page of a simulation: profiles, scenarios and a poll as a VM."""

from collections.abc import Iterator

import pytest

from forewarn.sim.loop import LoopThread
from forewarn.sim.scenario import builtin
from tests.support.simulators import Simulation, simulation


@pytest.fixture(scope="module")
def running() -> Iterator[Simulation]:
    loop = LoopThread()
    with simulation(loop) as sim:
        yield sim
    loop.close()


def test_choices_have_all_built_in_scenarios(running: Simulation) -> None:
    choices = running.sim("choices")
    names = [scenario["scenario"] for scenario in choices["scenarios"]]
    assert names == [scenario.name for scenario in builtin.scenarios()]
    assert (choices["profile"], choices["playing"]) == ("lenient", "")
    status, refused = running.api("sim/scenario", {"scenario": "user-rebot"})
    assert (status, refused["hint"][:22]) == (404, "Run `forewarn simulate")


def test_new_profile_begins_a_world_with_the_first_fleet(running: Simulation) -> None:
    running.sim("vms", {"name": "extra"})
    assert running.sim("profile", {"profile": "real"})["profile"] == "real"
    assert "extra" not in {vm["vm"] for vm in running.sim("vms")["vms"]}
    running.sim("profile", {"profile": "lenient"})
    assert running.api("sim/profile", {"profile": "exact"})[0] == 400


def test_no_order_begins_a_world_while_a_scenario_is_played(
    running: Simulation,
) -> None:
    assert running.sim("scenario", {"scenario": "user-reboot"})["playing"]
    for path, body in (
        ("scenario", {"scenario": "user-reboot"}),
        ("profile", {"profile": "strict"}),
        ("reset", {}),
    ):
        status, refused = running.api(f"sim/{path}", body)
        assert (status, refused["error"]) == (
            409,
            "the scenario user-reboot is running",
        )


def test_poll_asks_at_the_address_of_the_vm(running: Simulation) -> None:
    assert running.sim("polls", {"vm": "web_1"}) == {"vm": "web_1", "status": 200}
    (seen,) = running.sim("journal?vm=web_1")["requests"]
    assert (seen["method"], seen["status"]) == ("GET", 200)
    status, refused = running.api("sim/polls", {"vm": "web_9"})
    assert status == 404
    assert refused["error"] == "VM 'web_9' has no address"
