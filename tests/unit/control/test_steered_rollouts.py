"""The verbs of campaigns steer a rollout of several hosts by its ID."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.campaigns import gate
from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import CampaignRecord, HaltCause
from forewarn.control.requests import campaign_changes, campaigns, verbs
from forewarn.control.rules import campaign_gate, implied_campaigns
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import HOUR
from forewarn.protocol.actors import POLICY
from forewarn.protocol.errors import NotFoundError, RefusedError
from forewarn.protocol.notes import Cancelled
from forewarn.protocol.operations import (
    Action,
    OperationState,
    Request,
    RequestState,
    Verb,
)
from forewarn.reporting.campaigns import campaign_report
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.sqlite import SqliteStore
from tests.support.campaigns import announced, in_work, steer, waits_for
from tests.support.profiles import amounts
from tests.support.rollouts import (
    check_of,
    fleet,
    name_of,
    of_host,
    request,
    roll_out,
    states,
    world_of,
)
from tests.support.worlds import CrashError, World


def of(hosts: int, driver: SimulatedDriver | None = None) -> World:
    """Return a world of hosts, each with a VM of a scope of its own."""
    return world_of([{f"s{number}": 0} for number in range(hosts)], driver=driver)


def shown(world: World, name: str) -> CampaignRecord:
    return world.read(lambda reader: campaigns.find(reader, name))


def stored(world: World) -> list[CampaignRecord]:
    return world.read(lambda reader: list(every(reader, kinds.ALL_CAMPAIGNS)))


def test_rollout_is_shown_as_a_campaign_and_none_is_stored() -> None:
    world = of(3)
    name = roll_out(world, 3, at_once=2).request_id
    campaign = shown(world, name)
    assert (campaign.name, campaign.state, campaign.hosts) == (
        name,
        CampaignState.RUNNING,
        3,
    )
    report = world.read(lambda reader: campaign_report(reader, campaign, now=world.now))
    assert [report["in_flight"], report["waiting"], report["at_once"]] == [2, 1, 2]
    assert report["waits_for"] == f"campaign {name}: 2 of 2 hosts are in flight"
    world.advance("3h")
    campaign = shown(world, name)
    assert (campaign.state, campaign.done, campaign.left) == (CampaignState.DONE, 3, 0)
    assert stored(world) == []


def test_paused_rollout_announces_nothing_until_it_is_resumed() -> None:
    world = of(3)
    name = roll_out(world, 3).request_id
    steer(world, lambda work: campaigns.pause(work, name))
    world.advance("3h")
    assert in_work(world) == []
    assert shown(world, name).done == 1
    assert waits_for(world, name).startswith(f"campaign {name} is paused until")
    why = world.explain(of_host(world, 1).operation_id)
    assert any(
        f"`forewarn campaign resume {name} --reason TEXT`" in reason for reason in why
    )
    steer(world, lambda work: campaigns.resume(work, name, by_all=False))
    assert in_work(world) == [name_of(1)]
    world.advance("3h")
    assert shown(world, name).state is CampaignState.DONE
    assert request(world).state is RequestState.CLOSED


def test_halted_rollout_withdraws_its_announcements() -> None:
    world = of(3)
    name = roll_out(world, 3, at_once=2).request_id
    before = [
        operation.operation_id for operation in world.operations() if operation.scopes
    ]
    steer(world, lambda work: campaigns.halt(work, name))
    assert announced(world) == []
    for operation_id in before:
        assert world.operation(operation_id).state is OperationState.CANCELLED
        assert world.operation(operation_id).started_at == 0
    world.advance("2h")
    assert shown(world, name).done == 0
    steer(world, lambda work: campaigns.resume(work, name, by_all=False))
    world.advance("5h")
    assert (shown(world, name).state, shown(world, name).done) == (
        CampaignState.DONE,
        3,
    )


def test_time_that_was_ordered_applies_after_a_halt() -> None:
    world = of(2)
    ordered = world.now + 20 * HOUR
    name = roll_out(world, 2, ahead=20 * HOUR).request_id
    steer(world, lambda work: campaigns.halt(work, name))
    steer(world, lambda work: campaigns.skip(work, name, [name_of(1)]))
    steer(world, lambda work: campaigns.resume(work, name, by_all=False))
    [again] = [operation for operation in world.operations() if not operation.ended_at]
    assert (again.host, again.state) == (name_of(0), OperationState.ANNOUNCED)
    assert again.not_before >= ordered


def broken(vm: str) -> SimulatedDriver:
    driver = SimulatedDriver()
    fault = Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm=vm, times=3)
    driver.inject(fault)
    return driver


def test_failure_stops_a_rollout_that_was_not_steered() -> None:
    world = of(3, broken("s0-0"))
    name = roll_out(world, 3, action=Action.REBOOT).request_id
    world.advance("3h")
    assert request(world).state is RequestState.STOPPED
    campaign = shown(world, name)
    assert (campaign.state, campaign.skipped) == (CampaignState.ABORTED, 2)
    assert campaign.failed_hosts == (name_of(0),)
    with pytest.raises(RefusedError, match=f"campaign {name} is Aborted"):
        steer(world, lambda work: campaigns.resume(work, name, by_all=False))


def test_failure_halts_a_rollout_that_was_steered() -> None:
    world = of(3, broken("s0-0"))
    name = roll_out(world, 3, action=Action.REBOOT).request_id
    steer(world, lambda work: campaigns.pause(work, name))
    steer(world, lambda work: campaigns.resume(work, name, by_all=False))
    world.advance("3h")
    campaign = shown(world, name)
    assert campaign.state is CampaignState.HALTED
    assert campaign.halt is not None
    assert campaign.halt.cause is HaltCause.IN_A_ROW
    assert states(world)[name_of(1)] is OperationState.PLANNED
    steer(world, lambda work: campaigns.retry(work, name, []))
    steer(world, lambda work: campaigns.resume(work, name, by_all=False))
    world.advance("6h")
    assert (shown(world, name).state, shown(world, name).done) == (
        CampaignState.DONE,
        3,
    )


def test_hosts_in_flight_can_be_changed_and_hosts_skipped() -> None:
    world = of(5)
    name = roll_out(world, 5).request_id
    steer(world, lambda work: campaigns.skip(work, name, [name_of(4)]))
    values = {"in_flight": "3"}
    steer(
        world,
        lambda work: campaign_changes.change(
            work, campaigns.find_open(work, name), values
        ),
    )
    world.advance("40m")
    assert in_work(world) == [name_of(1), name_of(2)]
    world.advance("5h")
    campaign = shown(world, name)
    assert (campaign.state, campaign.done, campaign.skipped) == (
        CampaignState.DONE,
        4,
        1,
    )


def test_cancel_of_a_steered_rollout_aborts_it() -> None:
    world = of(3)
    name = roll_out(world, 3).request_id
    steer(world, lambda work: campaigns.pause(work, name))
    result = world.order(
        lambda work: verbs.cancel(work, name, note=Cancelled(by=work.who.actor))
    )
    assert [operation.host for operation in result] == [
        name_of(number) for number in range(3)
    ]
    assert {operation.state for operation in result} == {OperationState.CANCELLED}
    world.settle()
    campaign = shown(world, name)
    assert (campaign.state, campaign.skipped) == (CampaignState.ABORTED, 3)
    assert request(world).state is RequestState.CANCELLED


def test_refused_verb_stores_no_campaign() -> None:
    world = of(3)
    name = roll_out(world, 3).request_id
    with pytest.raises(RefusedError, match="neither paused nor halted"):
        steer(world, lambda work: campaigns.resume(work, name, by_all=False))
    assert stored(world) == []


def test_single_host_is_no_campaign() -> None:
    world = of(1)
    name = roll_out(world, 1).request_id
    with pytest.raises(NotFoundError, match="there is no campaign"):
        shown(world, name)


def test_store_of_a_steered_rollout_is_valid_and_is_continued(tmp_path: Path) -> None:
    file = tmp_path / "forewarn.db"
    hosts = [{f"s{number}": 0} for number in range(60)]
    world = world_of(hosts, store=lambda: SqliteStore(file))
    name = roll_out(world, 60, at_once=4).request_id
    world.advance("1h")
    done = shown(world, name).done
    assert done > 0
    steer(world, lambda work: campaigns.halt(work, name))
    assert (shown(world, name).done, shown(world, name).left) == (done, 60 - done)
    assert check_of(world, file) == []


def steered_to_its_end(world: World, name: str) -> None:
    """Pause a rollout once, and repair and resume it until it is done."""
    for _ in range(200):
        campaign = shown(world, name)
        if implied_campaigns.is_implied(campaign):
            steer(world, lambda work: campaigns.pause(work, name))
        elif campaign.failed:
            steer(world, lambda work: campaigns.retry(work, name, []))
        elif campaign.state in {CampaignState.PAUSED, CampaignState.HALTED}:
            steer(world, lambda work: campaigns.resume(work, name, by_all=True))
        elif campaign.state is CampaignState.DONE:
            return
        world.advance("3m")
    raise AssertionError(f"it has not ended: {shown(world, name)}")


@pytest.mark.amounts
def test_crash_at_any_commit_of_a_steered_rollout_loses_nothing(tmp_path: Path) -> None:
    for number in range(1, 200, amounts().crash_stride):
        file = tmp_path / f"{number}.db"
        world = world_of(
            [{f"s{number}": 0} for number in range(3)],
            store=lambda file=file: SqliteStore(file),
            driver=broken("s1-1"),
        )
        name = roll_out(world, 3, at_once=2, action=Action.REBOOT).request_id
        last = world.passed["committed"] + number
        world.crash_at = lambda place, count, last=last: (
            place == "committed" and count == last
        )
        try:
            steered_to_its_end(world, name)
        except CrashError:
            world.restart()
            assert check_of(world, file) == []
            steered_to_its_end(world, name)
        else:
            break
        assert (shown(world, name).done, shown(world, name).failed) == (3, ())
        started = [
            operation for operation in world.operations() if operation.started_at
        ]
        assert len(started) == 4, "three hosts, and one failed attempt"
        world.store.close()
    else:
        raise AssertionError("the story has more commits than were tried")


@given(st.integers(0, 9), st.integers(1, 9), st.integers(2, 9))
def test_gate_of_a_rollout_is_open_while_a_slot_is_free(
    in_flight: int, at_once: int, hosts: int
) -> None:
    ordered = Request(
        request_id="ro-1",
        verb=Verb.MAINTAIN,
        actor=POLICY,
        reason="",
        state=RequestState.OPEN,
        together=False,
        is_rollout=True,
        created=1,
        at_once=at_once,
        in_flight=in_flight,
        hosts=hosts,
    )
    terms = implied_campaigns.terms_of(ordered)
    standing = gate.Standing(
        now=0,
        in_flight=in_flight,
        at_once=campaign_gate.at_once(terms),
        notice=0,
        hours=campaign_gate.own_hours(terms),
    )
    is_open = gate.decide(terms, standing).blocker is None
    assert is_open is (in_flight < at_once)


def test_a_fleet_grows_while_a_steered_rollout_runs() -> None:
    """Its hosts were named, so that no new host is drift."""
    world = of(2)
    name = roll_out(world, 2).request_id
    steer(world, lambda work: campaigns.pause(work, name))
    world.apply_fleet(fleet([{f"s{number}": 0} for number in range(3)]))
    report = world.read(
        lambda reader: campaign_report(reader, shown(world, name), now=world.now)
    )
    assert report["drift"] == 0
