"""Rollouts: hosts are announced one after the other, and each when its turn comes."""

from collections import Counter
from pathlib import Path

import pytest

from forewarn.control.requests import brake, failures, rollouts, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import HOUR, MINUTE
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import Event
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import (
    Action,
    OperationState,
    RequestState,
)
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader, every
from forewarn.store.sqlite import SqliteStore
from tests.support.profiles import amounts
from tests.support.rollouts import (
    DONE,
    PLANNED,
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


def test_hosts_run_one_at_a_time_with_a_full_notice_each() -> None:
    world = world_of([{"a": 0}, {"b": 0}, {"c": 0}])
    roll_out(world, 3)
    assert [operation.state for operation in world.operations()].count(PLANNED) == 2
    assert len(world.live_events()) == 1
    noticed: list[int] = []
    for _ in range(90):
        world.advance("1m")
        assert len(in_flight(world)) <= 1
        for event in world.live_events():
            assert event.not_before - event.created >= 15 * MINUTE
            noticed.append(event.created)
    assert set(states(world).values()) == {DONE}
    assert len(set(noticed)) == 3


def test_a_withdrawn_host_is_announced_before_the_others_after_the_brake() -> None:
    world = world_of([{f"s{number}": 0} for number in range(20)])
    roll_out(world, 20)
    (first,) = in_flight(world)
    for _ in range(2):
        world.order(lambda work: brake.put_on(work, withdraw=True), reason="unstable")
        world.settle()
        assert not in_flight(world)
        world.order(brake.take_off)
        world.settle()
        assert [operation.host for operation in in_flight(world)] == [first.host]


def test_a_timer_of_a_skipped_host_that_comes_late_leaves_its_notice() -> None:
    """Due timers are read together: the end of one host announces another that is due."""
    world = world_of([{"a": 0}, {"a": 1}])
    roll_out(world, 2, at_once=2)
    assert [operation.state for operation in world.operations()].count(PLANNED) == 1
    second = of_host(world, 1)
    while of_host(world, 1).state is PLANNED:
        world.advance("1m")
    world.order(lambda work: rollouts.waited_long(work, second.operation_id))
    assert of_host(world, 1).due_at == of_host(world, 1).not_before
    world.advance("1h")
    assert set(states(world).values()) == {DONE}


def test_at_once_limit_counts_from_announcement_to_end() -> None:
    world = world_of([{"a": 0}, {"b": 0}, {"c": 0}])
    roll_out(world, 3, at_once=2)
    most = 0
    for _ in range(90):
        world.advance("1m")
        most = max(most, len(in_flight(world)))
        assert request(world).in_flight == len(in_flight(world))
    assert most == 2
    assert set(states(world).values()) == {DONE}


def test_hosts_marked_as_last_come_after_the_others() -> None:
    text = fleet([{"a": 0}, {"b": 0}, {"c": 0}])
    for name in ("h0000", "h0001"):
        text = text.replace(f'name = "{name}"', f'name = "{name}"\nlast = true', 1)
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=text)
    roll_out(world, 3)
    placed = sorted(world.operations(), key=lambda operation: operation.position)
    assert [operation.host for operation in placed] == ["h0002", "h0000", "h0001"]
    assert [operation.host for operation in in_flight(world)] == ["h0002"]


@pytest.mark.amounts
@pytest.mark.parametrize("shared", [True, False])
def test_hosts_of_a_large_rollout_run_one_at_a_time(shared: bool) -> None:
    """Of one scope with five fault domains, and of as many scopes."""
    count = amounts().rollout_hosts
    world = world_of(
        [{"a": number % 5} if shared else {f"a{number}": 0} for number in range(count)]
    )
    roll_out(world, count)
    done = 0
    while done < count:
        world.advance("6h")
        found = Counter(states(world).values())
        assert found[DONE] > done
        done = found[DONE]
        assert found[DONE] + found[PLANNED] >= count - 1, "one in flight"


