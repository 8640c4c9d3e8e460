"""VMs of a scope stay spread over racks when they move."""

from collections import Counter

import pytest

from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import destinations, obstacles
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet import placement
from forewarn.fleet.model import Vm
from forewarn.protocol.operations import Action
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader, every
from forewarn.wording.operators import reasons
from tests.support.counted import Counted
from tests.support.worlds import World
from tests.unit.control.test_pools import host_of

SCOPE = '[[scope]]\nname = "db"\nkind = "cloud-service"\n'


def host(name: str, rack: str, capacity: int = 2) -> str:
    place = f'rack = "{rack}"\n' if rack else ""
    return f'[[host]]\nname = "{name}"\ncapacity = {capacity}\n{place}'


def vm(name: str, on: str, scope: str = "db") -> str:
    return f'[[vm]]\nname = "{name}"\nhost = "{on}"\nscope = "{scope}"\n'


def new_world(*parts: str) -> World:
    return World(
        store=MemoryStore, driver=SimulatedDriver(), fleet="".join((SCOPE, *parts))
    )


def migrate(world: World, name: str) -> None:
    world.order(
        lambda work: verbs.maintain(work, [name], Action.LIVE_MIGRATE, OrderOptions())
    )
    world.settle()
    world.advance("1h")


def test_vm_moves_to_a_rack_without_its_scope_before_one_with_it() -> None:
    """The other rack of the scope has an emptier host."""
    world = new_world(
        host("a1", "a", 1),
        host("b1", "b", 1),
        host("b2", "b", 9),
        host("c1", "c", 2),
        vm("db_0", "a1"),
        vm("db_1", "b1"),
    )
    migrate(world, "a1")
    assert host_of(world, "db_0") == "c1"


def test_move_that_would_gather_a_scope_in_one_rack_is_held_with_the_reason() -> None:
    world = new_world(
        host("a1", "a"), host("b1", "b"), host("b2", "b"), vm("0", "a1"), vm("1", "b1")
    )
    migrate(world, "a1")
    assert host_of(world, "0") == "a1"
    [operation] = world.operations()
    blockers = world.read(
        lambda reader: obstacles.why_waiting(reader, operation, now=world.now)
    )
    assert reasons(blockers)[0] == (
        "there is no host with capacity for 0: it is on a1; in a rack with more VMs of "
        "its scope: b1, b2"
    )


@pytest.mark.parametrize("rack", ["a", "", "c"])
def test_same_rack_unknown_rack_and_empty_rack_are_no_worse(rack: str) -> None:
    world = new_world(
        host("a1", "a"), host("b1", "b"), host("x1", rack), vm("0", "a1"), vm("1", "b1")
    )
    migrate(world, "a1")
    assert host_of(world, "0") == "x1"


def test_vms_that_leave_a_host_together_are_compared_with_before() -> None:
    """Both were in one rack, so both can be in another one."""
    world = new_world(host("a1", "a"), host("c1", "c", 9), vm("0", "a1"), vm("1", "a1"))
    migrate(world, "a1")
    assert (host_of(world, "0"), host_of(world, "1")) == ("c1", "c1")


def test_vms_that_leave_a_host_together_count_in_the_racks_where_they_go() -> None:
    """Rack b has one of the scope already, so it takes one of two, and d the other."""
    world = new_world(
        host("a1", "a"),
        host("b1", "b", 9),
        host("d1", "d", 1),
        vm("0", "a1"),
        vm("1", "a1"),
        vm("2", "b1"),
    )
    migrate(world, "a1")
    assert sorted(host_of(world, name) for name in ("0", "1")) == ["b1", "d1"]


def test_large_scope_is_not_read_for_its_racks() -> None:
    """Its fault domains keep it apart."""
    count = placement.SPREAD_VMS_MAX + 1
    for vms in (count - 1, count):
        world = new_world(
            host("a1", "a", 1),
            host("b1", "b", count + 1),
            vm("first", "a1"),
            *(vm(f"m{number}", "b1") for number in range(vms - 1)),
        )
        rows: Counter[str] = Counter()

        def ask(reader: Reader, rows: Counter[str] = rows) -> int:
            [moved] = every(reader, kinds.VMS_ON_HOST, "a1")
            blockers = destinations.find_in_time(
                Counted(reader, rows).reader, [moved], request=""
            )
            return len(blockers)

        assert world.read(ask) == (vms < count)
        assert rows["vms_of_scope"] <= count + 1
        assert isinstance(world.read(lambda reader: reader.get(Vm, "first")), Vm)
