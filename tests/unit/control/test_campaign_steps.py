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
    world = of(4)
    start(world, STEPS + ONE_STAGE, impact=impact)
    world.advance("2d")
    row = campaign(world)
    assert row.state is CampaignState.DONE, waits_for(world)
    assert row.done == 4
    assert {visit.state for visit in visits(world)} == {VisitState.DONE}
    assert all(is_open(world, name_of(number)) for number in range(4))


def test_a_host_that_does_not_need_the_work_is_skipped_without_notice() -> None:
    world = of(2, "needed not-needed times=2")
    start(world, STEPS + ONE_STAGE, impact="live-migrate")
    world.advance("1d")
    row = campaign(world)
    assert (row.state, row.done, row.skipped) == (CampaignState.DONE, 0, 2)
    assert all(not operation.started_at for operation in world.operations())


def test_work_that_fails_at_the_canary_costs_one_host() -> None:
    world = of(5, "work fail")
    start(world, CANARY, impact="none")
    world.advance("1d")
    row = campaign(world)
    assert row.state is CampaignState.HALTED
    assert row.halt is not None
    assert row.halt.cause is HaltCause.CANARY
    assert row.failed_hosts == (name_of(0),)
    assert not is_open(world, name_of(0))
    assert world.live_events() == []
    assert len(visits(world)) == 1, "no other host was touched"
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    steer(world, lambda work: campaigns.retry(work, "bios", []))
    world.advance("1d")
    row = campaign(world)
    assert (row.state, row.done, row.failed) == (CampaignState.DONE, 5, ())
    assert is_open(world, name_of(0))


@pytest.mark.parametrize(
    ("impact", "attempts"), [("none", 1), ("live-migrate", 1), ("reboot", 2)]
)
def test_work_that_lied_is_done_again_by_a_retry(impact: str, attempts: int) -> None:
    world = of(3, "work lie")
    start(world, CANARY, impact=impact)
    world.advance("1d")
    ((host, _),) = campaign(world).failed
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    steer(world, lambda work: campaigns.retry(work, "bios", []))
    world.advance("1d")
    assert (campaign(world).state, campaign(world).failed) == (CampaignState.DONE, ())
    made = [visit for visit in visits(world) if visit.host == host]
    assert len(made) == attempts, "VMs that run again get a new notice"
    assert is_open(world, host)


def test_reboot_of_a_campaign_without_work_reboots_its_hosts() -> None:
    rules = StepRules(rules=(("reboot-host", StepRule()),))
    world = world_of([{"a": 0}, {"b": 0}], driver=SimulatedDriver(steps=rules))
    start(world, ONE_STAGE, impact="reboot")
    world.advance("1d")
    assert (campaign(world).state, campaign(world).done) == (CampaignState.DONE, 2)
    assert {visit.step(StepKind.WORK) for visit in visits(world)} == set(
        rules.usual_steps(frozenset())
    )


