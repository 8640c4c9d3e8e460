"""A host is in one campaign that has not ended, however two starts are interleaved."""

import json
from collections import Counter
from itertools import permutations
from typing import Any

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.prepared import Prepared
from forewarn.campaigns.text import CampaignText
from forewarn.control.requests import campaign_starts, campaigns
from forewarn.control.requests.verbs import DECISIONS
from forewarn.control.requests.verbs import campaign_hosts as adding
from forewarn.control.requests.verbs.changes import OrderOptions, maintain
from forewarn.control.rules import campaign_hosts
from forewarn.control.transactions.work import Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action
from forewarn.reporting import campaign_plans
from forewarn.verbs.model import VerbRequest
from tests.support.campaigns import ONE_STAGE, announced, campaign, file_of, steer
from tests.support.counted import Counted
from tests.support.rollouts import fleet, name_of, world_of
from tests.support.worlds import World


def of(hosts: int) -> World:
    return world_of([{f"s{number}": 0} for number in range(hosts)])


def prepare(world: World, name: str, select: str = "all = true") -> Prepared:
    """Plan a campaign as the planning process does, from a snapshot of the store."""
    written = file_of(ONE_STAGE, name=name).replace("all = true", select)
    text = CampaignText(name="campaign.toml", text=written)
    request = campaign_starts.plan_request(text, world.plane.policy, now=world.now)
    return world.read(
        lambda reader: campaign_starts.prepared_of(
            reader, campaign_starts.plan_of(reader, request), text
        )
    )


def held_in_plan(world: World, name: str, more: str = "") -> list[dict[str, Any]]:
    """Return which other campaigns have hosts of a plan, as its report says."""
    written = file_of(ONE_STAGE, name=name).replace(
        "all = true }", f"all = true }}{more}"
    )
    text = CampaignText(name="campaign.toml", text=written)
    request = campaign_starts.plan_request(text, world.plane.policy, now=world.now)
    message = world.read(lambda reader: campaign_plans.planned(reader, request).text)
    return json.loads(message)["held"]


def begin(world: World, prepared: Prepared) -> bool:
    """Start a campaign in its transaction; return whether it was started."""
    try:
        world.order(lambda work: campaigns.start(work, prepared), actor="alice")
    except RefusedError:
        return False
    return True


def test_of_two_starts_that_share_a_host_one_is_refused_in_any_interleaving() -> None:
    steps = [("prepare", "a"), ("start", "a"), ("prepare", "b"), ("start", "b")]
    orders = {
        order
        for order in permutations(steps)
        if all(order.index(("prepare", x)) < order.index(("start", x)) for x in "ab")
    }
    assert len(orders) == 6
    for order in orders:
        world = of(4)
        ready: dict[str, Prepared] = {}
        started: list[str] = []
        for what, name in order:
            if what == "prepare":
                try:
                    ready[name] = prepare(world, name)
                except RefusedError:
                    continue
            elif name in ready and begin(world, ready[name]):
                started.append(name)
        assert len(started) == 1, order
        hosts = [
            operation.host for operation in world.operations() if not operation.ended_at
        ]
        assert len(hosts) == len(set(hosts)) == 4


def test_starts_of_other_hosts_do_not_disturb_each_other() -> None:
    world = of(4)
    first = prepare(world, "a", 'host = ["h0000", "h0001"]')
    second = prepare(world, "b", 'host = ["h0002", "h0003"]')
    assert begin(world, first)
    assert begin(world, second)


def test_hosts_that_are_not_planned_yet_are_not_free() -> None:
    world = of(60)
    first, second = prepare(world, "a"), prepare(world, "b", 'host = ["h0059"]')

    def both(work: Work) -> None:
        campaigns.start(work, first)
        campaigns.start(work, second)

    with pytest.raises(RefusedError, match="campaign a has 1 of the hosts"):
        world.order(both, actor="alice")


def test_a_start_reads_no_host_of_campaigns_that_its_plan_has_seen() -> None:
    world = of(100)
    assert begin(world, prepare(world, "a", 'all = true, except = ["h0099"]'))
    second = prepare(world, "b", 'host = ["h0099"]')
    rows: Counter[str] = Counter()
    world.read(
        lambda reader: campaign_hosts.check_free(
            Counted(reader, rows).reader, second.hosts, known=second.seen
        )
    )
    assert rows == {"campaigns_open": 2, "rollouts_implying_open": 1}


def test_hosts_of_an_ended_campaign_are_free() -> None:
    world = of(2)
    first, second = prepare(world, "a"), prepare(world, "b")
    assert begin(world, first)
    steer(world, lambda work: campaigns.abort(work, "a"))
    assert begin(world, second)


