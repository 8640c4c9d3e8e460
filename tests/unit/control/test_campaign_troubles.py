"""Campaigns that need an operator are problems, and explain themselves."""

from functools import partial
from typing import Any

import pytest

from forewarn.control.requests import brake, campaigns, choices, windows
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import DAY
from forewarn.protocol.errors import NotFoundError, RefusedError
from forewarn.protocol.operations import Action
from forewarn.reporting import attention, explanations
from forewarn.reporting import campaigns as reports
from forewarn.reporting.attention import Problem
from tests.support.campaigns import ONE_STAGE, campaign, start, steer
from tests.support.rollouts import name_of, world_of
from tests.support.worlds import World

TOLERANT = "[campaign.tolerance]\nfailures = 2\nin_a_row = 2\n" + ONE_STAGE


def of(hosts: int, *, failing: int = 0) -> World:
    """Return a world of hosts with a VM each; the work of the first ones fails."""
    driver = SimulatedDriver()
    for number in range(failing):
        vm = f"s{number}-{number}"
        driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm=vm, times=3))
    return world_of([{f"s{number}": 0} for number in range(hosts)], driver=driver)


def problems(world: World) -> list[Problem]:
    """Return the problems of campaigns."""
    found = world.read(lambda reader: attention.problems(reader, now=world.now))
    return [problem for problem in found if problem.campaign]


def told(world: World) -> list[tuple[str, str]]:
    return [(problem.kind.value, problem.text) for problem in problems(world)]


def shown(world: World) -> dict[str, Any]:
    """Return the report of the campaign."""
    found, now = campaign(world), world.now
    return world.read(lambda reader: reports.campaign_report(reader, found, now=now))


def explain(world: World, name: str, kind: str = "") -> dict[str, Any]:
    return world.read(
        lambda reader: explanations.explain(reader, name, now=world.now, kind=kind)
    )


def test_a_campaign_that_goes_on_is_no_problem() -> None:
    world = of(3)
    start(world)
    assert told(world) == []
    world.advance("20m")
    assert told(world) == []
    world.advance("1d")
    assert campaign(world).done == 3
    world.advance("3d")
    assert told(world) == [], "an ended campaign needs nobody"


def test_a_halt_is_a_problem_with_its_cause() -> None:
    world = of(3, failing=1)
    start(world, "[[campaign.stage]]\nhosts = 1\n")
    world.advance("40m")
    (found,) = problems(world)
    assert (found.kind.value, found.actions) == (
        "campaign-halted",
        ("campaign resume", "campaign abort"),
    )
    assert found.text == (
        "campaign bios was halted by itself: host h0000 failed, and no stage but the "
        "last one tolerates a failure"
    )
    assert found.hosts == ("h0000",)
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=True))
    assert [problem.kind.value for problem in problems(world)] == [
        "campaign-failed-hosts"
    ]


def test_a_host_that_fails_again_before_the_resumption_holds_its_stage() -> None:
    driver = SimulatedDriver()
    for vm, times in (("s0-0", 6), ("s1-1", 3)):
        fault = Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm=vm, times=times)
        driver.inject(fault)
    world = world_of([{f"s{number}": 0} for number in range(30)], driver=driver)
    budget = "[campaign.budget]\nin_flight = 5\n"
    start(
        world, budget + "[[campaign.stage]]\nhosts = 1\n[[campaign.stage]]\nhosts = 4\n"
    )
    world.advance("40m")
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=True))
    steer(world, lambda work: campaigns.retry(work, "bios", ()))
    world.advance("40m")
    assert campaign(world).halt is not None
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=True))
    world.advance("2h")
    assert campaign(world).failed_hosts == (name_of(0),)
    why = (
        "stage 1 of campaign bios has only a failed host left: `forewarn campaign retry "
        "bios --failed` tries it again, and `forewarn campaign skip bios HOST --reason "
        "TEXT` leaves it out"
    )
    assert told(world) == [("campaign-failed-hosts", why)]
    assert shown(world)["waits_for"] == why
    assert explain(world, "bios")["blocked_by"] == [why]
    assert why in explain(world, name_of(29))["blocked_by"], "a host of the last stage"
    steer(world, lambda work: campaigns.skip(work, "bios", [name_of(0)]))
    world.advance("40m")
    assert campaign(world).stage == 2


def test_a_stage_that_waits_for_its_approval_is_a_problem_after_its_soak() -> None:
    world = of(3)
    start(world, '[[campaign.stage]]\nhosts = 1\nsoak = "1h"\napproval = true\n')
    world.advance("50m")
    assert campaign(world).done == 1
    assert told(world) == []
    assert shown(world)["stages"][0]["soaks_until"]
    world.advance("1h")
    assert shown(world)["stages"][0]["soaks_until"] is None, "it waits for its approval"
    assert told(world) == [
        (
            "campaign-waits",
            (
                "stage 2 of campaign bios waits for an approval: `forewarn campaign "
                "approve bios 2`"
            ),
        )
    ]
    since = problems(world)[0].since
    world.advance("2d")
    assert problems(world)[0].since == since
    steer(world, lambda work: campaigns.approve(work, "bios", 2))
    assert told(world) == []


