"""Hosts are taken into a running campaign, also those that its fleet gained later."""

import pytest

from forewarn.admin.access import Caller
from forewarn.admin.bodies import BODIES
from forewarn.admin.decisions import Decision
from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import campaigns, failures
from forewarn.control.requests.verbs import campaign_hosts
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.errors import BadRequestError, NotFoundError, RefusedError
from forewarn.protocol.operations import Action
from forewarn.reporting.campaigns import campaign_report
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind
from tests.support.campaigns import (
    ONE_STAGE,
    campaign,
    in_work,
    rollout,
    start,
    steer,
)
from tests.support.rollouts import fleet, name_of, world_of
from tests.support.worlds import World

CANARY = "[[campaign.stage]]\nhosts = 1\n"


def of(hosts: int, *, failing: int = 0) -> World:
    driver = SimulatedDriver()
    for number in range(failing):
        vm = f"s{number}-{number}"
        driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm=vm, times=3))
    return world_of([{f"s{number}": 0} for number in range(hosts)], driver=driver)


def grow(world: World, hosts: int) -> None:
    """Apply a fleet file with this many hosts."""
    world.apply_fleet(fleet([{f"s{number}": 0} for number in range(hosts)]))


def add(world: World, *hosts: str, name: str = "bios", drift: bool = False) -> None:
    steer(
        world,
        lambda work: campaign_hosts.add_hosts(work, name, hosts, with_drift=drift),
    )


def drift(world: World) -> int:
    row = campaign(world)
    return world.read(lambda reader: campaign_report(reader, row, now=world.now))[
        "drift"
    ]


def test_an_added_host_comes_last_in_the_last_stage() -> None:
    world = of(4)
    start(world, CANARY)
    assert drift(world) == 0
    grow(world, 6)
    assert drift(world) == 2
    add(world, name_of(5))
    row = campaign(world)
    assert (row.hosts, row.stage, row.stage_left) == (5, 1, 1)
    assert [stage.hosts for stage in row.stages] == [1, 4]
    assert in_work(world) == [name_of(0)]
    assert drift(world) == 1
    add(world, drift=True)
    assert (campaign(world).hosts, drift(world)) == (6, 0)
    world.advance("2d")
    row = campaign(world)
    assert (row.state, row.done) == (CampaignState.DONE, 6)
    started = sorted(world.operations(), key=lambda operation: operation.started_at)
    assert [operation.host for operation in started[-2:]] == [name_of(5), name_of(4)]


def test_only_hosts_that_match_the_selection_are_drift() -> None:
    world = of(2)
    start(world, ONE_STAGE)
    text = fleet([{f"s{number}": 0} for number in range(2)])
    world.apply_fleet(text + '\n[[host]]\nname = "new"\nzone = "2"\n')
    assert drift(world) == 1, "the campaign selects all hosts"
    world.apply_fleet(text)
    assert drift(world) == 0, "the host has left the fleet"


def test_what_cannot_be_added_says_why() -> None:
    world = of(6, failing=1)
    start(world, "[campaign.tolerance]\nin_a_row = 2\n" + ONE_STAGE)
    while campaign(world).done < 1:
        world.advance("1m")
    grow(world, 9)
    world.order(lambda work: failures.fail_host(work, name_of(8)))
    world.settle()
    for host, why in (
        (name_of(0), "has failed in campaign bios"),
        (name_of(1), "is done in campaign bios"),
        (name_of(5), "is in campaign bios, which has not ended"),
        (name_of(8), "is down"),
    ):
        with pytest.raises(RefusedError, match=why):
            add(world, host)
    with pytest.raises(NotFoundError, match="there is no host 'h99'"):
        add(world, "h99")
    with pytest.raises(BadRequestError, match="name hosts, or all hosts"):
        add(world)
    with pytest.raises(RefusedError, match="at most 25 hosts, not 26"):
        add(world, *(f"x{number}" for number in range(26)))
    with pytest.raises(BadRequestError, match="an added host needs a reason"):
        world.order(
            lambda work: campaign_hosts.add_hosts(
                work, "bios", [name_of(7)], with_drift=False
            )
        )
    assert campaign(world).hosts == 6


