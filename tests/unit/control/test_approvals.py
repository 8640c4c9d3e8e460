"""Two last approvals at once: neither is lost, and neither lets nothing go."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from forewarn.control.execution import release
from forewarn.control.plane import Plane
from forewarn.control.requests import approvals, fleet_changes, verbs
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.abilities import Abilities
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.who import CLOCK, Who
from forewarn.control.transactions.work import Work
from forewarn.fleet.file import read_fleet
from forewarn.ids import RandomIds
from forewarn.instants import HOUR
from forewarn.protocol.actors import VMS, operator
from forewarn.protocol.host_steps import NO_STEPS
from forewarn.protocol.operations import Action, Operation, OperationState
from forewarn.protocol.published import Publication
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import ConflictError, Store, every
from forewarn.store.sequence import key_of
from forewarn.store.sqlite import SqliteStore
from tests.support.hand_transactions import HandTransaction, begin
from tests.unit.admin.gateway import FLEET, START, ObedientDriver

IDS = RandomIds(1)
LINES = itertools.count()


class Deaf:
    """Hears nothing."""

    def publish(self, publication: Publication) -> None:
        pass

    def changed(self, operations: Sequence[str]) -> None:
        pass


@pytest.fixture(params=["memory", "sqlite"])
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Plane]:
    """Yield a plane with an operation that web_0 and db_0 must approve."""
    store: Store = MemoryStore()
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "store.db")
    driver = ObedientDriver()
    driver.is_silent = True
    plane = Plane(store=store, driver=driver, policy=Policy(), ids=IDS, listener=Deaf())
    plane.start(now=START)
    who = Who(actor=operator("test"))
    wanted = read_fleet(FLEET, name="fleet.toml")
    plane.order(who, lambda work: fleet_changes.apply(work, wanted), now=START)
    for vm in ("web_0", "db_0"):
        plane.enable(vm, now=START)
    wishes = OrderOptions(not_before=START + HOUR)
    plane.order(
        who,
        lambda work: verbs.maintain(work, ["h1"], Action.REBOOT, wishes),
        now=START,
    )
    yield plane
    store.close()


def events(plane: Plane) -> dict[str, str]:
    """Return the event of each VM."""
    live = plane.store.read(lambda reader: list(every(reader, kinds.LIVE_EVENTS)))
    return {event.resources[0].vm: event.event_id for event in live}


def operation(plane: Plane) -> Operation:
    [found] = plane.store.read(
        lambda reader: list(every(reader, kinds.OPEN_OPERATIONS))
    )
    return found


def work_in(tx: HandTransaction, who: Who) -> Work:
    return Work(
        tx,
        now=START,
        who=who,
        policy=Policy(),
        abilities=Abilities(actions=frozenset(Action), host_steps=NO_STEPS),
        driver="simulated",
        memory="simulated",
        ids=IDS,
        next_key=lambda: key_of(9, next(LINES)),
        next_epoch=lambda: next(LINES),
        span_id=lambda now: f"{now:017d}.{next(LINES):09d}",
    )


def approve(plane: Plane, vm: str) -> Callable[[HandTransaction], None]:
    event_id = events(plane)[vm]

    def act(tx: HandTransaction) -> None:
        work = work_in(tx, Who(actor=VMS))
        post = Approval(vm=vm, event_ids=(event_id,))
        assert approvals.approve_together(work, [post]) == (None,)
        work.finish()

    return act


def both(plane: Plane, *acts: Callable[[HandTransaction], None]) -> int:
    """Do both on what was before either; return how many get through."""
    writers = [begin(plane.store) for _ in acts]
    for writer in writers:
        writer.select(kinds.OPEN_OPERATIONS)  # its view of the store begins here
    through = 0
    for writer, act in zip(writers, acts, strict=True):
        try:
            act(writer)
        except ConflictError:
            writer.rollback()
            continue
        try:
            writer.commit()
        except ConflictError:
            continue
        through += 1
    return through


@pytest.mark.clause("3.5")
def test_one_of_two_simultaneous_last_approvals_is_retried(plane: Plane) -> None:
    first, second = approve(plane, "web_0"), approve(plane, "db_0")
    assert both(plane, first, second) == 1
    assert operation(plane).state is OperationState.ANNOUNCED
    assert both(plane, second) == 1
    assert operation(plane).state is OperationState.IMPACTING


PARTS = 3
"""A writer begins to see the store, does its work, and commits."""

ORDERS = [
    tuple(0 if place in first else 1 for place in range(2 * PARTS))
    for first in itertools.combinations(range(2 * PARTS), PARTS)
]


def in_parts(
    plane: Plane, act: Callable[[HandTransaction], None], through: list[object]
) -> Iterator[None]:
    writer = begin(plane.store)
    try:
        writer.select(kinds.OPEN_OPERATIONS)
        yield
        act(writer)
        yield
        writer.commit()
        through.append(act)
    except ConflictError:
        writer.rollback()


@pytest.mark.slow
@pytest.mark.clause("3.5")
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "".join(map(str, order)))
def test_two_last_approvals_start_the_operation_once_in_any_interleaving(
    plane: Plane, order: tuple[int, ...]
) -> None:
    acts = [approve(plane, "web_0"), approve(plane, "db_0")]
    through: list[object] = []
    writers = [in_parts(plane, act, through) for act in acts]
    for number in order:
        next(writers[number], None)
    assert through, "nobody got through"
    one_by_one = order in {(0, 0, 0, 1, 1, 1), (1, 1, 1, 0, 0, 0)}
    assert (len(through) == 2) is one_by_one
    is_over = operation(plane).state is OperationState.IMPACTING
    assert is_over is one_by_one, "it starts with the second, and not without it"
    for act in acts:
        if act not in through:
            assert both(plane, act) == 1
    assert operation(plane).state is OperationState.IMPACTING
    trail = plane.store.read(
        lambda reader: list(
            every(
                reader,
                kinds.AUDIT_OF_SUBJECT,
                f"operation:{operation(plane).operation_id}",
            )
        )
    )
    messages = [entry.what for entry in trail]
    assert messages.count("event approved") == 2
    assert messages.count("operation impacting") == 1


@pytest.mark.clause("3.5")
def test_approval_conflicts_with_removal_of_a_vm_from_its_operation(
    plane: Plane,
) -> None:
    """Else each would find that the other's event is still waited for."""
    missing = FLEET.replace('name = "db_0"\nhost = "h1"', 'name = "db_0"\nhost = "h2"')
    wanted = read_fleet(missing, name="fleet.toml")

    def leave(tx: HandTransaction) -> None:
        work = work_in(tx, Who(actor=operator("test")))
        fleet_changes.apply(work, wanted)
        work.finish()

    assert both(plane, leave, approve(plane, "web_0")) == 1
    assert "db_0" not in events(plane)


def test_approval_conflicts_with_a_recheck(plane: Plane) -> None:
    plane.approve([Approval(vm="db_0", event_ids=(events(plane)["db_0"],))], now=START)
    operation_id = operation(plane).operation_id

    def look(tx: HandTransaction) -> None:
        release.recheck(work_in(tx, CLOCK), operation_id)

    assert both(plane, look, approve(plane, "web_0")) == 1
