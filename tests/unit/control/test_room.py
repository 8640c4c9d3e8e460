"""Places for VMs are found by an index: a bounded number of hosts is looked at."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.control.requests import failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import destinations
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import (
    Capacity,
    Host,
    Scope,
    ScopeKind,
    Tenant,
    Vm,
    capacity_of,
    taken_by,
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
) -> None:
    """Store hosts with VMs of one scope, and the room that each has."""

    def write(tx: Transaction) -> None:
        tx.add(Tenant(name="t"))
        tx.add(Scope(name="s", tenant="t", kind=ScopeKind.AVAILABILITY_SET))
        for number in range(count):
            host = Host(name=f"h{number:05}", capacity=capacity(number))
            tx.add(host)
            vms = [
                Vm(
                    name=f"v{number:05}-{at}",
                    wire_name="v",
                    host=host.name,
                    scope="s",
                    tenant="t",
                    view="s",
                    fault_domain=domain(number),
                    vm_id="an id",
                )
                for at in range(VMS)
            ]
            for vm in vms:
                tx.add(vm)
            tx.add(capacity_of(host, used=sum(len(taken_by(vm)) for vm in vms)))

    store.transact(write)


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
    assert f"hosts with less capacity than these {destinations.CANDIDATES_MAX}" in (
        reason(places.blockers[0])
    )
    # Each host that is looked at has its VMs and operations read once; the order of
    # the hosts is read twice for each VM.
    assert read <= destinations.CANDIDATES_MAX * (3 * VMS + 6) + READ_MAX


def test_hosts_are_not_filled_in_name_order(store: Store) -> None:
    fill(store, 100, capacity=lambda number: VMS * 2 + (number > 90))
    places, _ = look(store, 0)
    assert set(places.hosts.values()) <= {f"h{number:05}" for number in range(91, 100)}
    assert len(set(places.hosts.values())) == VMS


def test_free_capacity_of_hosts_stays_correct_through_all_changes() -> None:
    lines = ['[[tenant]]\nname = "t"']
    for number in range(40):
        lines.append(f'[[host]]\nname = "h{number:02}"\ncapacity = 2\nzone = "1"')
        if number:
            lines.append(
                f'[[vm]]\nname = "v{number:02}"\nhost = "h{number:02}"\ntenant = "t"'
            )
    it = World(store=MemoryStore, driver=SimulatedDriver(), fleet="\n".join(lines))
    check_kept(it)
    names = ["h01", "h02", "h03"]
    it.order(
        lambda work: verbs.maintain(work, names, Action.LIVE_MIGRATE, OrderOptions())
    )
    it.order(lambda work: failures.fail_host(work, "h20"))
    it.order(
        lambda work: verbs.change_vms(work, ["v30"], Verb.TERMINATE, OrderOptions())
    )
    it.settle()
    for _ in range(60):
        it.advance("1m")
        check_kept(it)
    it.order(lambda work: failures.restore_host(work, "h20"))
    check_kept(it)
    # A VM goes, a host goes, and a zone and a capacity change.
    text = "\n".join(lines).replace(lines[-1], "").replace(lines[-2], "")
    it.apply_fleet(text.replace("capacity = 2", "capacity = 3", 1))
    check_kept(it)
    assert len(it.read(lambda reader: reader.select(kinds.ALL_HOSTS))) == 39


def check_kept(world: World) -> None:
    def ask(reader: Reader) -> None:
        used = Counter(
            name for vm in every(reader, kinds.ALL_VMS) for name in taken_by(vm)
        )
        works = Counter(
            operation.host
            for operation in every(reader, kinds.OPEN_OPERATIONS)
            if operation.occupies_host
        )
        for host in every(reader, kinds.ALL_HOSTS):
            kept = reader.get(Capacity, host.name)
            assert kept is not None
            assert (kept.used, kept.works) == (used[host.name], works[host.name])
            assert (kept.zone, kept.places) == (host.zone, host.capacity)
            assert kept.is_up == (host.state.value == "up")

    world.read(ask)
