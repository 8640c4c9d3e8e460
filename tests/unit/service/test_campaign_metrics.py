"""The metrics of campaigns follow their records, and are zero without campaigns."""

from typing import Any

from forewarn.admin.meters import Reading
from forewarn.control.requests import brake, campaigns
from forewarn.control.rules.binding import binding_constraints
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import HOUR, SECOND
from forewarn.protocol.operations import Action, RequestState
from forewarn.service.campaign_metrics import OpenCampaigns
from forewarn.service.observed import Changes, Listener, ObservedStore
from tests.support.campaigns import campaign, start, steer
from tests.support.rollouts import request, roll_out, world_of
from tests.support.worlds import World


def values(readings: list[Reading]) -> dict[str, Any]:
    return {
        reading.meter.name.removeprefix("forewarn_"): reading.values
        for reading in readings
    }


def read(world: World) -> OpenCampaigns:
    """Return the campaigns as the service reads them at its start."""
    open_campaigns = OpenCampaigns(world.clock)
    world.read(open_campaigns.load)
    return open_campaigns


def test_metrics_of_a_campaign_from_its_start_to_its_end() -> None:
    world = world_of([{f"s{number}": 0} for number in range(3)])
    none = values(read(world).readings())
    assert none["campaigns"] == {"Running": 0, "Paused": 0, "Halted": 0}
    start(world)
    world.advance("30m")
    open_campaigns = read(world)
    first = values(open_campaigns.readings())
    assert first["campaigns"] == {"Running": 1, "Paused": 0, "Halted": 0}
    assert first["campaign_hosts"] == {"done": 1, "skipped": 0, "failed": 0, "left": 2}
    steer(world, lambda work: campaigns.halt(work, "bios"))
    halted = campaign(world)
    open_campaigns.changed(halted, halted)
    assert values(open_campaigns.readings()) == values(read(world).readings())
    causes = values(open_campaigns.readings())["campaigns_halted"]
    assert isinstance(causes, dict)
    assert {cause for cause, number in causes.items() if number} == {"operator"}
    world.advance("2h")
    age = values(open_campaigns.readings())["campaign_progress_age_seconds"]
    assert isinstance(age, float)
    assert age >= 2 * HOUR / SECOND
    steer(world, lambda work: campaigns.abort(work, "bios"))
    aborted = campaign(world)
    open_campaigns.changed(aborted, aborted)
    assert values(open_campaigns.readings()) == none


def binding(world: World) -> list[str]:
    return [
        blocker.kind
        for blocker in world.read(
            lambda reader: list(binding_constraints(reader, now=world.now))
        )
    ]


def test_binding_constraint_of_each_campaign_is_known() -> None:
    world = world_of([{f"s{number}": 0} for number in range(3)])
    assert binding(world) == []
    start(world)
    world.settle()
    assert binding(world) == ["budget"]
    world.order(brake.put_on, reason="a smell")
    assert binding(world) == ["brake"]
    steer(world, lambda work: campaigns.pause(work, "bios"))
    assert binding(world) == ["campaign stopped"]
    steer(world, lambda work: campaigns.abort(work, "bios"))
    assert binding(world) == []


class Taken(Listener):
    """Campaigns that follow the commits of a store."""

    def __init__(self, found: OpenCampaigns) -> None:
        self.found = found

    def committed(self, changes: Changes) -> None:
        self.found.take(changes)


def test_metrics_follow_a_rollout_that_no_verb_has_steered() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.FREEZE, vm="s3-3", times=3))
    world = world_of([{f"s{number}": 0} for number in range(5)], driver=driver)
    campaigns = OpenCampaigns(world.clock)
    world.plane.store = ObservedStore(
        world.store, clock=world.clock, listeners=[Taken(campaigns)]
    )
    roll_out(world, 5, at_once=2)
    counts_shown: set[str] = set()
    for _ in range(90):
        metrics = values(campaigns.readings())
        stored = values(read(world).readings())
        for name in ("campaigns", "campaign_hosts"):
            assert metrics[name] == stored[name]
        counts_shown.add(str(metrics["campaign_hosts"]))
        world.advance("1m")
    assert "{'done': 2, 'skipped': 0, 'failed': 0, 'left': 3}" in counts_shown
    assert request(world).state is RequestState.STOPPED
    assert values(campaigns.readings())["campaigns"] == {
        "Running": 0,
        "Paused": 0,
        "Halted": 0,
    }


def test_metrics_change_from_the_implied_to_the_stored_campaign() -> None:
    world = world_of([{f"s{number}": 0} for number in range(3)])
    open_campaigns = OpenCampaigns(world.clock)
    world.plane.store = ObservedStore(
        world.store, clock=world.clock, listeners=[Taken(open_campaigns)]
    )
    name = roll_out(world, 3).request_id
    assert values(open_campaigns.readings())["campaigns"]["Running"] == 1
    steer(world, lambda work: campaigns.pause(work, name))
    states = values(open_campaigns.readings())["campaigns"]
    assert states == {"Running": 0, "Paused": 1, "Halted": 0}
