"""Section 4: life cycle."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import SECOND, Micros
from forewarn.protocol.operations import Action, Operation, OperationState
from tests.spec import support
from tests.spec.support import (
    DB,
    WEB,
    approve_all,
    durable_world,
    fleet,
    make_world,
    only_event,
    seen,
)
from tests.support.worlds import START, CrashError, World

ROW = fleet(
    hosts=["h1", "h2", "h3", "h4"],
    scopes={"web": WEB},
    vms={
        f"web_{number}": {
            "host": f"h{number + 1}",
            "scope": "web",
            "fault_domain": number,
        }
        for number in range(3)
    },
)
"""Three fault domains on a host each, and a spare host."""


def state(world: World, operation: Operation) -> str:
    return world.operation(operation.operation_id).state.value


# 4.1


@pytest.mark.clause("4.1")
def test_event_is_scheduled_then_started_then_removed() -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_0")
    statuses = [only_event(world, "web_0")["EventStatus"]]
    world.advance("15m")
    statuses.append(only_event(world, "web_0")["EventStatus"])
    world.advance("11m")
    assert statuses == ["Scheduled", "Started"]
    assert seen(world, "web_0") == []


@pytest.mark.clause("4.1", "5.5")
def test_failure_event_begins_as_started() -> None:
    world = make_world(listening=["web_0"])
    support.fail_host(world, "h1")
    assert seen(world, "web_0") == [("Started", "Reboot", ["web_0"])]


@pytest.mark.clause("4.1")
def test_cancelled_event_is_removed_without_an_impact() -> None:
    world = make_world(listening=["web_0"])
    (operation,) = support.reboot(world, "web_0")
    support.cancel(world, operation.operation_id)
    assert seen(world, "web_0") == []
    assert state(world, operation) == "Cancelled"
    world.advance("1h")
    assert world.passed["called"] == 0


# 4.2


@pytest.mark.clause("4.2")
@pytest.mark.parametrize("place", ["committed", "published"])
def test_started_is_durable_and_served_before_the_impact(
    tmp_path: Path, place: str
) -> None:
    with durable_world(tmp_path, listening=["web_0"]) as world:
        support.reboot(world, "web_0")
        event_id = only_event(world, "web_0")["EventId"]
        world.crash_at = lambda at, _count: at == place
        with pytest.raises(CrashError):
            world.vm("web_0").approve(event_id)
        assert world.passed["called"] == 0
        if place == "published":
            assert only_event(world, "web_0")["EventStatus"] == "Started"
        world.restart()
        assert world.passed["called"] == 1
        assert only_event(world, "web_0")["EventStatus"] == "Started"
        world.advance("11m")
        assert seen(world, "web_0") == []


@pytest.mark.clause("4.2")
def test_all_events_of_an_operation_start_in_one_step() -> None:
    world = make_world(listening=["web_0", "db_0"])
    support.maintain(world, "h1")
    world.advance("15m")
    assert {event.started_at for event in world.live_events()} == {world.now}


@pytest.mark.clause("4.2")
def test_operation_held_too_long_is_announced_again() -> None:
    world = make_world(listening=["web_0"])
    old_one = support.maintain(world, "h1")[0]
    old_event = only_event(world, "web_0")
    support.fail_host(world, "h2")

    def freeze() -> dict[str, str]:
        (again,) = (
            event
            for event in world.vm("web_0").get().events
            if event["EventType"] == "Freeze"
        )
        return again

    world.advance("12h")
    world.vm("web_0").get()
    world.advance("12h14m59s")
    assert freeze() == old_event
    world.advance("1s")
    new_event = freeze()
    assert new_event["EventId"] != old_event["EventId"]
    assert new_event["EventStatus"] == "Scheduled"
    assert new_event["NotBefore"] == "Wed, 02 Jan 2030 00:30:00 GMT"
    assert state(world, old_one) == "Cancelled"
    support.restore_host(world, "h2")
    world.advance("15m")
    assert freeze()["EventStatus"] == "Started"


# 4.3


@pytest.mark.clause("4.3")
def test_removed_event_has_no_further_effects() -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_0")
    world.advance("26m")
    calls = world.passed["called"]
    world.advance("20h")
    assert seen(world, "web_0") == []
    assert world.passed["called"] == calls


@pytest.mark.clause("4.3", "5.5")
def test_vms_left_down_by_a_failed_call_get_an_event_at_once() -> None:
    driver = SimulatedDriver()
    world = make_world(listening=["web_0"], driver=driver)
    driver.inject(Fault(kind=FaultKind.FAIL, times=None, leaves_down=True))
    (operation,) = support.reboot(world, "web_0")
    approve_all(world, "web_0")
    rebooting = world.vm("web_0").get()
    world.advance("10m")
    failed = world.vm("web_0").get()
    assert state(world, operation) == "Failed"
    assert seen(world, "web_0") == [("Started", "Reboot", ["web_0"])]
    assert failed.events[0]["EventId"] != rebooting.events[0]["EventId"]
    assert failed.events[0]["Description"] == (
        "Virtual machine has encountered a failure."
    )
    assert failed.incarnation == rebooting.incarnation + 1


# 4.4


@pytest.mark.clause("4.4")
def test_event_ends_with_its_removal_and_not_with_the_impact() -> None:
    world = make_world(listening=["web_0"])
    (operation,) = support.reboot(world, "web_0")
    approve_all(world, "web_0")
    started = only_event(world, "web_0")
    world.advance("1m")
    assert state(world, operation) == "Recovering"
    assert only_event(world, "web_0") == started
    world.advance("10m")
    assert seen(world, "web_0") == []


@pytest.mark.clause("4.4")
def test_second_attempt_happens_inside_the_started_event() -> None:
    driver = SimulatedDriver()
    world = make_world(listening=["web_0"], driver=driver)
    driver.inject(Fault(kind=FaultKind.FAIL))
    support.reboot(world, "web_0")
    approve_all(world, "web_0")
    started = only_event(world, "web_0")
    world.advance("1m30s")
    assert world.passed["called"] == 2
    assert only_event(world, "web_0") == started


# 4.5


@pytest.mark.clause("4.5")
def test_a_rollout_stops_when_one_of_its_operations_fails() -> None:
    driver = SimulatedDriver()
    world = make_world(ROW, listening=["web_0"], driver=driver)
    driver.inject(Fault(kind=FaultKind.FAIL, times=None))
    operations = support.roll_out(world, "h1", "h2", "h3")
    world.advance("15m")
    # The VMs of the other hosts never see an event.
    assert [status for status, _, _ in seen(world, "web_0")] == ["Started"]
    world.advance("5m")
    assert sorted(state(world, operation) for operation in operations) == [
        "Cancelled",
        "Cancelled",
        "Failed",
    ]
    assert seen(world, "web_0") == []


@pytest.mark.clause("4.5")
def test_cancel_keeps_an_operation_that_has_started() -> None:
    world = make_world(ROW, listening=["web_0"])
    operations = support.roll_out(world, "h1", "h2")
    world.advance("15m")
    running = [op for op in operations if state(world, op) == "Impacting"]
    support.cancel(world, operations[0].request)
    world.advance("11m")
    assert len(running) == 1
    assert state(world, running[0]) == "Done"
    assert sorted(state(world, op) for op in operations) == ["Cancelled", "Done"]


# 4.6


@pytest.mark.clause("4.6")
def test_operation_and_event_follow_the_default_times() -> None:
    world = make_world(listening=["web_0"])
    moments: list[tuple[Micros, str]] = []
    world.vm("web_0").get()
    support.maintain(world, "h1")
    (operation,) = world.operations()
    for _ in range(26 * 60):
        statuses = seen(world, "web_0")
        now = (statuses[0][0] if statuses else "") + state(world, operation)
        if not moments or moments[-1][1] != now:
            moments.append(((world.now - START) // SECOND, now))
        world.advance("1s")
    assert moments == [
        (0, "ScheduledAnnounced"),
        (15 * 60, "StartedImpacting"),
        (15 * 60 + 7, "StartedRecovering"),
        (25 * 60 + 7, "Done"),
    ]


@pytest.mark.clause("4.6")
def test_deletion_has_no_recovery() -> None:
    world = make_world(
        fleet(
            hosts=["h1"],
            scopes={"web": WEB},
            vms={
                "a": {"host": "h1", "scope": "web", "spot": True},
                "b": {"host": "h1", "scope": "web"},
            },
        ),
        listening=["b"],
    )
    support.evict(world, "a")
    world.advance("34s")
    assert seen(world, "b") == [("Started", "Preempt", ["a"])]
    world.advance("1s")
    assert seen(world, "b") == []
    assert world.stored_vm("a").state.value == "deleted"


@pytest.mark.clause("4.6")
def test_times_can_be_configured() -> None:
    policy = Policy(freeze_notice=5 * SECOND, recovery=2 * SECOND)
    world = make_world(listening=["web_0"], policy=policy)
    support.maintain(world, "h1")
    world.advance("5s")
    assert seen(world, "web_0") == [("Started", "Freeze", ["web_0"])]
    world.advance("9s")
    assert seen(world, "web_0") == []


# 4.7

ORDERS: dict[str, Callable[[World], object]] = {
    "freeze": lambda world: support.maintain(world, "h1"),
    "live-migrate": lambda world: support.maintain(
        world, "h1", action=Action.LIVE_MIGRATE
    ),
    "reboot of a host": lambda world: support.maintain(
        world, "h1", action=Action.REBOOT
    ),
    "redeploy of a host": lambda world: support.maintain(
        world, "h1", action=Action.REDEPLOY
    ),
    "reboot": lambda world: support.reboot(world, "web_0"),
    "redeploy": lambda world: support.redeploy(world, "web_0"),
    "failure": lambda world: support.fail_host(world, "h1"),
    "predicted failure": lambda world: support.predict_failure(world, "h1"),
}


@pytest.mark.clause("4.7")
@pytest.mark.parametrize("order", ORDERS)
def test_every_impact_is_inside_a_started_event(order: str) -> None:
    world = make_world(ROW, listening=["web_0"])
    touched: list[str] = []

    def witness(place: str) -> None:
        if place != "called":
            return
        for operation in world.operations():
            if operation.state is OperationState.IMPACTING:
                touched.extend(operation.vms)
                statuses = [
                    status
                    for status, _, names in seen(world, "web_0")
                    if set(operation.vms) <= set(names)
                ]
                assert statuses == ["Started"], order

    world.witness = witness
    ORDERS[order](world)
    world.advance("8h")
    world.vm("web_0").get()
    assert touched or order in {"failure", "predicted failure"}


@pytest.mark.clause("4.7")
@pytest.mark.parametrize(
    "order",
    [
        lambda world: support.maintain(world, "h3"),
        lambda world: support.predict_failure(world, "h3"),
        lambda world: support.fail_host(world, "h3"),
    ],
    ids=["maintained", "about to fail", "down"],
)
def test_no_vm_is_placed_on_a_host_that_will_be_interrupted(
    order: Callable[[World], object],
) -> None:
    text = fleet(
        hosts=["h1", "h2", "h3"],
        scopes={"web": WEB, "db": DB},
        vms={
            "web_0": {"host": "h1", "scope": "web", "fault_domain": 0},
            "web_1": {"host": "h2", "scope": "web", "fault_domain": 1},
            "db_0": {"host": "h3", "scope": "db", "fault_domain": 0},
        },
    )
    world = make_world(text, listening=["web_0"])
    order(world)
    (operation,) = support.redeploy(world, "web_0")
    approve_all(world, "web_0")
    (reason,) = world.explain(operation.operation_id)
    assert reason.startswith("there is no host with capacity for web_0")
    assert state(world, operation) == "Ready"
    world.advance("1m")
    assert world.stored_vm("web_0").host == "h1"
