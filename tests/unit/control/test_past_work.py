"""A plan takes durations and notices from the work that the fleet has had."""

import json
from typing import Any

import pytest

from forewarn.campaigns.model import Impact
from forewarn.campaigns.text import CampaignText
from forewarn.cli.campaign_plan import show
from forewarn.control.requests import campaign_starts
from forewarn.control.rules import past_work
from forewarn.instants import MINUTE, SECOND
from forewarn.reporting import campaign_plans
from tests.support.campaigns import ONE_STAGE, campaign, file_of, start
from tests.support.rollouts import world_of
from tests.support.worlds import World

HOSTS = 12


def plan(
    world: World, more: str = ONE_STAGE, *, impact: str = "reboot"
) -> dict[str, Any]:
    text = CampaignText(name="c.toml", text=file_of(more, impact=impact, name="next"))
    request = campaign_starts.plan_request(text, world.plane.policy, now=world.now)
    return json.loads(
        world.read(lambda reader: campaign_plans.planned(reader, request).text)
    )


def of(hosts: int) -> World:
    return world_of([{f"s{number}": 0} for number in range(hosts)])


def test_a_plan_without_past_work_uses_the_durations_of_the_file() -> None:
    world = of(3)
    found = plan(world)
    assert found["measured"] is None
    assert any("durations are assumed" in warning for warning in found["warnings"])
    start(world)
    world.advance("1d")
    assert plan(world)["measured"] is None, "three hosts are too few"


def test_a_plan_uses_the_measured_durations_of_the_same_impact() -> None:
    world = of(HOSTS)
    start(world, "[campaign.budget]\nin_flight = 6\n" + ONE_STAGE)
    world.advance("2d")
    assert campaign(world).done == HOSTS
    found = plan(world)
    measured = found["measured"]
    assert measured["hosts"] == HOSTS
    # The simulated driver reboots in a minute, and nobody approves early.
    assert measured["work_typical_seconds"] == measured["work_slow_seconds"] == 60
    assert measured["notice_slow_seconds"] == 15 * 60
    assert found["warnings"][-1:] == [
        "there is no window: hosts would be announced at once"
    ]
    assert not any("durations are assumed" in warning for warning in found["warnings"])
    assert found["typical"]["ends"] == found["slow"]["ends"]
    assert plan(world, impact="freeze")["measured"] is None


def test_measured_durations_decide_what_fits_before_a_window_closes() -> None:
    world = of(HOSTS)
    start(world, "[campaign.budget]\nin_flight = 6\n" + ONE_STAGE)
    world.advance("2d")
    second = start(world, ONE_STAGE, name="second")
    assert second.slow == 60_000_000


FLASH = """
[campaign.steps]
work = { step = "flash" }
[campaign.expect]
typical = "32m"
slow = "44m"
"""


def test_other_work_with_the_same_impact_is_not_measured() -> None:
    world = of(HOSTS)
    drained = "[campaign.budget]\nin_flight = 6\n" + ONE_STAGE
    start(world, drained, impact="live-migrate")
    world.advance("2d")
    assert campaign(world).done == HOSTS
    assert plan(world, impact="live-migrate")["measured"]["step"] == ""
    assert plan(world, FLASH + ONE_STAGE, impact="live-migrate")["measured"] is None
    second = start(world, FLASH + ONE_STAGE, name="second", impact="live-migrate")
    assert second.slow == 44 * MINUTE


def test_slow_time_of_the_file_is_a_lower_bound_of_the_measured_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = of(HOSTS)
    start(
        world, "[campaign.budget]\nin_flight = 6\n" + FLASH + ONE_STAGE, impact="none"
    )
    world.advance("2d")
    assert campaign(world).done == HOSTS
    found = plan(world, FLASH + ONE_STAGE, impact="none")
    measured = found["measured"]
    assert measured["step"] == "flash"
    assert measured["work_slow_seconds"] < 44 * 60 == measured["slow_used_seconds"]
    show(found, with_all=False)
    (line,) = (
        line for line in capsys.readouterr().out.splitlines() if "measured on" in line
    )
    assert "step flash typically 1 m," in line
    assert "(the plan uses 44 m, as the file says)" in line


def test_past_work_does_not_change_the_digest_of_a_plan() -> None:
    world = of(HOSTS)
    before = plan(world)["digest"]
    start(world, "[campaign.budget]\nin_flight = 6\n" + ONE_STAGE)
    world.advance("2d")
    assert plan(world)["digest"] == before


def test_early_approvals_shorten_the_forecast() -> None:
    world = of(HOSTS)
    vms = [world.vm(f"s{number}-{number}") for number in range(HOSTS)]
    for vm in vms:
        vm.get()
    start(world, ONE_STAGE)
    for _ in range(400):
        for vm in vms:
            for event in vm.get().events:
                if event["EventStatus"] == "Scheduled":
                    vm.approve(event["EventId"])
        world.advance("1m")
        if campaign(world).has_ended:
            break
    assert campaign(world).done == HOSTS
    found = plan(world)
    assert found["measured"]["notice_slow_seconds"] <= 60
    quick = found["typical"]["seconds"]
    assert quick < HOSTS * 15 * 60, "less than their notices"


STEPS = "[campaign.steps]\n" + "".join(
    f'{name} = {{ step = "{name}" }}\n' for name in ("needed", "work", "verify")
)


def test_work_with_host_steps_is_measured_from_its_start_to_the_last_step() -> None:
    world = of(HOSTS)
    start(
        world,
        "[campaign.budget]\nin_flight = 6\n" + ONE_STAGE + STEPS,
        impact="live-migrate",
    )
    world.advance("2d")
    assert campaign(world).done == HOSTS
    samples = world.read(lambda reader: past_work.samples(reader, Impact.LIVE_MIGRATE))
    assert len(samples) == HOSTS
    times = world.plane.policy
    move = 5 * SECOND  # of the simulated driver
    steps = MINUTE + times.verify_times * MINUTE + times.verify_settle
    for sample in samples:
        # The step `needed` runs before the notice.
        assert sample.needed == MINUTE
        # VMs that moved there from other hosts move once more.
        assert sample.moving
        assert sample.moving % move == 0
        assert sample.work == sample.moving + steps
        assert sample.notice == times.freeze_notice
