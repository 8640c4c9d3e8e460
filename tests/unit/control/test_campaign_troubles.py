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
    return [each for each in found if each.campaign]


def told(world: World) -> list[tuple[str, str]]:
    return [(each.kind.value, each.text) for each in problems(world)]


def shown(world: World) -> dict[str, Any]:
    """Return the report of the campaign."""
    found, now = campaign(world), world.now
    return world.read(lambda reader: reports.campaign_report(reader, found, now=now))


def explain(world: World, name: str, kind: str = "") -> dict[str, Any]:
    return world.read(
        lambda reader: explanations.explain(reader, name, now=world.now, kind=kind)
    )


def test_a_campaign_that_goes_on_is_no_problem() -> None:
    it = of(3)
    start(it)
    assert told(it) == []
    it.advance("20m")
    assert told(it) == []
    it.advance("1d")
    assert campaign(it).done == 3
    it.advance("3d")
    assert told(it) == [], "an ended campaign needs nobody"


def test_a_halt_is_a_problem_with_its_cause() -> None:
    it = of(3, failing=1)
    start(it, "[[campaign.stage]]\nhosts = 1\n")
    it.advance("40m")
    (found,) = problems(it)
    assert (found.kind.value, found.actions) == (
        "campaign-halted",
        ("campaign resume", "campaign abort"),
    )
    assert found.text == (
        "campaign bios was halted by driver: host h0000 failed, and no stage but the "
        "last one tolerates a failure"
    )
    assert found.hosts == ("h0000",)
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=True))
    assert [each.kind.value for each in problems(it)] == ["campaign-failed-hosts"]


def test_a_host_that_fails_again_before_the_resumption_holds_its_stage() -> None:
    driver = SimulatedDriver()
    for vm, times in (("s0-0", 6), ("s1-1", 3)):
        fault = Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm=vm, times=times)
        driver.inject(fault)
    it = world_of([{f"s{number}": 0} for number in range(30)], driver=driver)
    budget = "[campaign.budget]\nin_flight = 5\n"
    start(it, budget + "[[campaign.stage]]\nhosts = 1\n[[campaign.stage]]\nhosts = 4\n")
    it.advance("40m")
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=True))
    steer(it, lambda work: campaigns.retry(work, "bios", ()))
    it.advance("40m")
    assert campaign(it).halt is not None
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=True))
    it.advance("2h")
    assert campaign(it).failed_hosts == (name_of(0),)
    why = (
        "stage 1 of campaign bios has only a failed host left: `forewarn campaign retry "
        "bios --failed` tries it again, and `forewarn campaign skip bios HOST --reason "
        "TEXT` leaves it out"
    )
    assert told(it) == [("campaign-failed-hosts", why)]
    assert shown(it)["waits_for"] == why
    assert explain(it, "bios")["blocked_by"] == [why]
    assert why in explain(it, name_of(29))["blocked_by"], "a host of the last stage"
    steer(it, lambda work: campaigns.skip(work, "bios", [name_of(0)]))
    it.advance("40m")
    assert campaign(it).stage == 2


def test_a_stage_that_waits_for_its_approval_is_a_problem_after_its_soak() -> None:
    it = of(3)
    start(it, '[[campaign.stage]]\nhosts = 1\nsoak = "1h"\napproval = true\n')
    it.advance("50m")
    assert campaign(it).done == 1
    assert told(it) == []
    assert shown(it)["stages"][0]["soaks_until"]
    it.advance("1h")
    assert shown(it)["stages"][0]["soaks_until"] is None, "it waits for its approval"
    assert told(it) == [
        (
            "campaign-waits",
            (
                "stage 2 of campaign bios waits for an approval: `forewarn campaign "
                "approve bios 2`"
            ),
        )
    ]
    since = problems(it)[0].since
    it.advance("2d")
    assert problems(it)[0].since == since
    steer(it, lambda work: campaigns.approve(work, "bios", 2))
    assert told(it) == []


