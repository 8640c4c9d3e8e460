"""The hosts of a simulation take the time that is expected of them, with host steps too."""

import json
from typing import Any

import pytest

from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignText
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import MINUTE, SECOND, Micros, parse_instant
from forewarn.protocol.host_steps import STEP_TIMEOUT
from forewarn.service.simulation.fleet_copy import copy_fleet
from forewarn.service.simulation.play import SimulationRequest, simulated
from forewarn.store.memory import MemoryStore
from tests.support.campaigns import ONE_STAGE, campaign, file_of, start
from tests.support.rollouts import world_of
from tests.support.worlds import World

HOSTS = 12
NOTICE = 15 * MINUTE
RECOVERY = 10 * MINUTE

STEPS = {
    name: f'{name} = {{ step = "{name}" }}\n'
    for name in ("needed", "enter", "work", "verify", "exit")
}

STAGES = """
[[campaign.stage]]
hosts = 1
soak = "1h"
[[campaign.stage]]
hosts = "30%"
soak = "30m"
"""


def new_world() -> World:
    """Return hosts with a VM each, and an empty host with room for them."""
    lines = '[[host]]\nname = "spare"\ncapacity = 40\n' + "".join(
        f'[[host]]\nname = "h{number}"\ncapacity = 4\n'
        f'[[scope]]\nname = "s{number}"\nkind = "availability-set"\n'
        f'[[vm]]\nname = "vm{number}"\nhost = "h{number}"\nscope = "s{number}"\n'
        for number in range(HOSTS)
    )
    return World(store=MemoryStore, driver=SimulatedDriver(), fleet=lines)


def text(steps: str, *, impact: str) -> str:
    more = f"[campaign.steps]\n{steps}" if steps else ""
    expect = '[campaign.expect]\ntypical = "30m"\nslow = "30m"\n'
    return file_of(ONE_STAGE + expect + more, impact=impact, name="next")


def simulation(world: World, written: str) -> Any:
    request = SimulationRequest(
        text=CampaignText(name="c.toml", text=written),
        assumed=Assumptions(approve=0),
        policy=world.plane.policy,
        now=world.now,
        hosts_max=100,
    )
    copied = world.read(lambda reader: copy_fleet(reader, request.text))
    return json.loads(simulated(copied, request))


def gap(begins: str, ends: str) -> Micros:
    return parse_instant(ends) - parse_instant(begins)


@pytest.mark.parametrize("impact", ["live-migrate", "reboot", "freeze"])
def test_host_steps_and_vms_share_the_time_of_a_host(impact: str) -> None:
    result = simulation(new_world(), text("".join(STEPS.values()), impact=impact))
    assert [result["state"], result["done"]] == ["Done", HOSTS + 1]
    for host in result["hosts"]:
        length = gap(host["starts"], host["ends"])
        # VMs that stood still recover after the work, while it is verified.
        most = 30 * MINUTE + (RECOVERY if impact != "live-migrate" else 0)
        assert 30 * MINUTE - SECOND <= length <= most + SECOND, host


@pytest.mark.parametrize("impact", ["none", "live-migrate"])
def test_step_that_takes_long_in_a_simulation_is_not_late(impact: str) -> None:
    more = ONE_STAGE + "[campaign.steps]\n" + STEPS["work"]
    slow = '[campaign.expect]\ntypical = "2h"\nslow = "4h"\n'
    result = simulation(new_world(), file_of(slow + more, impact=impact, name="next"))
    assert [result["done"], result["failed"]] == [HOSTS + 1, []]
    lengths = [gap(host["starts"], host["ends"]) for host in result["hosts"]]
    assert max(lengths) > STEP_TIMEOUT


def test_vms_recover_after_work_without_host_steps() -> None:
    result = simulation(new_world(), text("", impact="reboot"))
    lengths = {
        gap(host["starts"], host["ends"]) for host in result["hosts"] if host["vms"]
    }
    assert lengths == {30 * MINUTE + RECOVERY}


def test_steps_without_work_leave_the_time_to_the_vms() -> None:
    result = simulation(new_world(), text(STEPS["verify"], impact="live-migrate"))
    assert result["done"] == HOSTS + 1
    for host in result["hosts"]:
        if host["vms"]:
            length = gap(host["starts"], host["ends"])
            assert 30 * MINUTE - SECOND <= length <= 40 * MINUTE, host


def test_a_simulation_uses_the_measured_durations() -> None:
    world = world_of([{f"s{number}": 0} for number in range(HOSTS)])
    start(world, "[campaign.budget]\nin_flight = 6\n" + ONE_STAGE)
    world.advance("2d")
    assert campaign(world).done == HOSTS
    result = simulation(world, text("", impact="reboot"))
    # The simulated driver reboots in a minute; the file expects half an hour.
    assert {gap(host["starts"], host["ends"]) for host in result["hosts"]} == {
        MINUTE + Policy().recovery
    }
    assert result["ends"] == result["forecast_ends"]


@pytest.mark.parametrize("impact", ["live-migrate", "reboot"])
@pytest.mark.parametrize("steps", ["", "needed work verify"])
def test_a_campaign_takes_the_simulated_time(impact: str, steps: str) -> None:
    world = world_of([{f"s{number}": 0} for number in range(HOSTS)])
    more = "[campaign.budget]\nin_flight = 3\n" + STAGES
    if steps:
        more += "[campaign.steps]\n" + "".join(STEPS[step] for step in steps.split())
    start(world, more, impact=impact)
    world.advance("4d")
    assert campaign(world).done == HOSTS
    result = simulation(world, file_of(more, impact=impact, name="next"))
    begins = world.now
    start(world, more, impact=impact, name="next")
    world.advance("4d")
    taken = campaign(world, "next").ended - begins
    assert result["done"] == campaign(world, "next").done == HOSTS
    assert abs(result["seconds"] * SECOND - taken) <= taken / 20