def test_host_that_is_removed_is_skipped_and_frees_its_place() -> None:
    world = of(4)
    assert begin(world, prepare(world, "a"))
    world.settle()
    (first,) = announced(world)
    assert first == name_of(0)
    left = fleet([{f"s{number}": 0} for number in range(4)])
    # The announced host and the last one go, with their VMs.
    for number in (0, 3):
        for table in (
            f'[[vm]]\nname = "s{number}-{number}"',
            f'[[host]]\nname = "h000{number}"',
        ):
            start = left.index(table)
            end = left.find("[[", start + 2)
            left = left[:start] + (left[end:] if end >= 0 else "")
    world.apply_fleet(left)
    world.settle()
    assert announced(world) == [name_of(1)]
    world.advance("1d")
    row = campaign(world, "a")
    assert (row.state, row.done, row.skipped) == (CampaignState.DONE, 2, 2)


def ordered(world: World, *hosts: str) -> str:
    """Maintain these hosts; return the ID of the rollout."""
    wishes = OrderOptions()
    result = world.order(lambda work: maintain(work, hosts, Action.REBOOT, wishes))
    world.settle()
    return result.request_id


def test_a_rollout_of_several_hosts_is_a_campaign_before_it_is_steered() -> None:
    world = of(4)
    name = ordered(world, "h0000", "h0001")
    with pytest.raises(RefusedError, match=f"campaign {name} has 2 of the hosts"):
        prepare(world, "a")
    assert begin(world, prepare(world, "b", 'host = ["h0002"]'))
    with pytest.raises(RefusedError, match=f"host h0001 is in campaign {name}"):
        steer(
            world, lambda work: adding.add_hosts(work, "b", ["h0001"], with_drift=False)
        )
    steer(world, lambda work: campaigns.pause(work, name))


def test_a_rollout_that_begins_after_the_plan_keeps_its_hosts() -> None:
    world = of(3)
    ready = prepare(world, "a")
    ordered(world, "h0000", "h0001")
    assert not begin(world, ready)


def test_a_single_host_is_no_campaign() -> None:
    world = of(3)
    ready = prepare(world, "a")
    ordered(world, "h0000")
    assert begin(world, ready)


def test_failed_host_of_a_campaign_is_repaired_alone_and_joins_no_other() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    world = world_of([{f"s{number}": 0} for number in range(4)], driver=driver)
    assert begin(world, prepare(world, "a", 'host = ["h0000", "h0001"]'))
    world.settle()
    while not campaign(world, "a").failed:
        world.advance("1m")
    with pytest.raises(RefusedError, match="host h0000 has failed in campaign a"):
        ordered(world, "h0000", "h0002")
    request = VerbRequest(targets=("h0000", "h0002"), values={})
    with pytest.raises(RefusedError, match="host h0000 has failed in campaign a"):
        world.order(lambda work: DECISIONS["host-drain"](work, request))
    assert ordered(world, "h0000"), "a repair by hand stays possible"


def test_plan_names_the_campaigns_that_have_its_hosts_as_the_start_does() -> None:
    world = of(5)
    assert held_in_plan(world, "a") == []
    assert begin(world, prepare(world, "a", 'host = ["h0001", "h0003"]'))
    other = ordered(world, "h0002", "h0004")
    first, second = held_in_plan(world, "b")
    assert (first["name"], first["state"]) == ("a", "Running")
    assert (first["host_count"], first["hosts"]) == (2, ["h0001", "h0003"])
    assert first["refuses_start"]
    assert "`forewarn campaign skip a h0001 h0003 --reason TEXT`" in first["hint"]
    assert (second["name"], second["hosts"]) == (other, ["h0002", "h0004"])
    with pytest.raises(RefusedError) as refused:
        prepare(world, "b")
    # The order of the campaigns is that of the plan.
    assert (refused.value.message, refused.value.hint) == (
        first["message"],
        first["hint"],
    )


def test_plan_of_an_emergency_says_which_hosts_it_takes_over() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    world = world_of([{f"s{number}": 0} for number in range(4)], driver=driver)
    assert begin(world, prepare(world, "a", 'host = ["h0000", "h0001", "h0002"]'))
    world.settle()
    while not campaign(world, "a").failed:
        world.advance("1m")
    failed, taken = held_in_plan(world, "b", "\nemergency = true")
    assert (failed["hosts"], failed["refuses_start"]) == (["h0000"], True)
    assert "`forewarn campaign skip a h0000 --reason TEXT`" in failed["hint"]
    assert (taken["hosts"], taken["refuses_start"]) == (["h0001", "h0002"], False)
    assert taken["message"] == (
        "2 hosts of campaign a would be taken over, each at its turn"
    )
    assert taken["hint"] == ""
