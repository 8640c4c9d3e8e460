"""Campaigns announce their hosts in stages, within windows, and halt when hosts fail."""

from dataclasses import replace

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import HaltCause
from forewarn.control.requests import brake, campaign_changes, campaigns
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.fleet.model import Host
from forewarn.instants import DAY, HOUR, MINUTE, format_instant
from forewarn.protocol.errors import BadRequestError, NotFoundError, RefusedError
from forewarn.protocol.operations import Action, Operation, OperationState
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind
from forewarn.wording import operators
from tests.support.campaigns import (
    ONE_STAGE,
    announced,
    campaign,
    ended,
    in_work,
    rollout,
    start,
    steer,
    waits_for,
)
from tests.support.rollouts import name_of, world_of
from tests.support.worlds import World

STAGES = """
[[campaign.stage]]
hosts = 1
soak = "1h"
[[campaign.stage]]
hosts = 3
"""

WIDE = (
    "[campaign.budget]\nin_flight = 4\n[campaign.tolerance]\nin_a_row = 1\n" + ONE_STAGE
)
"""Four hosts in flight, and one failed host in a row is tolerated."""


def of(hosts: int, driver: SimulatedDriver | None = None) -> World:
    """Return a world of hosts, each with a VM of a scope of its own."""
    return world_of([{f"s{number}": 0} for number in range(hosts)], driver=driver)


def state(world: World) -> CampaignState:
    return campaign(world).state


def cordons(world: World, host: str) -> list[str]:
    found = world.read(lambda reader: reader.get(Host, host))
    assert found is not None
    return [each.by.text for each in found.cordons]


def failing(*vms: str, times: int = 3) -> SimulatedDriver:
    """Return a driver that fails all attempts for these VMs."""
    driver = SimulatedDriver()
    for vm in vms:
        driver.inject(
            Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm=vm, times=times)
        )
    return driver


def test_a_stage_begins_when_the_one_before_it_has_soaked() -> None:
    it = of(6)
    start(it, STAGES)
    assert in_work(it) == [name_of(0)]
    assert waits_for(it) == "campaign bios: 1 of 1 hosts are in flight"
    it.advance("40m")
    assert campaign(it).done == 1
    assert in_work(it) == []
    assert waits_for(it).startswith("the stage before stage 2 of campaign bios soaks")
    it.advance("45m")
    assert campaign(it).stage == 1
    it.advance("20m")
    assert campaign(it).stage == 2
    assert in_work(it) == [name_of(1)]
    it.advance("5h")
    assert state(it) is CampaignState.DONE
    assert campaign(it).done == 6
    assert rollout(it).state.value == "Closed"


def test_hosts_in_flight_double_up_to_the_budget() -> None:
    it = of(20)
    start(it, WIDE)
    most: list[int] = []
    for _ in range(6 * 60):
        it.advance("1m")
        count = len(in_work(it))
        if not most or count > most[-1]:
            most.append(count)
    assert most == [1, 2, 4]
    assert state(it) is CampaignState.DONE


def test_a_stage_can_need_an_approval() -> None:
    it = of(3)
    start(it, "[[campaign.stage]]\nhosts = 1\napproval = true\n")
    it.advance("1d")
    assert waits_for(it) == (
        "stage 2 of campaign bios needs an approval: `forewarn campaign approve bios 2`"
    )
    with pytest.raises(RefusedError, match=r"in stage 1 of 2, so stage 3"):
        steer(it, lambda work: campaigns.approve(work, "bios", 3))
    steer(it, lambda work: campaigns.approve(work, "bios", 2))
    assert in_work(it) == [name_of(1)]
    with pytest.raises(RefusedError, match="in stage 2 of 2"):
        steer(it, lambda work: campaigns.approve(work, "bios", 3))


def test_a_second_person_must_approve_if_the_service_says_so() -> None:
    it = of(2)
    it.plane.policy = replace(it.plane.policy, second_person=True)
    start(it, "[[campaign.stage]]\nhosts = 1\napproval = true\n")
    it.advance("1d")
    with pytest.raises(RefusedError, match="Alice started the campaign and cannot"):
        steer(it, lambda work: campaigns.approve(work, "bios", 2), actor="Alice")
    assert in_work(it) == []
    # To stop and to go on stay with everybody.
    steer(it, lambda work: campaigns.pause(work, "bios"))
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))
    steer(it, lambda work: campaigns.approve(work, "bios", 2), actor="bob")
    assert in_work(it) == [name_of(1)]


