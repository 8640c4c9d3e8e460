"""History is in the order of the decisions, and few rows tell it."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.control.execution import leaving
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import verbs
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy, Subscriber
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import Host
from forewarn.instants import HOUR, MINUTE
from forewarn.protocol.actors import operator
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import Action, Operation, OperationState
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry, AuditKind
from forewarn.store.sequence import key_of, term_of
from forewarn.store.sqlite import SqliteStore
from forewarn.wording.operators import detail_of
from tests.support.worlds import World
from tests.unit.admin.gateway import FLEET

ALICE = Who(actor=operator("alice"))


def world_at(path: Path, fleet: str, **more: Any) -> World:
    return World(
        store=lambda: SqliteStore(path), driver=SimulatedDriver(), fleet=fleet, **more
    )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    policy = Policy(subscribers=(Subscriber(name="ops"),))
    made = world_at(tmp_path / "forewarn.db", FLEET, policy=policy)
    made.plane.enable("web_0", now=made.now)
    yield made
    made.store.close()


def maintain(world: World, *, back: int = 0) -> Operation:
    """Order a freeze of h1, with a clock that was set back."""
    request = world.plane.order(
        ALICE,
        lambda work: verbs.maintain(work, ["h1"], Action.FREEZE, OrderOptions()),
        now=world.now - back,
    )
    [operation] = world.read(
        lambda reader: reader.select(kinds.OPERATIONS_OF_REQUEST, request.request_id)
    )
    return operation


def cancel(world: World, operation: Operation, *, back: int = 0) -> None:
    world.plane.order(
        ALICE,
        lambda work: verbs.cancel(
            work, operation.operation_id, note=Said(text="cancelled")
        ),
        now=world.now - back,
    )


def decided_backwards(world: World) -> list[Operation]:
    """Order and cancel three times, each time with an earlier clock."""
    operations: list[Operation] = []
    for back in (0, HOUR, 2 * HOUR):
        operation = maintain(world, back=back)
        cancel(world, operation, back=back)
        operations.append(operation)
    return operations


def planned(entries: list[AuditEntry]) -> list[str]:
    return [
        entry.operation
        for entry in entries
        if entry.kind is AuditKind.OPERATION_PLANNED
    ]


def test_history_after_clock_steps_back_is_in_the_order_of_decisions(
    world: World,
) -> None:
    made = [operation.operation_id for operation in decided_backwards(world)]

    def pages(reader: Reader) -> list[AuditEntry]:
        return list(every(reader, kinds.ALL_AUDIT, page=2))

    assert planned(world.read(pages)) == made
    assert [entry.at for entry in world.read(pages)] != sorted(
        entry.at for entry in world.read(pages)
    )


def test_messages_after_clock_steps_back_are_in_the_order_of_decisions(
    world: World,
) -> None:
    made = [operation.operation_id for operation in decided_backwards(world)]
    bodies = [
        message.body
        for message in world.read(lambda reader: list(every(reader, kinds.ALL_OUTBOX)))
    ]
    told = [name for body in bodies for name in made if name in body]
    assert told == sorted(told, key=made.index)
    assert set(told) == set(made)


def test_tenant_pages_after_clock_steps_back_are_complete(world: World) -> None:
    decided_backwards(world)

    def whole(reader: Reader) -> list[AuditEntry]:
        return list(every(TenantReader(reader, "shop"), kinds.ALL_AUDIT))

    def joined(reader: Reader) -> list[AuditEntry]:
        return list(every(TenantReader(reader, "shop"), kinds.ALL_AUDIT, page=1))

    assert len(world.read(whole)) > 6
    assert world.read(joined) == world.read(whole)


def test_tenant_cursor_reveals_only_an_instant(world: World) -> None:
    decided_backwards(world)
    own = world.read(
        lambda reader: list(every(TenantReader(reader, "shop"), kinds.ALL_AUDIT))
    )
    assert not any(term_of(entry.entry_id) for entry in own)
    # A key of the store is not a cursor: else a tenant could count what others do.
    behind = [
        len(
            world.read(
                lambda reader, n=number: list(
                    TenantReader(reader, "shop").select(
                        kinds.ALL_AUDIT, after=key_of(1, n)
                    )
                )
            )
        )
        for number in (1, 5, 10, 20)
    ]
    assert set(behind) == {len(own)}


def test_period_selects_entries_by_recorded_time(world: World) -> None:
    operations = decided_backwards(world)
    since, until = world.now - HOUR, world.now - HOUR + MINUTE
    bounds = world.read(lambda reader: reader.audit_keys(since, until))
    assert bounds is not None
    entries = [
        entry
        for entry in world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
        if bounds[0] < entry.key <= bounds[1] and since <= entry.at < until
    ]
    assert planned(entries) == [operations[1].operation_id]
    assert world.read(lambda reader: reader.audit_keys(1, 2)) is None


def test_each_service_start_that_writes_begins_a_new_term(tmp_path: Path) -> None:
    path = tmp_path / "forewarn.db"
    world = world_at(path, FLEET)
    for _ in range(2):
        cancel(world, maintain(world))
        world.restart()
    cancel(world, maintain(world))
    entries = world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
    world.store.close()
    terms = [term_of(entry.entry_id) for entry in entries]
    assert terms == sorted(terms, key=lambda term: term or 0)
    assert set(terms) == {1, 2, 3}


def test_operation_stays_in_the_history_of_a_vm_that_left(world: World) -> None:
    operation = maintain(world)
    world.plane.order(
        ALICE,
        lambda work: leaving.move_vm(work, work.vm("web_0"), work.host("h2")),
        now=world.now,
    )
    subject = "vm:web_0"
    entries = world.read(
        lambda reader: list(every(reader, kinds.AUDIT_OF_SUBJECT, subject))
    )
    assert {entry.operation for entry in entries} >= {operation.operation_id}
    assert all(subject in entry.subjects for entry in entries)
    ends = {AuditKind.EVENT_SHRUNK, AuditKind.EVENT_REMOVED}
    assert ends & {entry.kind for entry in entries}
    [left] = world.read(lambda reader: reader.select(kinds.OPERATIONS_OF_VM, "web_0"))
    assert left.left_vms == ("web_0",)


# Rows


def large(vms: int, scopes: int) -> str:
    """Return a fleet with a host of so many VMs in so many scopes."""
    text = '[[tenant]]\nname = "shop"\n[[host]]\nname = "h1"\n[[host]]\nname = "h2"\n'
    for number in range(scopes):
        text += (
            f'[[scope]]\nname = "s{number}"\ntenant = "shop"\n'
            'kind = "availability-set"\n'
        )
    for number in range(vms):
        text += (
            f'[[vm]]\nname = "v{number}"\nhost = "h1"\nscope = "s{number % scopes}"\n'
        )
    return text


def rows(path: Path, table: str) -> int:
    database = sqlite3.connect(path)
    [(count,)] = database.execute(f"SELECT count(*) FROM {table}")
    database.close()
    return count


def counted(path: Path, act: Callable[[], object]) -> int:
    """Return how many audit and subject rows something writes."""
    before = rows(path, "audit") + rows(path, "audit_subjects")
    act()
    return rows(path, "audit") + rows(path, "audit_subjects") - before


@pytest.mark.parametrize(("vms", "scopes"), [(1, 1), (4, 2), (40, 3), (40, 40)])
@pytest.mark.parametrize("action", [Action.FREEZE, Action.REBOOT])
def test_host_maintenance_writes_rows_per_scope_and_not_per_vm(
    tmp_path: Path, vms: int, scopes: int, action: Action
) -> None:
    path = tmp_path / "forewarn.db"
    world = world_at(path, large(vms, scopes))

    def whole() -> None:
        world.order(lambda work: verbs.maintain(work, ["h1"], action, OrderOptions()))
        world.advance("1h")

    written = counted(path, whole)
    [operation] = world.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))
    world.store.close()
    assert operation.state is OperationState.DONE
    assert written <= 12 + 3 * scopes


OF_THE_REQUEST = 4
"""Rows of an order, whatever the number of its hosts: given and closed."""


@pytest.mark.parametrize(("vms", "scopes"), [(4, 2), (40, 3)])
def test_redeploying_a_host_writes_one_entry_for_all_its_moves(
    tmp_path: Path, vms: int, scopes: int
) -> None:
    path = tmp_path / "forewarn.db"
    world = world_at(path, large(vms, scopes))

    def whole() -> None:
        world.order(
            lambda work: verbs.maintain(work, ["h1"], Action.REDEPLOY, OrderOptions())
        )
        world.advance("1h")

    written = counted(path, whole)
    [operation] = world.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))
    entries = world.read(
        lambda reader: list(every(reader, kinds.AUDIT_OF_SUBJECT, "host:h2"))
    )
    history = world.read(
        lambda reader: list(every(reader, kinds.AUDIT_OF_SUBJECT, "vm:v1"))
    )
    world.store.close()
    assert operation.state is OperationState.DONE
    assert written - OF_THE_REQUEST <= 12 + 3 * scopes
    [moved] = [entry for entry in entries if entry.kind is AuditKind.VM_MOVED]
    assert {move.vm for move in moved.facts.moves} == {f"v{n}" for n in range(vms)}
    assert "vm v1 from h1 to h2" in detail_of(moved)
    assert moved in history


def test_approval_that_starts_an_impact_writes_few_rows(tmp_path: Path) -> None:
    path = tmp_path / "forewarn.db"
    world = world_at(path, large(3, 1))
    world.plane.enable("v0", now=world.now)
    world.order(
        lambda work: verbs.maintain(work, ["h1"], Action.REBOOT, OrderOptions())
    )
    [event] = world.live_events()
    post = Approval(vm="v0", event_ids=(event.event_id,))
    written = counted(path, lambda: world.plane.approve([post], now=world.now))
    world.store.close()
    # Approved, ready, impacting, and the event that started.
    assert written == 4


def test_moved_vm_is_in_the_history_of_both_hosts(world: World) -> None:
    def move(work: Work) -> None:
        leaving.move_vm(
            work, work.vm("web_0"), work.tx.get(Host, "h2") or work.host("")
        )

    world.plane.order(ALICE, move, now=world.now)
    for host in ("h1", "h2"):
        entries = world.read(
            lambda reader, h=host: list(
                every(reader, kinds.AUDIT_OF_SUBJECT, f"host:{h}")
            )
        )
        assert AuditKind.VM_MOVED in {entry.kind for entry in entries}
