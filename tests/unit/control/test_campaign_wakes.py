"""A campaign continues at once when what its hosts wait for is free.

The search of campaigns (`tests/search/campaigns`) found each of these: the campaign stood
still for an hour, or until the service was started again.
"""

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import brake, campaigns, failures, verbs
from forewarn.control.requests.rollouts import PATIENCE
from forewarn.control.rules import waits
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind, parse_fault
from forewarn.instants import MINUTE
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import Action, Operation, OperationState
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import every
from tests.support.campaigns import ONE_STAGE, announced, campaign, start, steer
from tests.support.rollouts import fleet, name_of, roll_out, world_of
from tests.support.worlds import World

HOSTS = 4
IN_TURN = [name_of(number) for number in range(HOSTS)]

WINDOW = 'maintenance_window = { start = "00:00", length = "2h", timezone = "UTC" }'
"""The window of the first host's scope, from the start of a world on."""


def of(driver: SimulatedDriver | None = None) -> World:
    """Return hosts with a VM each; all but the last one stand in one rack."""
    text = fleet([{f"s{number}": 0} for number in range(HOSTS)])
    for number, name in enumerate(IN_TURN):
        rack = f'name = "{name}"\nrack = "r{number // (HOSTS - 1)}"'
        text = text.replace(f'name = "{name}"', rack)
    text = text.replace('name = "s0"', f'name = "s0"\n{WINDOW}')
    driver = driver or SimulatedDriver()
    return World(store=MemoryStore, driver=driver, fleet=text)


def fail(world: World, host: str) -> None:
    world.order(lambda work: failures.fail_host(work, host))
    world.settle()


def put_on(world: World) -> None:
    world.order(brake.put_on, actor="bob", reason="power is unstable")
    world.settle()


def test_a_stage_whose_hosts_were_all_skipped_before_it_ends_at_once() -> None:
    world = of()
    stage = "[[campaign.stage]]\nhosts = {}\n"
    start(world, stage.format(1) + stage.format(2))
    steer(world, lambda work: campaigns.skip(work, "bios", [IN_TURN[1]]))
    world.advance("40m")
    row = campaign(world)
    assert (row.done, row.stage) == (1, 3)
    assert announced(world) == [IN_TURN[2]]


RACKS = (
    '[campaign.budget]\nin_flight = 2\n[[campaign.budget.by]]\nlabel = "rack"\nmax = 1\n'
    + ONE_STAGE
)


def with_a_failed_host() -> World:
    """Return a campaign that has one failed host, which takes the place of its rack."""
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    world = of(driver)
    start(world, RACKS)
    world.advance("3h")
    assert campaign(world).failed_hosts == (IN_TURN[0],)
    assert campaign(world).done == 1, "the host of the other rack"
    assert announced(world) == []
    return world


def test_skipping_a_failed_host_gives_its_place_in_the_rack_to_the_next_host() -> None:
    world = with_a_failed_host()
    steer(world, lambda work: campaigns.skip(work, "bios", [IN_TURN[0]]))
    assert announced(world) == [IN_TURN[1]]


def test_a_retried_host_whose_window_is_closed_leaves_its_place_to_the_next() -> None:
    world = with_a_failed_host()
    steer(world, lambda work: campaigns.retry(work, "bios", [IN_TURN[0]]))
    assert of_host(world, IN_TURN[0]).state is OperationState.FAILED
    assert announced(world) == [IN_TURN[1]]


STEPS = '[campaign.steps]\nwork = { step = "flash" }\n' + RACKS


def at_work(world: World) -> list[str]:
    """Return the hosts with a visit that is announced or in work."""
    open_ = world.read(lambda reader: list(every(reader, kinds.OPEN_VISITS)))
    return [visit.host for visit in open_ if visit.occupies_host]