def test_an_approval_during_the_soak_does_not_shorten_it() -> None:
    it = of(2)
    start(it, '[[campaign.stage]]\nhosts = 1\nsoak = "2h"\napproval = true\n')
    it.advance("40m")
    steer(it, lambda work: campaigns.approve(work, "bios", 2))
    it.advance("1h")
    assert in_work(it) == []
    it.advance("1h")
    assert in_work(it) == [name_of(1)]


WINDOW = (
    """
[campaign.budget]
in_flight = 4
[campaign.expect]
typical = "20m"
slow = "30m"
[[campaign.window]]
start = "22:00"
length = "2h"
timezone = "UTC"
"""
    + ONE_STAGE
)


def test_hosts_start_only_in_a_window_that_they_fit_into() -> None:
    it = of(30)
    start(it, WINDOW)
    begun: list[tuple[int, int]] = []
    for _ in range(4 * 24 * 60):
        it.advance("1m")
        if state(it) is CampaignState.DONE:
            break
    assert state(it) is CampaignState.DONE
    for operation in it.operations():
        minutes = operation.started_at // MINUTE % (24 * 60)
        begun.append(divmod(minutes, 60))
        # It began after the opening, and had 30 minutes before the closing.
        assert (22, 0) <= begun[-1] <= (23, 30), begun[-1]
        assert operation.not_before >= operation.created + 15 * MINUTE
    assert (
        len({each.started_at // MINUTE // (24 * 60) for each in it.operations()}) >= 2
    )


@pytest.mark.clause("4.2")
def test_an_early_approval_does_not_start_a_host_before_the_window() -> None:
    it = of(1)
    it.vm("s0-0").get()
    start(it, WINDOW)
    while not announced(it):
        it.advance("1m")
    (event,) = it.vm("s0-0").get().events
    assert it.vm("s0-0").approve(event["EventId"]).status == 200
    (operation,) = it.operations()
    assert operation.state is OperationState.READY
    opens = operation.not_before
    assert it.explain(operation.operation_id)[0].startswith(
        "the windows of campaign bios allow it from "
    )
    while not it.operations()[0].started_at:
        it.advance("1m")
    assert it.operations()[0].started_at >= opens


def under_the_brake(it: World, off_at: tuple[int, int]) -> Operation:
    """Return the host that the brake has kept from its start until a time of the day."""
    start(it, WINDOW)
    while not announced(it):
        it.advance("1m")
    it.order(brake.put_on, actor="bob", reason="power is unstable")
    hour, minute = off_at
    while it.now // MINUTE % (24 * 60) != hour * 60 + minute:
        it.advance("1m")
    it.order(brake.take_off, actor="bob")
    it.settle()
    return it.operations()[0]


def test_a_held_host_starts_while_its_work_ends_before_the_window_closes() -> None:
    it = of(1)
    assert under_the_brake(it, (23, 30)).started_at == it.now


def test_a_held_host_does_not_start_minutes_before_the_window_closes() -> None:
    it = of(1)
    operation = under_the_brake(it, (23, 58))
    assert operation.state is not OperationState.IMPACTING
    opens = it.now // DAY * DAY + DAY + 22 * HOUR
    assert it.explain(operation.operation_id) == [
        f"the windows of campaign bios allow it from {format_instant(opens)} on"
    ]
    it.advance("1d")
    (done,) = [each for each in it.operations() if each.started_at]
    assert opens <= done.started_at <= opens + 30 * MINUTE


def test_a_failed_canary_halts_the_campaign_before_anybody_else_is_told() -> None:
    it = of(6, failing("s0-0"))
    start(it, STAGES)
    it.advance("1d")
    found = campaign(it)
    assert found.state is CampaignState.HALTED
    assert found.halt is not None
    assert found.halt.cause is HaltCause.CANARY
    assert found.failed_hosts == (name_of(0),)
    assert cordons(it, name_of(0)) == ["campaign bios"]
    told = {
        each.target
        for each in it.operations()
        if each.state is not OperationState.PLANNED
    }
    assert told == {name_of(0)}
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))
    it.advance("1d")
    assert in_work(it) == [], "the failed host keeps the stage open"
    steer(it, lambda work: campaigns.retry(work, "bios", []))
    it.advance("2d")
    assert state(it) is CampaignState.DONE
    assert campaign(it).done == 6
    assert cordons(it, name_of(0)) == []