def test_failed_hosts_that_use_the_budget_are_a_problem() -> None:
    it = of(3, failing=2)
    start(it, TOLERANT)
    it.advance("40m")
    assert told(it) == [
        (
            "campaign-failed-hosts",
            (
                "campaign bios has one host in flight at a time: 2 failed hosts use its "
                "budget; `forewarn campaign retry bios --failed` tries them again, and "
                "`forewarn campaign skip bios HOST --reason TEXT` leaves them out"
            ),
        )
    ]
    it.advance("4h")
    assert told(it) == [
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
    it = world_of([{f"s{number}": 0} for number in range(3)], driver=driver)
    start(it, '[[campaign.stage]]\nhosts = 1\nsoak = "3d"\n')
    it.advance("2d")
    assert told(it) == [], "it soaks"
    steer(it, lambda work: campaigns.pause(work, "bios"))
    it.advance("3d")
    assert told(it) == [], "an operator pauses it"
    driver.inject(Fault(kind=FaultKind.UNKNOWN, times=9))
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=True))
    assert told(it) == []
    it.advance("1d")
    assert told(it) == []
    it.advance("2h")
    ((kind, text),) = told(it)
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
    it = of(3)
    # 2030-01-01 is a Tuesday.
    friday = windows.windows_of(["fri 22:00 4h"])
    it.order(lambda work: windows.set_windows(work, "s1", friday))
    start(it, "[[campaign.stage]]\nhosts = 2\n")
    it.advance("10m")
    assert told(it) == [], "the other host of the stage is in flight"
    it.advance("2h")
    assert campaign(it).done == 1
    (found,) = problems(it)
    assert found.kind.value == "campaign-stalled"
    assert found.text == UNTIL_FRIDAY
    assert found.actions == ("expedite", "window set", "campaign skip")
    steer(it, lambda work: campaigns.pause(work, "bios"))
    assert told(it) == [], "an operator pauses it"
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=True))
    it.advance("2d21h")
    assert told(it) == [], "less than a day is left"


@pytest.mark.parametrize("braked", [False, True])
def test_a_stage_that_windows_of_tenants_hold_names_them_outside_hours_of_the_campaign(
    *, braked: bool
) -> None:
    it = of(3)
    friday = windows.windows_of(["fri 22:00 4h"])
    it.order(lambda work: windows.set_windows(work, "s1", friday))
    nightly = '[[campaign.window]]\nstart = "22:00"\nlength = "4h"\n'
    start(it, nightly + "[[campaign.stage]]\nhosts = 2\n")
    it.advance("1d")
    assert campaign(it).done == 1
    if braked:
        it.order(brake.put_on, actor="bob", reason="power is unstable")
    it.advance("12h")
    assert told(it) == [("campaign-stalled", UNTIL_FRIDAY)]


def test_a_large_stage_is_held_until_the_first_of_all_its_hosts_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = of(21)
    friday, tuesday = map(windows.windows_of, (["fri 22:00 4h"], ["tue 12:00 4h"]))
    for each in range(21):
        it.order(partial(windows.set_windows, name=f"s{each}", windows=friday))
    start(it, ONE_STAGE)
    it.advance("10m")
    ((kind, _),) = told(it)
    assert kind == "campaign-stalled"
    with monkeypatch.context() as patch:
        patch.setattr(reports, "HELD_HOSTS_MAX", 20)
        assert told(it) == [], "it is unknown when the last host can begin"
    it.order(partial(windows.set_windows, name="s20", windows=tuesday))
    it.advance("1m")
    assert told(it) == [], "the last host begins today"


def test_a_host_of_a_campaign_says_so() -> None:
    it = of(2, failing=1)
    start(it, TOLERANT)
    assert "campaign bios has it to do" in explain(it, name_of(1))["standing"]
    it.advance("40m")
    standing = explain(it, name_of(0))["standing"]
    assert "it failed in campaign bios, which can retry or skip it" in standing


