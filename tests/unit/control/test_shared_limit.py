"""Campaigns share the limit `[campaigns] in_flight` by their priorities."""

from collections import Counter
from dataclasses import replace

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import CampaignRecord
from forewarn.campaigns.text import CampaignText
from forewarn.control.requests import campaign_starts, campaigns, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.actors import operator
from forewarn.protocol.notes import Cancelled
from forewarn.protocol.operations import Action
from forewarn.store.memory import MemoryStore
from tests.support.campaigns import ONE_STAGE, campaign, steer, waits_for
from tests.support.rollouts import PLANNED, fleet, name_of
from tests.support.worlds import World

CANCELLED = Cancelled(by=operator("bob"))

HOSTS = 6
"""Hosts of each campaign."""

NAMES = ("bios", "disks", "nics")


def new_world(limit: int = 2, count: int = 2, *, shared: bool = False) -> World:
    """Return hosts with VMs of their own scopes, for some campaigns.

    If `shared`, the VMs of the second campaign are in fault domains of one scope.
    """
    hosts = [{f"s{number}": 0} for number in range(HOSTS * count)]
    if shared:
        hosts[HOSTS : 2 * HOSTS] = [{"db": domain} for domain in range(HOSTS)]
    return World(
        store=MemoryStore,
        driver=SimulatedDriver(),
        fleet=fleet(hosts),
        policy=Policy(campaigns_in_flight=limit),
    )


def begin(
    world: World, name: str, *, priority: int = 0, in_flight: int = 4, more: str = ""
) -> CampaignRecord:
    """Start a campaign of its own hosts."""
    first = NAMES.index(name) * HOSTS
    hosts = ", ".join(f'"{name_of(first + number)}"' for number in range(HOSTS))
    written = (
        f'[campaign]\nname = "{name}"\nreason = "CVE-2026-1234"\nimpact = "reboot"\n'
        f"priority = {priority}\nselect = {{ host = [{hosts}] }}\n"
        f"[campaign.budget]\nin_flight = {in_flight}\n{ONE_STAGE}{more}"
    )
    text = CampaignText(name="campaign.toml", text=written)
    request = campaign_starts.plan_request(text, world.plane.policy, now=world.now)
    prepared = world.read(
        lambda reader: campaign_starts.prepared_of(
            reader, campaign_starts.plan_of(reader, request), text
        )
    )
    result = world.order(lambda work: campaigns.start(work, prepared), actor="alice")
    world.settle()
    return result