def test_the_last_stage_tolerates_single_failures() -> None:
    it = of(8, failing("s1-1", "s6-6"))
    start(it, WIDE.replace("in_flight = 4", "in_flight = 1"))
    it.advance("1d")
    found = campaign(it)
    assert found.state is CampaignState.RUNNING
    assert found.failed_hosts == (name_of(1), name_of(6))
    assert found.done == 6
    assert waits_for(it).startswith("campaign bios has only 2 failed hosts left")
    steer(it, lambda work: campaigns.skip(work, "bios", [name_of(1)]))
    assert state(it) is CampaignState.RUNNING
    steer(it, lambda work: campaigns.skip(work, "bios", [name_of(6)]))
    found = campaign(it)
    assert found.state is CampaignState.DONE
    assert (found.done, found.skipped) == (6, 2)
    assert cordons(it, name_of(1)) == ["campaign bios"]


def test_failures_in_a_row_halt_the_campaign() -> None:
    it = of(8, failing("s1-1", "s2-2"))
    start(it, WIDE.replace("in_flight = 4", "in_flight = 1"))
    it.advance("1d")
    found = campaign(it)
    assert found.halt is not None
    assert (found.halt.cause, found.halt.count) == (HaltCause.IN_A_ROW, 2)
    assert found.done == 1


def test_a_halt_withdraws_announcements_without_impact() -> None:
    it = of(8)
    start(it, WIDE)
    while len(announced(it)) < 2:
        it.advance("1m")
    hosts = announced(it)
    events = len(it.live_events())
    assert events >= 2
    steer(it, lambda work: campaigns.halt(work, "bios"))
    assert announced(it) == []
    assert campaign(it).withdrawn == len(hosts)
    (*cancelled,) = ended(it, OperationState.CANCELLED)
    assert sorted(each.host for each in cancelled) == hosts
    assert all(not each.started_at for each in cancelled)
    it.advance("1d")
    assert announced(it) == []
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))
    assert len(announced(it)) == 1, "it begins with one host again"
    it.advance("1d")
    assert state(it) is CampaignState.DONE
    assert campaign(it).done == 8


def test_a_campaign_continues_when_the_last_of_two_resumes_it() -> None:
    it = of(3)
    start(it)
    steer(it, lambda work: campaigns.pause(work, "bios"), actor="alice")
    steer(it, lambda work: campaigns.pause(work, "bios"), actor="bob")
    it.advance("1d")
    assert campaign(it).done == 1, "an announced host continues"
    with pytest.raises(RefusedError, match="is paused by alice, bob, not by carol"):
        steer(
            it, lambda work: campaigns.resume(work, "bios", by_all=False), actor="carol"
        )
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=False), actor="bob")
    assert state(it) is CampaignState.PAUSED
    assert waits_for(it).startswith(
        "campaign bios is paused until `forewarn campaign resume bios`, by alice"
    )
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=False), actor="alice")
    it.advance("1d")
    assert state(it) is CampaignState.DONE


def test_an_aborted_campaign_leaves_out_what_has_not_started() -> None:
    it = of(8)
    start(it, WIDE)
    while len(announced(it)) < 2:
        it.advance("1m")
    steer(it, lambda work: campaigns.abort(work, "bios"))
    it.advance("1d")
    found = campaign(it)
    assert found.state is CampaignState.ABORTED
    assert {each.state for each in it.operations()} == {
        OperationState.DONE,
        OperationState.CANCELLED,
    }
    assert found.done + found.skipped == 8
    with pytest.raises(RefusedError, match="campaign bios is Aborted"):
        steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))


def test_hosts_that_wait_or_are_announced_can_be_skipped() -> None:
    it = of(4)
    start(it)
    skipped = [name_of(0), name_of(2)]
    steer(it, lambda work: campaigns.skip(work, "bios", skipped))
    it.advance("1d")
    found = campaign(it)
    assert (found.state, found.done, found.skipped) == (CampaignState.DONE, 2, 2)
    assert {each.host for each in ended(it, OperationState.CANCELLED)} == {*skipped}


