"""While the brake is on, no planned work is announced or started."""

import pytest

from forewarn.control.requests import brake, failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import HOUR
from forewarn.protocol.blockers import HinderedError
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action, Operation, OperationState, Verb
from forewarn.store import kinds
from forewarn.store.records import AuditKind
from tests.support.worlds import CrashError, LastingStore, World

FLEET = "".join(
    f'[[host]]\nname = "h{number}"\n[[vm]]\nname = "web_{number}"\nhost = "h{number}"\n'
    for number in range(3)
)

pytestmark = pytest.mark.clause("4.2")


def new_world(policy: Policy | None = None) -> World:
    store = LastingStore()
    return World(
        store=lambda: store, driver=SimulatedDriver(), fleet=FLEET, policy=policy
    )


@pytest.fixture
def world() -> World:
    return new_world()


def put_on(world: World, reason: str = "power is unstable") -> None:
    world.order(brake.put_on, actor="alice", reason=reason)


def take_off(world: World) -> None:
    world.order(brake.take_off, actor="bob")
    world.settle()


def maintain(world: World, *hosts: str) -> None:
    world.order(lambda work: verbs.maintain(work, hosts, Action.REBOOT, OrderOptions()))


def states(world: World) -> list[OperationState]:
    return [operation.state for operation in world.operations()]


def only(world: World) -> Operation:
    (operation,) = world.operations()
    return operation


def test_approved_maintenance_starts_only_after_the_brake(world: World) -> None:
    world.vm("web_0").get()
    maintain(world, "h0")
    put_on(world)
    (event,) = world.vm("web_0").get().events
    assert world.vm("web_0").approve(event["EventId"]).status == 200
    world.advance("20m")
    assert only(world).state is OperationState.READY
    assert world.explain(only(world).operation_id) == [
        "the brake is on until `forewarn brake off`, by alice: power is unstable"
    ]
    (event,) = world.vm("web_0").get().events
    assert event["EventStatus"] == "Scheduled"
    take_off(world)
    assert only(world).state is OperationState.IMPACTING


def test_rollout_announces_no_host_until_the_brake_is_off(world: World) -> None:
    maintain(world, "h0", "h1", "h2")
    world.advance("15m")
    assert states(world)[0] is OperationState.IMPACTING
    put_on(world)
    world.advance("3h")
    assert states(world) == [
        OperationState.DONE,
        OperationState.PLANNED,
        OperationState.PLANNED,
    ]
    waiting = world.operations()[1].operation_id
    assert world.explain(waiting) == [
        "the brake is on until `forewarn brake off`, by alice: power is unstable"
    ]
    take_off(world)
    assert states(world)[1] is OperationState.ANNOUNCED
    world.advance("3h")
    assert set(states(world)) == {OperationState.DONE}


def test_new_routine_work_is_refused_and_requests_of_users_are_not(
    world: World,
) -> None:
    put_on(world)
    for hosts in (("h0",), ("h0", "h1")):
        with pytest.raises(HinderedError, match="no planned work is announced"):
            maintain(world, *hosts)
    assert world.operations() == []
    world.order(
        lambda work: verbs.change_vms(work, ["web_0"], Verb.REBOOT, OrderOptions())
    )
    world.order(lambda work: failures.fail_host(work, "h1"))
    world.order(lambda work: verbs.predict_failure(work, ["h2"], HOUR, OrderOptions()))
    world.advance("15m")
    assert OperationState.READY not in states(world)
    assert {operation.verb for operation in world.operations()} == {
        Verb.REBOOT,
        Verb.FAIL,
        Verb.PREDICT_FAILURE,
    }


def test_work_that_has_started_goes_on(world: World) -> None:
    maintain(world, "h0")
    world.advance("15m")
    put_on(world)
    world.advance("1h")
    assert only(world).state is OperationState.DONE


def test_work_that_was_held_for_too_long_gets_a_new_notice() -> None:
    world = new_world(Policy(hold_max=HOUR))
    world.vm("web_0").get()
    maintain(world, "h0")
    put_on(world)
    world.advance("3h")
    # Nothing is announced while the brake is on, not even again.
    assert only(world).state is OperationState.READY
    take_off(world)
    old, new = world.operations()
    assert (old.state, new.state) == (
        OperationState.CANCELLED,
        OperationState.ANNOUNCED,
    )
    assert new.not_before >= world.now + world.plane.policy.reboot_notice


def test_brake_survives_a_crash(world: World) -> None:
    maintain(world, "h0")
    put_on(world)
    world.restart()
    world.advance("1h")
    assert only(world).state is OperationState.READY
    take_off(world)
    assert only(world).state is OperationState.IMPACTING


def test_crash_after_the_release_starts_what_the_brake_held(world: World) -> None:
    for host in ("h0", "h1"):
        maintain(world, host)
    put_on(world)
    world.advance("1h")
    world.crash_at = lambda place, _count: place == "committed"
    with pytest.raises(CrashError):
        world.order(brake.take_off, actor="bob")
    world.restart()
    world.settle()
    assert set(states(world)) == {OperationState.IMPACTING}


def test_brake_needs_a_reason_and_is_in_the_history(world: World) -> None:
    with pytest.raises(RefusedError, match="needs a reason"):
        put_on(world, reason="")
    with pytest.raises(RefusedError, match="the brake is not on"):
        take_off(world)
    put_on(world)
    with pytest.raises(
        RefusedError, match=r"alice has already put the brake on \(power is"
    ):
        put_on(world)
    take_off(world)
    entries = world.read(lambda reader: reader.select(kinds.ALL_AUDIT))
    told = [
        (entry.kind, entry.actor.name, entry.why)
        for entry in entries
        if entry.kind in {AuditKind.BRAKE_ON, AuditKind.BRAKE_OFF}
    ]
    assert told == [
        (AuditKind.BRAKE_ON, "alice", "power is unstable"),
        (AuditKind.BRAKE_OFF, "bob", ""),
    ]


def test_host_without_vms_starts_after_a_long_brake() -> None:
    store = LastingStore()
    fleet = '[[host]]\nname = "h0"\n'
    world = World(store=lambda: store, driver=SimulatedDriver(), fleet=fleet)
    later = OrderOptions(not_before=world.now + HOUR)
    world.order(lambda work: verbs.maintain(work, ["h0"], Action.REBOOT, later))
    put_on(world)
    world.advance("30h")
    assert only(world).state is OperationState.READY
    take_off(world)
    assert only(world).state is OperationState.RECOVERING
