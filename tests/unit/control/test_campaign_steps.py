"""Campaigns run host steps: a host is done when its work is verified."""

from pathlib import Path
from typing import Any

import pytest

from forewarn.admin.selection import Lookups
from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import HaltCause
from forewarn.control.requests import campaigns, verbs, visiting
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import parse_fault
from forewarn.fleet.model import Host
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.host_steps import (
    NO_STEPS,
    HostStep,
    StepKind,
    StepRule,
    StepRules,
)
from forewarn.protocol.operations import Action, OperationState
from forewarn.protocol.visits import Visit, VisitState
from forewarn.reporting.campaign_host import campaign_host
from forewarn.reporting.campaigns import campaign_report
from forewarn.reporting.expected import expected_of
from forewarn.reporting.explanations import explain
from forewarn.reporting.fleet_overview import fleet_overview
from forewarn.reporting.reports import audit_report, host_report
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind
from forewarn.store.sqlite import SqliteStore
from forewarn.wording.operators import detail_of, step_said
from tests.support.campaigns import (
    ONE_STAGE,
    campaign,
    in_work,
    start,
    steer,
    waits_for,
)
from tests.support.rollouts import check_of, name_of, world_of
from tests.support.worlds import World

STEPS = """
[campaign.steps]
needed = { step = "outdated", version = "2.19" }
enter = { step = "enter" }
work = { step = "flash", version = "2.19" }
verify = { step = "flashed", version = "2.19" }
exit = { step = "leave" }
"""

CANARY = STEPS + "[[campaign.stage]]\nhosts = 1\n"


def of(hosts: int, *faults: str) -> World:
    """Return a world of hosts, each with a VM of a scope of its own, and a free host."""
    driver = SimulatedDriver()
    for text in faults:
        driver.inject(parse_fault(text))
    return world_of([{f"s{number}": 0} for number in range(hosts)], driver=driver)


def visits(world: World) -> list[Visit]:
    request = campaign(world).request
    return world.read(
        lambda reader: list(every(reader, kinds.VISITS_OF_REQUEST, request))
    )


def is_open(world: World, host: str) -> bool:
    found = world.read(lambda reader: reader.get(Host, host))
    return found is not None and not found.cordons


@pytest.mark.parametrize("impact", ["none", "live-migrate"])
def test_every_host_is_visited_and_opened(impact: str) -> None:
    it = of(4)
    start(it, STEPS + ONE_STAGE, impact=impact)
    it.advance("2d")
    found = campaign(it)
    assert found.state is CampaignState.DONE, waits_for(it)
    assert found.done == 4
    assert {each.state for each in visits(it)} == {VisitState.DONE}
    assert all(is_open(it, name_of(number)) for number in range(4))


def test_a_host_that_does_not_need_the_work_is_skipped_without_notice() -> None:
    it = of(2, "needed not-needed times=2")
    start(it, STEPS + ONE_STAGE, impact="live-migrate")
    it.advance("1d")
    found = campaign(it)
    assert (found.state, found.done, found.skipped) == (CampaignState.DONE, 0, 2)
    assert all(not each.started_at for each in it.operations())


def test_work_that_fails_at_the_canary_costs_one_host() -> None:
    it = of(5, "work fail")
    start(it, CANARY, impact="none")
    it.advance("1d")
    found = campaign(it)
    assert found.state is CampaignState.HALTED
    assert found.halt is not None
    assert found.halt.cause is HaltCause.CANARY
    assert found.failed_hosts == (name_of(0),)
    assert not is_open(it, name_of(0))
    assert it.live_events() == []
    assert len(visits(it)) == 1, "no other host was touched"
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))
    steer(it, lambda work: campaigns.retry(work, "bios", []))
    it.advance("1d")
    found = campaign(it)
    assert (found.state, found.done, found.failed) == (CampaignState.DONE, 5, ())
    assert is_open(it, name_of(0))


