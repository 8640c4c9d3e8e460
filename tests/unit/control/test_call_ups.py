"""Hosts of rollouts are called up when what they wait for becomes free."""

from collections.abc import Sequence

import pytest

from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import HOUR, MINUTE
from forewarn.protocol.operations import Action, Operation, OperationState, Request
from forewarn.store.memory import MemoryStore
from tests.support.rollouts import DONE, PLANNED, fleet, in_flight, name_of
from tests.support.worlds import World

ANNOUNCED = OperationState.ANNOUNCED


def maintain(
    world: World,
    hosts: Sequence[str],
    action: Action = Action.FREEZE,
    *,
    at_once: int | None = None,
    ahead: int = 0,
) -> Request:
    wishes = OrderOptions(
        at_once=at_once, not_before=world.now + ahead if ahead else None
    )
    result = world.order(lambda work: verbs.maintain(work, list(hosts), action, wishes))
    world.settle()
    world.advance("1m")
    return result


def of(world: World, host: str) -> Operation:
    (found,) = [
        operation for operation in world.operations() if operation.target == host
    ]
    return found


def test_host_without_a_rollout_slot_does_not_block_the_next_host() -> None:
    """Two rollouts wait for one scope, and the slot of the first is in use."""
    world = World(
        store=MemoryStore,
        driver=SimulatedDriver(),
        fleet=fleet([{"s": 0}, {"s": 1}, {"t": 0}, {"s": 1}, {"u": 0}]),
    )
    maintain(world, [name_of(0)])
    maintain(world, [name_of(3), name_of(4)], at_once=1, ahead=5 * HOUR)
    maintain(world, [name_of(1), name_of(2)], at_once=2)
    assert of(world, name_of(3)).operation_id < of(world, name_of(1)).operation_id
    assert of(world, name_of(1)).state is PLANNED
    while of(world, name_of(0)).state is not DONE:
        world.advance("1m")
    assert of(world, name_of(1)).state is ANNOUNCED


SPARE = """
[[tenant]]
name = "shop"
[[host]]
name = "h1"
capacity = 4
[[host]]
name = "h2"
capacity = 1
[[host]]
name = "spare1"
capacity = 4
[[host]]
name = "spare2"
capacity = 1
""" + "".join(
    f'[[vm]]\nname = "a{number}"\nhost = "h1"\ntenant = "shop"\n' for number in range(4)
)


def test_capacity_unsuitable_for_the_first_host_is_offered_to_the_next() -> None:
    world = World(
        store=MemoryStore,
        driver=SimulatedDriver(),
        fleet=SPARE + '[[vm]]\nname = "b"\nhost = "h2"\ntenant = "shop"\n',
    )
    maintain(world, ["spare1"], ahead=5 * HOUR)
    maintain(world, ["spare2"], ahead=20 * MINUTE)
    maintain(world, ["h1", "h2"], Action.REDEPLOY, at_once=2)
    assert {of(world, host).state for host in ("h1", "h2")} == {PLANNED}
    while of(world, "spare2").state is not DONE:
        world.advance("1m")
    assert of(world, "h1").state is PLANNED, "it needs four places"
    assert of(world, "h2").state is ANNOUNCED


def test_reservation_does_not_reduce_the_parallelism_of_later_hosts() -> None:
    hosts = 40
    world = World(
        store=MemoryStore,
        driver=SimulatedDriver(),
        fleet=fleet([*({"s": 1} for _ in range(hosts)), {"s": 0}, {"t": 0}, {"s": 1}]),
    )
    maintain(world, [name_of(hosts + 2)])
    maintain(world, [name_of(hosts), name_of(hosts + 1)], at_once=1)
    large = maintain(world, [name_of(number) for number in range(hosts)], at_once=4)
    reserving = of(world, name_of(hosts))
    assert reserving.operation_id < of(world, name_of(0)).operation_id
    while of(world, name_of(hosts)).state is not DONE:
        world.advance("1m")
    busy = [
        operation
        for operation in in_flight(world)
        if operation.request == large.request_id
    ]
    assert len(busy) == 4


@pytest.mark.parametrize("often", [False, True])
def test_reservation_delay_counts_from_the_first_attempt(often: bool) -> None:
    """Places that are too few become free in between, and it is looked at again."""
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=SPARE)
    maintain(world, ["spare1"], ahead=30 * HOUR)
    maintain(world, ["h1", "h2"], Action.REDEPLOY, at_once=1)
    minutes = 0
    while not any(name.startswith("reserved:") for name in of(world, "h1").waits_for):
        if often and minutes % 40 == 0:
            maintain(world, ["spare2"])
            minutes += 1
        world.advance("1m")
        minutes += 1
        assert minutes < 70
