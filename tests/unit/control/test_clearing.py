"""Live migration of a whole cluster, with the room of one host and without it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import Vm
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditKind
from forewarn.store.sqlite import SqliteStore
from forewarn.wording.operators import refusal
from tests.support.profiles import amounts
from tests.support.worlds import World
from tests.unit.control.test_rollouts import DONE, check_of, name_of, roll_out, states

HOSTS = amounts().cluster_hosts
VMS = 3 * (HOSTS - 1)
"""Of all hosts but the one that is empty at first."""


def cluster(hosts: Sequence[int], *, capacity: int = 3, domains: int = 1) -> str:
    """Return a fleet: hosts with so many VMs, which are all of one scale set."""
    lines = ['[[tenant]]\nname = "shop"']
    lines.append('[[scope]]\nname = "web"\ntenant = "shop"\nkind = "scale-set"')
    for number, vms in enumerate(hosts):
        lines.append(
            f'[[host]]\nname = "{name_of(number)}"\ncapacity = {capacity}\nzone = "1"'
        )
        lines += [
            f'[[vm]]\nname = "web_{number}_{vm}"\nhost = "{name_of(number)}"\n'
            f'scope = "web"\nfault_domain = {number % domains}'
            for vm in range(vms)
        ]
    return "\n".join(lines)


def hosts_of_vms(world: World) -> Counter[str]:
    return Counter(world.read(lambda reader: [vm.host for vm in _all_vms(reader)]))


def _all_vms(reader: Reader) -> list[Vm]:
    return list(every(reader, kinds.ALL_VMS))


@pytest.mark.amounts
@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("empty", [0, HOSTS // 3, HOSTS - 1])
@pytest.mark.parametrize("domains", [1, 5])
def test_all_hosts_are_migrated_with_one_spare_host(
    at_once: int, empty: int, domains: int, tmp_path: Path
) -> None:
    counts = [0 if number == empty else 3 for number in range(HOSTS)]
    file = tmp_path / "cluster.db"
    world = World(
        store=lambda: SqliteStore(file),
        driver=SimulatedDriver(),
        fleet=cluster(counts, domains=domains),
    )
    roll_out(world, HOSTS, at_once=at_once, action=Action.LIVE_MIGRATE)
    world.advance("20h")
    assert set(states(world).values()) == {DONE}
    assert sum(hosts_of_vms(world).values()) == VMS
    assert check_of(world, file) == []
    moves = world.read(
        lambda reader: [
            entry
            for entry in every(reader, kinds.ALL_AUDIT)
            if entry.kind is AuditKind.VM_MOVED
        ]
    )
    # The VMs of the first host go to one whose turn is still to come. What is put on a
    # host that is done is not moved again.
    assert at_once > 1 or len(moves) <= VMS + 3


def test_two_hosts_and_one_scale_set_are_migrated() -> None:
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=cluster([1, 1]))
    roll_out(world, 2, action=Action.LIVE_MIGRATE)
    world.advance("3h")
    assert set(states(world).values()) == {DONE}


@pytest.mark.parametrize(
    ("fleet", "count", "said"),
    [
        (
            cluster([3] * 20),
            20,
            ("h0000 needs 3 places, and other hosts have 0 free",),
        ),
        (
            cluster([3] * 19 + [2]),
            19,
            ("h0000 needs 3 places, and other hosts have 1 free (h0019 1)",),
        ),
        (
            cluster([1, 1], domains=2),
            2,
            (
                "h0000 needs 1 place, and other hosts have 2 free (h0001 2)",
                "there is no host with capacity for web_0_0: it is on h0000",
                "used by another fault domain of its scope: h0001",
            ),
        ),
    ],
)
def test_impossible_migration_is_refused_with_the_capacities(
    fleet: str, count: int, said: tuple[str, ...]
) -> None:
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=fleet)
    with pytest.raises(RefusedError) as refused:
        roll_out(world, count, action=Action.LIVE_MIGRATE)
    whole = f"none of these {count} hosts can be emptied: {'; '.join(said)}"
    assert refusal(refused.value) == whole
    assert not world.operations()


def test_rollout_with_a_busy_destination_host_is_not_refused() -> None:
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=cluster([3, 3, 0]))
    world.order(
        lambda work: verbs.maintain(work, ["h0002"], Action.FREEZE, OrderOptions())
    )
    roll_out(world, 2, action=Action.LIVE_MIGRATE)
    world.advance("3h")
    assert set(states(world).values()) == {DONE}


def test_empty_hosts_are_not_refused() -> None:
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=cluster([0, 0]))
    roll_out(world, 2, action=Action.LIVE_MIGRATE)
    world.advance("3h")
    assert set(states(world).values()) == {DONE}
