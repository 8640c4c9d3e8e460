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
    it = of(3)
    name = roll_out(it, 3, at_once=2).request_id
    found = shown(it, name)
    assert (found.name, found.state, found.hosts) == (name, CampaignState.RUNNING, 3)
    report = it.read(lambda reader: campaign_report(reader, found, now=it.now))
    assert [report["in_flight"], report["waiting"], report["at_once"]] == [2, 1, 2]
    assert report["waits_for"] == f"campaign {name}: 2 of 2 hosts are in flight"
    it.advance("3h")
    found = shown(it, name)
    assert (found.state, found.done, found.left) == (CampaignState.DONE, 3, 0)
    assert stored(it) == []


def test_paused_rollout_announces_nothing_until_it_is_resumed() -> None:
    it = of(3)
    name = roll_out(it, 3).request_id
    steer(it, lambda work: campaigns.pause(work, name))
    it.advance("3h")
    assert in_work(it) == []
    assert shown(it, name).done == 1
    assert waits_for(it, name).startswith(f"campaign {name} is paused until")
    why = it.explain(of_host(it, 1).operation_id)
    assert any(f"`forewarn campaign resume {name}`" in each for each in why)
    steer(it, lambda work: campaigns.resume(work, name, by_all=False))
    assert in_work(it) == [name_of(1)]
    it.advance("3h")
    assert shown(it, name).state is CampaignState.DONE
    assert request(it).state is RequestState.CLOSED


def test_halted_rollout_withdraws_its_announcements() -> None:
    it = of(3)
    name = roll_out(it, 3, at_once=2).request_id
    before = [each.operation_id for each in it.operations() if each.scopes]
    steer(it, lambda work: campaigns.halt(work, name))
    assert announced(it) == []
    for each in before:
        assert it.operation(each).state is OperationState.CANCELLED
        assert it.operation(each).started_at == 0
    it.advance("2h")
    assert shown(it, name).done == 0
    steer(it, lambda work: campaigns.resume(work, name, by_all=False))
    it.advance("5h")
    assert (shown(it, name).state, shown(it, name).done) == (CampaignState.DONE, 3)


def test_time_that_was_ordered_applies_after_a_halt() -> None:
    it = of(2)
    ordered = it.now + 20 * HOUR
    name = roll_out(it, 2, ahead=20 * HOUR).request_id
    steer(it, lambda work: campaigns.halt(work, name))
    steer(it, lambda work: campaigns.skip(work, name, [name_of(1)]))
    steer(it, lambda work: campaigns.resume(work, name, by_all=False))
    [again] = [each for each in it.operations() if not each.ended_at]
    assert (again.host, again.state) == (name_of(0), OperationState.ANNOUNCED)
    assert again.not_before >= ordered


def broken(vm: str) -> SimulatedDriver:
    driver = SimulatedDriver()
    fault = Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm=vm, times=3)
    driver.inject(fault)
    return driver


def test_failure_stops_a_rollout_that_was_not_steered() -> None:
    it = of(3, broken("s0-0"))
    name = roll_out(it, 3, action=Action.REBOOT).request_id
    it.advance("3h")
    assert request(it).state is RequestState.STOPPED
    found = shown(it, name)
    assert (found.state, found.skipped) == (CampaignState.ABORTED, 2)
    assert found.failed_hosts == (name_of(0),)
    with pytest.raises(RefusedError, match=f"campaign {name} is Aborted"):
        steer(it, lambda work: campaigns.resume(work, name, by_all=False))


def test_failure_halts_a_rollout_that_was_steered() -> None:
    it = of(3, broken("s0-0"))
    name = roll_out(it, 3, action=Action.REBOOT).request_id
    steer(it, lambda work: campaigns.pause(work, name))
    steer(it, lambda work: campaigns.resume(work, name, by_all=False))
    it.advance("3h")
    found = shown(it, name)
    assert found.state is CampaignState.HALTED
    assert found.halt is not None
    assert found.halt.cause is HaltCause.IN_A_ROW
    assert states(it)[name_of(1)] is OperationState.PLANNED
    steer(it, lambda work: campaigns.retry(work, name, []))
    steer(it, lambda work: campaigns.resume(work, name, by_all=False))
    it.advance("6h")
    assert (shown(it, name).state, shown(it, name).done) == (CampaignState.DONE, 3)


