"""Plans, simulations and campaigns leave out the same hosts for what the driver told."""

import json
from typing import Any

import pytest

from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignText
from forewarn.control.requests import campaign_starts
from forewarn.drivers.limited import Limited
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import MINUTE, SECOND, parse_instant
from forewarn.protocol.abilities import Able
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.host_steps import StepKind, StepRule, StepRules
from forewarn.protocol.operations import Action
from forewarn.reporting import campaign_plans
from forewarn.service.simulation.fleet_copy import copy_fleet
from forewarn.service.simulation.play import SimulationRequest, simulated
from forewarn.store import kinds
from forewarn.store.port import every
from tests.support.campaigns import ONE_STAGE, campaign, file_of, rollout, start_text
from tests.support.rollouts import fleet, name_of
from tests.support.worlds import MemoryStore, World

HOSTS = 4
REBOOTS = StepRules(rules=(("reboot-host", StepRule()), ("host-answers", StepRule())))
ALL = [name_of(number) for number in range(HOSTS)]
REASON = "a passthrough device"


def new_world(*limited: Limited, steps: StepRules = REBOOTS) -> World:
    driver = SimulatedDriver(limited=limited, steps=steps)
    hosts = [{f"s{number}": 0} for number in range(HOSTS)]
    return World(store=MemoryStore, driver=driver, fleet=fleet(hosts))


def text(impact: str, more: str = ONE_STAGE) -> CampaignText:
    return CampaignText(name="c.toml", text=file_of(more, impact=impact))


def plan(world: World, text: CampaignText) -> Any:
    request = campaign_starts.plan_request(
        text,
        world.plane.policy,
        now=world.now,
        hosts_max=HOSTS,
        host_steps=world.driver.host_steps(),
    )
    return json.loads(
        world.read(lambda reader: campaign_plans.planned(reader, request).text)
    )


def simulation(world: World, text: CampaignText) -> Any:
    request = SimulationRequest(
        text=text,
        assumed=Assumptions(approve=0),
        policy=world.plane.policy,
        now=world.now,
        hosts_max=HOSTS,
        host_steps=world.driver.host_steps(),
    )
    return json.loads(
        simulated(world.read(lambda reader: copy_fleet(reader, text)), request)
    )


def hosts_of(report: Any) -> list[str]:
    return sorted(host["host"] for host in report["hosts"])


LIMITS = {
    "live migration of a VM": (Action.LIVE_MIGRATE, "live-migrate", True),
    "live migration of all VMs of a host": (Action.LIVE_MIGRATE, "live-migrate", False),
    "stop for a reboot of the host": (Action.STOP, "reboot", True),
    "start after a reboot of the host": (Action.START, "reboot", True),
    "stop on a host that is rebooted": (Action.STOP, "reboot", False),
    "reboot of a VM, whose host is rebooted": (Action.REBOOT, "reboot", True),
}


@pytest.mark.parametrize("name", LIMITS)
def test_plan_simulation_and_campaign_leave_out_the_same_host(name: str) -> None:
    action, impact, is_vm = LIMITS[name]
    vm, host = ("s1-1", "") if is_vm else ("", name_of(1))
    world = new_world(Limited(action=action, reason=REASON, vm=vm, host=host))
    campaign_text = text(impact)
    planned, played = plan(world, campaign_text), simulation(world, campaign_text)
    expected = [host for host in ALL if host != name_of(1)]
    assert hosts_of(planned) == hosts_of(played) == expected
    assert [refusal["host"] for refusal in planned["refused"]] == [name_of(1)]
    assert REASON in planned["refused"][0]["message"]
    assert (played["state"], played["done"]) == ("Done", HOSTS - 1)
    start_text(world, campaign_text.text)
    world.advance("2d")
    assert campaign(world).done == HOSTS - 1
    operations = world.read(
        lambda reader: list(
            every(reader, kinds.OPERATIONS_OF_REQUEST, rollout(world).request_id)
        )
    )
    assert sorted(operation.host for operation in operations) == expected


def test_limits_of_calls_that_are_not_made_leave_out_nothing() -> None:
    limited = (
        Limited(action=Action.STOP, vm="s1-1"),
        Limited(action=Action.REBOOT, vm="s2-2", able=Able.UNKNOWN),
    )
    world = new_world(*limited, steps=StepRules())
    campaign_text = text("reboot")
    planned, played = plan(world, campaign_text), simulation(world, campaign_text)
    # Without a step that reboots the host, each VM is restarted and none is stopped.
    assert hosts_of(planned) == hosts_of(played) == ALL
    warning = "the driver does not know whether reboot is possible on 1 host"
    assert warning in planned["warnings"]
    assert warning in played["warnings"]


def test_campaign_of_which_no_host_is_possible_is_refused_by_both() -> None:
    world = new_world(*(Limited(action=Action.START, host=name) for name in ALL))
    campaign_text = text("reboot")
    for make in (plan, simulation):
        with pytest.raises(RefusedError, match="can be done: 4 unable"):
            make(world, campaign_text)


def test_simulation_reboots_the_hosts_as_the_campaign_does() -> None:
    world = new_world()
    expect = '[campaign.expect]\ntypical = "30m"\nslow = "30m"\n'
    played = simulation(world, text("reboot", ONE_STAGE + expect))
    for host in played["hosts"]:
        length = parse_instant(host["ends"]) - parse_instant(host["starts"])
        assert 30 * MINUTE - SECOND <= length <= 40 * MINUTE, host
    # A verified host leaves its place, and its VMs recover during the next notice.
    assert played["budgets"][0]["used"] == played["budgets"][0]["most"] == 1
    start_text(world, file_of(impact="reboot"))
    kinds_of_steps = {step.kind for step in rollout(world).steps}
    assert kinds_of_steps == {StepKind.WORK, StepKind.ANSWERS}


def test_digest_of_a_plan_notices_that_its_hosts_are_rebooted_now() -> None:
    campaign_text = text("reboot")
    digests = {
        plan(new_world(steps=steps), campaign_text)["digest"]
        for steps in (REBOOTS, StepRules())
    }
    assert len(digests) == 2
