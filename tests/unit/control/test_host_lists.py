"""Long lists of hosts become operations a page at a time, and nobody can tell."""

from collections import Counter
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


def first_page_of(it: World) -> str:
    """Order a rollout of which only the first page is planned; return its request."""
    it.plane.bound_turns(lambda: True)
    names = [name_of(number) for number in range(HOSTS)]
    made = it.order(
        lambda work: verbs.maintain(work, names, Action.FREEZE, OrderOptions(at_once=3))
    )
    assert list(states(it)) == names[: rollouts.PAGE]
    assert it.plane.unplanned == {made.request_id}
    return made.request_id


def test_all_pages_of_a_list_are_stored_before_the_first_announcement() -> None:
    count = 2 * rollouts.PAGE + 10
    it = world_of(scopes(count))
    it.plane.bound_turns(lambda: True)
    names = [name_of(number) for number in range(count)]
    it.order(lambda work: verbs.maintain(work, names, Action.FREEZE, OrderOptions()))
    found: list[int] = []
    while not in_flight(it):
        found.append(len(it.operations()))
        it.plane.advance(now=it.now)
    assert found[:2] == [rollouts.PAGE, 2 * rollouts.PAGE]
    assert set(found[2:]) == {count}
    ordered = sorted(it.operations(), key=lambda each: each.operation_id)
    assert [each.host for each in ordered] == names
    assert [each.position for each in ordered] == list(range(1, count + 1))
    assert len({_in_common(each) for each in ordered[1:]}) == 1
    assert (request(it).hosts, request(it).unplanned) == (count, ())


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
    it = world_of(scopes(HOSTS))
    names = [name_of(number) for number in range(HOSTS)]
    it.order(lambda work: verbs.maintain(work, names, Action.FREEZE, OrderOptions()))
    assert list(states(it)) == names
    assert len(in_flight(it)) == 1


@pytest.mark.usefixtures("short_pages")
def test_crash_at_any_commit_loses_no_host_of_a_list(tmp_path: Path) -> None:
    commits = 6
    """The order, three pages, and two announcements."""
    for number in range(1, commits + 1):
        file = tmp_path / f"{number}.db"
        it = world_of(scopes(HOSTS), store=lambda file=file: SqliteStore(file))
        before = it.passed["committed"]
        it.crash_at = lambda place, count, at=before + number: (
            place == "committed" and count == at
        )
        with pytest.raises(CrashError):
            roll_out(it, HOSTS, at_once=3)
        assert len(states(it)) == min(HOSTS, number * rollouts.PAGE)
        assert check_of(it, file) == []
        it.restart()
        it.advance("2h")
        assert list(states(it).values()) == [DONE] * HOSTS, number
        it.store.close()


@pytest.mark.usefixtures("short_pages")
def test_unplanned_hosts_of_a_cancelled_rollout_are_cancelled() -> None:
    it = world_of(scopes(HOSTS))
    made = first_page_of(it)
    it.order(lambda work: verbs.cancel(work, made, note=Said(text="by hand")))
    it.settle()
    assert list(states(it).values()) == [CANCELLED] * HOSTS
    assert request(it).state is RequestState.CANCELLED
    assert not it.plane.unplanned


@pytest.mark.usefixtures("short_pages")
def test_rollout_continues_after_its_first_page_was_cancelled() -> None:
    it = world_of(scopes(HOSTS))
    first_page_of(it)
    for operation in it.operations():
        name = operation.operation_id
        it.order(
            lambda work, name=name: verbs.cancel(work, name, note=Said(text="by hand"))
        )
    it.advance("2h")
    assert Counter(states(it).values()) == {CANCELLED: 2, DONE: HOSTS - 2}
    assert request(it).state is RequestState.CLOSED


@pytest.mark.usefixtures("short_pages")
def test_a_host_that_fails_before_its_page_leaves_the_rollout() -> None:
    it = world_of(scopes(HOSTS))
    made = first_page_of(it)
    it.order(lambda work: failures.fail_host(work, name_of(3)))
    it.order(lambda work: failures.restore_host(work, name_of(3)))
    it.advance("2h")
    (left,) = [each for each in it.operations() if each.state is CANCELLED]
    assert (left.host, left.request, left.position) == (name_of(3), made, 4)
    assert left.note == host_changed(Change.FAILED, name_of(3))


@pytest.mark.usefixtures("short_pages")
def test_a_host_that_is_removed_before_its_page_leaves_the_rollout() -> None:
    it = world_of(scopes(HOSTS))
    first_page_of(it)
    it.apply_fleet(fleet(scopes(HOSTS - 1)))
    it.apply_fleet(fleet(scopes(HOSTS)))
    it.advance("2h")
    assert of_host(it, HOSTS - 1).state is CANCELLED
    assert Counter(states(it).values()) == {CANCELLED: 1, DONE: HOSTS - 1}


@pytest.mark.usefixtures("short_pages")
@pytest.mark.parametrize("is_prediction", [False, True])
def test_second_request_for_an_unplanned_host_is_refused(is_prediction: bool) -> None:
    it = world_of(scopes(HOSTS))
    first_page_of(it)

    def order(work: Work) -> None:
        if is_prediction:
            verbs.predict_failure(work, [LAST], HOUR, OrderOptions())
        else:
            verbs.maintain(work, [LAST], Action.FREEZE, OrderOptions())

    with pytest.raises(
        RefusedError, match=rf"{LAST} already has operation op-.* \(maintain, Planned\)"
    ):
        it.order(order)
    assert len(states(it)) == 2, "who is refused changes nothing"
    it.advance("2h")
    assert list(states(it).values()) == [DONE] * HOSTS


@pytest.mark.usefixtures("short_pages")
def test_one_refused_host_refuses_the_whole_list() -> None:
    it = world_of(scopes(HOSTS))
    it.order(lambda work: failures.fail_host(work, LAST))
    with pytest.raises(RefusedError, match=f"{LAST} is down"):
        roll_out(it, HOSTS)
    assert set(states(it)) == {LAST}
    assert not it.read(lambda reader: reader.select(kinds.REQUESTS_UNPLANNED))


@pytest.mark.parametrize("most", [0, 3])
def test_a_long_list_is_refused_for_one_host_in_use(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Whether all that is under way is read once, or is too much for that."""
    monkeypatch.setattr(changes, "READ_ONCE_MAX", most)
    it = world_of(scopes(HOSTS))
    it.order(lambda work: verbs.maintain(work, [LAST], Action.FREEZE, OrderOptions()))
    with pytest.raises(
        RefusedError, match=f"host {LAST} already has operation op-.*Announced"
    ):
        roll_out(it, HOSTS)


@pytest.mark.parametrize("most", [0, 3])
def test_a_long_list_is_refused_for_one_host_that_a_vm_moves_to(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(changes, "READ_ONCE_MAX", most)
    driver = SimulatedDriver(impacts={Action.LIVE_MIGRATE: HOUR})
    it = world_of([{"s": 0}, *({} for _ in range(HOSTS - 1))], driver=driver)
    it.order(
        lambda work: verbs.maintain(
            work, [name_of(0)], Action.LIVE_MIGRATE, OrderOptions()
        )
    )
    it.advance("20m")
    names = [name_of(number) for number in range(1, HOSTS)]
    with pytest.raises(RefusedError, match="VM s-0 is moving to host"):
        it.order(
            lambda work: verbs.maintain(work, names, Action.FREEZE, OrderOptions())
        )