def in_flight(world: World) -> Counter[str]:
    """Return the hosts in flight of each campaign."""
    return Counter(
        NAMES[int(operation.host.removeprefix("h")) // HOSTS]
        for operation in world.operations()
        if not operation.ended_at and operation.state is not PLANNED
    )


def is_done(world: World, *names: str) -> bool:
    return all(campaign(world, name).state is CampaignState.DONE for name in names)


def play(world: World, *names: str, limit: int = 2) -> list[Counter[str]]:
    """Advance until the campaigns are done; return what was in flight in each minute."""
    seen: list[Counter[str]] = []
    for _ in range(2 * 24 * 60):
        seen.append(in_flight(world))
        assert seen[-1].total() <= limit
        if is_done(world, *names):
            return seen
        world.advance("1m")
    raise AssertionError([waits_for(world, name) for name in names])


def test_two_campaigns_share_two_places_and_the_higher_priority_goes_first() -> None:
    world = new_world()
    begin(world, "bios")
    begin(world, "disks", priority=5, in_flight=2)
    assert in_flight(world) == {"bios": 1, "disks": 1}
    begun = False
    while not is_done(world, "disks"):
        world.advance("1m")
        now = in_flight(world)
        assert now.total() <= 2
        begun = begun or now["disks"] == 2
        if begun and campaign(world, "disks").left > 1:
            assert now["bios"] == 0, "a campaign of lower priority passed it"
    assert begun
    play(world, "bios")


def test_the_older_campaign_of_the_same_priority_goes_first() -> None:
    world = new_world()
    begin(world, "bios", in_flight=2)
    begin(world, "disks", in_flight=2)
    world.advance("1m")
    seen = play(world, "bios", "disks")
    both = [counts for counts in seen if counts["bios"] == 2]
    assert both
    assert max(counts["disks"] for counts in seen) == 2
    assert campaign(world, "bios").ended < campaign(world, "disks").ended


def test_a_campaign_says_which_one_goes_first() -> None:
    world = new_world(limit=1)
    begin(world, "disks", priority=5)
    begin(world, "bios")
    assert in_flight(world) == {"disks": 1}
    waits = (
        "campaign bios: 1 of 1 hosts of all campaigns are in flight, the maximum of "
        "`[campaigns] in_flight`"
    )
    assert waits_for(world) == waits
    world.advance("20m")
    while campaign(world, "disks").ramp < 2:
        world.advance("1m")
    assert waits_for(world) == f"{waits}, and campaign disks goes first"
    (host,) = [
        operation for operation in world.operations() if operation.host == name_of(0)
    ]
    assert world.explain(host.operation_id) == [waits_for(world)]


def test_a_paused_campaign_blocks_no_other() -> None:
    world = new_world(limit=1)
    begin(world, "disks", priority=5)
    begin(world, "bios")
    steer(world, lambda work: campaigns.pause(work, "disks"))
    seen = play(world, "bios", limit=1)
    assert any(counts["bios"] for counts in seen)
    assert campaign(world, "disks").state is CampaignState.PAUSED
    steer(world, lambda work: campaigns.resume(work, "disks", by_all=True))
    play(world, "disks", limit=1)


def test_a_free_place_goes_to_a_lower_priority_when_the_first_campaign_is_paused() -> (
    None
):
    world = new_world(limit=2)
    begin(world, "disks", priority=5, in_flight=2)
    while in_flight(world)["disks"] < 2:
        world.advance("1m")
    begin(world, "bios")
    assert in_flight(world)["bios"] == 0
    steer(world, lambda work: campaigns.pause(work, "disks"))
    while in_flight(world)["disks"] == 2:
        world.advance("1m")
    assert in_flight(world)["bios"] == 1


def test_a_closed_window_blocks_no_other_campaign() -> None:
    world = new_world(limit=1, count=3)
    closed = (
        '[[campaign.window]]\ndays = ["sat"]\nstart = "02:00"\nlength = "20h"\n'
        'timezone = "UTC"\n'
    )
    begin(world, "disks", priority=9, more=closed)
    begin(world, "nics", priority=5)
    begin(world, "bios")
    seen = play(world, "nics", "bios", limit=1)
    assert not any(counts["disks"] for counts in seen)
    assert campaign(world, "nics").ended < campaign(world, "bios").ended


def test_a_campaign_whose_hosts_are_passed_over_blocks_no_other() -> None:
    world = new_world(shared=True)
    begin(world, "disks", priority=5)
    begin(world, "bios")
    seen = play(world, "bios", "disks")
    assert max(counts["disks"] for counts in seen) == 1, "its hosts share a scope"
    assert any(counts["disks"] == counts["bios"] == 1 for counts in seen)


def test_the_limit_holds_after_a_restart_and_when_it_is_taken_away() -> None:
    world = new_world(limit=2)
    begin(world, "bios")
    begin(world, "disks")
    for _ in range(90):
        world.advance("1m")
        world.restart()
        assert in_flight(world).total() <= 2
    world = new_world(limit=0)
    begin(world, "bios")
    begin(world, "disks")
    most = 0
    while not is_done(world, "bios", "disks"):
        world.advance("1m")
        most = max(most, in_flight(world).total())
    assert most > 2


def maintain(world: World, first: int, count: int, *, actor: str = "bob") -> str:
    """Order the maintenance of some hosts, two at once; return its rollout."""
    names = [name_of(first + number) for number in range(count)]
    wishes = OrderOptions(at_once=2)
    result = world.order(
        lambda work: verbs.maintain(work, names, Action.REBOOT, wishes), actor=actor
    )
    world.settle()
    return result.request_id


def test_maintain_of_several_hosts_uses_the_places_of_campaigns_and_waits_for_them() -> (
    None
):
    world = new_world(limit=2)
    begin(world, "disks", in_flight=2)
    rollout = maintain(world, 0, HOSTS)
    assert in_flight(world) == {"bios": 1, "disks": 1}
    waits = (
        f"campaign {rollout}: 2 of 2 hosts of all campaigns are in flight, the maximum of "
        "`[campaigns] in_flight`"
    )
    (last,) = [
        operation
        for operation in world.operations()
        if operation.host == name_of(HOSTS - 1)
    ]
    assert world.explain(last.operation_id)[0] == waits
    seen: list[Counter[str]] = []
    while not is_done(world, "disks", rollout):
        seen.append(in_flight(world))
        assert seen[-1].total() <= 2
        world.advance("1m")
    # The campaign is older, so it goes first. Then both places are the rollout's.
    assert max(counts["disks"] for counts in seen) == 2
    assert max(counts["bios"] for counts in seen) == 2


def test_campaign_waits_for_an_older_rollout_that_nothing_steers() -> None:
    world = new_world(limit=1)
    rollout = maintain(world, 0, HOSTS)
    begin(world, "disks")
    assert in_flight(world) == {"bios": 1}
    seen: list[Counter[str]] = []
    while not is_done(world, "disks", rollout):
        seen.append(in_flight(world))
        assert seen[-1].total() <= 1
        world.advance("1m")
    first_of_disks = next(n for n, counts in enumerate(seen) if counts["disks"])
    assert not any(counts["bios"] for counts in seen[first_of_disks:])


def test_a_place_that_a_single_host_used_goes_to_a_campaign_that_waits() -> None:
    world = new_world(limit=1)
    maintain(world, 0, 1)
    begin(world, "disks")
    assert in_flight(world) == {"bios": 1}
    while in_flight(world)["bios"]:
        world.advance("1m")
    assert in_flight(world) == {"disks": 1}


def test_cancelled_rollout_leaves_its_place_to_a_campaign() -> None:
    world = new_world(limit=1)
    rollout = maintain(world, 0, HOSTS)
    begin(world, "disks")
    assert in_flight(world) == {"bios": 1}
    world.order(lambda work: verbs.cancel(work, rollout, note=CANCELLED))
    world.settle()
    assert in_flight(world) == {"disks": 1}


def test_emergency_rollout_goes_before_an_older_campaign() -> None:
    world = new_world(limit=1)
    begin(world, "disks", priority=5)
    wishes = OrderOptions(emergency=True)
    names = [name_of(number) for number in range(3)]
    world.order(lambda work: verbs.maintain(work, names, Action.REBOOT, wishes))
    world.settle()
    assert in_flight(world) == {"disks": 1}
    world.advance("20m")
    while not in_flight(world)["bios"]:
        assert in_flight(world).total() == 1
        world.advance("1m")
    assert campaign(world, "disks").done == 1


def test_limit_that_was_set_later_holds_for_a_rollout_that_runs() -> None:
    world = new_world(limit=0)
    rollout = maintain(world, 0, HOSTS)
    assert in_flight(world) == {"bios": 2}
    world.plane.policy = replace(world.plane.policy, campaigns_in_flight=1)
    while in_flight(world)["bios"] == 2:
        world.advance("1m")
    world.advance("5m")
    for _ in range(3):
        world.advance("10m")
        assert in_flight(world)["bios"] <= 1
    assert not is_done(world, rollout)
