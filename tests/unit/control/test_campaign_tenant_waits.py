"""The report of a campaign has the times for which tenants held its hosts, by cause."""

from dataclasses import replace
from typing import Any

import pytest

from forewarn.cli import campaign_sums as shown
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import campaigns, choices, verbs, windows
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import tenant_waits
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.window_fields import window_of
from forewarn.instants import DAY, HOUR, MINUTE, Micros
from forewarn.protocol.actors import tenant_user
from forewarn.protocol.blockers import Deferred, WindowClosed
from forewarn.protocol.operations import Action, Operation, TenantCause, TenantWait
from forewarn.reporting import campaign_sums
from forewarn.store import kinds
from forewarn.store.port import every
from tests.support.campaigns import ONE_STAGE, campaign, start, steer
from tests.support.rollouts import world_of
from tests.support.worlds import World

ONE_AFTER_THE_OTHER = "[campaign.budget]\nin_flight = 1\n" + ONE_STAGE


def at_noon(hosts: int) -> World:
    """Return a service at noon, with a VM of a scope of its own on each host."""
    service = world_of([{f"s{number}": 0} for number in range(hosts)])
    service.advance((12 * HOUR - service.now) % DAY)
    return service


def set_window(service: World, scope: str, *lines: str) -> None:
    wanted = tuple(map(window_of, lines))
    service.order(lambda work: windows.set_windows(work, scope, wanted))
    service.settle()


def choose(service: World, name: str, until: Micros = 0) -> None:
    """Defer a VM or scope as its tenant, or end its deferral."""
    who = Who(actor=tenant_user("shop", "ci"), reason="month end")

    def decide(work: Work) -> object:
        target = choices.target_of(work, name)
        return (
            choices.defer(work, target, until) if until else choices.clear(work, target)
        )

    service.plane.order(who, decide, now=service.now)
    service.settle()


def sums(service: World) -> dict[str, Any]:
    return service.read(
        lambda reader: campaign_sums.sums_and_figures(
            reader, campaign(service), now=service.now
        )
    )


def hours(service: World) -> dict[str, float]:
    """Return the hours that hosts have waited before their notices, by cause."""
    times = sums(service)["waiting_seconds"]
    return {cause: times[cause] / 3600 for cause in times if times[cause] > 120}


def test_host_waits_for_the_window_of_its_tenant_and_not_for_its_turn() -> None:
    service = at_noon(2)
    set_window(service, "s0", "22:00 2h")
    start(service, ONE_STAGE)
    service.advance(4 * HOUR)
    assert hours(service) == {"window": pytest.approx(4, abs=0.1)}
    service.advance(DAY)
    assert campaign(service).done == 2
    # It is announced 15 minutes before the opening.
    assert hours(service) == {"window": pytest.approx(9.75, abs=0.1)}


def test_paused_campaign_and_window_of_a_tenant_are_not_counted_twice() -> None:
    service = at_noon(1)
    set_window(service, "s0", "22:00 2h")
    start(service, ONE_STAGE)
    service.advance(2 * HOUR)
    steer(service, lambda work: campaigns.pause(work, "bios"))
    service.advance(3 * HOUR)
    steer(service, lambda work: campaigns.resume(work, "bios", by_all=True))
    service.advance(DAY)
    assert campaign(service).done == 1
    assert hours(service) == {
        "paused": pytest.approx(3, abs=0.1),
        "window": pytest.approx(6.75, abs=0.1),
    }


def test_deferral_is_counted_and_its_time_too() -> None:
    service = at_noon(2)
    start(service, ONE_AFTER_THE_OTHER)
    service.advance(MINUTE)
    choose(service, "s0-0", service.now + 6 * HOUR)
    service.advance(HOUR)
    choose(service, "s0-0", service.now + 12 * HOUR)
    service.advance(DAY)
    assert campaign(service).done == 2
    assert hours(service)["deferral"] == pytest.approx(12.75, abs=0.1)
    totals = sums(service)
    assert (totals["deferrals"], totals["hosts_deferred"]) == (2, 1)
    (shop,) = totals["tenants"]
    assert (shop["deferrals"], shop["hosts_deferred"]) == (2, 1)
    lines = list(shown.lines(totals))
    assert "deferrals: 2 by tenants, of 1 host" in lines
    (waited,) = (line for line in lines if line.startswith("waited before notices for"))
    assert "deferrals of tenants 12 h 45 m" in waited


def test_deferral_that_ends_for_one_vm_of_a_scope_is_still_one() -> None:
    service = world_of([{"web": 0}, {"web": 1}])
    start(service, ONE_AFTER_THE_OTHER)
    choose(service, "web", service.now + 6 * HOUR)
    choose(service, "web-1")
    totals = sums(service)
    assert (totals["deferrals"], totals["hosts_deferred"]) == (1, 2)


