"""An opening is promised to a host that waits: tenants that change windows do not move it."""

import pytest

from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import choices, failures, fleet_changes, verbs, windows
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.file import FleetText
from forewarn.fleet.window_fields import window_of
from forewarn.instants import DAY, HOUR, MINUTE, Micros, format_instant, parse_instant
from forewarn.protocol.actors import tenant_user
from forewarn.protocol.operations import Action, Operation, OperationState
from forewarn.reporting import explanations
from forewarn.store.port import Reader
from tests.support.two_tenants import two_tenants
from tests.support.worlds import LastingStore, World

pytestmark = pytest.mark.clause("4.8")

PLANNED, READY = OperationState.PLANNED, OperationState.READY

FLEET = two_tenants(hosts=2)

NOTICE = 15 * MINUTE


@pytest.fixture
def world() -> World:
    """Return a world in which it is noon."""
    store = LastingStore()
    world = World(store=lambda: store, driver=SimulatedDriver(), fleet=FLEET)
    world.advance((12 * HOUR - world.now) % DAY)
    return world


def set_window(world: World, scope: str, *lines: str) -> None:
    wanted = tuple(map(window_of, lines))
    world.order(lambda work: windows.set_windows(work, scope, wanted))
    world.settle()


def maintain(world: World, *hosts: str) -> None:
    world.order(lambda work: verbs.maintain(work, hosts, Action.REBOOT, OrderOptions()))
    world.settle()


def defer(world: World, vm: str, tenant: str, ahead: Micros) -> None:
    until = world.now + ahead
    who = Who(actor=tenant_user(tenant, "ci"), reason="month end")

    def decide(work: Work) -> object:
        return choices.defer(work, choices.target_of(work, vm), until)

    world.plane.order(who, decide, now=world.now)
    world.settle()


def last(world: World) -> Operation:
    return world.operations()[-1]


def promised(world: World) -> tuple[Micros, Micros]:
    """Return the promise of the host, as times after the last midnight."""
    times = last(world).promised
    assert times is not None
    midnight = world.now // DAY * DAY
    return times[0] - midnight, times[1] - midnight


def upcoming(world: World, tenant: str, vm: str) -> str:
    """Return the earliest time of the work that a tenant sees."""

    def ask(reader: Reader) -> Micros | None:
        own = TenantReader(reader, tenant)
        page = own.upcoming(scope="", vm=vm, after="", limit=9, now=world.now)
        (work,) = page.work
        return work.earliest

    earliest = world.read(ask)
    return "" if earliest is None else format_instant(earliest)[11:16]


def test_tenant_that_moves_its_window_before_each_opening_keeps_no_host_waiting(
    world: World,
) -> None:
    set_window(world, "web", "22:00 2h")
    maintain(world, "h0")
    assert promised(world) == (22 * HOUR, 24 * HOUR)
    for hour in range(13, 22):
        world.advance(HOUR)
        set_window(world, "web", f"{(hour + 9) % 24:02}:30 1h")
    world.restart()
    assert promised(world) == (22 * HOUR, 24 * HOUR)
    world.advance(HOUR)
    assert format_instant(last(world).started_at)[11:16] == "22:00"


def test_changed_window_can_bring_the_work_forward(world: World) -> None:
    set_window(world, "web", "22:00 2h")
    maintain(world, "h0")
    set_window(world, "web", "15:00 1h")
    world.advance(3 * HOUR)
    assert format_instant(last(world).started_at)[11:16] == "15:00"


def test_explanation_has_the_promise_and_the_reason(world: World) -> None:
    set_window(world, "web", "22:00 2h")
    maintain(world, "h0")
    set_window(world, "web", "11:00 1h")
    opens = world.now // DAY * DAY + 22 * HOUR
    name = last(world).operation_id
    found = world.read(lambda reader: explanations.explain(reader, name, now=world.now))
    assert found["blocked_by"] == [
        (
            f"the opening of scope web at {format_instant(opens)} has not come; it was "
            "promised before the windows changed"
        )
    ]
    assert (
        f"it keeps the time from {format_instant(opens)} to "
        f"{format_instant(opens + 2 * HOUR)}, even if tenants change their windows"
    ) in found["status"]
    assert parse_instant(format_instant(opens)) == opens


def test_tenant_sees_only_the_opening_of_its_own_scope(world: World) -> None:
    set_window(world, "web", "20:00 6h")
    set_window(world, "db", "22:00 1h")
    maintain(world, "h0")
    assert promised(world) == (22 * HOUR, 23 * HOUR)
    set_window(world, "web", "10:00 1h")
    assert upcoming(world, "shop", "web_0") == "20:00"
    assert upcoming(world, "bank", "db_0") == "22:00"