def test_requested_not_before_is_a_minimum_for_each_host() -> None:
    world = world_of([{"a": 0}, {"b": 0}])
    roll_out(world, 2, ahead=HOUR)
    ends = world.now + HOUR
    assert of_host(world, 0).not_before == ends
    world.advance("75m")
    assert of_host(world, 0).state is DONE
    assert of_host(world, 1).not_before > ends
    assert of_host(world, 1).not_before - world.live_events()[0].created >= 15 * MINUTE


def test_hosts_without_vms_wait_for_a_requested_not_before() -> None:
    """Nobody is asked there, and so nobody could let them go earlier."""
    world = world_of([{}, {"a": 0}, {}])
    roll_out(world, 3, ahead=HOUR)
    world.advance("59m")
    assert of_host(world, 0).state is OperationState.ANNOUNCED
    world.advance("12m")
    # The next one has a VM, which gets a full notice of its own.
    assert of_host(world, 0).state is DONE
    assert of_host(world, 1).state is OperationState.ANNOUNCED
    world.advance("40m")
    assert states(world) == {"h0000": DONE, "h0001": DONE, "h0002": DONE}


def test_hosts_without_vms_start_at_once_without_a_requested_time() -> None:
    world = world_of([{}, {}])
    roll_out(world, 2)
    assert of_host(world, 0).state is OperationState.RECOVERING


def test_at_most_one_fault_domain_of_a_scope_is_announced() -> None:
    world = world_of([{"a": 0}, {"a": 1}, {"a": 0}, {"b": 0}])
    roll_out(world, 4, at_once=4)
    assert states(world)[name_of(1)] is PLANNED
    assert len(in_flight(world)) == 3
    assert "fault domain 0 of scope a is announced" in " ".join(
        world.explain(of_host(world, 1).operation_id)
    )
    world.advance("3h")
    assert set(states(world).values()) == {DONE}


def test_explain_names_every_scope_that_keeps_a_host_waiting() -> None:
    world = world_of([{"a": 0, "b": 0}, {"a": 1, "b": 1}])
    roll_out(world, 2, at_once=2)
    first, second = (of_host(world, number).operation_id for number in (0, 1))
    assert world.explain(second) == [
        f"fault domain 0 of scope {scope} is announced, in maintenance or down by "
        f"{first}, and only one at a time is allowed"
        for scope in ("a", "b")
    ]


def test_another_rollout_also_waits_for_the_scope() -> None:
    world = world_of([{"a": 0}, {"a": 1}, {"b": 0}, {"c": 0}])
    for pair in (["h0000", "h0002"], ["h0001", "h0003"]):
        world.order(
            lambda work, pair=pair: verbs.maintain(
                work, pair, Action.FREEZE, OrderOptions(at_once=2)
            )
        )
    world.settle()
    assert {name for name, state in states(world).items() if state is PLANNED} == {
        "h0001"
    }
    world.advance("2h")
    assert set(states(world).values()) == {DONE}


def test_vms_of_a_host_are_read_when_it_is_announced() -> None:
    world = world_of([{"a": 0}, {"b": 0}])
    roll_out(world, 2)
    world.apply_fleet(
        fleet([{"a": 0}, {"b": 0}])
        + '\n[[vm]]\nname = "late"\nhost = "h0001"\nscope = "a"\nfault_domain = 0\n'
    )
    world.advance("30m")
    assert sorted(of_host(world, 1).vms) == ["b-1", "late"]


def test_a_failure_stops_the_rollout_before_the_next_announcement() -> None:
    driver = SimulatedDriver()
    world = world_of([{"a": 0}, {"b": 0}, {"c": 0}], driver=driver)
    driver.inject(Fault(kind=FaultKind.FAIL, times=None))
    roll_out(world, 3)
    world.advance("2h")
    assert Counter(states(world).values()) == {
        OperationState.FAILED: 1,
        OperationState.CANCELLED: 2,
    }
    assert request(world).state is RequestState.STOPPED
    told = {event.operation for event in world.read(_all_events)}
    assert len(told) == 1