def test_a_host_of_a_later_stage_names_its_window_and_its_deferral() -> None:
    it = of(3)
    friday = windows.windows_of(["fri 22:00 4h"])
    it.order(lambda work: windows.set_windows(work, "s1", friday))
    start(it, "[[campaign.stage]]\nhosts = 1\n")
    it.order(
        lambda work: choices.defer(work, choices.target_of(work, "s2"), it.now + DAY),
        reason="a reason",
    )
    stage = "stage 2 of campaign bios begins when 1 host of the stage before it is done"
    assert explain(it, name_of(1))["blocked_by"] == [
        stage,
        "the maintenance window of scope s1 opens at 2030-01-04T22:00:00Z",
    ]
    first, deferred = explain(it, name_of(2))["blocked_by"]
    assert first == stage
    assert deferred == "tenant shop has deferred scope s2 until 2030-01-02T00:00:00Z"


def test_a_campaign_is_explained_by_what_it_waits_for_and_its_hosts() -> None:
    it = of(30)
    start(it, "[campaign.budget]\nin_flight = 2\n[[campaign.stage]]\nhosts = 3\n")
    found = explain(it, "bios")
    assert (found["kind"], found["what"]) == ("campaign", "campaign bios")
    assert found["standing"] == (
        "0 of 30 hosts are done, 1 in flight; it is in stage 1 of 2"
    )
    assert found["blocked_by"][0] == (
        "campaign bios: 1 of 1 hosts are in flight, growing to 2 as hosts are done"
    )
    shown = found["operations"]
    assert shown[0]["what"] == "maintain (reboot) of host h0000"
    assert len(shown) <= explanations.EXPLAINED_MAX
    assert found["more_operations"] == 30 - len(shown)
    for each in shown[1:]:
        assert set(each["blocked_by"]) - set(found["blocked_by"][:1]), each
    assert found["counts"] == {
        "Done": 0,
        "InFlight": 1,
        "Waiting": 29,
        "Deferred": 0,
        "Failed": 0,
        "Skipped": 0,
    }
    by_id = explain(it, campaign(it).campaign_id)
    assert by_id == found


def test_a_halted_campaign_is_explained_by_its_failure_and_no_waiting_host() -> None:
    it = of(30, failing=1)
    start(it, "[[campaign.stage]]\nhosts = 1\n")
    it.advance("40m")
    found = explain(it, "bios")
    assert found["standing"] == (
        "0 of 30 hosts are done, 1 failed; it is in stage 1 of 2; host h0000 failed: "
        "the driver failed 3 times: a simulated fault"
    )
    assert len(found["blocked_by"]) == 1
    assert (found["operations"], found["more_operations"]) == ([], 29)


def test_an_ended_campaign_waits_for_nothing() -> None:
    it = of(2)
    start(it)
    it.advance("5h")
    found = explain(it, "bios")
    assert (found["state"], found["blockers"], found["operations"]) == ("Done", [], [])


def test_a_name_of_a_host_and_a_campaign_needs_its_kind() -> None:
    it = of(2)
    start(it, name="h0001")
    with pytest.raises(RefusedError, match="the name of a host and of a campaign"):
        explain(it, "h0001")
    assert explain(it, "h0001", "campaign")["kind"] == "campaign"
    assert explain(it, "h0001", "host")["kind"] == "host"
    with pytest.raises(NotFoundError):
        explain(it, "h0001", "vm")


def test_retention_keeps_what_can_be_retried_and_deletes_ended_campaigns() -> None:
    it = of(2, failing=1)
    start(it, TOLERANT)
    it.advance("4h")
    assert campaign(it).failed_hosts == (name_of(0),)
    it.advance("40d")
    it.settle()
    assert [each.host for each in it.operations()] == [name_of(0)]
    steer(it, lambda work: campaigns.retry(work, "bios", []))
    it.advance("4h")
    assert campaign(it).has_ended
    it.advance("31d")
    it.settle()
    assert it.operations() == []
    with pytest.raises(NotFoundError):
        campaign(it)