def test_steering_needs_a_reason_and_a_campaign() -> None:
    it = of(2)
    start(it)
    with pytest.raises(BadRequestError, match="a pause needs a reason"):
        steer(it, lambda work: campaigns.pause(work, "bios"), reason="")
    with pytest.raises(NotFoundError, match="there is no campaign 'bios-3'"):
        steer(it, lambda work: campaigns.pause(work, "bios-3"))
    with pytest.raises(RefusedError, match="neither paused nor halted"):
        steer(it, lambda work: campaigns.resume(work, "bios", by_all=True))


def test_a_host_is_in_one_campaign() -> None:
    it = of(3)
    start(it)
    with pytest.raises(RefusedError, match=r"campaign bios has 3 of the hosts"):
        start(it, name="kernel")
    it.advance("1d")
    start(it, name="kernel")
    it.advance("1d")
    assert campaign(it, "kernel").state is CampaignState.DONE


def test_a_clock_step_neither_shortens_nor_lengthens_a_soak() -> None:
    it = of(2)
    start(it, '[[campaign.stage]]\nhosts = 1\nsoak = "2h"\n')
    while not campaign(it).soaks_until:
        it.advance("1m")
    it.step_clock("6h")
    it.advance("110m")
    assert in_work(it) == []
    it.step_clock("3h", back=True)
    it.advance("11m")
    assert in_work(it) == [name_of(1)]


def test_budgets_and_tolerance_can_change_while_it_runs() -> None:
    it = of(20)
    start(it)
    it.advance("40m")
    assert len(in_work(it)) == 1
    values = {"in_flight": "20%", "unavailable": "30%", "failures": "4"}
    steer(it, lambda work: campaign_changes.change(work, campaign(it), values))
    found = campaign(it)
    assert (found.budget.in_flight, found.budget.unavailable) == ("20%", "30%")
    assert found.tolerance.failures == 4
    it.advance("2h")
    assert len(in_work(it)) == 4
    (entry,) = [
        each
        for each in it.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
        if each.kind is AuditKind.CAMPAIGN_CHANGED
    ]
    assert operators.detail_of(entry) == (
        "in_flight 1 -> 20%, unavailable none -> 30%, failures 2 -> 4"
    )
    steer(
        it,
        lambda work: campaign_changes.change(
            work, campaign(it), {"unavailable": "none"}
        ),
    )
    assert campaign(it).budget.unavailable == ""


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "give at least one value to change"),
        ({"in_flight": "none"}, "in_flight: must be a whole number or a percentage su"),
        ({"in_flight": "0"}, "in_flight: must be 1 to 1000000, not 0"),
        ({"in_flight": "0%"}, "in_flight: must be more than 0% and at most 100%"),
        ({"in_flight": "1000001"}, "in_flight: must be 1 to 1000000, not 1000001"),
        ({"unavailable": "101%"}, "unavailable: must be more than 0% and at most 100%"),
        ({"in_a_row": "-1"}, "in_a_row: must be 0 to 1000000, not -1"),
        ({"failures": "few"}, 'failures: "few" is not a whole number'),
        ({"failures": "50"}, "50 failures of the last 50 hosts would never halt"),
    ],
)
def test_an_invalid_change_is_refused(values: dict[str, str], message: str) -> None:
    it = of(2)
    start(it)
    with pytest.raises(BadRequestError, match=message):
        steer(it, lambda work: campaign_changes.change(work, campaign(it), values))


@pytest.mark.parametrize("approval", ["", "approval = true\n"])
def test_a_stage_whose_hosts_were_all_skipped_ends_at_once(approval: str) -> None:
    it = of(4)
    stage = "[[campaign.stage]]\nhosts = {}\n"
    start(it, stage.format(1) + stage.format(2) + f'soak = "1h"\n{approval}')
    steer(it, lambda work: campaigns.skip(work, "bios", [name_of(1)]))
    it.advance("1d")
    if approval:
        assert campaign(it).stage == 2
        steer(it, lambda work: campaigns.approve(work, "bios", 3))
        it.advance("1d")
    found = campaign(it)
    assert (found.state, found.done, found.skipped) == (CampaignState.DONE, 3, 1)
