"""Tenants defer and expedite the maintenance of their VMs."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from forewarn.control.requests import choices, fleet_changes, verbs, windows
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.file import FleetText
from forewarn.fleet.window_fields import window_of
from forewarn.instants import DAY, HOUR, MINUTE, Micros, format_instant
from forewarn.protocol.actors import tenant_user
from forewarn.protocol.errors import NotFoundError, RefusedError
from forewarn.protocol.notes import Postponed
from forewarn.protocol.operations import Action, Operation, OperationState
from forewarn.reporting.reports import rollout_report
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from tests.support.two_tenants import two_tenants
from tests.support.worlds import LastingStore, World

PLANNED, ANNOUNCED = OperationState.PLANNED, OperationState.ANNOUNCED

FLEET = two_tenants(hosts=3)


TWO_SCOPES = FLEET + (
    '[[scope]]\nname = "mail"\ntenant = "shop"\nkind = "availability-set"\n'
    '[[vm]]\nname = "mail_0"\nhost = "h0"\nscope = "mail"\nfault_domain = 0\n'
)
"""A second VM of the shop on the first host."""


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


def clear(world: World, name: str, tenant: str = "shop") -> None:
    def decide(work: Work) -> object:
        return choices.clear(work, choices.target_of(work, name))

    order(world, decide, tenant, "wrong VM")


def set_window(world: World, scope: str, line: str) -> None:
    wanted = (window_of(line),)
    world.order(lambda work: windows.set_windows(work, scope, wanted))
    world.settle()


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
    operations = [
        operation for operation in world.operations() if operation.host == host
    ]
    return max(
        operations, key=lambda operation: (operation.ended_at == 0, operation.ended_at)
    )


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
        with pytest.raises(RefusedError, match="VM web_0 was deferred 2 times"):
            defer(world, name, 3 * DAY)
    world.advance(2 * DAY)
    assert on(world, "h0").started_at


def test_same_time_with_another_reason_is_no_further_deferral(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    for reason in ("month end", "month end", "an audit"):
        defer(world, "web_0", DAY, reason=reason)
    [choice] = world.read(lambda reader: list(every(reader, kinds.ALL_CHOICES)))
    assert (choice.reason, choice.deferrals) == ("an audit", 1)
    defer(world, "web_0", 2 * DAY)


def test_another_reason_counts_also_for_what_was_deferred_before(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    defer(world, "web", DAY, reason="month end")
    maintain(world, "h1", not_before=4 * HOUR)
    defer(world, "web", DAY, reason="an audit")
    found = world.read(lambda reader: list(every(reader, kinds.ALL_CHOICES)))
    assert [(choice.reason, choice.deferrals) for choice in found] == [
        ("an audit", 1)
    ] * 2


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


def test_vms_of_a_tenant_on_one_host_share_its_deferrals(world: World) -> None:
    file = FleetText(name="fleet.toml", text=TWO_SCOPES)
    world.order(lambda work: fleet_changes.apply(work, file.read()))
    world.settle()
    maintain(world, "h0", "h1", not_before=4 * HOUR)
    # Naming more VMs of a host that waits until then is no other deferral.
    until = world.now + 2 * DAY
    for name in ("web_0", "mail_0", "web"):
        defer(world, name, until - world.now)
    defer(world, "mail_0", 3 * DAY)
    with pytest.raises(RefusedError, match="VM web_0 was deferred 2 times"):
        defer(world, "web_0", 4 * DAY)
    with pytest.raises(RefusedError, match="VM mail_0 was deferred 2 times"):
        defer(world, "mail", 4 * DAY)
    # Another host, and another tenant, have deferrals of their own.
    defer(world, "web_1", 4 * DAY)
    defer(world, "db_0", 4 * DAY, tenant="bank")
    defer(world, "db_0", 5 * DAY, tenant="bank")
    with pytest.raises(RefusedError, match="VM db_0 was deferred 2 times"):
        defer(world, "db_0", 6 * DAY, tenant="bank")
    world.advance(5 * DAY)
    assert on(world, "h0").state is OperationState.IMPACTING


def test_scope_with_a_vm_that_has_no_deferral_left_is_refused(world: World) -> None:
    maintain(world, "h0", "h1", "h2", not_before=4 * HOUR)
    defer(world, "web_1", DAY)
    defer(world, "web_1", 2 * DAY)
    with pytest.raises(RefusedError, match="VM web_1 was deferred 2 times") as refused:
        defer(world, "web", 3 * DAY)
    assert refused.value.hint.startswith("Name the other VMs of the scope instead.")
    defer(world, "web_0", 3 * DAY)
    defer(world, "web_2", 3 * DAY)


def test_deferral_that_ends_earlier_is_no_other_one(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    for days in (3, 1, 3, 4, 2, 4):
        defer(world, "web_0", days * DAY)
    with pytest.raises(RefusedError, match="was deferred 2 times"):
        defer(world, "web_0", 5 * DAY)


def test_other_maintenance_of_a_host_can_be_deferred_again(world: World) -> None:
    for _ in range(2):
        maintain(world, "h0", not_before=4 * HOUR)
        defer(world, "web_0", 1 * DAY)
        defer(world, "web_0", 2 * DAY)
        assert on(world, "h0").state is PLANNED
        world.advance(3 * DAY)


def test_withdrawn_host_keeps_its_deferrals(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    for _ in range(2):
        defer(world, "web_0", 5 * HOUR)
        world.advance(3 * HOUR + 50 * MINUTE)
        world.restart()
    world.advance(56 * MINUTE)
    assert on(world, "h0").state is ANNOUNCED
    with pytest.raises(RefusedError, match="was deferred 2 times"):
        defer(world, "web_0", 5 * HOUR)


def test_cleared_deferral_lets_the_host_be_announced_at_once(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    defer(world, "web_0", 7 * DAY)
    defer(world, "db_0", DAY, tenant="bank")
    clear(world, "web_0")
    # The deferral of the other tenant stays.
    assert world.explain(on(world, "h0").operation_id) == [
        f"tenant bank has deferred VM db_0 until {format_instant(world.now + DAY)}"
    ]
    clear(world, "db_0", tenant="bank")
    assert on(world, "h0").state is ANNOUNCED
    # It counts: else a tenant could withdraw a host again and again.
    defer(world, "web_0", 7 * DAY)
    clear(world, "web_0")
    with pytest.raises(RefusedError, match="was deferred 2 times"):
        defer(world, "web_0", DAY)


def test_one_vm_is_taken_out_of_the_deferral_of_its_scope(world: World) -> None:
    maintain(world, "h0", "h1", not_before=4 * HOUR)
    defer(world, "web", 3 * DAY)
    clear(world, "web_0")
    assert on(world, "h0").state is ANNOUNCED
    assert on(world, "h1").state is PLANNED
    clear(world, "web")
    world.advance(DAY)
    assert {on(world, host).state for host in ("h0", "h1")} == {OperationState.DONE}


def test_cleared_scope_ends_the_deferrals_of_its_vms_and_expedites_none(
    world: World,
) -> None:
    maintain(world, "h0", "h1", "h2", not_before=4 * HOUR)
    defer(world, "web_1", 3 * DAY)
    expedite(world, "web_2")
    clear(world, "web")
    assert on(world, "h1").held_by == ()
    with pytest.raises(RefusedError, match="maintenance of scope web is not deferred"):
        clear(world, "web")
    world.advance(8 * HOUR)
    assert all(on(world, host).started_at for host in ("h0", "h1", "h2"))


def test_tenant_clears_only_its_own_deferrals(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    defer(world, "db_0", tenant="bank")
    for name in ("db_0", "db"):
        with pytest.raises(NotFoundError, match=f"no VM or scope {name!r}"):
            clear(world, name)
    with pytest.raises(RefusedError, match="maintenance of VM web_0 is not deferred"):
        clear(world, "web_0")
    assert on(world, "h0").state is PLANNED


def test_work_that_a_window_holds_can_be_deferred(world: World) -> None:
    world.advance(DAY - world.now % DAY)
    maintain(world, "h0", not_before=4 * HOUR)
    set_window(world, "web", "20:00 1h")
    world.advance(6 * HOUR)
    # Its NotBefore has passed, and its window opens in 14 hours.
    assert on(world, "h0").state is OperationState.READY
    defer(world, "web_0", DAY)
    assert on(world, "h0").state is PLANNED
    assert world.vm("web_0").get().events == []


def test_refusal_names_no_time_that_has_passed(world: World) -> None:
    world.advance(DAY - world.now % DAY)
    maintain(world, "h0", not_before=4 * HOUR)
    set_window(world, "web", "20:00 1h")
    world.advance(19 * HOUR + 10 * MINUTE)
    opens = format_instant(world.now + 50 * MINUTE)
    with pytest.raises(RefusedError, match=f"too soon to defer it: at {opens}"):
        defer(world, "web_0", DAY)
    # Of the window of another tenant, the refusal shows nothing.
    with pytest.raises(RefusedError, match="of VM db_0 can begin at any moment"):
        defer(world, "db_0", DAY, tenant="bank")