@pytest.mark.parametrize(
    ("impact", "attempts"), [("none", 1), ("live-migrate", 1), ("reboot", 2)]
)
def test_work_that_lied_is_done_again_by_a_retry(impact: str, attempts: int) -> None:
    it = of(3, "work lie")
    start(it, CANARY, impact=impact)
    it.advance("1d")
    ((host, _),) = campaign(it).failed
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))
    steer(it, lambda work: campaigns.retry(work, "bios", []))
    it.advance("1d")
    assert (campaign(it).state, campaign(it).failed) == (CampaignState.DONE, ())
    made = [each for each in visits(it) if each.host == host]
    assert len(made) == attempts, "VMs that run again get a new notice"
    assert is_open(it, host)


def test_reboot_of_a_campaign_without_work_reboots_its_hosts() -> None:
    rules = StepRules(rules=(("reboot-host", StepRule()),))
    it = world_of([{"a": 0}, {"b": 0}], driver=SimulatedDriver(steps=rules))
    start(it, ONE_STAGE, impact="reboot")
    it.advance("1d")
    assert (campaign(it).state, campaign(it).done) == (CampaignState.DONE, 2)
    assert {each.step(StepKind.WORK) for each in visits(it)} == set(
        rules.usual_steps(frozenset())
    )


def test_a_failed_host_leaves_its_slot_to_the_campaign(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    driver = SimulatedDriver()
    driver.inject(parse_fault("work fail"))
    it = world_of([{"a": 0}], driver=driver, store=lambda: SqliteStore(file))
    start(it, STEPS + ONE_STAGE, impact="none")
    it.advance("1d")
    assert campaign(it).failed_hosts == (name_of(0),)
    assert [each.holds_slot for each in visits(it)] == [False]
    assert check_of(it, file) == []


def test_a_failed_step_is_the_reason_of_its_host_and_names_the_campaign() -> None:
    it = of(3, "work fail")
    start(it, CANARY, impact="live-migrate")
    it.advance("1h")
    reason = "step work failed: a simulated fault"

    def failed() -> list[Any]:
        return it.read(
            lambda reader: campaign_report(reader, campaign(it), now=it.now)["failed"]
        )

    ((host, operation),) = campaign(it).failed
    assert failed() == [{"host": host, "operation": operation, "reason": reason}]
    standing = it.read(lambda reader: explain(reader, host, now=it.now))["standing"]
    assert (
        f"{reason}; the host stays cordoned: run `forewarn campaign retry" in standing
    )
    assert "forewarn visit" not in standing
    (visit,) = (each for each in visits(it) if each.host == host)
    told = it.read(lambda reader: explain(reader, visit.visit_id, now=it.now))
    assert f"`forewarn campaign skip bios {host} --reason TEXT`" in told["standing"]
    steer(it, lambda work: campaigns.retry(work, "bios", []))
    assert failed() == []


def test_host_that_is_asked_whether_it_needs_the_work_is_not_in_its_own_way() -> None:
    it = of(2, "needed stall")
    start(it, STEPS + ONE_STAGE, impact="none")
    it.advance("10s")
    assert [each.holds_slot for each in visits(it)] == [True]

    def explained(host: str) -> dict[str, Any]:
        return it.read(lambda reader: explain(reader, host, now=it.now))

    first, second = explained(name_of(0)), explained(name_of(1))
    assert first["blocked_by"] == []
    assert "step needed" in first["standing"]
    assert "1 of 1 hosts are in flight" in second["blocked_by"][0]


def test_visit_that_a_halt_withdrew_says_so_and_blames_no_step() -> None:
    it = of(2)
    start(it, STEPS + ONE_STAGE, impact="live-migrate")
    it.advance("1m")
    (visit,) = visits(it)
    assert visit.state is VisitState.ANNOUNCED
    steer(it, lambda work: campaigns.halt(work, "bios"))
    subject = f"visit:{visit.visit_id}"
    entries = it.read(
        lambda reader: list(every(reader, kinds.AUDIT_OF_SUBJECT, subject))
    )
    assert entries[-1].kind is AuditKind.VISIT_SKIPPED
    detail = detail_of(entries[-1])
    assert detail.startswith("campaign bios was halted; the host waits")


def test_step_that_succeeded_without_a_word_has_no_output() -> None:
    it = of(2)
    start(it, STEPS + ONE_STAGE, impact="none")
    it.advance("1d")
    results = [each for visit in visits(it) for each in visit.results]
    assert {step_said(each) for each in results} == {""}


def test_failed_step_has_ended_and_is_no_comparison_for_others() -> None:
    it = of(3, "work fail")
    start(it, CANARY, impact="none")
    it.advance("1d")
    row = it.read(
        lambda reader: campaign_host(
            expected_of(reader, campaign(it), now=it.now), name_of(0)
        )
    )
    step = row["step"]
    assert (step["state"], step["kind"]) == ("Working", "work")
    assert step["since"] < step["until"]
    assert row["usual"] is None
    results = {each["kind"]: each["outcome"] for each in row["steps"]}
    assert results["work"] == "failed"


def test_step_that_is_repeated_has_no_outcome_yet() -> None:
    it = of(3, "work fail", "work stall")
    start(it, CANARY, impact="none")
    it.advance("1d")
    steer(it, lambda work: campaigns.retry(work, "bios", [name_of(0)]))
    row = it.read(
        lambda reader: campaign_host(
            expected_of(reader, campaign(it), now=it.now), name_of(0)
        )
    )
    (work,) = (each for each in row["steps"] if each["kind"] == "work")
    assert (work["current"], work["outcome"]) == (True, None)


def test_visits_are_deleted_with_their_operations(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    it = world_of([{"a": 0}, {"b": 0}], store=lambda: SqliteStore(file))
    start(it, STEPS + ONE_STAGE, impact="none")
    it.advance("1d")
    request = campaign(it).request
    assert len(visits(it)) == 2
    it.advance("100d")
    it.advance("1d")
    assert not it.operations()
    assert not it.read(
        lambda reader: list(every(reader, kinds.VISITS_OF_REQUEST, request))
    )
    assert check_of(it, file) == []


def test_a_failed_visit_is_kept_for_as_long_as_it_can_be_retried(
    tmp_path: Path,
) -> None:
    file = tmp_path / "store.db"
    driver = SimulatedDriver()
    driver.inject(parse_fault("work fail"))
    it = world_of([{"a": 0}], driver=driver, store=lambda: SqliteStore(file))
    step = HostStep(kind=StepKind.WORK, name="flash")
    wishes = OrderOptions(steps=(step,))
    it.order(lambda work: verbs.maintain(work, [name_of(0)], Action.NONE, wishes))
    it.advance("100d")
    it.advance("1d")
    assert [each.host for each in it.operations()] == [name_of(0)]
    assert check_of(it, file) == []
    it.order(lambda work: visiting.retry(work, name_of(0)))
    it.advance("100d")
    it.advance("1d")
    assert not it.operations()
    assert check_of(it, file) == []


def test_work_that_lies_is_found_by_verify() -> None:
    it = of(3, "verify fail times=1000")
    start(it, CANARY, impact="none")
    it.advance("1d")
    assert campaign(it).state is CampaignState.HALTED
    assert [each.state for each in visits(it)] == [VisitState.FAILED]


def test_a_failed_host_can_be_left_out() -> None:
    it = of(3, "work fail")
    start(it, STEPS + ONE_STAGE, impact="none")
    it.advance("1d")
    found = campaign(it)
    assert (found.state, found.done) == (CampaignState.RUNNING, 2)
    steer(it, lambda work: campaigns.skip(work, "bios", [name_of(0)]))
    found = campaign(it)
    assert (found.state, found.done, found.skipped) == (CampaignState.DONE, 2, 1)
    assert not is_open(it, name_of(0)), "until an operator opens it"


def test_a_host_that_failed_before_its_work_gets_a_new_visit() -> None:
    it = of(2, "enter fail")
    start(it, CANARY, impact="none")
    it.advance("1h")
    assert campaign(it).failed_hosts == (name_of(0),)
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))
    steer(it, lambda work: campaigns.retry(work, "bios", [name_of(0)]))
    it.advance("1d")
    found = campaign(it)
    assert (found.state, found.done, found.skipped) == (CampaignState.DONE, 2, 0)


