"""Maintenance windows of scopes: maintenance starts only while all of them are open."""

import pytest

from forewarn.control.requests import failures, fleet_changes, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.file import FleetText
from forewarn.instants import DAY, HOUR, MINUTE, Micros, format_instant
from forewarn.protocol.operations import Action, Operation, OperationState
from forewarn.reporting import attention
from forewarn.store import kinds
from tests.support.worlds import LastingStore, World

NIGHT = '{ start = "22:00", length = "4h" }'
MORNING = '{ start = "06:00", length = "1h" }'

pytestmark = pytest.mark.clause("4.8")


def fleet(**windows: str) -> str:
    """Return two hosts with a VM of each scope, and the windows of the scopes."""
    scopes = "".join(
        f'[[scope]]\nname = "{name}"\nkind = "availability-set"\n'
        + (f"maintenance_window = {window}\n" if window else "")
        for name, window in windows.items()
    )
    hosts = "".join(
        f'[[host]]\nname = "h{number}"\n'
        + "".join(
            f'[[vm]]\nname = "{scope}_{number}"\nhost = "h{number}"\n'
            f'scope = "{scope}"\nfault_domain = {number}\n'
            for scope in windows
        )
        for number in range(2)
    )
    return scopes + hosts


def new_world(text: str, *, at: str = "12:00") -> World:
    store = LastingStore()
    world = World(store=lambda: store, driver=SimulatedDriver(), fleet=text)
    hours, minutes = map(int, at.split(":"))
    wanted = hours * HOUR + minutes * MINUTE
    world.advance((wanted - world.now) % DAY)
    return world


def maintain(world: World, *hosts: str, emergency: bool = False) -> None:
    wishes = OrderOptions(emergency=emergency)
    world.order(lambda work: verbs.maintain(work, hosts, Action.REBOOT, wishes))
    world.settle()


def apply(world: World, text: str) -> None:
    file = FleetText(name="fleet.toml", text=text)
    world.order(lambda work: fleet_changes.apply(work, file.read()))
    world.settle()


def states(world: World) -> list[OperationState]:
    return [operation.state for operation in world.operations()]


def clock(instant: Micros) -> str:
    return format_instant(instant)[11:16]


def last(world: World) -> Operation:
    return world.operations()[-1]


def test_host_is_announced_a_notice_before_the_window_opens() -> None:
    world = new_world(fleet(web=NIGHT))
    maintain(world, "h0")
    assert states(world) == [OperationState.PLANNED]
    assert world.explain(last(world).operation_id) == [
        "the maintenance window of scope web opens at "
        + format_instant(world.now + 10 * HOUR)
    ]
    world.advance(9 * HOUR + 44 * MINUTE)
    assert states(world) == [OperationState.PLANNED]
    world.advance(MINUTE)
    assert states(world) == [OperationState.ANNOUNCED]
    assert clock(last(world).not_before) == "22:00"
    world.advance(15 * MINUTE)
    assert states(world) == [OperationState.IMPACTING]


def test_early_approval_starts_nothing_before_the_window_opens() -> None:
    world = new_world(fleet(web=NIGHT), at="21:50")
    world.vm("web_0").get()
    maintain(world, "h0")
    assert clock(last(world).not_before) == "22:05"
    (event,) = world.vm("web_0").get().events
    assert world.vm("web_0").approve(event["EventId"]).status == 200
    world.settle()
    assert states(world) == [OperationState.READY]
    assert world.explain(last(world).operation_id) == [
        "the maintenance window of scope web opens at "
        + format_instant(world.now + 10 * MINUTE)
    ]
    world.restart()
    world.advance(10 * MINUTE - 1)
    assert states(world) == [OperationState.READY]
    world.advance(1)
    assert states(world) == [OperationState.IMPACTING]


def test_started_maintenance_goes_on_when_the_window_closes() -> None:
    world = new_world(fleet(web='{ start = "22:00", length = "16m" }'), at="22:00")
    maintain(world, "h0")
    world.advance(15 * MINUTE)
    assert states(world) == [OperationState.IMPACTING]
    world.advance(HOUR)
    assert states(world) == [OperationState.DONE]


def test_notice_that_ends_after_the_close_waits_for_the_next_window() -> None:
    world = new_world(fleet(web=NIGHT), at="01:50")
    maintain(world, "h0")
    assert states(world) == [OperationState.PLANNED]
    world.advance(19 * HOUR + 55 * MINUTE)
    assert clock(last(world).not_before) == "22:00"


