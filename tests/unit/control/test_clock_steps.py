"""Steps of the wall clock: what they must not change, and what moves with them."""

from pathlib import Path

import pytest

from forewarn.control.requests.clock_steps import NoticeClock
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import CLOCK_STEP_MIN, DAY, HOUR, MINUTE, SECOND
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store import kinds
from forewarn.store.port import every
from tests.spec.support import (
    approve_all,
    durable_world,
    fail_host,
    maintain,
    make_world,
    only_event,
    reboot,
    restore_host,
    seen,
)
from tests.support.worlds import START, World

SLOW = Policy(first_answer_delay=2 * MINUTE, first_events_delay=5 * MINUTE)


def statuses(world: World, vm: str) -> list[str]:
    return [status for status, _, _ in seen(world, vm)]


def only_operation(world: World) -> Operation:
    [operation] = world.read(lambda reader: list(every(reader, kinds.OPEN_OPERATIONS)))
    return operation


@pytest.mark.clause("2.10", "3.2", "7.1")
@pytest.mark.parametrize("back", ["6s", "20s", "1h", "400d"])
def test_step_back_hides_no_event(back: str) -> None:
    world = make_world(listening=["web_0", "db_0"])
    maintain(world, "h1")
    before = world.vm("web_0").get()
    world.step_clock(back, back=True)
    assert world.vm("web_0").get().body == before.body
    assert world.vm("web_1").approve(before.events[0]["EventId"]).status == 200
    approve_all(world, "db_0")
    # An approval of an event that is gone keeps its answer too (3.2).
    world.advance("1h")
    assert world.vm("web_0").get().events == []
    assert world.vm("web_0").approve(before.events[0]["EventId"]).status == 200


@pytest.mark.clause("2.10")
@pytest.mark.parametrize("back", [True, False])
def test_step_while_the_service_is_down_changes_no_document(
    tmp_path: Path, back: bool
) -> None:
    with durable_world(tmp_path, listening=["web_0"]) as world:
        maintain(world, "h1")
        before = world.vm("web_0").get()
        world.clock.step(-HOUR if back else 5 * MINUTE)
        world.restart()
        after = world.vm("web_0").get()
        assert (after.incarnation, after.events) == (before.incarnation, before.events)


@pytest.mark.clause("4.2")
def test_request_after_step_back_is_shown() -> None:
    world = make_world(listening=["web_0"])
    world.step_clock("15s", back=True)
    maintain(world, "h1")
    assert statuses(world, "web_0") == ["Scheduled"]


@pytest.mark.clause("7.1")
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("step", [-HOUR, -20 * SECOND, 20 * SECOND, HOUR])
def test_step_ends_a_configured_delay(
    tmp_path: Path, step: int, *, restarts: bool
) -> None:
    with durable_world(tmp_path, policy=SLOW) as world:
        maintain(world, "h1")
        world.plane.enable("web_0", now=world.now)
        assert world.vm("web_0").glance() is None
        world.advance("1m")
        if restarts:
            world.clock.step(step)
            world.restart()
        else:
            world.step_clock(step)
        answer = world.vm("web_0").glance()
        assert answer is not None
        assert [event["EventStatus"] for event in answer.events] == ["Scheduled"]


@pytest.mark.clause("2.7", "4.2")
@pytest.mark.parametrize("steps", [[HOUR], [-HOUR, HOUR], [HOUR, -HOUR, HOUR]])
def test_notice_passes_in_full_on_the_monotonic_clock(steps: list[int]) -> None:
    world = make_world(listening=["web_0", "db_0"])
    maintain(world, "h1")
    world.advance("5m")
    for step in steps:
        world.step_clock(step)
        world.advance("1s")
    began = world.clock.monotonic()
    world.advance("9m50s")
    assert statuses(world, "web_0") == ["Scheduled"]
    world.advance("10s")
    assert statuses(world, "web_0") == ["Started"]
    assert world.clock.monotonic() - began == 600


@pytest.mark.clause("2.7", "4.2")
@pytest.mark.parametrize("forward", ["10m", "1h"])
def test_notice_ends_at_not_before_if_a_step_forward_is_undone(
    forward: str,
) -> None:
    world = make_world(listening=["web_0"])
    maintain(world, "h1")
    not_before = only_operation(world).not_before
    world.advance("5m")
    world.step_clock(forward)
    world.step_clock(forward, back=True)
    world.advance_to(not_before - 1)
    assert statuses(world, "web_0") == ["Scheduled"]
    world.advance_to(not_before)
    assert statuses(world, "web_0") == ["Started"]


@pytest.mark.clause("2.7")
def test_no_impact_before_not_before_after_step_back() -> None:
    world = make_world(listening=["web_0"])
    maintain(world, "h1")
    not_before = only_operation(world).not_before
    world.step_clock("1h", back=True)
    world.advance_to(not_before - 1)
    assert statuses(world, "web_0") == ["Scheduled"]
    world.advance_to(not_before)
    assert statuses(world, "web_0") == ["Started"]