def test_a_halt_during_visits_lets_only_work_that_has_begun_end() -> None:
    it = of(6)
    start(it, "[campaign.budget]\nin_flight = 4\n" + STEPS + ONE_STAGE, impact="none")
    while len(in_work(it)) + len(visits(it)) < 4:
        it.advance("1s")
    steer(it, lambda work: campaigns.halt(work, "bios"))
    it.advance("1d")
    found = campaign(it)
    assert found.state is CampaignState.HALTED
    for each in visits(it):
        is_worked = each.result(StepKind.WORK) is not None
        is_skipped = each.state is VisitState.SKIPPED
        is_stopped = each.state is VisitState.DEFERRED
        assert (each.state is VisitState.DONE) is is_worked
        assert is_worked or is_skipped or is_stopped
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))
    it.advance("1d")
    assert campaign(it).done == 6


def test_a_driver_without_host_steps_refuses_the_campaign() -> None:
    it = world_of([{"a": 0}], driver=SimulatedDriver(steps=NO_STEPS))
    with pytest.raises(RefusedError, match="this service has no host steps"):
        start(it, STEPS + ONE_STAGE, impact="none")


def test_hosts_that_wait_get_their_usual_notice_after_the_clock_was_set_back() -> None:
    it = of(3)
    start(it, ONE_STAGE, impact="freeze")
    begun = it.operations()[0].operation_id
    while it.operation(begun).state is not OperationState.RECOVERING:
        it.advance("1s")
    it.step_clock("36h", back=True)
    it.advance("11m")
    (announced,) = it.live_events()
    assert announced.not_before <= it.now + it.plane.policy.reboot_notice
    it.advance("2h")
    assert (campaign(it).state, campaign(it).done) == (CampaignState.DONE, 3)


