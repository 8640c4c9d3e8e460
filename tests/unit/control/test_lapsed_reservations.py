"""A host that has waited for long holds others back only as long as that helps it."""

from collections.abc import Callable

import pytest

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.requests import campaigns, cordons, failures, verbs
from forewarn.control.requests.rollouts import PATIENCE
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import waits
from forewarn.control.transactions.work import Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import HOUR
from forewarn.protocol.operations import WAITING_STATES, Action
from forewarn.store.memory import MemoryStore
from tests.support.campaigns import ONE_STAGE, file_of, start_text, steer
from tests.support.rollouts import DONE, PLANNED, fleet, name_of, of_host
from tests.support.worlds import World

ONE_AT_ONCE = "[campaign.budget]\nin_flight = 1\n" + ONE_STAGE

FIRST = 0
"""Number of the host that the next one waits for."""

WAITING = 1
"""Number of the host that shares a scope with the first one, and another with the others."""

LATER = range(2, 14)
"""Numbers of the hosts after it; the first host stops none of them."""


SPARE = LATER[-1] + 1
"""Number of the other host in the pool of the waiting one."""


def of(driver: SimulatedDriver | None = None) -> World:
    later = [{"s": 0, "t": 1} for _ in LATER]
    text = fleet([{"s": 0}, {"s": 1, "t": 0}, *later, {}])
    for number in (WAITING, SPARE):
        own = f'name = "{name_of(number)}"'
        text = text.replace(own, f'{own}\npool = "alone"')
    return World(store=MemoryStore, driver=driver or SimulatedDriver(), fleet=text)


def begin(world: World, *numbers: int, impact: str = "reboot") -> None:
    """Start a campaign of these hosts, one at a time."""
    names = ", ".join(f'"{name_of(number)}"' for number in numbers)
    text = file_of(ONE_AT_ONCE, impact=impact)
    start_text(world, text.replace("{ all = true }", f"{{ host = [{names}] }}"))


def maintain(
    world: World, *numbers: int, action: Action = Action.REBOOT, ahead: int = 0
) -> None:
    """Order the maintenance of hosts, one at a time, without a campaign file."""
    names = [name_of(number) for number in numbers]
    not_before = world.now + ahead if ahead else None
    wishes = OrderOptions(
        at_once=1 if len(numbers) > 1 else None, not_before=not_before
    )
    world.order(lambda work: verbs.maintain(work, names, action, wishes))
    world.settle()


def has_reserved(world: World) -> bool:
    return any(map(waits.is_reservation, of_host(world, WAITING).waits_for))


def done(world: World) -> int:
    """Return how many of the hosts after the waiting one are done."""
    return sum(
        operation.state is DONE and operation.host > name_of(WAITING)
        for operation in world.operations()
    )


def why_waiting(world: World, number: int) -> str:
    return " ".join(world.explain(of_host(world, number).operation_id))


def behind_a_failed_host() -> World:
    world = of()
    world.order(lambda work: failures.fail_host(work, name_of(FIRST)))
    world.settle()
    begin(world, WAITING, *LATER)
    return world


def behind_work_with_an_unknown_outcome() -> World:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.UNKNOWN, action=Action.REBOOT, vm="s-0"))
    world = of(driver)
    maintain(world, FIRST)
    world.advance("1h")
    begin(world, WAITING, *LATER)
    return world


def behind_work_that_is_announced_for_tomorrow() -> World:
    world = of()
    maintain(world, FIRST, ahead=30 * HOUR)
    begin(world, WAITING, *LATER)
    return world


def without_another_host_for_its_vms() -> World:
    """Return a campaign whose first host has only a cordoned host beside it in its pool."""
    world = of()
    # It waits for the first host when the campaign starts.
    maintain(world, FIRST)
    begin(world, WAITING, *LATER, impact="redeploy")
    world.order(lambda work: cordons.cordon(work, name_of(SPARE)), reason="a fan")
    world.settle()
    return world


@pytest.mark.parametrize(
    ("begun", "reason"),
    [
        (behind_a_failed_host, "fault domain 0 of scope s is down until"),
        (behind_work_with_an_unknown_outcome, "fault domain 0 of scope s is announced"),
        (behind_work_that_is_announced_for_tomorrow, "fault domain 0 of scope s"),
        (without_another_host_for_its_vms, "no host with capacity for s-1"),
    ],
)
def test_a_host_that_no_work_helps_does_not_stop_the_hosts_after_it(
    begun: Callable[[], World], reason: str
) -> None:
    world = begun()
    world.advance("8h")
    assert done(world) == len(LATER)
    assert of_host(world, WAITING).state is PLANNED
    assert reason in why_waiting(world, WAITING)


def test_a_host_is_not_passed_over_for_ever_after_the_failed_one_is_back() -> None:
    world = behind_a_failed_host()
    world.advance("95m")
    assert not has_reserved(world)
    world.order(lambda work: failures.restore_host(work, name_of(FIRST)))
    world.settle()
    since = world.now
    while of_host(world, WAITING).state is not DONE:
        world.advance("1m")
        assert world.now < since + PATIENCE + HOUR, "it is passed over indefinitely"
    assert done(world) < len(LATER), "it waited until all others were done"


def behind_long_work(*later: int) -> World:
    """Return a world in which the waiting host has reserved its scopes."""
    driver = SimulatedDriver()
    stall = Fault(kind=FaultKind.STALL, action=Action.REBOOT, vm="s-0", times=2)
    driver.inject(stall)
    world = of(driver)
    maintain(world, FIRST)
    begin(world, WAITING, *later)
    world.advance("65m")
    assert has_reserved(world)
    return world


def test_a_host_that_waits_for_work_under_way_keeps_its_reservation() -> None:
    world = behind_long_work(*LATER)
    begun = done(world) + 1
    reasons: set[str] = set()
    while of_host(world, WAITING).state is PLANNED:
        reasons.add(why_waiting(world, LATER[-1]))
        world.advance("1m")
        assert done(world) <= begun, "no host begins before it in its scopes"
    assert any("has waited longer and comes first" in reason for reason in reasons)


def test_a_paused_campaign_reserves_no_scope_for_its_hosts() -> None:
    world = behind_long_work()
    steer(world, lambda work: campaigns.pause(work, "bios"))
    maintain(world, *LATER)
    world.advance("1h")
    done_while_paused = done(world)
    assert done_while_paused
    assert "has waited longer" not in why_waiting(world, LATER[-1])
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=True))
    while of_host(world, WAITING).state is not DONE:
        world.advance("1m")
    assert done(world) <= done_while_paused + 2, "its reservation counts again"


def first_behind_a_reservation(world: World) -> str:
    """Order the maintenance of the later hosts; return the operation of the first one."""
    maintain(world, *LATER)
    first = of_host(world, LATER[0])
    assert "has waited longer" in why_waiting(world, LATER[0])
    return first.operation_id


@pytest.mark.parametrize("verb", [campaigns.pause, campaigns.halt])
def test_hosts_behind_a_reservation_get_their_turn_when_its_campaign_stops(
    verb: Callable[[Work, str], CampaignRecord],
) -> None:
    world = behind_long_work()
    first = first_behind_a_reservation(world)
    stopped_at = world.now
    steer(world, lambda work: verb(work, "bios"))
    assert world.operation(first).state in WAITING_STATES
    assert world.now == stopped_at