def with_a_failed_visit() -> World:
    driver = SimulatedDriver()
    driver.inject(parse_fault("work fail"))
    world = of(driver)
    start(world, STEPS, impact="none")
    world.advance("3h")
    assert campaign(world).failed_hosts == (IN_TURN[0],)
    assert at_work(world) == []
    return world


def test_skipping_a_failed_visit_gives_its_place_to_one_host_until_it_is_done() -> None:
    world = with_a_failed_visit()
    steer(world, lambda work: campaigns.skip(work, "bios", [IN_TURN[0]]))
    assert at_work(world) == [IN_TURN[1]]
    while campaign(world).state is not CampaignState.DONE:
        world.advance("10s")
        assert len(at_work(world)) <= 1, (
            "the work goes on after the end of the operation"
        )


def test_a_visit_that_is_repeated_takes_the_place_of_its_rack() -> None:
    world = with_a_failed_visit()
    steer(world, lambda work: campaigns.retry(work, "bios", [IN_TURN[0]]))
    seen: list[str] = []
    while campaign(world).state is not CampaignState.DONE:
        now = at_work(world)
        assert len(now) <= 1
        seen += [host for host in now if host not in seen]
        world.advance("10s")
    assert seen == IN_TURN[:-1]


@pytest.mark.parametrize("is_campaign", [True, False], ids=["campaign", "maintain"])
def test_the_end_of_the_brake_continues_a_rollout_whose_next_host_has_failed(
    *, is_campaign: bool
) -> None:
    world = of()
    if is_campaign:
        start(world)
    else:
        roll_out(world, HOSTS, action=Action.REBOOT)
    world.advance("16m")
    put_on(world)
    world.advance("40m")
    assert of_host(world, IN_TURN[0]).state is OperationState.DONE
    fail(world, IN_TURN[1])
    world.order(brake.take_off, actor="bob")
    world.settle()
    assert announced(world) == [IN_TURN[2]]


def test_a_cancelled_host_gives_up_the_scope_that_it_has_reserved() -> None:
    driver = SimulatedDriver()
    stall = Fault(kind=FaultKind.STALL, action=Action.REBOOT, vm="db-2", times=2)
    driver.inject(stall)
    # The second host has the other fault domain, and the third one stays in work.
    domains = [0, 1, 0, 0, 0, 0]
    world = world_of([{"db": domain} for domain in domains], driver=driver)
    roll_out(world, len(domains), at_once=2, action=Action.REBOOT)
    world.advance(PATIENCE + 20 * MINUTE)
    second = of_host(world, IN_TURN[1])
    assert waits.reserved("db") in second.waits_for
    assert of_host(world, name_of(4)).state is OperationState.DONE
    last = of_host(world, name_of(5))
    assert last.state is OperationState.PLANNED
    assert "has waited longer" in world.explain(last.operation_id)[0]
    cancelled = second.operation_id
    world.order(lambda work: verbs.cancel(work, cancelled, note=Said(text="")))
    world.settle()
    assert announced(world) == [last.host]


def of_host(world: World, host: str) -> Operation:
    return next(operation for operation in world.operations() if operation.host == host)


def test_a_host_that_was_approved_while_the_campaign_was_halted_starts_on_resume() -> (
    None
):
    world = of()
    start(world)
    (event,) = world.live_events()
    assert world.vm("s0-0").get().status == 200
    # The service is busy, so that it does not withdraw the announcement in time.
    world.plane.bound_turns(lambda: True)
    world.order(lambda work: campaigns.halt(work, "bios"), reason="a reason")
    assert world.vm("s0-0").approve(event.event_id).status == 200
    assert announced(world) == [IN_TURN[0]]
    world.order(
        lambda work: campaigns.resume(work, "bios", by_all=False), reason="a reason"
    )
    world.plane.bound_turns(lambda: False)
    world.settle()
    assert campaign(world).state is CampaignState.RUNNING
    assert of_host(world, IN_TURN[0]).state is OperationState.IMPACTING
