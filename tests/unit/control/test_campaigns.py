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
    return [cordon.by.text for cordon in found.cordons]


def failing(*vms: str, times: int = 3) -> SimulatedDriver:
    """Return a driver that fails all attempts for these VMs."""
    driver = SimulatedDriver()
    for vm in vms:
        driver.inject(
            Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm=vm, times=times)
        )
    return driver


def test_a_stage_begins_when_the_one_before_it_has_soaked() -> None:
    world = of(6)
    start(world, STAGES)
    assert in_work(world) == [name_of(0)]
    assert waits_for(world) == "campaign bios: 1 of 1 hosts are in flight"
    world.advance("40m")
    assert campaign(world).done == 1
    assert in_work(world) == []
    assert waits_for(world).startswith(
        "the stage before stage 2 of campaign bios soaks"
    )
    world.advance("45m")
    assert campaign(world).stage == 1
    world.advance("20m")
    assert campaign(world).stage == 2
    assert in_work(world) == [name_of(1)]
    world.advance("5h")
    assert state(world) is CampaignState.DONE
    assert campaign(world).done == 6
    assert rollout(world).state.value == "Closed"


def test_hosts_in_flight_double_up_to_the_budget() -> None:
    world = of(20)
    start(world, WIDE)
    most: list[int] = []
    for _ in range(6 * 60):
        world.advance("1m")
        count = len(in_work(world))
        if not most or count > most[-1]:
            most.append(count)
    assert most == [1, 2, 4]
    assert state(world) is CampaignState.DONE


def test_a_stage_can_need_an_approval() -> None:
    world = of(3)
    start(world, "[[campaign.stage]]\nhosts = 1\napproval = true\n")
    world.advance("1d")
    assert waits_for(world) == (
        "stage 2 of campaign bios needs an approval: `forewarn campaign approve bios 2`"
    )
    with pytest.raises(RefusedError, match=r"in stage 1 of 2, so stage 3"):
        steer(world, lambda work: campaigns.approve(work, "bios", 3))
    steer(world, lambda work: campaigns.approve(work, "bios", 2))
    assert in_work(world) == [name_of(1)]
    with pytest.raises(RefusedError, match="in stage 2 of 2"):
        steer(world, lambda work: campaigns.approve(work, "bios", 3))


def test_a_second_person_must_approve_if_the_service_says_so() -> None:
    world = of(2)
    world.plane.policy = replace(world.plane.policy, second_person=True)
    start(world, "[[campaign.stage]]\nhosts = 1\napproval = true\n")
    world.advance("1d")
    with pytest.raises(RefusedError, match="Alice started the campaign and cannot"):
        steer(world, lambda work: campaigns.approve(work, "bios", 2), actor="Alice")
    assert in_work(world) == []
    # To stop and to go on stay with everybody.
    steer(world, lambda work: campaigns.pause(work, "bios"))
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    steer(world, lambda work: campaigns.approve(work, "bios", 2), actor="bob")
    assert in_work(world) == [name_of(1)]


def test_an_approval_during_the_soak_does_not_shorten_it() -> None:
    world = of(2)
    start(world, '[[campaign.stage]]\nhosts = 1\nsoak = "2h"\napproval = true\n')
    world.advance("40m")
    steer(world, lambda work: campaigns.approve(work, "bios", 2))
    world.advance("1h")
    assert in_work(world) == []
    world.advance("1h")
    assert in_work(world) == [name_of(1)]


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
    world = of(30)
    start(world, WINDOW)
    begun: list[tuple[int, int]] = []
    for _ in range(4 * 24 * 60):
        world.advance("1m")
        if state(world) is CampaignState.DONE:
            break
    assert state(world) is CampaignState.DONE
    for operation in world.operations():
        minutes = operation.started_at // MINUTE % (24 * 60)
        begun.append(divmod(minutes, 60))
        # It began after the opening, and had 30 minutes before the closing.
        assert (22, 0) <= begun[-1] <= (23, 30), begun[-1]
        assert operation.not_before >= operation.created + 15 * MINUTE
    assert (
        len(
            {
                operation.started_at // MINUTE // (24 * 60)
                for operation in world.operations()
            }
        )
        >= 2
    )


@pytest.mark.clause("4.2")
def test_an_early_approval_does_not_start_a_host_before_the_window() -> None:
    world = of(1)
    world.vm("s0-0").get()
    start(world, WINDOW)
    while not announced(world):
        world.advance("1m")
    (event,) = world.vm("s0-0").get().events
    assert world.vm("s0-0").approve(event["EventId"]).status == 200
    (operation,) = world.operations()
    assert operation.state is OperationState.READY
    opens = operation.not_before
    assert world.explain(operation.operation_id)[0].startswith(
        "the windows of campaign bios allow it from "
    )
    while not world.operations()[0].started_at:
        world.advance("1m")
    assert world.operations()[0].started_at >= opens


