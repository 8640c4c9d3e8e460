"""A page shows why a campaign waits without commands: it has buttons for them."""

from typing import Any

import pytest

from forewarn.protocol.turn_blockers import (
    BudgetKind,
    BudgetUsed,
    CampaignStopped,
    HostInUse,
    ScopeInUse,
    StageWaits,
    TurnBlocker,
)
from forewarn.reporting.campaigns import campaign_report
from forewarn.wording import rollouts
from tests.support.campaigns import campaign, start
from tests.support.worlds import World
from tests.unit.control.test_campaign_tree import TWO_AT_ONCE, world_of


def used(budget: BudgetKind, **more: Any) -> BudgetUsed:
    return BudgetUsed(
        campaign="bios", budget=budget, used=32, most=32, subject="rack=r7", **more
    )


DOWN = ScopeInUse(scope="web", fault_domain=1, operation="op-1", down="web_0")

SHORT: list[tuple[TurnBlocker, str]] = [
    (
        used(BudgetKind.IN_FLIGHT, failed=1, ramps_to=40),
        (
            "32 of 32 hosts are in flight, growing to 40 as hosts are done; "
            "a failed host takes a place"
        ),
    ),
    (
        used(BudgetKind.GROUP, failed=2),
        "32 of 32 hosts of rack=r7 are in flight; failed hosts take places",
    ),
    (
        used(BudgetKind.UNAVAILABLE, cordoned=1),
        "32 of 32 hosts are away for any cause",
    ),
    (
        StageWaits(campaign="bios", stage=2, needs_approval=True),
        "stage 2 of campaign bios needs an approval",
    ),
    (
        StageWaits(campaign="bios", stage=2, left=3, failed=1),
        "stage 2 of campaign bios begins when 3 hosts of the stage before it are done",
    ),
    (StageWaits(campaign="bios", stage=2, left=1, failed=1), "only a failed host left"),
    (HostInUse(host="h1"), "host h1 is down"),
    (
        CampaignStopped(campaign="bios", is_halted=True, by="alice", reason="a smell"),
        "campaign bios is halted by alice: a smell",
    ),
    (DOWN, "fault domain 1 of scope web is down, and only one at a time is allowed"),
]


@pytest.mark.parametrize(("blocker", "short"), SHORT)
def test_short_reason_has_no_command_and_the_long_one_has(
    blocker: TurnBlocker, short: str
) -> None:
    assert rollouts.shortly(blocker) == short
    assert "`forewarn " in rollouts.turn(blocker)


def test_campaign_tells_both() -> None:
    service: World = world_of()
    start(service, TWO_AT_ONCE)
    found = service.read(
        lambda reader: campaign_report(reader, campaign(service), now=service.now)
    )
    assert found["waits_for"].startswith("campaign bios: 1 of 1 hosts are in flight")
    assert found["waits_shortly"] == found["waits_for"].removeprefix("campaign bios: ")