@pytest.mark.clause("2.7", "6.3")
def test_held_operation_waits_for_not_before_again_after_step_back() -> None:
    world = make_world(listening=["web_0"])
    fail_host(world, "h2")
    [operation] = maintain(world, "h1")
    world.advance("16m")
    assert world.operation(operation.operation_id).state is OperationState.READY
    world.step_clock("1h", back=True)
    restore_host(world, "h2")
    world.advance("50m")
    assert ("Scheduled", "Freeze", ["web_0"]) in seen(world, "web_0")
    messages = world.explain(operation.operation_id)
    assert "NotBefore is in 9 m" in messages, messages
    world.advance("9m")
    assert ("Started", "Freeze", ["web_0"]) in seen(world, "web_0")


def test_explain_shows_a_clock_step_during_the_notice() -> None:
    world = make_world(listening=["web_0", "db_0"])
    [operation] = maintain(world, "h1")
    world.step_clock("1h")
    messages = world.explain(operation.operation_id)
    assert (
        "the clock was set forward during the notice, which ends in 15 m" in messages
    ), messages
    assert "tenant shop has not approved (scope web)" in messages
    waiting = world.vm("web_0").own_events().json["Events"][0]["WaitsFor"]
    assert {reason["Reason"] for reason in waiting} >= {"NotBefore", "OwnApproval"}, (
        waiting
    )


def test_approvals_start_early_after_step_forward() -> None:
    world = make_world(listening=["web_0"])
    reboot(world, "web_0")
    world.step_clock("1h")
    event_id = only_event(world, "web_0")["EventId"]
    assert world.vm("web_0").approve(event_id).status == 200
    assert statuses(world, "web_0") == ["Started"]


def test_wall_clock_rules_after_restart(tmp_path: Path) -> None:
    with durable_world(tmp_path, listening=["web_0"]) as world:
        maintain(world, "h1")
        world.step_clock("1h")
        assert statuses(world, "web_0") == ["Scheduled"]
        world.restart()
        world.advance("0s")
        assert statuses(world, "web_0") == ["Started"]


@pytest.mark.clause("7.3", "7.4")
def test_step_forward_does_not_disable_a_polling_scope() -> None:
    world = make_world(listening=["web_0"])
    world.step_clock(2 * DAY)
    reboot(world, "web_0")
    assert statuses(world, "web_0") == ["Scheduled"]
    world.advance("23h")
    world.vm("web_0").get()
    world.advance("23h")
    # Nobody has asked for a day: silence counts again.
    world.advance("2h")
    reboot(world, "web_1")
    assert seen(world, "web_0")[0][0] == "Started"


@pytest.mark.parametrize("step", [-HOUR, HOUR])
@pytest.mark.parametrize("restarts", [False, True])
def test_recovery_and_timeouts_keep_their_length(
    tmp_path: Path, step: int, *, restarts: bool
) -> None:
    with durable_world(tmp_path, listening=["web_0"]) as world:
        [operation] = maintain(world, "h1")
        world.advance("15m")
        world.advance("30s")
        assert (
            world.operation(operation.operation_id).state is OperationState.RECOVERING
        )
        if restarts:
            world.clock.step(step)
            world.restart()
        else:
            world.step_clock(step)
        left = world.operation(operation.operation_id).due_at - world.now
        if restarts:
            assert left <= 10 * MINUTE
        else:
            assert 9 * MINUTE < left <= 10 * MINUTE
        world.advance("10m")
        assert world.operation(operation.operation_id).state is OperationState.DONE


def test_step_forward_does_not_time_out_a_running_call() -> None:
    driver = SimulatedDriver()
    world = make_world(driver=driver, listening=["web_0"])
    [operation] = reboot(world, "web_0")
    world.vm("web_0").approve(only_event(world, "web_0")["EventId"])
    assert world.operation(operation.operation_id).state is OperationState.IMPACTING
    world.clock.step(45 * MINUTE)
    world.read_clocks()
    due_at = world.operation(operation.operation_id).due_at
    assert due_at - world.now == 30 * MINUTE


def test_differences_below_the_minimum_step_are_ignored() -> None:
    clock = NoticeClock()
    assert clock.read(now=START, monotonic=7.0) == 0
    assert clock.read(now=START + 10 * SECOND + CLOCK_STEP_MIN - 1, monotonic=17.0) == 0
    assert (
        clock.read(now=START + 10 * SECOND - CLOCK_STEP_MIN, monotonic=17.0)
        == -CLOCK_STEP_MIN
    )


def test_clock_step_is_returned_until_it_is_taken() -> None:
    clock = NoticeClock()
    clock.read(now=START, monotonic=0.0)
    for _ in range(2):
        assert clock.read(now=START + HOUR, monotonic=0.0) == HOUR
    clock.take_step(HOUR, {})
    assert clock.read(now=START + HOUR, monotonic=0.0) == 0