def under_the_brake(world: World, off_at: tuple[int, int]) -> Operation:
    """Return the host that the brake has kept from its start until a time of the day."""
    start(world, WINDOW)
    while not announced(world):
        world.advance("1m")
    world.order(brake.put_on, actor="bob", reason="power is unstable")
    hour, minute = off_at
    while world.now // MINUTE % (24 * 60) != hour * 60 + minute:
        world.advance("1m")
    world.order(brake.take_off, actor="bob")
    world.settle()
    return world.operations()[0]


def test_a_held_host_starts_while_its_work_ends_before_the_window_closes() -> None:
    world = of(1)
    assert under_the_brake(world, (23, 30)).started_at == world.now


def test_a_held_host_does_not_start_minutes_before_the_window_closes() -> None:
    world = of(1)
    operation = under_the_brake(world, (23, 58))
    assert operation.state is not OperationState.IMPACTING
    opens = world.now // DAY * DAY + DAY + 22 * HOUR
    assert world.explain(operation.operation_id) == [
        f"the windows of campaign bios allow it from {format_instant(opens)} on"
    ]
    world.advance("1d")
    (done,) = [operation for operation in world.operations() if operation.started_at]
    assert opens <= done.started_at <= opens + 30 * MINUTE


def test_a_failed_canary_halts_the_campaign_before_anybody_else_is_told() -> None:
    world = of(6, failing("s0-0"))
    start(world, STAGES)
    world.advance("1d")
    row = campaign(world)
    assert row.state is CampaignState.HALTED
    assert row.halt is not None
    assert row.halt.cause is HaltCause.CANARY
    assert row.failed_hosts == (name_of(0),)
    assert cordons(world, name_of(0)) == ["campaign bios"]
    told = {
        operation.target
        for operation in world.operations()
        if operation.state is not OperationState.PLANNED
    }
    assert told == {name_of(0)}
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    world.advance("1d")
    assert in_work(world) == [], "the failed host keeps the stage open"
    steer(world, lambda work: campaigns.retry(work, "bios", []))
    world.advance("2d")
    assert state(world) is CampaignState.DONE
    assert campaign(world).done == 6
    assert cordons(world, name_of(0)) == []


def test_the_last_stage_tolerates_single_failures() -> None:
    world = of(8, failing("s1-1", "s6-6"))
    start(world, WIDE.replace("in_flight = 4", "in_flight = 1"))
    world.advance("1d")
    row = campaign(world)
    assert row.state is CampaignState.RUNNING
    assert row.failed_hosts == (name_of(1), name_of(6))
    assert row.done == 6
    assert waits_for(world).startswith("campaign bios has only 2 failed hosts left")
    steer(world, lambda work: campaigns.skip(work, "bios", [name_of(1)]))
    assert state(world) is CampaignState.RUNNING
    steer(world, lambda work: campaigns.skip(work, "bios", [name_of(6)]))
    row = campaign(world)
    assert row.state is CampaignState.DONE
    assert (row.done, row.skipped) == (6, 2)
    assert cordons(world, name_of(1)) == ["campaign bios"]


def test_failures_in_a_row_halt_the_campaign() -> None:
    world = of(8, failing("s1-1", "s2-2"))
    start(world, WIDE.replace("in_flight = 4", "in_flight = 1"))
    world.advance("1d")
    row = campaign(world)
    assert row.halt is not None
    assert (row.halt.cause, row.halt.count) == (HaltCause.IN_A_ROW, 2)
    assert row.done == 1


def test_a_halt_withdraws_announcements_without_impact() -> None:
    world = of(8)
    start(world, WIDE)
    while len(announced(world)) < 2:
        world.advance("1m")
    hosts = announced(world)
    events = len(world.live_events())
    assert events >= 2
    steer(world, lambda work: campaigns.halt(work, "bios"))
    assert announced(world) == []
    assert campaign(world).withdrawn == len(hosts)
    (*cancelled,) = ended(world, OperationState.CANCELLED)
    assert sorted(operation.host for operation in cancelled) == hosts
    assert all(not operation.started_at for operation in cancelled)
    world.advance("1d")
    assert announced(world) == []
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    assert len(announced(world)) == 1, "it begins with one host again"
    world.advance("1d")
    assert state(world) is CampaignState.DONE
    assert campaign(world).done == 8


def test_a_campaign_continues_when_the_last_of_two_resumes_it() -> None:
    world = of(3)
    start(world)
    steer(world, lambda work: campaigns.pause(work, "bios"), actor="alice")
    steer(world, lambda work: campaigns.pause(work, "bios"), actor="bob")
    world.advance("1d")
    assert campaign(world).done == 1, "an announced host continues"
    with pytest.raises(RefusedError, match="is paused by alice, bob, not by carol"):
        steer(
            world,
            lambda work: campaigns.resume(work, "bios", by_all=False),
            actor="carol",
        )
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False), actor="bob")
    assert state(world) is CampaignState.PAUSED
    assert waits_for(world).startswith(
        "campaign bios is paused until `forewarn campaign resume bios --reason TEXT`, by alice"
    )
    steer(
        world, lambda work: campaigns.resume(work, "bios", by_all=False), actor="alice"
    )
    world.advance("1d")
    assert state(world) is CampaignState.DONE


