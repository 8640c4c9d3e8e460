"""What a host of a rollout costs does not grow with the number of hosts."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from forewarn.control.redaction.tenant_reader import TenantReader, remembered
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.blockers import ScopeInUse
from forewarn.protocol.operations import Action
from forewarn.reporting.reports import operation_report
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader, every
from forewarn.store.sqlite import SqliteStore
from tests.support.campaigns import start as start_campaign
from tests.support.counted import Counted, CountedStore
from tests.support.profiles import amounts
from tests.support.rollouts import (
    DONE,
    PLANNED,
    fleet,
    name_of,
    roll_out,
    states,
    world_of,
)
from tests.support.weighed import WeighedStore
from tests.support.worlds import World


@pytest.mark.amounts
@pytest.mark.parametrize("shared", [True, False])
def test_host_cost_is_independent_of_the_number_of_hosts(
    shared: bool,
) -> None:
    """Each host has one VM. Approvals are not counted."""
    hosts = amounts().rollout_hosts
    sizes = (hosts // 3, hosts) if shared else (hosts,)
    costs = [cost_in_memory(count, shared=shared) for count in sizes]
    for cost in costs:
        assert cost.transactions <= TRANSACTIONS_MAX
        assert cost.rows <= rows_max(scopes=1)
    assert_equal_for_all_sizes(costs)


@pytest.mark.amounts
@pytest.mark.parametrize(("vms", "scopes"), [(2, 1), (4, 2)])
def test_each_host_uses_few_rows_and_bytes_of_the_store(
    vms: int, scopes: int, tmp_path: Path
) -> None:
    """The same, in the file: `vms` VMs a host, and each scope has some of each host."""
    hosts = amounts().rollout_hosts // 4
    sizes = (hosts, hosts * 3) if scopes == 1 else (hosts,)
    costs = [
        cost_in_file(tmp_path / f"{count}.db", count, vms=vms, scopes=scopes)
        for count in sizes
    ]
    for cost in costs:
        assert cost.transactions <= TRANSACTIONS_MAX
        assert cost.rows <= rows_max(scopes=scopes)
        assert cost.kib <= KIB_MAX + KIB_PER_VM_MAX * vms
    assert_equal_for_all_sizes(costs)


TRANSACTIONS_MAX = 6
"""Transactions of a host in a rollout, from the order to the end."""

ROWS_MAX = 12
ROWS_PER_SCOPE_MAX = 3
"""Audit entries, and rows of the subjects by which they are found."""

KIB_MAX = 15
KIB_PER_VM_MAX = 3
"""Growth of the store's used pages."""

GROWTH_MAX = 1.1
"""Ratio of the costs of a host in rollouts of different sizes."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a host of a rollout cost, on average."""

    transactions: float
    rows: float
    kib: float = 0


def rows_max(*, scopes: int) -> int:
    return ROWS_MAX + ROWS_PER_SCOPE_MAX * scopes


def assert_equal_for_all_sizes(costs: Sequence[Cost]) -> None:
    """Assert that a host costs hardly more where there are more of them."""
    for smaller, larger in pairwise(costs):
        assert larger.transactions <= GROWTH_MAX * smaller.transactions
        assert larger.rows <= GROWTH_MAX * smaller.rows
        assert larger.kib <= GROWTH_MAX * smaller.kib


def cost_in_memory(count: int, *, shared: bool) -> Cost:
    hosts = [
        {("a" if shared else f"a{number}"): number % DOMAINS if shared else 0}
        for number in range(count)
    ]
    world = world_of(hosts)
    transactions, rows = world.passed["committed"], rows_of(world)
    roll_out_to_the_end(world, count)
    return Cost(
        transactions=(world.passed["committed"] - transactions) / count,
        rows=(rows_of(world) - rows) / count,
    )


def cost_in_file(file: Path, count: int, *, vms: int, scopes: int) -> Cost:
    lines = fleet(
        [
            {f"s{scope}": number % DOMAINS for scope in range(scopes)}
            for number in range(count)
        ]
    )
    more = "".join(
        f'\n[[vm]]\nname = "more{vm}-{number}"\nhost = "{name_of(number)}"\n'
        f'scope = "s{vm % scopes}"\nfault_domain = {number % DOMAINS}'
        for number in range(count)
        for vm in range(scopes, vms)
    )
    world = World(
        store=lambda: SqliteStore(file), driver=SimulatedDriver(), fleet=lines + more
    )
    transactions, rows, size = (
        world.passed["committed"],
        rows_of(world),
        used_bytes(file),
    )
    roll_out_to_the_end(world, count)
    cost = Cost(
        transactions=(world.passed["committed"] - transactions) / count,
        rows=(rows_of(world) - rows) / count,
        kib=(used_bytes(file) - size) / 1024 / count,
    )
    world.store.close()
    return cost


DOMAINS = 5
"""Fault domains of a scope whose VMs are on all hosts."""


