"""Retention: what is old goes, in steps, and as fast as it comes."""

from dataclasses import replace

from forewarn.control import retention
from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import Wishes
from forewarn.control.transactions.work import Who, Work
from forewarn.instants import DAY, HOUR
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action, Request
from forewarn.store import kinds
from forewarn.store.audit import AuditEntry, AuditKind
from tests.unit.admin.desk import LocalDesk


def trail(desk: LocalDesk) -> list[AuditEntry]:
    return desk.store.read(lambda reader: reader.select(kinds.ALL_AUDIT, limit=10_000))


def maintain(desk: LocalDesk) -> str:
    return desk.plane.order(
        Who(actor=operator("test")),
        lambda work: verbs.maintain(work, ["h1"], Action.FREEZE, Wishes()),
        now=desk.now(),
    ).request_id


def rounds(desk: LocalDesk) -> int:
    """Do what is to be done at once; return in how many rounds."""
    done = 1
    while desk.plane.advance(now=desk.now()):
        done += 1
    return done


def test_what_has_ended_goes_with_everything_that_belongs_to_it() -> None:
    desk = LocalDesk()
    request = maintain(desk)
    desk.advance("1h")
    [operation] = desk.store.read(
        lambda reader: reader.select(kinds.OPERATIONS_OF_REQUEST, request)
    )
    ended = operation.ended_at
    desk.clock.advance_to(ended + 30 * DAY - 1)
    rounds(desk)
    assert desk.store.read(lambda reader: reader.get(Request, request)) is not None
    desk.clock.advance_to(ended + 30 * DAY)
    rounds(desk)
    assert desk.store.read(lambda reader: reader.get(Request, request)) is None
    mine = operation.operation_id
    left = desk.store.read(
        lambda reader: [
            *reader.select(kinds.ALL_OPERATIONS),
            *reader.select(kinds.EVENTS_OF_OPERATION, mine),
            *reader.select(kinds.AUDIT_OF_SUBJECT, f"operation:{mine}"),
        ]
    )
    assert left == []


def test_of_too_many_the_oldest_go_with_their_trail() -> None:
    desk = LocalDesk()
    desk.plane.policy = replace(desk.plane.policy, ended_max=3)
    requests: list[str] = []
    for _ in range(8):
        requests.append(maintain(desk))
        desk.advance("1h")
    rounds(desk)
    left = desk.store.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))
    assert {each.request for each in left} == {*requests[-3:]}
    oldest = min(each.ended_at for each in left)
    assert min(entry.at for entry in trail(desk)) > oldest - 2 * HOUR


def test_what_is_under_way_stays() -> None:
    desk = LocalDesk()
    desk.driver.is_silent = True
    request = maintain(desk)
    desk.advance("16m")
    desk.driver.forgets = True
    desk.advance("1h")
    desk.clock.advance_to(desk.now() + 90 * DAY)
    rounds(desk)
    assert desk.store.read(lambda reader: reader.get(Request, request)) is not None


def note_many(desk: LocalDesk, lines: int) -> None:
    def note(work: Work) -> None:
        for _number in range(lines):
            work.note(AuditKind.VM_RUNS_AGAIN, ("vm:web_0",))

    desk.plane.order(Who(actor=operator("test")), note, now=desk.now())


def test_a_long_trail_goes_at_once_in_short_steps() -> None:
    """A second has many lines of the trail for each operation that ends in it."""
    desk = LocalDesk()
    note_many(desk, 10 * retention.ROWS_PER_STEP)
    desk.clock.advance_to(desk.now() + 31 * DAY)
    assert rounds(desk) >= 10
    assert trail(desk) == []


def test_a_timer_that_is_due_does_not_keep_what_is_old() -> None:
    desk = LocalDesk()
    note_many(desk, 3)
    desk.clock.advance_to(desk.now() + 31 * DAY)
    maintain(desk)
    desk.clock.advance_to(desk.now() + DAY)
    desk.plane.advance(now=desk.now())
    assert trail(desk)
    assert all(entry.kind is not AuditKind.VM_RUNS_AGAIN for entry in trail(desk))