def test_a_host_whose_vms_cannot_leave_is_refused() -> None:
    hosts = [{f"s{number}": 0} for number in range(3)]
    world = world_of(hosts)
    start(world, impact="live-migrate")
    pinned = fleet(hosts) + (
        '\n[[host]]\nname = "new"\n[[vm]]\nname = "gpu"\nhost = "new"\nmovable = false\n'
    )
    world.apply_fleet(pinned)
    with pytest.raises(
        RefusedError, match="host new cannot be emptied: VM gpu cannot be moved"
    ):
        add(world, "new")


def test_a_skipped_host_can_come_back_and_no_drift_is_refused() -> None:
    world = of(3)
    start(world)
    with pytest.raises(RefusedError, match="campaign bios has no drift"):
        add(world, drift=True)
    steer(world, lambda work: campaigns.skip(work, "bios", [name_of(2)]))
    add(world, name_of(2))
    world.advance("1d")
    row = campaign(world)
    assert (row.state, row.done, row.skipped) == (CampaignState.DONE, 3, 1)
    with pytest.raises(RefusedError, match="campaign bios is Done"):
        add(world, name_of(2))


def test_percentages_and_tenants_follow_the_added_hosts() -> None:
    world = of(4)
    start(
        world, '[campaign.budget]\nin_flight = "50%"\ntenant_vms = "50%"\n' + ONE_STAGE
    )
    grow(world, 8)
    text = fleet([{f"s{number}": 0} for number in range(8)])
    world.apply_fleet(
        text
        + '\n[[tenant]]\nname = "bank"\n[[host]]\nname = "new"\n'
        + "".join(
            f'[[scope]]\nname = "b{n}"\ntenant = "bank"\nkind = "availability-set"\n'
            f'[[vm]]\nname = "b{n}"\nhost = "new"\nscope = "b{n}"\nfault_domain = 0\n'
            for n in range(4)
        )
    )
    add(world, drift=True)
    row = campaign(world)
    assert row.hosts == 9
    assert dict(row.tenant_most) == {"shop": 2, "bank": 2}
    assert (rollout(world).hosts, rollout(world).at_once) == (9, 4)


def test_the_history_has_who_added_which_hosts_and_why() -> None:
    world = of(2)
    start(world)
    grow(world, 3)
    add(world, name_of(2))
    (entry,) = [
        entry
        for entry in world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
        if entry.kind is AuditKind.CAMPAIGN_HOSTS_ADDED
    ]
    assert (entry.actor.name, entry.why) == ("alice", "a reason")
    assert f"host:{name_of(2)}" in entry.subjects


def in_parts(world: World, verb: str, *hosts: str) -> list[dict[str, str]]:
    """Give a request with the hosts, and return which of them it refused."""
    said = {"campaign": "bios", "hosts": list(hosts), "reason": "a reason"}
    body = BODIES[verb].model_validate(said)
    caller = Caller(name="alice")
    decision = Decision(name=verb, body=body, caller=caller)
    result = world.order(decision, actor="alice", reason="a reason")
    world.settle()
    return result.value["refused"]


def test_a_refused_host_leaves_the_others() -> None:
    world = of(4, failing=2)
    start(world, "[campaign.tolerance]\nfailures = 2\nin_a_row = 2\n" + ONE_STAGE)
    while len(campaign(world).failed) < 2:
        world.advance("1m")
    grow(world, 6)
    refused = in_parts(world, "campaign-add", name_of(0), name_of(4), name_of(3))
    assert [refusal["name"] for refusal in refused] == [name_of(0), name_of(3)]
    assert "has failed in campaign bios" in refused[0]["error"]
    assert campaign(world).hosts == 5
    refused = in_parts(world, "campaign-skip", name_of(5), name_of(1))
    assert [refusal["name"] for refusal in refused] == [name_of(5)]
    assert (campaign(world).failed_hosts, campaign(world).skipped) == ((name_of(0),), 1)
    refused = in_parts(world, "campaign-retry", name_of(1), name_of(0), name_of(0))
    assert [refusal["name"] for refusal in refused] == [name_of(1), name_of(0)]
    assert campaign(world).failed_hosts == ()
    with pytest.raises(RefusedError, match="all 2 targets were refused"):
        in_parts(world, "campaign-add", name_of(3), name_of(4))
