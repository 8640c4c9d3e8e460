"""Plans around blackouts of a part of the fleet: other hosts go first."""

from dataclasses import replace

import pytest

from forewarn.campaigns.model import Amount, Budget, Campaign, Stage
from forewarn.campaigns.part_blackouts import PartBlackout, stopped_parts
from forewarn.campaigns.planner import CampaignPlan
from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.windows import Window
from forewarn.instants import DAY, HOUR
from forewarn.protocol.errors import RefusedError
from forewarn.wording import campaigns as wording
from tests.support.campaign_checker import check
from tests.unit.campaigns.test_plans import (
    CAMPAIGN,
    NOW,
    SMALL,
    TERMS,
    blackout,
    planned,
)

EVERY_DAY = (0, 1, 2, 3, 4, 5, 6)
R0 = (("rack", "r0"),)
ONE_STAGE = replace(CAMPAIGN, stages=(), budget=Budget(in_flight=Amount(value=1)))


def plan_with(*parts: PartBlackout, campaign: Campaign = ONE_STAGE) -> CampaignPlan:
    terms = replace(TERMS, parts=parts)
    plan = planned(campaign, SMALL, terms)
    if not campaign.is_emergency:
        check(plan, SMALL, terms)
    return plan


def at(plan: CampaignPlan, rack: str) -> list[int]:
    """Return when the hosts of a rack are announced."""
    return [
        begins
        for host, begins in zip(plan.hosts, plan.typical.begins, strict=True)
        if SMALL.hosts[host].rack == rack
    ]


def test_hosts_elsewhere_go_before_those_in_the_blackout() -> None:
    plan = plan_with(PartBlackout(time=blackout(-1, 25), places=R0))
    usual = plan_with()
    assert min(at(plan, "r0")) >= NOW + DAY
    # The places of the two hosts are taken by others meanwhile.
    others = sorted(at(plan, "r1") + at(plan, "r2"))
    assert others == sorted(usual.typical.begins)[: len(others)]
    assert [clash.name for clash in plan.blackouts] == ["freeze"]
    assert "blackout freeze of rack=r0 stops 2 of 6 hosts" in wording.warnings(plan)


def test_stage_waits_for_its_hosts_in_the_blackout() -> None:
    staged = replace(ONE_STAGE, stages=(Stage(hosts=Amount(value=1), soak=HOUR),))
    plan = plan_with(PartBlackout(time=blackout(-1, 25), places=R0), campaign=staged)
    assert SMALL.hosts[plan.hosts[0]].rack == "r0"
    assert min(plan.typical.begins) == NOW + DAY


def test_blackouts_at_a_place_add_up() -> None:
    plan = plan_with(
        PartBlackout(time=blackout(-1, 11), places=R0),
        PartBlackout(time=blackout(10, 10), places=(("rack", "r0"), ("rack", "r1"))),
    )
    assert min(at(plan, "r0")) >= NOW + 20 * HOUR
    assert min(at(plan, "r1")) < NOW + 10 * HOUR


def test_blackout_of_other_hosts_is_not_in_the_plan() -> None:
    elsewhere = PartBlackout(time=blackout(-1, 25), places=(("zone", "z9"),))
    assert stopped_parts(SMALL.mapped(), range(6), [elsewhere]) == ()
    assert plan_with(elsewhere).blackouts == ()


def test_emergency_ignores_them() -> None:
    plan = plan_with(
        PartBlackout(time=blackout(-1, 25), places=R0),
        campaign=replace(ONE_STAGE, is_emergency=True),
    )
    assert plan.all_blackouts == ()
    assert plan.typical == plan_with().typical


def test_hosts_that_are_never_free_refuse_the_plan() -> None:
    whole_days = Window(days=EVERY_DAY, start=0, length=DAY, timezone="UTC")
    part = PartBlackout(time=Blackout(name="all", window=whole_days), places=R0)
    with pytest.raises(
        RefusedError, match="no opening ever comes for 2 hosts"
    ) as raised:
        plan_with(part)
    assert "blackout all leaves no time" in raised.value.message
    assert "`forewarn blackout remove all --reason TEXT`" in raised.value.hint
    assert "select] except" in raised.value.hint