def _all_events(reader: Reader) -> list[Event]:
    found = every(reader, kinds.ALL_OPERATIONS)
    return [
        event
        for operation in found
        for event in every(reader, kinds.EVENTS_OF_OPERATION, operation.operation_id)
    ]


def test_large_rollout_is_cancelled_in_steps() -> None:
    count = 2 * rollouts.CANCELLED_MAX + 10
    world = world_of([{f"s{number}": 0} for number in range(count)])
    made = roll_out(world, count)
    world.order(
        lambda work: verbs.cancel(work, made.request_id, note=Said(text="by hand"))
    )
    world.settle()
    assert set(states(world).values()) == {OperationState.CANCELLED}
    assert request(world).state is RequestState.CANCELLED


def test_one_waiting_host_can_be_cancelled_separately() -> None:
    world = world_of([{"a": 0}, {"b": 0}, {"c": 0}])
    roll_out(world, 3)
    waiting = of_host(world, 1).operation_id
    world.order(lambda work: verbs.cancel(work, waiting, note=Said(text="by hand")))
    world.advance("2h")
    assert states(world) == {
        "h0000": DONE,
        "h0001": OperationState.CANCELLED,
        "h0002": DONE,
    }


def test_a_host_that_fails_while_it_waits_leaves_the_rollout() -> None:
    world = world_of([{"a": 0}, {"b": 0}, {"c": 0}])
    roll_out(world, 3)
    world.order(lambda work: failures.fail_host(work, "h0001"))
    world.advance("2h")
    done = [operation for operation in world.operations() if operation.state is DONE]
    assert {operation.host for operation in done} == {"h0000", "h0002"}


def test_host_passed_over_for_long_comes_first() -> None:
    # The first has a VM of each scope, and one of the scopes is always in use.
    hosts = [{"a": 1, "b": 1}] + [{"ab"[number % 2]: 0} for number in range(40)]
    world = world_of(hosts)
    world.order(lambda work: failures.fail_vm(work, "a-1"))
    roll_out(world, len(hosts), at_once=2)
    assert of_host(world, 0).state is PLANNED
    world.advance("90m")
    world.order(lambda work: failures.restore_vm(work, "a-1"))
    world.advance("2h")
    assert of_host(world, 0).state is DONE
    assert sum(state is PLANNED for state in states(world).values()) > 10


def test_explain_shows_the_position_and_the_slots() -> None:
    world = world_of([{"a": 0}, {"b": 0}, {"c": 0}])
    made = roll_out(world, 3)
    (reason,) = world.explain(of_host(world, 2).operation_id)
    assert reason == (
        f"it waits for its turn: host 3 of 3 of rollout {made.request_id}, with 1 in "
        "flight and at most 1 at once"
    )


def test_second_request_for_a_host_in_a_rollout_is_refused() -> None:
    world = world_of([{"a": 0}, {"b": 0}])
    roll_out(world, 2)
    with pytest.raises(RefusedError, match=r"h0001 already has operation op-.*Planned"):
        world.order(
            lambda work: verbs.maintain(work, ["h0001"], Action.FREEZE, OrderOptions())
        )


def test_a_crash_at_any_commit_loses_no_host(tmp_path: Path) -> None:
    for number in range(1, 40):
        file = tmp_path / f"{number}.db"
        world = world_of(
            [{"a": 0}, {"a": 1}, {"b": 0}, {"a": 0}],
            store=lambda file=file: SqliteStore(file),
        )
        before = world.passed["committed"]
        world.crash_at = lambda place, count, at=before + number: (
            place == "committed" and count == at
        )
        try:
            roll_out(world, 4, at_once=2)
            world.advance("4h")
        except CrashError:
            world.restart()
            assert check_of(world, file) == []
            world.advance("4h")
        else:
            break
        assert set(states(world).values()) == {DONE}, number
        world.store.close()
    else:
        raise AssertionError("the story has more commits than were tried")