def test_hosts_in_flight_can_be_changed_and_hosts_skipped() -> None:
    it = of(5)
    name = roll_out(it, 5).request_id
    steer(it, lambda work: campaigns.skip(work, name, [name_of(4)]))
    values = {"in_flight": "3"}
    steer(
        it,
        lambda work: campaign_changes.change(
            work, campaigns.find_open(work, name), values
        ),
    )
    it.advance("40m")
    assert in_work(it) == [name_of(1), name_of(2)]
    it.advance("5h")
    found = shown(it, name)
    assert (found.state, found.done, found.skipped) == (CampaignState.DONE, 4, 1)


def test_cancel_of_a_steered_rollout_aborts_it() -> None:
    it = of(3)
    name = roll_out(it, 3).request_id
    steer(it, lambda work: campaigns.pause(work, name))
    made = it.order(
        lambda work: verbs.cancel(work, name, note=Cancelled(by=work.who.actor))
    )
    assert [each.host for each in made] == [name_of(number) for number in range(3)]
    assert {each.state for each in made} == {OperationState.CANCELLED}
    it.settle()
    found = shown(it, name)
    assert (found.state, found.skipped) == (CampaignState.ABORTED, 3)
    assert request(it).state is RequestState.CANCELLED


def test_refused_verb_stores_no_campaign() -> None:
    it = of(3)
    name = roll_out(it, 3).request_id
    with pytest.raises(RefusedError, match="neither paused nor halted"):
        steer(it, lambda work: campaigns.resume(work, name, by_all=False))
    assert stored(it) == []


def test_single_host_is_no_campaign() -> None:
    it = of(1)
    name = roll_out(it, 1).request_id
    with pytest.raises(NotFoundError, match="there is no campaign"):
        shown(it, name)


def test_store_of_a_steered_rollout_is_valid_and_is_continued(tmp_path: Path) -> None:
    file = tmp_path / "forewarn.db"
    hosts = [{f"s{number}": 0} for number in range(60)]
    it = world_of(hosts, store=lambda: SqliteStore(file))
    name = roll_out(it, 60, at_once=4).request_id
    it.advance("1h")
    done = shown(it, name).done
    assert done > 0
    steer(it, lambda work: campaigns.halt(work, name))
    assert (shown(it, name).done, shown(it, name).left) == (done, 60 - done)
    assert check_of(it, file) == []


def steered_to_its_end(world: World, name: str) -> None:
    """Pause a rollout once, and repair and resume it until it is done."""
    for _ in range(200):
        found = shown(world, name)
        if implied_campaigns.is_implied(found):
            steer(world, lambda work: campaigns.pause(work, name))
        elif found.failed:
            steer(world, lambda work: campaigns.retry(work, name, []))
        elif found.state in {CampaignState.PAUSED, CampaignState.HALTED}:
            steer(world, lambda work: campaigns.resume(work, name, by_all=True))
        elif found.state is CampaignState.DONE:
            return
        world.advance("3m")
    raise AssertionError(f"it has not ended: {shown(world, name)}")


@pytest.mark.amounts
def test_crash_at_any_commit_of_a_steered_rollout_loses_nothing(tmp_path: Path) -> None:
    for number in range(1, 200, amounts().crash_stride):
        file = tmp_path / f"{number}.db"
        it = world_of(
            [{f"s{each}": 0} for each in range(3)],
            store=lambda file=file: SqliteStore(file),
            driver=broken("s1-1"),
        )
        name = roll_out(it, 3, at_once=2, action=Action.REBOOT).request_id
        last = it.passed["committed"] + number
        it.crash_at = lambda place, count, last=last: (
            place == "committed" and count == last
        )
        try:
            steered_to_its_end(it, name)
        except CrashError:
            it.restart()
            assert check_of(it, file) == []
            steered_to_its_end(it, name)
        else:
            break
        assert (shown(it, name).done, shown(it, name).failed) == (3, ())
        started = [each for each in it.operations() if each.started_at]
        assert len(started) == 4, "three hosts, and one failed attempt"
        it.store.close()
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
    it = of(2)
    name = roll_out(it, 2).request_id
    steer(it, lambda work: campaigns.pause(work, name))
    it.apply_fleet(fleet([{f"s{number}": 0} for number in range(3)]))
    report = it.read(
        lambda reader: campaign_report(reader, shown(it, name), now=it.now)
    )
    assert report["drift"] == 0
