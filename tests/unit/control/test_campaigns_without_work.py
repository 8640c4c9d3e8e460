"""A campaign that does nothing on its hosts says so, and one that does nothing is refused."""

import json
from typing import Any

import pytest

from forewarn.campaigns.text import CampaignText
from forewarn.cli.campaigns import show_campaign
from forewarn.control.requests import campaign_starts
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.host_steps import NO_STEPS
from forewarn.reporting import campaign_plans
from forewarn.reporting.campaigns import campaign_report
from tests.support.campaigns import ONE_STAGE, campaign, file_of, start
from tests.support.rollouts import world_of
from tests.support.worlds import World

WORK = '[campaign.steps]\nwork = { step = "flash" }\n' + ONE_STAGE

REBOOTS = (
    "there is no step work: the VMs are restarted one by one, and no host is rebooted: for "
    "that, add [host_step.reboot-host] to forewarn.toml, or a step work to [campaign.steps]"
)


def plan(
    world: World, more: str = ONE_STAGE, *, impact: str = "reboot"
) -> dict[str, Any]:
    text = CampaignText(name="c.toml", text=file_of(more, impact=impact))
    request = campaign_starts.plan_request(
        text,
        world.plane.policy,
        now=world.now,
        host_steps=world.driver.host_steps(),
    )
    return json.loads(
        world.read(lambda reader: campaign_plans.planned(reader, request).text)
    )


def report(world: World) -> dict[str, Any]:
    planned = campaign(world)
    return world.read(lambda reader: campaign_report(reader, planned, now=world.now))


@pytest.mark.parametrize(
    ("impact", "does"),
    [
        ("freeze", "the VMs are paused and resumed, and nothing is done on the hosts"),
        ("live-migrate", "the hosts are emptied and opened again, and nothing is done"),
        ("redeploy", "the hosts are emptied and opened again, and nothing is done"),
    ],
)
def test_plan_and_show_say_what_a_campaign_without_work_does(
    impact: str, does: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world = world_of([{"a": 0}, {"b": 0}])
    warning = plan(world, impact=impact)["warnings"][0]
    assert warning.startswith(f"there is no step work: {does}")
    start(world, ONE_STAGE, impact=impact)
    assert report(world)["warnings"] == [warning]
    show_campaign(report(world))
    assert "warning: there is no step work" in capsys.readouterr().out


def test_a_reboot_without_work_reboots_no_host() -> None:
    world = world_of([{"a": 0}, {}], driver=SimulatedDriver(steps=NO_STEPS))
    planned = plan(world)
    assert planned["warnings"][:2] == [
        REBOOTS,
        "nothing at all is done on 1 host without VMs",
    ]


def test_a_campaign_with_work_has_no_such_warning() -> None:
    world = world_of([{"a": 0}, {}])
    assert not any(
        "no step work" in warning for warning in plan(world, WORK)["warnings"]
    )
    start(world, WORK, impact="live-migrate")
    assert report(world)["warnings"] == []


def test_a_campaign_that_would_do_nothing_at_all_is_refused() -> None:
    world = world_of([{}, {}])
    with pytest.raises(RefusedError, match="campaign bios would do nothing") as no:
        plan(world, impact="live-migrate")
    assert no.value.hint == "Add a step work to [campaign.steps]."
    with pytest.raises(RefusedError, match="would do nothing"):
        start(world, impact="live-migrate")
    assert plan(world, WORK, impact="live-migrate")["host_count"] == 2
