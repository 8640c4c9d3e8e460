"""Tenants defer and expedite the maintenance of their VMs."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from forewarn.control.requests import choices, verbs, windows
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.window_fields import window_of
from forewarn.instants import DAY, HOUR, MINUTE, Micros, format_instant
from forewarn.protocol.actors import tenant_user
from forewarn.protocol.errors import NotFoundError, RefusedError
from forewarn.protocol.notes import Postponed
from forewarn.protocol.operations import Action, Operation, OperationState
from forewarn.reporting.reports import rollout_report
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from tests.support.worlds import LastingStore, World

PLANNED, ANNOUNCED = OperationState.PLANNED, OperationState.ANNOUNCED

FLEET = """
[[tenant]]
name = "shop"
[[tenant]]
name = "bank"
[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"
[[scope]]
name = "db"
tenant = "bank"
kind = "availability-set"
""" + "".join(
    f'[[host]]\nname = "h{number}"\n'
    + "".join(
        f'[[vm]]\nname = "{scope}_{number}"\nhost = "h{number}"\n'
        f'scope = "{scope}"\nfault_domain = {number}\n'
        for scope in ("web", "db")
    )
    for number in range(3)
)


@pytest.fixture
def world() -> World:
    store = LastingStore()
    world = World(store=lambda: store, driver=SimulatedDriver(), fleet=FLEET)
    for vm in ("web_0", "db_0"):
        world.vm(vm).get()
    return world


def order(
    world: World,
    decide: Callable[[Work], object],
    tenant: str,
    reason: str = "month end",
) -> None:
    who = Who(actor=tenant_user(tenant, "ci"), reason=reason)
    world.plane.order(who, decide, now=world.now)
    world.settle()


def defer(
    world: World,
    name: str,
    ahead: Micros = 2 * DAY,
    *,
    tenant: str = "shop",
    reason: str = "month end",
) -> None:
    until = world.now + ahead

    def decide(work: Work) -> object:
        return choices.defer(work, choices.target_of(work, name), until)

    order(world, decide, tenant, reason)


def expedite(world: World, name: str, tenant: str = "shop") -> None:
    def decide(work: Work) -> object:
        return choices.expedite(work, choices.target_of(work, name, "vm"))

    order(world, decide, tenant)


def maintain(world: World, *hosts: str, not_before: Micros = 0, **more: bool) -> None:
    options = OrderOptions(
        not_before=world.now + not_before if not_before else None,
        emergency=more.get("emergency", False),
    )
    world.order(lambda work: verbs.maintain(work, hosts, Action.REBOOT, options))
    world.settle()


def on(world: World, host: str) -> Operation:
    """Return the latest operation of a host."""
    found = [each for each in world.operations() if each.host == host]
    return max(found, key=lambda each: (each.ended_at == 0, each.ended_at))


def postponed(world: World) -> dict[str, int]:
    def states(reader: Reader) -> Iterator[dict[str, int]]:
        for request in every(reader, kinds.ROLLOUTS):
            yield rollout_report(reader, request)["states"]

    (found,) = world.read(lambda reader: list(states(reader)))
    return found


def test_announced_host_is_withdrawn_and_announced_again_later(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    (event,) = world.vm("web_0").get().events
    first = on(world, "h0")
    defer(world, "web_0")
    assert world.vm("web_0").get().events == []
    assert world.operation(first.operation_id).state is OperationState.CANCELLED
    assert isinstance(world.operation(first.operation_id).note, Postponed)
    again = on(world, "h0")
    until = world.now + 2 * DAY
    assert (again.state, again.request) == (PLANNED, first.request)
    assert world.explain(again.operation_id) == [
        f"tenant shop has deferred VM web_0 until {format_instant(until)}"
    ]
    assert postponed(world) == {"Postponed": 1, "Cancelled": 1}
    world.restart()
    world.advance(2 * DAY - 15 * MINUTE)
    (later,) = world.vm("web_0").get().events
    assert later["EventId"] != event["EventId"]
    assert on(world, "h0").not_before == until
    world.advance(15 * MINUTE)
    assert on(world, "h0").state is OperationState.IMPACTING


def test_planned_host_waits_and_the_others_go_on(world: World) -> None:
    maintain(world, "h0", "h1", "h2")
    defer(world, "web_1")
    world.advance(3 * HOUR)
    assert on(world, "h0").state is OperationState.DONE
    assert on(world, "h1").state is PLANNED
    assert on(world, "h2").state is OperationState.DONE
    world.advance(2 * DAY)
    assert on(world, "h1").state is OperationState.DONE


def test_deferred_scope_holds_each_of_its_hosts(world: World) -> None:
    maintain(world, "h0", "h1", not_before=4 * HOUR)
    defer(world, "web", DAY)
    assert {on(world, host).state for host in ("h0", "h1")} == {PLANNED}
    assert len(world.live_events()) == 0
    world.advance(DAY)
    assert on(world, "h0").started_at
    assert world.operations()


@pytest.mark.parametrize(
    ("ahead", "refusal"), [(0, "has passed"), (8 * DAY, "deferred by at most 7 d")]
)
def test_deferral_without_a_valid_time_is_refused(
    world: World, ahead: Micros, refusal: str
) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    with pytest.raises(RefusedError, match=refusal):
        defer(world, "web_0", ahead)
    assert on(world, "h0").state is ANNOUNCED


def test_work_that_begins_soon_is_not_deferred(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    world.advance(3 * HOUR + MINUTE)
    with pytest.raises(RefusedError, match="begins too soon to defer it"):
        defer(world, "web_0")
    # Of a notice of 15 minutes, the first half is for deferrals.
    maintain(world, "h1")
    world.advance(7 * MINUTE)
    defer(world, "web_1")
    assert on(world, "h1").state is PLANNED


def test_third_deferral_is_refused_also_by_another_name(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    defer(world, "web_0", DAY)
    defer(world, "web", 2 * DAY)
    for name in ("web", "web_0"):
        with pytest.raises(RefusedError, match="was deferred 2 times"):
            defer(world, name, 3 * DAY)
    world.advance(2 * DAY)
    assert on(world, "h0").started_at


def test_emergency_repair_and_started_work_are_not_deferred(world: World) -> None:
    maintain(world, "h0", emergency=True)
    with pytest.raises(RefusedError, match="is an emergency repair"):
        defer(world, "web_0")
    world.advance(16 * MINUTE)
    with pytest.raises(RefusedError, match="no maintenance of VM web_0 is planned"):
        defer(world, "web_0")


def test_tenant_defers_only_its_own_vms(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    for name in ("db_0", "db"):
        with pytest.raises(NotFoundError, match=f"no VM or scope {name!r}"):
            defer(world, name)
    assert on(world, "h0").state is ANNOUNCED


def test_expedited_host_comes_next_and_is_approved(world: World) -> None:
    maintain(world, "h0", "h1", "h2")
    expedite(world, "web_2")
    world.advance(45 * MINUTE)
    assert on(world, "h1").state is PLANNED
    assert on(world, "h2").started_at
    shown = world.read(
        lambda reader: list(
            every(reader, kinds.EVENTS_OF_OPERATION, on(world, "h2").operation_id)
        )
    )
    approvers = {event.scope: event.approver for event in shown}
    assert approvers == {"web": tenant_user("shop", "ci"), "db": None}


def test_expedited_announced_host_starts_when_the_others_approve(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    expedite(world, "web_0")
    assert on(world, "h0").state is ANNOUNCED
    (event,) = world.vm("db_0").get().events
    world.vm("db_0").approve(event["EventId"])
    assert on(world, "h0").state is OperationState.IMPACTING


def test_expedited_vm_ignores_its_own_window_and_not_that_of_others(
    world: World,
) -> None:
    day = (window_of("00:00 1h"),)
    closed = world.now % DAY
    world.advance(DAY - closed + 2 * HOUR)
    for scope in ("web", "db"):
        world.order(lambda work, name=scope: windows.set_windows(work, name, day))
    maintain(world, "h0")
    expedite(world, "web_0")
    assert world.explain(on(world, "h0").operation_id) == [
        "the maintenance window of scope db opens at "
        + format_instant(world.now + 22 * HOUR)
    ]
    expedite(world, "db_0", tenant="bank")
    assert on(world, "h0").state is OperationState.IMPACTING


def test_later_choice_replaces_an_earlier_one(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    defer(world, "web", 3 * DAY)
    expedite(world, "web_0")
    assert on(world, "h0").state is ANNOUNCED


def test_choice_follows_a_vm_to_another_host_of_the_rollout(world: World) -> None:
    maintain(world, "h0", "h1", "h2")
    defer(world, "web_1")
    deferred = world.stored_vm("web_1")

    def move(work: Work) -> None:
        work.save_vm(deferred, replace(deferred, host="h2"))

    world.order(move)
    world.advance(3 * HOUR)
    assert on(world, "h1").state is OperationState.DONE
    assert on(world, "h2").state is PLANNED
