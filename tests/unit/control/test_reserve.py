"""`policy.reserve`: routine work leaves capacity for failures."""

from collections import Counter
from collections.abc import Callable

import pytest

from forewarn.control.requests import failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import obstacles, rolling
from forewarn.control.rules.policy import Policy
from forewarn.control.rules.reserves import why_kept
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import Vm
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action, OperationState, Request
from forewarn.settings.amounts import amount_of
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader, Store
from forewarn.wording.operators import reasons, refusal
from tests.support.counted import Counted
from tests.support.worlds import World

ROWS_MAX = 8
"""The capacity of the host, five sums of its pool, and its largest host."""

ONE = Policy(reserve=amount_of("1"))


def fleet(hosts: int, vms: int, capacity: int = 4) -> str:
    """Return a fleet of one pool whose hosts have equally many VMs."""
    lines = [
        f'[[host]]\nname = "h{n}"\npool = "p"\ncapacity = {capacity}\n'
        for n in range(hosts)
    ]
    lines += [
        f'[[vm]]\nname = "v{n}_{m}"\nhost = "h{n}"\n'
        for n in range(hosts)
        for m in range(vms)
    ]
    return "\n".join(lines)


def new_world(
    text: str, policy: Policy = ONE, store: Callable[[], Store] = MemoryStore
) -> World:
    return World(store=store, driver=SimulatedDriver(), fleet=text, policy=policy)


def maintain(
    world: World,
    *hosts: str,
    action: Action = Action.LIVE_MIGRATE,
    emergency: bool = False,
) -> Request:
    options = OrderOptions(emergency=emergency, at_once=3)
    result = world.order(
        lambda work: verbs.maintain(work, list(hosts), action, options)
    )
    world.settle()
    return result


def states(world: World) -> list[OperationState]:
    return [operation.state for operation in world.operations()]


def host_of(world: World, name: str) -> str:
    vm = world.read(lambda reader: reader.get(Vm, name))
    assert vm is not None
    return vm.host


def why(world: World, number: int) -> list[str]:
    operation = world.operations()[number]
    return reasons(
        world.read(
            lambda reader: obstacles.why_waiting(reader, operation, now=world.now)
        )
    )


def test_hosts_are_emptied_as_long_as_the_reserve_stays_free() -> None:
    """Four hosts have eight free places. Without h0, six are left, and it needs two."""
    world = new_world(fleet(4, 2))
    maintain(world, "h0", "h1")
    announced, planned = states(world)
    assert announced is OperationState.ANNOUNCED
    assert planned is OperationState.PLANNED
    assert why(world, 1)[0].startswith("its VMs need 2 places on other hosts of pool p")
    world.advance("3h")
    assert states(world) == [OperationState.DONE] * 2


def test_host_that_would_use_the_reserve_waits_until_work_has_ended() -> None:
    world = new_world(fleet(4, 2))
    maintain(world, "h3", action=Action.FREEZE)
    maintain(world, "h0")
    assert states(world) == [OperationState.ANNOUNCED, OperationState.PLANNED]
    kept = (
        "its VMs need 2 places on other hosts of pool p, which have 4 free, and "
        "policy.reserve (1) keeps 4 free"
    )
    assert why(world, 1) == [kept]
    world.advance("2h")
    assert states(world) == [OperationState.DONE] * 2


def test_pool_that_lost_a_host_refuses_what_would_use_the_reserve() -> None:
    world = new_world(fleet(4, 2))
    world.order(lambda work: failures.fail_host(work, "h3"))
    world.settle()
    with pytest.raises(RefusedError, match=r"4 free .*policy\.reserve \(1\) keeps 4"):
        maintain(world, "h0")


def test_request_that_can_never_keep_the_reserve_is_refused_with_the_sums() -> None:
    world = new_world(fleet(3, 2))
    for hosts in (["h0"], ["h0", "h1"]):
        with pytest.raises(RefusedError) as refused:
            maintain(world, *hosts)
        assert refusal(refused.value) == (
            f"none of these {len(hosts)} hosts can be emptied: h0 needs 2 places, and "
            "other hosts of pool p have 4 free (h2 2, h1 2), of which policy.reserve (1) "
            "keeps 4"
        )


def test_emergency_repair_may_use_the_reserve() -> None:
    world = new_world(fleet(3, 2))
    maintain(world, "h0", emergency=True)
    world.advance("1h")
    assert states(world) == [OperationState.DONE]


def test_percentage_keeps_a_part_of_the_pool() -> None:
    world = new_world(fleet(3, 2), Policy(reserve=amount_of("17%")))
    maintain(world, "h0")
    world.advance("1h")
    assert states(world) == [OperationState.DONE]
    stricter = new_world(fleet(3, 2), Policy(reserve=amount_of("25%")))
    with pytest.raises(RefusedError, match=r"policy\.reserve \(25%\) keeps 3"):
        maintain(stricter, "h0")


def test_pool_with_a_host_without_a_limit_needs_no_reserve() -> None:
    world = new_world(fleet(2, 2) + '[[host]]\nname = "wide"\npool = "p"\n')
    maintain(world, "h0")
    world.advance("1h")
    assert {host_of(world, "v0_0"), host_of(world, "v0_1")} == {"wide"}


def test_decision_reads_as_much_in_a_large_pool_as_in_a_small_one() -> None:
    read: list[int] = []
    for hosts in (40, 400):
        world = new_world(fleet(hosts, 2))
        maintain(world, "h0", "h1")
        operation = world.operations()[0]
        counter = Counter[str]()

        def ask(reader: Reader) -> None:
            counted = Counted(reader, counter)  # noqa: B023
            vms = rolling.vms_of(reader, operation)  # noqa: B023
            why_kept(counted.reader, operation, vms, ONE.reserve)  # noqa: B023

        world.read(ask)
        read.append(counter.total())
    assert read[0] == read[1]
    assert read[0] <= ROWS_MAX