def test_window_that_a_scope_gets_later_does_not_move_the_promise(world: World) -> None:
    set_window(world, "web", "22:00 2h")
    maintain(world, "h0")
    set_window(world, "db", "03:00 1h")
    world.advance(10 * HOUR)
    assert format_instant(last(world).started_at)[11:16] == "22:00"


def test_windows_without_a_common_opening_promise_nothing(world: World) -> None:
    set_window(world, "web", "22:00 2h")
    set_window(world, "db", "02:00 1h")
    maintain(world, "h0")
    assert last(world).promises == ()
    set_window(world, "db", "23:00 1h")
    assert promised(world) == (23 * HOUR, 24 * HOUR)
    set_window(world, "db", "02:00 1h")
    world.advance(11 * HOUR)
    assert format_instant(last(world).started_at)[11:16] == "23:00"


def test_promise_that_the_service_missed_is_renewed_once(world: World) -> None:
    set_window(world, "web", "22:00 1h")
    world.order(lambda work: failures.fail_vm(work, "web_1"))
    maintain(world, "h0")
    world.advance(12 * HOUR)
    assert last(world).state in {PLANNED, READY}
    world.order(lambda work: failures.restore_vm(work, "web_1"))
    world.settle()
    assert promised(world) == (22 * HOUR, 23 * HOUR)
    set_window(world, "web", "10:00 1h")
    set_window(world, "web", "09:00 5m")
    set_window(world, "web", "23:30 5m")
    world.advance(22 * HOUR)
    assert format_instant(last(world).started_at)[11:16] == "22:00"


def test_window_that_moves_after_the_announcement_delays_the_work_once(
    world: World,
) -> None:
    set_window(world, "web", "11:00 2h")
    maintain(world, "h0")
    assert (last(world).state, last(world).promises) == (OperationState.ANNOUNCED, ())
    set_window(world, "web", "16:00 1h")
    world.advance(NOTICE)
    assert last(world).state is READY
    assert promised(world) == (16 * HOUR, 17 * HOUR)
    for hour in (13, 14, 15):
        world.advance(HOUR)
        set_window(world, "web", f"{hour - 10:02}:00 1h")
    world.advance(HOUR)
    assert format_instant(last(world).started_at)[11:16] == "16:00"


def test_deferral_promises_the_first_opening_after_it(world: World) -> None:
    set_window(world, "web", "22:00 2h")
    maintain(world, "h0")
    defer(world, "db_0", "bank", 2 * DAY)
    world.advance(10 * HOUR)
    assert promised(world) == (2 * DAY + 22 * HOUR, 3 * DAY)
    set_window(world, "web", "10:00 1h")
    world.advance(2 * DAY)
    assert format_instant(last(world).started_at)[11:16] == "22:00"


def test_expedited_scope_has_its_windows_again_when_it_is_deferred(
    world: World,
) -> None:
    set_window(world, "web", "22:00 2h")
    set_window(world, "db", "18:00 1h")
    who = Who(actor=tenant_user("bank", "ci"), reason="drained")
    maintain(world, "h0")
    world.plane.order(
        who,
        lambda work: choices.expedite(work, choices.target_of(work, "db_0", "vm")),
        now=world.now,
    )
    world.settle()
    assert [promise.scope for promise in last(world).promises] == ["web"]
    defer(world, "db_0", "bank", 2 * DAY)
    set_window(world, "web", "18:30 2h")
    world.advance(DAY)
    assert {promise.scope for promise in last(world).promises} == {"web", "db"}


def test_scope_that_comes_to_the_host_has_its_windows(world: World) -> None:
    set_window(world, "web", "22:00 2h")
    maintain(world, "h0")
    more = FLEET + (
        '[[scope]]\nname = "mail"\ntenant = "bank"\nkind = "availability-set"\n'
        'maintenance_window = { start = "23:30", length = "2h" }\n'
        '[[vm]]\nname = "mail_0"\nhost = "h0"\nscope = "mail"\n'
    )
    file = FleetText(name="fleet.toml", text=more)
    world.order(lambda work: fleet_changes.apply(work, file.read()))
    world.advance(10 * HOUR)
    assert last(world).state is PLANNED
    assert promised(world) == (23 * HOUR + 30 * MINUTE, 24 * HOUR)
    set_window(world, "mail", "10:00 1h")
    world.advance(2 * HOUR)
    assert format_instant(last(world).started_at)[11:16] == "23:30"