def test_failed_hosts_that_use_the_budget_are_a_problem() -> None:
    world = of(3, failing=2)
    start(world, TOLERANT)
    world.advance("40m")
    assert told(world) == [
        (
            "campaign-failed-hosts",
            (
                "campaign bios has one host in flight at a time: 2 failed hosts use its "
                "budget; `forewarn campaign retry bios --failed` tries them again, and "
                "`forewarn campaign skip bios HOST --reason TEXT` leaves them out"
            ),
        )
    ]
    world.advance("4h")
    assert told(world) == [
        (
            "campaign-failed-hosts",
            (
                "campaign bios has only 2 failed hosts left: `forewarn campaign retry "
                "bios --failed` tries them again, and `forewarn campaign skip bios HOST "
                "--reason TEXT` leaves them out"
            ),
        )
    ]


def test_no_progress_for_a_day_is_a_problem_but_a_pause_and_a_soak_are_not() -> None:
    driver = SimulatedDriver()
    world = world_of([{f"s{number}": 0} for number in range(3)], driver=driver)
    start(world, '[[campaign.stage]]\nhosts = 1\nsoak = "3d"\n')
    world.advance("2d")
    assert told(world) == [], "it soaks"
    steer(world, lambda work: campaigns.pause(work, "bios"))
    world.advance("3d")
    assert told(world) == [], "an operator pauses it"
    driver.inject(Fault(kind=FaultKind.UNKNOWN, times=9))
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=True))
    assert told(world) == []
    world.advance("1d")
    assert told(world) == []
    world.advance("2h")
    ((kind, text),) = told(world)
    assert kind == "campaign-stalled"
    assert text.startswith("campaign bios has made no progress since 2030-01-06T")
    assert text.endswith(": campaign bios: 1 of 1 hosts are in flight")


UNTIL_FRIDAY = (
    "campaign bios cannot announce a host for another day: host h0001 is the first that "
    "can go on, and waits: the maintenance window of scope s1 opens at "
    "2030-01-04T22:00:00Z; `forewarn explain h0001` shows all reasons, and `forewarn "
    "campaign skip bios h0001 --reason TEXT` leaves the host out"
)


def test_a_stage_that_only_a_window_of_a_tenant_holds_for_days_is_a_problem() -> None:
    world = of(3)
    # 2030-01-01 is a Tuesday.
    friday = windows.windows_of(["fri 22:00 4h"])
    world.order(lambda work: windows.set_windows(work, "s1", friday))
    start(world, "[[campaign.stage]]\nhosts = 2\n")
    world.advance("10m")
    assert told(world) == [], "the other host of the stage is in flight"
    world.advance("2h")
    assert campaign(world).done == 1
    (found,) = problems(world)
    assert found.kind.value == "campaign-stalled"
    assert found.text == UNTIL_FRIDAY
    assert found.actions == ("expedite", "window set", "campaign skip")
    steer(world, lambda work: campaigns.pause(work, "bios"))
    assert told(world) == [], "an operator pauses it"
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=True))
    world.advance("2d21h")
    assert told(world) == [], "less than a day is left"


@pytest.mark.parametrize("braked", [False, True])
def test_a_stage_that_windows_of_tenants_hold_names_them_outside_hours_of_the_campaign(
    *, braked: bool
) -> None:
    world = of(3)
    friday = windows.windows_of(["fri 22:00 4h"])
    world.order(lambda work: windows.set_windows(work, "s1", friday))
    nightly = '[[campaign.window]]\nstart = "22:00"\nlength = "4h"\n'
    start(world, nightly + "[[campaign.stage]]\nhosts = 2\n")
    world.advance("1d")
    assert campaign(world).done == 1
    if braked:
        world.order(brake.put_on, actor="bob", reason="power is unstable")
    world.advance("12h")
    assert told(world) == [("campaign-stalled", UNTIL_FRIDAY)]


def test_a_large_stage_is_held_until_the_first_of_all_its_hosts_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = of(21)
    friday, tuesday = map(windows.windows_of, (["fri 22:00 4h"], ["tue 12:00 4h"]))
    for number in range(21):
        world.order(partial(windows.set_windows, name=f"s{number}", windows=friday))
    start(world, ONE_STAGE)
    world.advance("10m")
    ((kind, _),) = told(world)
    assert kind == "campaign-stalled"
    with monkeypatch.context() as patch:
        patch.setattr(reports, "HELD_HOSTS_MAX", 20)
        assert told(world) == [], "it is unknown when the last host can begin"
    world.order(partial(windows.set_windows, name="s20", windows=tuesday))
    world.advance("1m")
    assert told(world) == [], "the last host begins today"


