"""Long lists of hosts become operations a page at a time, and nobody can tell."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from forewarn.control.requests import failures, rollouts, verbs
from forewarn.control.requests.verbs import OrderOptions, changes
from forewarn.control.transactions.work import Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import HOUR
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.notes import Change, Said, host_changed
from forewarn.protocol.operations import Action, Operation, OperationState, RequestState
from forewarn.store import kinds
from forewarn.store.migrate import load_steps
from forewarn.store.sqlite import SqliteStore
from tests.support.rollouts import (
    DONE,
    check_of,
    fleet,
    in_flight,
    name_of,
    of_host,
    request,
    roll_out,
    states,
    world_of,
)
from tests.support.worlds import CrashError, World

CANCELLED = OperationState.CANCELLED

HOSTS = 7
"""With two of them on a page: four pages."""

LAST = name_of(HOSTS - 1)


@pytest.fixture
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "PAGE", 2)


def scopes(count: int) -> list[dict[str, int]]:
    return [{f"s{number}": 0} for number in range(count)]


def first_page_of(world: World) -> str:
    """Order a rollout of which only the first page is planned; return its request."""
    world.plane.bound_turns(lambda: True)
    names = [name_of(number) for number in range(HOSTS)]
    result = world.order(
        lambda work: verbs.maintain(work, names, Action.FREEZE, OrderOptions(at_once=3))
    )
    assert list(states(world)) == names[: rollouts.PAGE]
    assert world.plane.unplanned == {result.request_id}
    return result.request_id


def test_all_pages_of_a_list_are_stored_before_the_first_announcement() -> None:
    count = 2 * rollouts.PAGE + 10
    world = world_of(scopes(count))
    world.plane.bound_turns(lambda: True)
    names = [name_of(number) for number in range(count)]
    world.order(lambda work: verbs.maintain(work, names, Action.FREEZE, OrderOptions()))
    found: list[int] = []
    while not in_flight(world):
        found.append(len(world.operations()))
        world.plane.advance(now=world.now)
    assert found[:2] == [rollouts.PAGE, 2 * rollouts.PAGE]
    assert set(found[2:]) == {count}
    ordered = sorted(world.operations(), key=lambda operation: operation.operation_id)
    assert [operation.host for operation in ordered] == names
    assert [operation.position for operation in ordered] == list(range(1, count + 1))
    assert len({_in_common(operation) for operation in ordered[1:]}) == 1
    assert (request(world).hosts, request(world).hosts_unplanned) == (count, 0)


def _in_common(operation: Operation) -> tuple[object, ...]:
    return (
        operation.verb,
        operation.action,
        operation.not_before,
        operation.created,
        operation.duration_seconds,
        operation.description,
        operation.waits_for,
    )


@pytest.mark.usefixtures("short_pages")
def test_request_without_a_waiting_caller_is_planned_at_once() -> None:
    world = world_of(scopes(HOSTS))
    names = [name_of(number) for number in range(HOSTS)]
    world.order(lambda work: verbs.maintain(work, names, Action.FREEZE, OrderOptions()))
    assert list(states(world)) == names
    assert len(in_flight(world)) == 1


@pytest.mark.usefixtures("short_pages")
def test_crash_at_any_commit_loses_no_host_of_a_list(tmp_path: Path) -> None:
    commits = 6
    """The order, three pages, and two announcements."""
    for number in range(1, commits + 1):
        file = tmp_path / f"{number}.db"
        world = world_of(scopes(HOSTS), store=lambda file=file: SqliteStore(file))
        before = world.passed["committed"]
        world.crash_at = lambda place, count, at=before + number: (
            place == "committed" and count == at
        )
        with pytest.raises(CrashError):
            roll_out(world, HOSTS, at_once=3)
        assert len(states(world)) == min(HOSTS, number * rollouts.PAGE)
        assert check_of(world, file) == []
        world.restart()
        world.advance("2h")
        assert list(states(world).values()) == [DONE] * HOSTS, number
        world.store.close()


@pytest.mark.usefixtures("short_pages")
def test_half_planned_list_of_an_old_store_goes_on_after_the_upgrade(
    tmp_path: Path,
) -> None:
    file = tmp_path / "store.db"
    world = world_of(scopes(HOSTS), store=lambda: SqliteStore(file))
    first_page_of(world)
    world.store.close()
    before = sorted(left_in_old_store(file))
    assert len(before) == HOSTS - rollouts.PAGE
    world.restart()
    assert check_of(world, file) == []
    world.advance("2h")
    assert list(states(world).values()) == [DONE] * HOSTS
    assert [*before] == [
        [operation.operation_id, operation.host]
        for operation in sorted(
            world.operations(), key=lambda operation: operation.operation_id
        )
        if operation.position > rollouts.PAGE
    ]
    world.store.close()


def left_in_old_store(file: Path) -> list[list[str]]:
    """Store the rest of a list as the version before the pages did, and upgrade.

    Return the rest: the ID of each future operation, and its host.
    """
    (step,) = (it for it in load_steps() if it.name.endswith("_unplanned_pages.sql"))
    with closing(sqlite3.connect(file)) as database:
        pages = database.execute("SELECT hosts FROM unplanned_pages ORDER BY page_id")
        left = [pair for (hosts,) in pages.fetchall() for pair in json.loads(hosts)]
        database.executescript(
            "DROP TABLE unplanned_hosts; DROP TABLE unplanned_pages;"
            "DROP INDEX requests_unplanned;"
            "ALTER TABLE requests DROP COLUMN hosts_unplanned;"
            "CREATE INDEX requests_unplanned ON requests (request_id)"
            " WHERE unplanned != '[]'"
        )
        database.execute("UPDATE requests SET unplanned = ?", (json.dumps(left),))
        database.commit()
        database.executescript(step.sql)
    return left


@pytest.mark.usefixtures("short_pages")
def test_unplanned_hosts_of_a_cancelled_rollout_are_cancelled() -> None:
    world = world_of(scopes(HOSTS))
    made = first_page_of(world)
    world.order(lambda work: verbs.cancel(work, made, note=Said(text="by hand")))
    world.settle()
    assert list(states(world).values()) == [CANCELLED] * HOSTS
    assert request(world).state is RequestState.CANCELLED
    assert not world.plane.unplanned


@pytest.mark.usefixtures("short_pages")
def test_rollout_continues_after_its_first_page_was_cancelled() -> None:
    world = world_of(scopes(HOSTS))
    first_page_of(world)
    for operation in world.operations():
        name = operation.operation_id
        world.order(
            lambda work, name=name: verbs.cancel(work, name, note=Said(text="by hand"))
        )
    world.advance("2h")
    assert Counter(states(world).values()) == {CANCELLED: 2, DONE: HOSTS - 2}
    assert request(world).state is RequestState.CLOSED


@pytest.mark.usefixtures("short_pages")
def test_a_host_that_fails_before_its_page_leaves_the_rollout() -> None:
    world = world_of(scopes(HOSTS))
    made = first_page_of(world)
    world.order(lambda work: failures.fail_host(work, name_of(3)))
    world.order(lambda work: failures.restore_host(work, name_of(3)))
    world.advance("2h")
    (left,) = [
        operation for operation in world.operations() if operation.state is CANCELLED
    ]
    assert (left.host, left.request, left.position) == (name_of(3), made, 4)
    assert left.note == host_changed(Change.FAILED, name_of(3))


@pytest.mark.usefixtures("short_pages")
def test_a_host_that_is_removed_before_its_page_leaves_the_rollout() -> None:
    world = world_of(scopes(HOSTS))
    first_page_of(world)
    world.apply_fleet(fleet(scopes(HOSTS - 1)))
    world.apply_fleet(fleet(scopes(HOSTS)))
    world.advance("2h")
    assert of_host(world, HOSTS - 1).state is CANCELLED
    assert Counter(states(world).values()) == {CANCELLED: 1, DONE: HOSTS - 1}


@pytest.mark.usefixtures("short_pages")
@pytest.mark.parametrize("is_prediction", [False, True])
def test_second_request_for_an_unplanned_host_is_refused(is_prediction: bool) -> None:
    world = world_of(scopes(HOSTS))
    first_page_of(world)

    def order(work: Work) -> None:
        if is_prediction:
            verbs.predict_failure(work, [LAST], HOUR, OrderOptions())
        else:
            verbs.maintain(work, [LAST], Action.FREEZE, OrderOptions())

    with pytest.raises(
        RefusedError, match=rf"{LAST} already has operation op-.* \(maintain, Planned\)"
    ):
        world.order(order)
    assert len(states(world)) == 2, "who is refused changes nothing"
    world.advance("2h")
    assert list(states(world).values()) == [DONE] * HOSTS


@pytest.mark.usefixtures("short_pages")
def test_one_refused_host_refuses_the_whole_list() -> None:
    world = world_of(scopes(HOSTS))
    world.order(lambda work: failures.fail_host(work, LAST))
    with pytest.raises(RefusedError, match=f"{LAST} is down"):
        roll_out(world, HOSTS)
    assert set(states(world)) == {LAST}
    assert not world.read(lambda reader: reader.select(kinds.REQUESTS_UNPLANNED))


@pytest.mark.parametrize("most", [0, 3])
def test_a_long_list_is_refused_for_one_host_in_use(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Whether all that is under way is read once, or is too much for that."""
    monkeypatch.setattr(changes, "READ_ONCE_MAX", most)
    world = world_of(scopes(HOSTS))
    world.order(
        lambda work: verbs.maintain(work, [LAST], Action.FREEZE, OrderOptions())
    )
    with pytest.raises(
        RefusedError, match=f"host {LAST} already has operation op-.*Announced"
    ):
        roll_out(world, HOSTS)


@pytest.mark.parametrize("most", [0, 3])
def test_a_long_list_is_refused_for_one_host_that_a_vm_moves_to(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(changes, "READ_ONCE_MAX", most)
    driver = SimulatedDriver(impacts={Action.LIVE_MIGRATE: HOUR})
    world = world_of([{"s": 0}, *({} for _ in range(HOSTS - 1))], driver=driver)
    world.order(
        lambda work: verbs.maintain(
            work, [name_of(0)], Action.LIVE_MIGRATE, OrderOptions()
        )
    )
    world.advance("20m")
    names = [name_of(number) for number in range(1, HOSTS)]
    with pytest.raises(RefusedError, match="VM s-0 is moving to host"):
        world.order(
            lambda work: verbs.maintain(work, names, Action.FREEZE, OrderOptions())
        )