def test_an_aborted_campaign_leaves_out_what_has_not_started() -> None:
    world = of(8)
    start(world, WIDE)
    while len(announced(world)) < 2:
        world.advance("1m")
    steer(world, lambda work: campaigns.abort(work, "bios"))
    world.advance("1d")
    row = campaign(world)
    assert row.state is CampaignState.ABORTED
    assert {operation.state for operation in world.operations()} == {
        OperationState.DONE,
        OperationState.CANCELLED,
    }
    assert row.done + row.skipped == 8
    with pytest.raises(RefusedError, match="campaign bios is Aborted"):
        steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))


def test_hosts_that_wait_or_are_announced_can_be_skipped() -> None:
    world = of(4)
    start(world)
    skipped = [name_of(0), name_of(2)]
    steer(world, lambda work: campaigns.skip(work, "bios", skipped))
    world.advance("1d")
    row = campaign(world)
    assert (row.state, row.done, row.skipped) == (CampaignState.DONE, 2, 2)
    assert {operation.host for operation in ended(world, OperationState.CANCELLED)} == {
        *skipped
    }


def test_steering_needs_a_reason_and_a_campaign() -> None:
    world = of(2)
    start(world)
    with pytest.raises(BadRequestError, match="a pause needs a reason"):
        steer(world, lambda work: campaigns.pause(work, "bios"), reason="")
    with pytest.raises(NotFoundError, match="there is no campaign 'bios-3'"):
        steer(world, lambda work: campaigns.pause(work, "bios-3"))
    with pytest.raises(RefusedError, match="neither paused nor halted"):
        steer(world, lambda work: campaigns.resume(work, "bios", by_all=True))


def test_a_host_is_in_one_campaign() -> None:
    world = of(3)
    start(world)
    with pytest.raises(RefusedError, match=r"campaign bios has 3 of the hosts"):
        start(world, name="kernel")
    world.advance("1d")
    start(world, name="kernel")
    world.advance("1d")
    assert campaign(world, "kernel").state is CampaignState.DONE


def test_a_clock_step_neither_shortens_nor_lengthens_a_soak() -> None:
    world = of(2)
    start(world, '[[campaign.stage]]\nhosts = 1\nsoak = "2h"\n')
    while not campaign(world).soaks_until:
        world.advance("1m")
    world.step_clock("6h")
    world.advance("110m")
    assert in_work(world) == []
    world.step_clock("3h", back=True)
    world.advance("11m")
    assert in_work(world) == [name_of(1)]


def test_budgets_and_tolerance_can_change_while_it_runs() -> None:
    world = of(20)
    start(world)
    world.advance("40m")
    assert len(in_work(world)) == 1
    values = {"in_flight": "20%", "unavailable": "30%", "failures": "4"}
    steer(world, lambda work: campaign_changes.change(work, campaign(world), values))
    row = campaign(world)
    assert (row.budget.in_flight, row.budget.unavailable) == ("20%", "30%")
    assert row.tolerance.failures == 4
    world.advance("2h")
    assert len(in_work(world)) == 4
    (entry,) = [
        entry
        for entry in world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
        if entry.kind is AuditKind.CAMPAIGN_CHANGED
    ]
    assert operators.detail_of(entry) == (
        "in_flight 1 -> 20%, unavailable none -> 30%, failures 2 -> 4"
    )
    steer(
        world,
        lambda work: campaign_changes.change(
            work, campaign(world), {"unavailable": "none"}
        ),
    )
    assert campaign(world).budget.unavailable == ""


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
    world = of(2)
    start(world)
    with pytest.raises(BadRequestError, match=message):
        steer(
            world, lambda work: campaign_changes.change(work, campaign(world), values)
        )


@pytest.mark.parametrize("approval", ["", "approval = true\n"])
def test_a_stage_whose_hosts_were_all_skipped_ends_at_once(approval: str) -> None:
    world = of(4)
    stage = "[[campaign.stage]]\nhosts = {}\n"
    start(world, stage.format(1) + stage.format(2) + f'soak = "1h"\n{approval}')
    steer(world, lambda work: campaigns.skip(work, "bios", [name_of(1)]))
    world.advance("1d")
    if approval:
        assert campaign(world).stage == 2
        steer(world, lambda work: campaigns.approve(work, "bios", 3))
        world.advance("1d")
    row = campaign(world)
    assert (row.state, row.done, row.skipped) == (CampaignState.DONE, 3, 1)