def test_end_of_an_operation_names_the_visit_that_decides_how_its_host_ends() -> None:
    it = of(2, "work fail")
    start(it, CANARY, impact="none")
    it.advance("1d")
    (visit,) = visits(it)
    subject = f"host:{visit.host}"
    entries = it.read(
        lambda reader: [
            audit_report(each, Lookups(reader).visit_of(each))
            for each in every(reader, kinds.AUDIT_OF_SUBJECT, subject)
        ]
    )
    ends = {each["what"]: each["visit"] for each in entries}
    assert ends["operation done"] == visit.visit_id
    assert ends["visit failed"] is None


def test_failed_host_is_called_failed_in_each_list_until_it_is_skipped() -> None:
    it = of(3, "work fail")
    start(it, CANARY, impact="none")
    it.advance("1d")
    host = it.read(lambda reader: reader.get(Host, name_of(0)))
    assert host is not None

    def lists() -> tuple[bool, str]:
        report = it.read(lambda reader: host_report(reader, host))
        overview = it.read(lambda reader: fleet_overview(reader, now=it.now))
        squares = {name: state for _, name, state in overview["clusters"][0]["squares"]}
        return report["failed"], squares[host.name]

    assert lists() == (True, "failed")
    steer(it, lambda work: campaigns.skip(work, "bios", [host.name]))
    assert lists() == (False, "cordoned")


def test_reason_of_a_halt_is_in_the_history_once() -> None:
    it = of(2)
    start(it, ONE_STAGE)
    steer(it, lambda work: campaigns.halt(work, "bios"), reason="smoke in rack a1")
    subject = f"campaign:{campaign(it).campaign_id}"
    entries = it.read(
        lambda reader: list(every(reader, kinds.AUDIT_OF_SUBJECT, subject))
    )
    (halt,) = (each for each in entries if each.kind is AuditKind.CAMPAIGN_HALTED)
    assert (halt.why, detail_of(halt)) == ("smoke in rack a1", "")