def test_a_host_of_a_campaign_says_so() -> None:
    world = of(2, failing=1)
    start(world, TOLERANT)
    assert "campaign bios has it to do" in explain(world, name_of(1))["status"]
    world.advance("40m")
    standing = explain(world, name_of(0))["status"]
    assert "it failed in campaign bios, which can retry or skip it" in standing


def test_a_host_of_a_later_stage_names_its_window_and_its_deferral() -> None:
    world = of(3)
    friday = windows.windows_of(["fri 22:00 4h"])
    world.order(lambda work: windows.set_windows(work, "s1", friday))
    start(world, "[[campaign.stage]]\nhosts = 1\n")
    world.order(
        lambda work: choices.defer(
            work, choices.target_of(work, "s2"), world.now + DAY
        ),
        reason="a reason",
    )
    stage = "stage 2 of campaign bios begins when 1 host of the stage before it is done"
    assert explain(world, name_of(1))["blocked_by"] == [
        stage,
        "the maintenance window of scope s1 opens at 2030-01-04T22:00:00Z",
    ]
    first, deferred = explain(world, name_of(2))["blocked_by"]
    assert first == stage
    assert deferred == "tenant shop has deferred scope s2 until 2030-01-02T00:00:00Z"


def test_a_campaign_is_explained_by_what_it_waits_for_and_its_hosts() -> None:
    world = of(30)
    start(world, "[campaign.budget]\nin_flight = 2\n[[campaign.stage]]\nhosts = 3\n")
    explanation = explain(world, "bios")
    assert (explanation["kind"], explanation["what"]) == ("campaign", "campaign bios")
    assert explanation["status"] == (
        "0 of 30 hosts are done, 1 in flight; it is in stage 1 of 2"
    )
    assert explanation["blocked_by"][0] == (
        "campaign bios: 1 of 1 hosts are in flight, growing to 2 as hosts are done"
    )
    shown = explanation["operations"]
    assert shown[0]["what"] == "maintain (reboot) of host h0000"
    assert len(shown) <= explanations.EXPLAINED_MAX
    assert explanation["more_operations"] == 30 - len(shown)
    for row in shown[1:]:
        assert set(row["blocked_by"]) - set(explanation["blocked_by"][:1]), row
    assert explanation["counts"] == {
        "Done": 0,
        "InFlight": 1,
        "Waiting": 29,
        "Deferred": 0,
        "Failed": 0,
        "Skipped": 0,
    }
    by_id = explain(world, campaign(world).campaign_id)
    assert by_id == explanation


def test_a_halted_campaign_is_explained_by_its_failure_and_no_waiting_host() -> None:
    world = of(30, failing=1)
    start(world, "[[campaign.stage]]\nhosts = 1\n")
    world.advance("40m")
    explanation = explain(world, "bios")
    assert explanation["status"] == (
        "0 of 30 hosts are done, 1 failed; it is in stage 1 of 2; host h0000 failed: "
        "the driver failed 3 times: a simulated fault"
    )
    assert len(explanation["blocked_by"]) == 1
    assert (explanation["operations"], explanation["more_operations"]) == ([], 29)


def test_an_ended_campaign_waits_for_nothing() -> None:
    world = of(2)
    start(world)
    world.advance("5h")
    explanation = explain(world, "bios")
    assert (
        explanation["state"],
        explanation["blockers"],
        explanation["operations"],
    ) == ("Done", [], [])


def test_a_name_of_a_host_and_a_campaign_needs_its_kind() -> None:
    world = of(2)
    start(world, name="h0001")
    with pytest.raises(RefusedError, match="the name of a host and of a campaign"):
        explain(world, "h0001")
    assert explain(world, "h0001", "campaign")["kind"] == "campaign"
    assert explain(world, "h0001", "host")["kind"] == "host"
    with pytest.raises(NotFoundError):
        explain(world, "h0001", "vm")


def test_retention_keeps_what_can_be_retried_and_deletes_ended_campaigns() -> None:
    world = of(2, failing=1)
    start(world, TOLERANT)
    world.advance("4h")
    assert campaign(world).failed_hosts == (name_of(0),)
    world.advance("40d")
    world.settle()
    assert [operation.host for operation in world.operations()] == [name_of(0)]
    steer(world, lambda work: campaigns.retry(work, "bios", []))
    world.advance("4h")
    assert campaign(world).has_ended
    world.advance("31d")
    world.settle()
    assert world.operations() == []
    with pytest.raises(NotFoundError):
        campaign(world)
