"""Retention: what is old goes, in steps, and as fast as it comes."""

from dataclasses import replace

from forewarn.control import retention
from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Who, Work
from forewarn.instants import DAY, HOUR
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action, Request
from forewarn.store import kinds
from forewarn.store.records import AuditEntry, AuditKind
from tests.unit.admin.gateway import LocalGateway


def trail(gateway: LocalGateway) -> list[AuditEntry]:
    return gateway.store.read(
        lambda reader: reader.select(kinds.ALL_AUDIT, limit=10_000)
    )


def maintain(gateway: LocalGateway) -> str:
    return gateway.plane.order(
        Who(actor=operator("test")),
        lambda work: verbs.maintain(work, ["h1"], Action.FREEZE, OrderOptions()),
        now=gateway.now(),
    ).request_id


def rounds(gateway: LocalGateway) -> int:
    """Do what is to be done at once; return in how many rounds."""
    done = 1
    while gateway.plane.advance(now=gateway.now()):
        done += 1
    return done


def test_ended_request_is_deleted_with_all_its_records() -> None:
    gateway = LocalGateway()
    request = maintain(gateway)
    gateway.advance("1h")
    [operation] = gateway.store.read(
        lambda reader: reader.select(kinds.OPERATIONS_OF_REQUEST, request)
    )
    ended = operation.ended_at
    gateway.clock.advance_to(ended + 30 * DAY - 1)
    rounds(gateway)
    assert gateway.store.read(lambda reader: reader.get(Request, request)) is not None
    gateway.clock.advance_to(ended + 30 * DAY)
    rounds(gateway)
    assert gateway.store.read(lambda reader: reader.get(Request, request)) is None
    mine = operation.operation_id
    left = gateway.store.read(
        lambda reader: [
            *reader.select(kinds.ALL_OPERATIONS),
            *reader.select(kinds.EVENTS_OF_OPERATION, mine),
            *reader.select(kinds.AUDIT_OF_SUBJECT, f"operation:{mine}"),
        ]
    )
    assert left == []


def test_oldest_operations_above_the_limit_are_deleted_with_their_history() -> None:
    gateway = LocalGateway()
    gateway.plane.policy = replace(gateway.plane.policy, ended_max=3)
    requests: list[str] = []
    for _ in range(8):
        requests.append(maintain(gateway))
        gateway.advance("1h")
    rounds(gateway)
    left = gateway.store.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))
    assert {operation.request for operation in left} == {*requests[-3:]}
    oldest = min(operation.ended_at for operation in left)
    assert min(entry.at for entry in trail(gateway)) > oldest - 2 * HOUR


def test_running_operation_is_not_deleted() -> None:
    gateway = LocalGateway()
    gateway.driver.is_silent = True
    request = maintain(gateway)
    gateway.advance("16m")
    gateway.driver.forgets = True
    gateway.advance("1h")
    gateway.clock.advance_to(gateway.now() + 90 * DAY)
    rounds(gateway)
    assert gateway.store.read(lambda reader: reader.get(Request, request)) is not None


def note_many(gateway: LocalGateway, lines: int) -> None:
    def note(work: Work) -> None:
        for _number in range(lines):
            work.note(AuditKind.VM_RUNS_AGAIN, ("vm:web_0",))

    gateway.plane.order(Who(actor=operator("test")), note, now=gateway.now())


def test_long_history_is_deleted_at_once_in_short_steps() -> None:
    """A second has many lines of the trail for each operation that ends in it."""
    gateway = LocalGateway()
    note_many(gateway, 10 * retention.ROWS_PER_STEP)
    gateway.clock.advance_to(gateway.now() + 31 * DAY)
    assert rounds(gateway) >= 10
    assert trail(gateway) == []


def test_due_timer_does_not_delay_deletion_of_old_entries() -> None:
    gateway = LocalGateway()
    note_many(gateway, 3)
    gateway.clock.advance_to(gateway.now() + 31 * DAY)
    maintain(gateway)
    gateway.clock.advance_to(gateway.now() + DAY)
    gateway.plane.advance(now=gateway.now())
    assert trail(gateway)
    assert all(entry.kind is not AuditKind.VM_RUNS_AGAIN for entry in trail(gateway))