def roll_out_to_the_end(world: World, count: int) -> None:
    roll_out(world, count, at_once=count // DOMAINS)
    # Two domains are never announced together, and each needs less than an hour.
    for _hour in range(2 * DOMAINS):
        world.advance("1h")
    assert set(states(world).values()) == {DONE}


def rows_of(world: World) -> int:
    """Return how many audit entries and rows of their subjects there are."""
    entries = world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
    return len(entries) + sum(len(entry.linked_subjects) for entry in entries)


def used_bytes(file: Path) -> int:
    """Return the size of the pages that the store uses, with its log written back."""
    with closing(sqlite3.connect(file)) as connection:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
    return (pages - free) * size


def test_cost_of_a_page_does_not_grow_with_the_hosts_that_remain() -> None:
    """A list of 250 hosts has ten pages, and one of 75 hosts three."""
    smaller, larger = (costs_of_pages(count) for count in (75, 250))
    assert len(larger) == 9
    for name in PageCost.__annotations__:
        most = max(getattr(cost, name) for cost in smaller)
        found = [getattr(cost, name) for cost in larger]
        assert max(found) <= GROWTH_MAX * most, (name, most, found)


@dataclass(frozen=True, kw_only=True)
class PageCost:
    """The cost of a page of hosts that became operations."""

    read_rows: int
    written_rows: int
    written_bytes: int


def costs_of_pages(count: int) -> list[PageCost]:
    """Return the cost of each page after the first one, which is stored with the list."""
    store = WeighedStore(MemoryStore())
    world = world_of(
        [{f"s{number}": 0} for number in range(count)], store=lambda: store
    )
    world.plane.bound_turns(lambda: True)
    start_campaign(world, is_settled=False)
    costs: list[PageCost] = []
    while world.plane.unplanned:
        before = store.rows.total(), store.written_rows, store.written_bytes
        world.plane.advance(now=world.now)
        costs.append(
            PageCost(
                read_rows=store.rows.total() - before[0],
                written_rows=store.written_rows - before[1],
                written_bytes=store.written_bytes - before[2],
            )
        )
    assert len(world.operations()) == count
    return costs


def test_reads_of_an_announcement_do_not_grow_with_the_number_of_hosts() -> None:
    """All hosts of a fault domain are announced, one in each transaction."""
    smaller, larger = (reads_per_announcement(count) for count in (100, 300))
    assert larger <= GROWTH_MAX * smaller


def reads_per_announcement(count: int) -> float:
    """Return how many rows are read for each host that is announced."""
    counted = CountedStore(MemoryStore())
    hosts = [{"a": number % DOMAINS} for number in range(count)]
    world = world_of(hosts, store=lambda: counted)
    counted.rows.clear()
    roll_out(world, count, at_once=count)
    announced = [state for state in states(world).values() if state is not PLANNED]
    assert len(announced) == count // DOMAINS
    return counted.rows.total() / len(announced)


def test_reads_of_a_tenants_list_do_not_grow_with_the_number_of_hosts() -> None:
    """The reasons of one operation name others of its rollout."""
    smaller, larger = (reads_per_listed(count) for count in (100, 300))
    assert larger <= GROWTH_MAX * smaller


def reads_per_listed(count: int) -> float:
    """Return how many rows are read for each operation that a tenant is shown."""
    hosts = [{"a": number % DOMAINS, f"b{number}": 0} for number in range(count)]
    world = world_of(hosts)
    roll_out(world, count, at_once=count // DOMAINS)

    def listed(reader: Reader) -> float:
        rows: Counter[str] = Counter()
        sight = TenantReader(Counted(reader, rows).reader, "shop")
        operations = list(every(sight, kinds.OPEN_OPERATIONS))
        # Of those whose turn has not come, a tenant is told nothing.
        assert len(operations) == count // DOMAINS
        for operation in operations:
            operation_report(sight, operation, now=world.now)
        return rows.total() / len(operations)

    return world.read(listed)


SEARCHES = ("rooms_open_in_zone", "rooms_open", "vms_of_domain")
"""Questions of a search for destinations."""


def listed(world: World) -> Counter[str]:
    """Return the rows that an operator's list of open operations reads."""
    rows: Counter[str] = Counter()

    def ask(reader: Reader) -> None:
        known = remembered(Counted(reader, rows).reader)
        for operation in every(known, kinds.OPEN_OPERATIONS):
            operation_report(known, operation, now=world.now)

    world.read(ask)
    return rows


def test_planned_host_that_waits_for_a_scope_needs_no_search() -> None:
    world = announced(60)
    rows: Counter[str] = Counter()
    planned = [
        operation
        for operation in world.operations()
        if operation.state is PLANNED and isinstance(operation.held_by[0], ScopeInUse)
    ]
    assert planned

    def ask(reader: Reader) -> None:
        for operation in planned:
            operation_report(Counted(reader, rows).reader, operation, now=world.now)

    world.read(ask)
    assert rows["vms_on_host"]
    assert not any(rows[name] for name in SEARCHES)


def test_operators_list_reads_the_fleet_once_for_all_its_rows() -> None:
    """All hosts wait for one scope, or for the capacity of one host."""
    smaller, larger = (listed(announced(count)).total() / count for count in (60, 180))
    assert larger <= GROWTH_MAX * smaller
    assert larger <= LISTED_ROWS_MAX


LISTED_ROWS_MAX = 25
"""Rows of an operation with its events, its host and VMs, and its request."""


def announced(count: int) -> World:
    """Return a rollout of live migrations whose hosts wait for the first of them."""
    world = world_of([{"a": number % DOMAINS} for number in range(count)])
    roll_out(world, count, at_once=count, action=Action.LIVE_MIGRATE)
    assert Counter(states(world).values())[PLANNED] > count // 2
    return world
