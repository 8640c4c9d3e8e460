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


def world() -> World:
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


def simulation(it: World, written: str) -> Any:
    request = SimulationRequest(
        text=CampaignText(name="c.toml", text=written),
        assumed=Assumptions(approve=0),
        policy=it.plane.policy,
        now=it.now,
        hosts_max=100,
    )
    copied = it.read(lambda reader: copy_fleet(reader, request.text))
    return json.loads(simulated(copied, request))


def gap(begins: str, ends: str) -> Micros:
    return parse_instant(ends) - parse_instant(begins)


@pytest.mark.parametrize("impact", ["live-migrate", "reboot", "freeze"])
def test_host_steps_and_vms_share_the_time_of_a_host(impact: str) -> None:
    found = simulation(world(), text("".join(STEPS.values()), impact=impact))
    assert [found["state"], found["done"]] == ["Done", HOSTS + 1]
    for each in found["hosts"]:
        length = gap(each["starts"], each["ends"])
        # VMs that stood still recover after the work, while it is verified.
        most = 30 * MINUTE + (RECOVERY if impact != "live-migrate" else 0)
        assert 30 * MINUTE - SECOND <= length <= most + SECOND, each


@pytest.mark.parametrize("impact", ["none", "live-migrate"])
def test_step_that_takes_long_in_a_simulation_is_not_late(impact: str) -> None:
    more = ONE_STAGE + "[campaign.steps]\n" + STEPS["work"]
    slow = '[campaign.expect]\ntypical = "2h"\nslow = "4h"\n'
    found = simulation(world(), file_of(slow + more, impact=impact, name="next"))
    assert [found["done"], found["failed"]] == [HOSTS + 1, []]
    lengths = [gap(each["starts"], each["ends"]) for each in found["hosts"]]
    assert max(lengths) > STEP_TIMEOUT


def test_vms_recover_after_work_without_host_steps() -> None:
    found = simulation(world(), text("", impact="reboot"))
    lengths = {
        gap(each["starts"], each["ends"]) for each in found["hosts"] if each["vms"]
    }
    assert lengths == {30 * MINUTE + RECOVERY}


def test_steps_without_work_leave_the_time_to_the_vms() -> None:
    found = simulation(world(), text(STEPS["verify"], impact="live-migrate"))
    assert found["done"] == HOSTS + 1
    for each in found["hosts"]:
        if each["vms"]:
            length = gap(each["starts"], each["ends"])
            assert 30 * MINUTE - SECOND <= length <= 40 * MINUTE, each


def test_a_simulation_uses_the_measured_durations() -> None:
    it = world_of([{f"s{number}": 0} for number in range(HOSTS)])
    start(it, "[campaign.budget]\nin_flight = 6\n" + ONE_STAGE)
    it.advance("2d")
    assert campaign(it).done == HOSTS
    found = simulation(it, text("", impact="reboot"))
    # The simulated driver reboots in a minute; the file expects half an hour.
    assert {gap(each["starts"], each["ends"]) for each in found["hosts"]} == {
        MINUTE + Policy().recovery
    }
    assert found["ends"] == found["forecast_ends"]


@pytest.mark.parametrize("impact", ["live-migrate", "reboot"])
@pytest.mark.parametrize("steps", ["", "needed work verify"])
def test_a_campaign_takes_the_simulated_time(impact: str, steps: str) -> None:
    it = world_of([{f"s{number}": 0} for number in range(HOSTS)])
    more = "[campaign.budget]\nin_flight = 3\n" + STAGES
    if steps:
        more += "[campaign.steps]\n" + "".join(STEPS[each] for each in steps.split())
    start(it, more, impact=impact)
    it.advance("4d")
    assert campaign(it).done == HOSTS
    found = simulation(it, file_of(more, impact=impact, name="next"))
    begins = it.now
    start(it, more, impact=impact, name="next")
    it.advance("4d")
    taken = campaign(it, "next").ended - begins
    assert found["done"] == campaign(it, "next").done == HOSTS
    assert abs(found["seconds"] * SECOND - taken) <= taken / 20