def test_skipped_host_keeps_the_deferral_in_the_report() -> None:
    service = at_noon(1)
    start(service, ONE_AFTER_THE_OTHER)
    choose(service, "s0-0", service.now + 2 * HOUR)
    steer(service, lambda work: campaigns.skip(work, "bios", ["h0000"]))
    totals = sums(service)
    assert (totals["deferrals"], totals["hosts_deferred"]) == (1, 1)


def test_approved_host_waits_at_its_start_for_a_window_that_was_set_late() -> None:
    service = at_noon(1)
    vm = service.vm("s0-0")
    vm.get()
    start(service, ONE_STAGE)
    service.advance(MINUTE)
    set_window(service, "s0", "14:00 1h")
    (event,) = vm.get().events
    vm.approve(event["EventId"])
    service.advance(5 * HOUR)
    assert campaign(service).done == 1
    notice = sums(service)["notice_seconds"]
    assert notice["approval"] == pytest.approx(60, abs=5)
    assert notice["window"] == pytest.approx(2 * 3600, abs=120)
    assert sum(notice.values()) == pytest.approx(sums(service)["seconds"]["notice"])


def test_soak_and_approval_of_a_stage_are_two_causes() -> None:
    service = at_noon(2)
    start(
        service,
        '[[campaign.stage]]\nhosts = 1\nsoak = "1h"\napproval = true\n' + ONE_STAGE,
    )
    while not campaign(service).soaks_until:
        service.advance(MINUTE)
    service.advance(4 * HOUR)
    assert hours(service)["stage_approval"] == pytest.approx(3, abs=0.1)
    steer(service, lambda work: campaigns.approve(work, "bios", 2), actor="bob")
    service.advance(2 * HOUR)
    assert campaign(service).done == 2
    waited = hours(service)
    assert waited["soak"] == pytest.approx(1, abs=0.1)
    assert waited["stage_approval"] == pytest.approx(3, abs=0.1)


def test_rollout_of_maintain_keeps_the_same_times() -> None:
    service = at_noon(1)
    set_window(service, "s0", "22:00 2h")
    service.order(
        lambda work: verbs.maintain(work, ["h0000"], Action.REBOOT, OrderOptions())
    )
    service.settle()
    service.advance(DAY)
    (operation,) = service.operations()
    (wait,) = operation.tenant_waits
    assert wait.cause is TenantCause.WINDOW
    assert wait.ends - wait.begins == pytest.approx(9.75 * HOUR, abs=MINUTE)


def test_tenant_does_not_see_how_long_others_held_a_host() -> None:
    service = at_noon(1)
    set_window(service, "s0", "22:00 2h")
    start(service, ONE_STAGE)
    service.advance(10 * HOUR - 5 * MINUTE)
    (operation,) = service.operations()
    assert operation.tenant_waits
    (view,) = service.read(
        lambda reader: list(every(TenantReader(reader, "shop"), kinds.ALL_OPERATIONS))
    )
    assert view.not_before == operation.not_before
    assert view.tenant_waits == ()


CLOSED = (WindowClosed(scope="web", opens=9 * HOUR),)
LATER = (Deferred(tenant="shop", scope="web", until=9 * HOUR),)
WINDOW, DEFERRAL = TenantCause.WINDOW, TenantCause.DEFERRAL


def held(operation: Operation, held_by: tuple[Any, ...], now: Micros) -> Operation:
    new = replace(operation, held_by=held_by)
    return tenant_waits.noted(operation, new, now=now)


@pytest.fixture
def operation() -> Operation:
    service = world_of([{"web": 0}])
    start(service, ONE_STAGE)
    return replace(service.operations()[0], held_by=(), tenant_waits=())


def test_check_that_finds_the_same_reason_again_continues_a_time(
    operation: Operation,
) -> None:
    operation = held(operation, CLOSED, 10)
    operation = held(held(operation, (), 20), CLOSED, 20)
    assert operation.tenant_waits == (TenantWait(cause=WINDOW, begins=10),)
    operation = held(held(operation, LATER, 30), (), 40)
    assert operation.tenant_waits == (
        TenantWait(cause=WINDOW, begins=10, ends=30),
        TenantWait(cause=DEFERRAL, begins=30, ends=40),
    )


def test_step_back_of_the_clock_leaves_no_negative_time(operation: Operation) -> None:
    operation = held(held(operation, CLOSED, 100), (), 40)
    assert operation.tenant_waits == ()


def test_times_of_many_nights_are_bounded_and_their_sum_stays(
    operation: Operation,
) -> None:
    for night in range(1, 101):
        operation = held(operation, CLOSED, night * DAY)
        operation = held(operation, (), night * DAY + HOUR)
    assert len(operation.tenant_waits) == tenant_waits.WAITS_MAX
    waited = sum(wait.ends - wait.begins for wait in operation.tenant_waits)
    assert waited == 100 * HOUR