def test_a_failed_host_leaves_its_slot_to_the_campaign(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    driver = SimulatedDriver()
    driver.inject(parse_fault("work fail"))
    world = world_of([{"a": 0}], driver=driver, store=lambda: SqliteStore(file))
    start(world, STEPS + ONE_STAGE, impact="none")
    world.advance("1d")
    assert campaign(world).failed_hosts == (name_of(0),)
    assert [visit.holds_slot for visit in visits(world)] == [False]
    assert check_of(world, file) == []


def test_a_failed_step_is_the_reason_of_its_host_and_names_the_campaign() -> None:
    world = of(3, "work fail")
    start(world, CANARY, impact="live-migrate")
    world.advance("1h")
    reason = "step work failed: a simulated fault"

    def failed() -> list[Any]:
        return world.read(
            lambda reader: campaign_report(reader, campaign(world), now=world.now)[
                "failed"
            ]
        )

    ((host, operation),) = campaign(world).failed
    assert failed() == [{"host": host, "operation": operation, "reason": reason}]
    standing = world.read(lambda reader: explain(reader, host, now=world.now))["status"]
    assert (
        f"{reason}; the host stays cordoned: run `forewarn campaign retry" in standing
    )
    assert "forewarn visit" not in standing
    (visit,) = (visit for visit in visits(world) if visit.host == host)
    told = world.read(lambda reader: explain(reader, visit.visit_id, now=world.now))
    assert f"`forewarn campaign skip bios {host} --reason TEXT`" in told["status"]
    steer(world, lambda work: campaigns.retry(work, "bios", []))
    assert failed() == []


def test_host_that_is_asked_whether_it_needs_the_work_is_not_in_its_own_way() -> None:
    world = of(2, "needed stall")
    start(world, STEPS + ONE_STAGE, impact="none")
    world.advance("10s")
    assert [visit.holds_slot for visit in visits(world)] == [True]

    def explained(host: str) -> dict[str, Any]:
        return world.read(lambda reader: explain(reader, host, now=world.now))

    first, second = explained(name_of(0)), explained(name_of(1))
    assert first["blocked_by"] == []
    assert "step needed" in first["status"]
    assert "1 of 1 hosts are in flight" in second["blocked_by"][0]


def test_visit_that_a_halt_withdrew_says_so_and_blames_no_step() -> None:
    world = of(2)
    start(world, STEPS + ONE_STAGE, impact="live-migrate")
    world.advance("1m")
    (visit,) = visits(world)
    assert visit.state is VisitState.ANNOUNCED
    steer(world, lambda work: campaigns.halt(work, "bios"))
    subject = f"visit:{visit.visit_id}"
    entries = world.read(
        lambda reader: list(every(reader, kinds.AUDIT_OF_SUBJECT, subject))
    )
    assert entries[-1].kind is AuditKind.VISIT_SKIPPED
    detail = detail_of(entries[-1])
    assert detail.startswith("campaign bios was halted; the host waits")


def test_step_that_succeeded_without_a_word_has_no_output() -> None:
    world = of(2)
    start(world, STEPS + ONE_STAGE, impact="none")
    world.advance("1d")
    results = [result for visit in visits(world) for result in visit.results]
    assert {step_said(result) for result in results} == {""}


def test_failed_step_has_ended_and_is_no_comparison_for_others() -> None:
    world = of(3, "work fail")
    start(world, CANARY, impact="none")
    world.advance("1d")
    row = world.read(
        lambda reader: campaign_host(
            expected_of(reader, campaign(world), now=world.now), name_of(0)
        )
    )
    step = row["step"]
    assert (step["state"], step["kind"]) == ("Working", "work")
    assert step["since"] < step["until"]
    assert row["usual"] is None
    results = {step["kind"]: step["outcome"] for step in row["steps"]}
    assert results["work"] == "failed"


def test_step_that_is_repeated_has_no_outcome_yet() -> None:
    world = of(3, "work fail", "work stall")
    start(world, CANARY, impact="none")
    world.advance("1d")
    steer(world, lambda work: campaigns.retry(work, "bios", [name_of(0)]))
    row = world.read(
        lambda reader: campaign_host(
            expected_of(reader, campaign(world), now=world.now), name_of(0)
        )
    )
    (work,) = (step for step in row["steps"] if step["kind"] == "work")
    assert (work["current"], work["outcome"]) == (True, None)


def test_visits_are_deleted_with_their_operations(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    world = world_of([{"a": 0}, {"b": 0}], store=lambda: SqliteStore(file))
    start(world, STEPS + ONE_STAGE, impact="none")
    world.advance("1d")
    request = campaign(world).request
    assert len(visits(world)) == 2
    world.advance("100d")
    world.advance("1d")
    assert not world.operations()
    assert not world.read(
        lambda reader: list(every(reader, kinds.VISITS_OF_REQUEST, request))
    )
    assert check_of(world, file) == []


def test_a_failed_visit_is_kept_for_as_long_as_it_can_be_retried(
    tmp_path: Path,
) -> None:
    file = tmp_path / "store.db"
    driver = SimulatedDriver()
    driver.inject(parse_fault("work fail"))
    world = world_of([{"a": 0}], driver=driver, store=lambda: SqliteStore(file))
    step = HostStep(kind=StepKind.WORK, name="flash")
    wishes = OrderOptions(steps=(step,))
    world.order(lambda work: verbs.maintain(work, [name_of(0)], Action.NONE, wishes))
    world.advance("100d")
    world.advance("1d")
    assert [operation.host for operation in world.operations()] == [name_of(0)]
    assert check_of(world, file) == []
    world.order(lambda work: visiting.retry(work, name_of(0)))
    world.advance("100d")
    world.advance("1d")
    assert not world.operations()
    assert check_of(world, file) == []


def test_work_that_lies_is_found_by_verify() -> None:
    world = of(3, "verify fail times=1000")
    start(world, CANARY, impact="none")
    world.advance("1d")
    assert campaign(world).state is CampaignState.HALTED
    assert [visit.state for visit in visits(world)] == [VisitState.FAILED]


def test_a_failed_host_can_be_left_out() -> None:
    world = of(3, "work fail")
    start(world, STEPS + ONE_STAGE, impact="none")
    world.advance("1d")
    row = campaign(world)
    assert (row.state, row.done) == (CampaignState.RUNNING, 2)
    steer(world, lambda work: campaigns.skip(work, "bios", [name_of(0)]))
    row = campaign(world)
    assert (row.state, row.done, row.skipped) == (CampaignState.DONE, 2, 1)
    assert not is_open(world, name_of(0)), "until an operator opens it"


def test_a_host_that_failed_before_its_work_gets_a_new_visit() -> None:
    world = of(2, "enter fail")
    start(world, CANARY, impact="none")
    world.advance("1h")
    assert campaign(world).failed_hosts == (name_of(0),)
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    steer(world, lambda work: campaigns.retry(work, "bios", [name_of(0)]))
    world.advance("1d")
    row = campaign(world)
    assert (row.state, row.done, row.skipped) == (CampaignState.DONE, 2, 0)


def test_a_halt_during_visits_lets_only_work_that_has_begun_end() -> None:
    world = of(6)
    start(
        world, "[campaign.budget]\nin_flight = 4\n" + STEPS + ONE_STAGE, impact="none"
    )
    while len(in_work(world)) + len(visits(world)) < 4:
        world.advance("1s")
    steer(world, lambda work: campaigns.halt(work, "bios"))
    world.advance("1d")
    row = campaign(world)
    assert row.state is CampaignState.HALTED
    for visit in visits(world):
        is_worked = visit.result(StepKind.WORK) is not None
        is_skipped = visit.state is VisitState.SKIPPED
        is_stopped = visit.state is VisitState.DEFERRED
        assert (visit.state is VisitState.DONE) is is_worked
        assert is_worked or is_skipped or is_stopped
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    world.advance("1d")
    assert campaign(world).done == 6


def test_a_driver_without_host_steps_refuses_the_campaign() -> None:
    world = world_of([{"a": 0}], driver=SimulatedDriver(steps=NO_STEPS))
    with pytest.raises(RefusedError, match="this service has no host steps"):
        start(world, STEPS + ONE_STAGE, impact="none")


def test_hosts_that_wait_get_their_usual_notice_after_the_clock_was_set_back() -> None:
    world = of(3)
    start(world, ONE_STAGE, impact="freeze")
    begun = world.operations()[0].operation_id
    while world.operation(begun).state is not OperationState.RECOVERING:
        world.advance("1s")
    world.step_clock("36h", back=True)
    world.advance("11m")
    (announced,) = world.live_events()
    assert announced.not_before <= world.now + world.plane.policy.reboot_notice
    world.advance("2h")
    assert (campaign(world).state, campaign(world).done) == (CampaignState.DONE, 3)


def test_end_of_an_operation_names_the_visit_that_decides_how_its_host_ends() -> None:
    world = of(2, "work fail")
    start(world, CANARY, impact="none")
    world.advance("1d")
    (visit,) = visits(world)
    subject = f"host:{visit.host}"
    entries = world.read(
        lambda reader: [
            audit_report(entry, Lookups(reader).visit_of(entry))
            for entry in every(reader, kinds.AUDIT_OF_SUBJECT, subject)
        ]
    )
    ends = {entry["what"]: entry["visit"] for entry in entries}
    assert ends["operation done"] == visit.visit_id
    assert ends["visit failed"] is None


def test_failed_host_is_called_failed_in_each_list_until_it_is_skipped() -> None:
    world = of(3, "work fail")
    start(world, CANARY, impact="none")
    world.advance("1d")
    host = world.read(lambda reader: reader.get(Host, name_of(0)))
    assert host is not None

    def lists() -> tuple[bool, str]:
        report = world.read(lambda reader: host_report(reader, host))
        overview = world.read(lambda reader: fleet_overview(reader, now=world.now))
        squares = {name: state for _, name, state in overview["clusters"][0]["squares"]}
        return report["failed"], squares[host.name]

    assert lists() == (True, "failed")
    steer(world, lambda work: campaigns.skip(work, "bios", [host.name]))
    assert lists() == (False, "cordoned")


def test_reason_of_a_halt_is_in_the_history_once() -> None:
    world = of(2)
    start(world, ONE_STAGE)
    steer(world, lambda work: campaigns.halt(work, "bios"), reason="smoke in rack a1")
    subject = f"campaign:{campaign(world).campaign_id}"
    entries = world.read(
        lambda reader: list(every(reader, kinds.AUDIT_OF_SUBJECT, subject))
    )
    (halt,) = (entry for entry in entries if entry.kind is AuditKind.CAMPAIGN_HALTED)
    assert (halt.why, detail_of(halt)) == ("smoke in rack a1", "")
