"""A search of a tenant's history reads few rows, and ends at a bound on these rows."""

from collections import Counter
from collections.abc import Callable

import pytest

from forewarn.admin import limits, selection
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Who
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import HOUR, SECOND, Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import Action
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry
from tests.support.counted import Counted
from tests.support.worlds import World
from tests.unit.admin.gateway import FLEET

ALICE = Who(actor=operator("alice"))

OTHER_READS_MAX = 20
"""Rows about the tenant itself: its scopes and VMs."""

DONE = Said(text="cancelled")

OPERATIONS = 120
"""Operations of the history: their entries fill more than one page."""


def lived(operations: int = OPERATIONS) -> World:
    """Return a world with the history of so many cancelled operations."""
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=FLEET)
    world.plane.enable("web_0", now=world.now)
    for _ in range(operations):
        order_and_cancel(world, world.now)
    return world


def order_and_cancel(world: World, now: Micros) -> None:
    request = world.plane.order(
        ALICE,
        lambda work: verbs.maintain(work, ["h1"], Action.FREEZE, OrderOptions()),
        now=now,
    )
    world.plane.order(
        ALICE, lambda work: verbs.cancel(work, request.request_id, note=DONE), now=now
    )


def as_shop(world: World, ask: Callable[[Reader], object]) -> int:
    """Return how many rows a read of the tenant reads."""
    rows: Counter[str] = Counter()
    world.read(lambda reader: ask(TenantReader(Counted(reader, rows).reader, "shop")))
    return rows.total()


def search(
    reader: Reader, after: str = "", last: str = "", *, finds: bool = False
) -> tuple[list[AuditEntry], str]:
    return selection.scan(
        reader,
        kinds.ALL_AUDIT,
        "",
        matches=lambda _entry: finds,
        after=after,
        last=last,
        limit=10_000,
    )


def test_entries_of_one_operation_read_its_records_once() -> None:
    world = lived()
    entries = world.read(
        lambda reader: len(list(every(TenantReader(reader, "shop"), kinds.ALL_AUDIT)))
    )
    assert entries > 4 * OPERATIONS
    rows: Counter[str] = Counter()
    world.read(
        lambda reader: list(
            every(TenantReader(Counted(reader, rows).reader, "shop"), kinds.ALL_AUDIT)
        )
    )
    del rows["audit_of_subject"]
    # An operation, and two events with the question for them.
    assert rows.total() < 4 * OPERATIONS + OTHER_READS_MAX


def test_search_of_a_tenant_ends_at_its_bound_and_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = lived()
    monkeypatch.setattr(limits, "TENANT_SCAN_READS_MAX", 100)
    whole = world.read(
        lambda reader: list(every(TenantReader(reader, "shop"), kinds.ALL_AUDIT))
    )
    found: list[AuditEntry] = []
    after, pages = "", 0
    while pages == 0 or after:
        page, after = world.read(
            lambda reader, a=after: search(
                TenantReader(reader, "shop"), after=a, finds=True
            )
        )
        found, pages = found + page, pages + 1
    assert pages > 1
    assert found == whole


def test_search_of_a_tenant_reads_nothing_after_its_period() -> None:
    world = lived()
    first = world.read(lambda reader: reader.select(kinds.ALL_AUDIT, limit=1))[0].at

    def ask(reader: Reader) -> None:
        bounds = reader.audit_keys(0, first)
        assert bounds is None

    assert as_shop(world, ask) == 1, "only the secret for the aliases"


def test_search_of_a_tenant_stops_at_the_end_of_its_period() -> None:
    world = lived(1)
    end = world.now + SECOND
    world.advance("1m")
    for _ in range(3):
        order_and_cancel(world, world.now)

    def ask(reader: Reader) -> tuple[list[AuditEntry], str]:
        bounds = reader.audit_keys(0, end)
        assert bounds is not None
        assert bounds[1]
        return search(reader, *bounds, finds=True)

    found, after = world.read(lambda reader: ask(TenantReader(reader, "shop")))
    assert found
    assert all(entry.at < end for entry in found)
    assert not after


def test_entry_after_a_clock_step_back_is_in_its_period() -> None:
    world = lived(1)
    early, end = world.now, world.now + SECOND
    order_and_cancel(world, early + HOUR)
    order_and_cancel(world, early)

    def ask(reader: Reader) -> list[AuditEntry]:
        bounds = reader.audit_keys(0, end)
        assert bounds is not None
        found, _ = search(reader, *bounds, finds=True)
        return [entry for entry in found if entry.at < end]

    whole = world.read(
        lambda reader: list(every(TenantReader(reader, "shop"), kinds.ALL_AUDIT))
    )
    entries = world.read(lambda reader: ask(TenantReader(reader, "shop")))
    assert entries == [entry for entry in whole if entry.at < end]
    assert entries[-1] == whole[-1]