def test_held_host_does_not_keep_others_of_its_rollout_waiting() -> None:
    text = fleet(web="").replace(
        '[[host]]\nname = "h0"',
        '[[scope]]\nname = "db"\nkind = "availability-set"\n'
        f'maintenance_window = {NIGHT}\n[[host]]\nname = "h0"\n'
        '[[vm]]\nname = "db_0"\nhost = "h0"\nscope = "db"',
    )
    world = new_world(text)
    maintain(world, "h0", "h1")
    assert states(world) == [OperationState.PLANNED, OperationState.ANNOUNCED]
    world.advance(12 * HOUR)
    assert states(world) == [OperationState.DONE, OperationState.DONE]


def test_window_that_closed_during_a_hold_is_waited_for_again() -> None:
    world = new_world(fleet(web='{ start = "22:00", length = "1h" }'), at="21:59")
    world.order(lambda work: failures.fail_vm(work, "web_1"))
    maintain(world, "h0")
    world.advance(2 * HOUR)
    world.order(lambda work: failures.restore_vm(work, "web_1"))
    world.settle()
    assert last(world).state is OperationState.READY
    assert world.explain(last(world).operation_id) == [
        "the maintenance window of scope web opens at "
        + format_instant(world.now + 22 * HOUR + MINUTE)
    ]
    world.advance(22 * HOUR)
    assert last(world).state is OperationState.READY
    world.advance(MINUTE)
    assert last(world).state is OperationState.IMPACTING


def test_emergency_repair_ignores_windows() -> None:
    world = new_world(fleet(web=NIGHT))
    maintain(world, "h0", emergency=True)
    assert states(world) == [OperationState.ANNOUNCED]
    world.advance(15 * MINUTE)
    assert states(world) == [OperationState.IMPACTING]


def test_changed_window_is_used_at_once() -> None:
    world = new_world(fleet(web=NIGHT))
    maintain(world, "h0")
    apply(world, fleet(web='{ start = "12:00", length = "1h" }'))
    assert states(world) == [OperationState.ANNOUNCED]


@pytest.mark.parametrize("is_announced", [False, True])
def test_each_closed_window_can_change(*, is_announced: bool) -> None:
    """A host waits for all of them, announced or not."""
    early, late = (f'{{ start = "{hour}:00", length = "9h" }}' for hour in (14, 20))
    world = new_world(
        fleet(web="", db="") if is_announced else fleet(web=late, db=early)
    )
    maintain(world, "h0")
    if is_announced:
        apply(world, fleet(web=late, db=early))
        world.advance(20 * MINUTE)
        assert states(world) == [OperationState.READY]
    apply(world, fleet(web=early, db=early))
    world.advance(2 * HOUR)
    assert clock(last(world).started_at) == "14:00"


def test_windows_that_are_never_open_together_are_named() -> None:
    world = new_world(fleet(web=NIGHT, db=MORNING, mail=NIGHT))
    maintain(world, "h0")
    assert states(world) == [OperationState.PLANNED]
    assert world.explain(last(world).operation_id) == [
        "the maintenance windows of scopes db, web are not open together within 14 d"
    ]
    (problem,) = world.read(lambda reader: attention.problems(reader, now=world.now))
    assert problem.kind is attention.ProblemKind.NO_COMMON_WINDOW
    assert problem.text == (
        "host h0 cannot be maintained: the maintenance windows of scopes db, web are "
        "not open together within 14 d; it does not begin by itself: if its tenant "
        "agrees, run `forewarn expedite web_0 --reason TEXT`, or set other windows of "
        "scope web with `forewarn window set`"
    )
    assert (problem.scopes, problem.hosts) == (("db", "web"), ("h0",))
    apply(world, fleet(web=NIGHT, db="", mail=NIGHT))
    world.advance(10 * HOUR)
    assert last(world).started_at == last(world).not_before


def test_window_of_the_wall_clock_is_kept_when_the_clock_is_set() -> None:
    world = new_world(fleet(web=NIGHT))
    maintain(world, "h0")
    world.step_clock(9 * HOUR + 50 * MINUTE)
    world.advance(MINUTE)
    assert states(world) == [OperationState.ANNOUNCED]
    assert clock(last(world).not_before) == "22:05"


def test_held_host_has_one_timer_and_no_reservation() -> None:
    world = new_world(fleet(web=NIGHT))
    maintain(world, "h0", "h1")
    waiting = world.read(
        lambda reader: reader.select(kinds.OPERATIONS_THAT_WAIT, "turn-window:web")
    )
    assert [operation.host for operation in waiting] == ["h0", "h1"]
    assert {operation.due_at for operation in waiting} == {
        world.now + 9 * HOUR + 45 * MINUTE
    }
