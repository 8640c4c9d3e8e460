"""Places for VMs are found by an index: a bounded number of hosts is looked at."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.control.requests import failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import destinations, host_search
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet import placement
from forewarn.fleet.model import (
    NO_USE,
    Capacity,
    Host,
    Scope,
    ScopeKind,
    Tenant,
    Vm,
    capacity_of,
    taken_by,
    use_of,
)
from forewarn.protocol.operations import (
    Action,
    Move,
    Operation,
    OperationState,
    TargetKind,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader, Store, Transaction, every
from forewarn.store.sqlite import SqliteStore
from forewarn.wording.operators import reason
from tests.support.counted import Counted
from tests.support.worlds import World

VMS = 3
"""VMs on each host."""


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    return SqliteStore(tmp_path / "room.db")


def fill(
    store: Store,
    count: int,
    *,
    capacity: Callable[[int], int],
    domain: Callable[[int], int] = lambda _number: 0,
    host_of: Callable[[Host, int], Host] = lambda host, _number: host,
    vm_memory: int | None = None,
    scope: Callable[[int], str] = lambda _number: "s",
) -> None:
    """Store hosts with VMs, and the room that each has."""

    def write(tx: Transaction) -> None:
        tx.add(Tenant(name="t"))
        for name in ("s", "others"):
            tx.add(Scope(name=name, tenant="t", kind=ScopeKind.AVAILABILITY_SET))
        for number in range(count):
            host = host_of(
                Host(name=f"h{number:05}", capacity=capacity(number)), number
            )
            tx.add(host)
            vms = [
                Vm(
                    name=f"v{number:05}-{at}",
                    wire_name="v",
                    host=host.name,
                    scope=scope(number),
                    tenant="t",
                    view=scope(number),
                    fault_domain=domain(number),
                    vcpu=vm_memory,
                    memory=vm_memory,
                    vm_id="an id",
                )
                for at in range(VMS)
            ]
            for vm in vms:
                tx.add(vm)
            tx.add(capacity_of(host, use=sums_of(vms)))

    store.transact(write)


def sums_of(vms: Sequence[Vm]) -> tuple[int, int, int]:
    """Return what VMs of one host use."""
    places, vcpu, memory = map(sum, zip(*map(use_of, vms), NO_USE, strict=True))
    return places, vcpu, memory


def emptying(number: int) -> Operation:
    """Return an operation that moves all VMs of a host."""
    return Operation(
        operation_id="op-1",
        request="rq-1",
        verb=Verb.MAINTAIN,
        action=Action.LIVE_MIGRATE,
        target_kind=TargetKind.HOST,
        target=f"h{number:05}",
        host=f"h{number:05}",
        state=OperationState.READY,
        routine=True,
        not_before=1,
        moves=tuple(Move(vm=f"v{number:05}-{at}") for at in range(VMS)),
        scopes=("s",),
        duration_seconds=5,
        description="",
        created=1,
    )


def look(store: Store, number: int) -> tuple[destinations.Destinations, int]:
    """Return where the VMs of a host can go, and how many rows were read."""

    def ask(reader: Reader) -> tuple[destinations.Destinations, int]:
        counted = Counted(reader, Counter())
        places = destinations.find_places(counted.reader, emptying(number))
        return places, counted.rows.total()

    return store.read(ask)


READ_MAX = 500
"""Rows that are read to place the VMs of one host among those with room."""


@pytest.mark.parametrize("count", [100, 1000])
def test_only_host_with_capacity_is_found(store: Store, count: int) -> None:
    fill(store, count, capacity=lambda number: VMS * (2 if number == count - 2 else 1))
    places, read = look(store, 0)
    assert set(places.hosts.values()) == {f"h{count - 2:05}"}
    assert len(places.hosts) == VMS
    assert read <= READ_MAX


@pytest.mark.parametrize("count", [100, 1000])
def test_full_hosts_are_not_read(store: Store, count: int) -> None:
    fill(store, count, capacity=lambda _number: VMS)
    places, read = look(store, 7)
    assert len(places.blockers) == VMS
    assert "full, down, cordoned or in maintenance: all others" in (
        reason(places.blockers[0])
    )
    assert read <= READ_MAX


def test_number_of_unsuitable_hosts_read_is_bounded(store: Store) -> None:
    count = 500
    fill(
        store,
        count,
        capacity=lambda _number: VMS * 2,
        domain=lambda number: min(number, 1),
    )
    places, read = look(store, 0)
    assert len(places.blockers) == VMS
    assert f"hosts with less capacity than these {placement.CANDIDATES_MAX}" in (
        reason(places.blockers[0])
    )
    # Each host that is looked at has its VMs and operations read once; the order of
    # the hosts is read twice for each VM.
    assert read <= placement.CANDIDATES_MAX * (3 * VMS + 6) + READ_MAX


def test_hosts_are_not_filled_in_name_order(store: Store) -> None:
    fill(store, 100, capacity=lambda number: VMS * 2 + (number > 90))
    places, _ = look(store, 0)
    assert set(places.hosts.values()) <= {f"h{number:05}" for number in range(91, 100)}
    assert len(set(places.hosts.values())) == VMS


@pytest.mark.parametrize("count", [100, 1000])
@pytest.mark.parametrize("key", ["vcpu", "memory"])
def test_only_host_with_vcpus_and_memory_is_found_among_those_with_places(
    store: Store, count: int, key: str
) -> None:
    fill(
        store,
        count,
        # The other hosts have more free places.
        capacity=lambda number: VMS * (3 if number != count - 2 else 2),
        host_of=lambda host, number: replace(
            host, **{key: 16 * VMS * (2 if number == count - 2 else 1)}
        ),
        vm_memory=16,
    )
    places, read = look(store, 0)
    assert places.hosts == {f"v00000-{at}": f"h{count - 2:05}" for at in range(VMS)}
    # The first hosts by free places, and then the first ones by size.
    assert read <= READ_MAX


@pytest.mark.parametrize("count", [100, 1000])
@pytest.mark.parametrize(("key", "unit"), [("vcpu", "vCPUs"), ("memory", "memory")])
def test_hosts_without_enough_vcpus_or_memory_are_named_and_not_read(
    store: Store, count: int, key: str, unit: str
) -> None:
    fill(
        store,
        count,
        capacity=lambda _number: VMS * 3,
        host_of=lambda host, _number: replace(host, **{key: 16 * VMS + 15}),
        vm_memory=16,
    )
    places, read = look(store, 0)
    assert len(places.blockers) == VMS
    assert f"too few free {unit}" in reason(places.blockers[0]).replace("little", "few")
    assert f"hosts with less capacity than these {placement.CANDIDATES_MAX}" in (
        reason(places.blockers[0])
    )
    assert read <= READ_MAX


@pytest.mark.parametrize("count", [100, 1000])
def test_small_scope_tells_which_hosts_have_its_other_fault_domains(
    store: Store, count: int
) -> None:
    fill(
        store,
        count,
        # Only the 16 hosts of a scope of 48 VMs have free places.
        capacity=lambda number: VMS * 2 if number < 16 else VMS,
        domain=lambda number: min(number, 1),
        scope=lambda number: "s" if number < 16 else "others",
    )
    rows = Counter[str]()
    places = store.read(
        lambda reader: destinations.find_places(
            Counted(reader, rows).reader, emptying(0)
        )
    )
    assert len(places.blockers) == VMS
    assert "used by another fault domain of its scope: h000" in (
        reason(places.blockers[0])
    )
    # The VMs of the first hosts are read, and those of the VMs' own host.
    hosts_read = host_search.CANDIDATES_FIRST + 1
    assert rows["vms_on_host"] <= hosts_read * (VMS + 1)


def test_places_that_an_operation_gives_back_count_as_free(store: Store) -> None:
    """The reservation of each VM is on a host without capacity for others."""
    count = 100
    fill(
        store,
        count,
        capacity=lambda number: VMS * (4 if number == 9 else 3),
        host_of=lambda host, _number: replace(host, memory=16 * VMS + 15),
        vm_memory=16,
    )

    def reserve(tx: Transaction) -> None:
        # The VMs of h00009 are gone, and its memory is reserved instead.
        for at in range(VMS):
            gone, mine = tx.get(Vm, f"v00009-{at}"), tx.get(Vm, f"v00000-{at}")
            assert gone is not None
            assert mine is not None
            tx.remove(gone)
            tx.replace(mine, replace(mine, moving_to="h00009"))

    store.transact(reserve)
    moving = emptying(0)
    stored = store.read(
        lambda reader: destinations.find_places(reader, moving, lost=moving.vms)
    )
    assert stored.hosts == dict.fromkeys(moving.vms, "h00009")
    other = store.read(lambda reader: destinations.find_places(reader, emptying(1)))
    assert len(other.blockers) == VMS


@pytest.mark.parametrize("count", [100, 1000])
def test_hosts_of_other_pools_are_neither_chosen_nor_read(
    store: Store, count: int
) -> None:
    fill(
        store,
        count,
        capacity=lambda number: VMS * 2 if number % 50 else VMS,
        domain=lambda number: number % 50,
        host_of=lambda host, number: replace(host, pool=f"p{number % 50}"),
    )
    places, read = look(store, 0)
    assert len(places.blockers) == VMS
    assert "cordoned or in maintenance: all others" in reason(places.blockers[0])
    assert read <= READ_MAX
    places, read = look(store, 1)
    assert {int(host[1:]) % 50 for host in places.hosts.values()} == {1}
    assert len(places.hosts) == VMS
    assert read <= READ_MAX


def test_free_capacity_of_hosts_stays_correct_through_all_changes() -> None:
    lines = ['[[tenant]]\nname = "t"']
    for number in range(40):
        lines.append(
            f'[[host]]\nname = "h{number:02}"\ncapacity = 2\nzone = "1"\n'
            'pool = "amd"\nvcpu = 8\nmemory = "8GiB"'
        )
        if number:
            lines.append(
                f'[[vm]]\nname = "v{number:02}"\nhost = "h{number:02}"\ntenant = "t"\n'
                f'vcpu = {1 + number % 4}\nmemory = "{1 + number % 3}GiB"'
            )
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet="\n".join(lines))
    check_kept(world)
    names = ["h01", "h02", "h03"]
    world.order(
        lambda work: verbs.maintain(work, names, Action.LIVE_MIGRATE, OrderOptions())
    )
    world.order(lambda work: failures.fail_host(work, "h20"))
    world.order(
        lambda work: verbs.change_vms(work, ["v30"], Verb.TERMINATE, OrderOptions())
    )
    world.settle()
    for _ in range(60):
        world.advance("1m")
        check_kept(world)
    world.order(lambda work: failures.restore_host(work, "h20"))
    check_kept(world)
    # A VM goes, a host goes, and a zone and a capacity change.
    text = "\n".join(lines).replace(lines[-1], "").replace(lines[-2], "")
    world.apply_fleet(text.replace("capacity = 2", "capacity = 3", 1))
    check_kept(world)
    # A VM grows, another is no longer counted, and a host gets more and another pool.
    text = text.replace("vcpu = 2\n", "vcpu = 4\n", 1).replace(
        '\nmemory = "3GiB"', "", 1
    )
    world.apply_fleet(text.replace('"amd"\nvcpu = 8', '"intel"\nvcpu = 16', 1))
    check_kept(world)
    assert len(world.read(lambda reader: reader.select(kinds.ALL_HOSTS))) == 39


def check_kept(world: World) -> None:
    def ask(reader: Reader) -> None:
        there = {host.name: list[Vm]() for host in every(reader, kinds.ALL_HOSTS)}
        for vm in every(reader, kinds.ALL_VMS):
            for name in taken_by(vm):
                there[name].append(vm)
        works = Counter(
            operation.host
            for operation in every(reader, kinds.OPEN_OPERATIONS)
            if operation.occupies_host
        )
        for host in every(reader, kinds.ALL_HOSTS):
            capacity = reader.get(Capacity, host.name)
            assert capacity is not None
            use = (capacity.used, capacity.vcpu_used, capacity.memory_used)
            assert (use, capacity.works) == (
                sums_of(there[host.name]),
                works[host.name],
            )
            assert (capacity.zone, capacity.places) == (host.zone, host.capacity)
            sizes = (capacity.pool, capacity.vcpu, capacity.memory)
            assert sizes == (host.pool, host.vcpu, host.memory)
            assert capacity.is_up == (host.state.value == "up")

    world.read(ask)
