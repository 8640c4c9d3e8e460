"""The approval of the next stage: after the result of the current one, and until a halt."""

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import campaigns
from forewarn.protocol.errors import RefusedError
from forewarn.reporting.campaigns import campaign_report
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind
from forewarn.wording import operators
from tests.support.campaigns import (
    ONE_STAGE,
    campaign,
    in_work,
    start,
    steer,
    waits_for,
)
from tests.support.rollouts import name_of
from tests.unit.control.test_campaigns import of

APPROVED = '[[campaign.stage]]\nhosts = 2\nsoak = "2h"\napproval = true\n'


def test_an_approval_before_the_result_of_the_stage_is_refused() -> None:
    world = of(3)
    start(world, APPROVED)
    with pytest.raises(RefusedError, match=r"2 hosts of stage 1 left") as refused:
        steer(world, lambda work: campaigns.approve(work, "bios", 2))
    assert "`forewarn campaign show bios`" in refused.value.hint
    world.advance("30m")
    assert campaign(world).done == 1
    with pytest.raises(
        RefusedError, match=r"cannot be approved yet: 1 host of stage 1"
    ):
        steer(world, lambda work: campaigns.approve(work, "bios", 2))
    # A host that is left out has its result too.
    steer(world, lambda work: campaigns.halt(work, "bios"))
    steer(world, lambda work: campaigns.skip(work, "bios", [name_of(1)]))
    steer(world, lambda work: campaigns.approve(work, "bios", 2))
    assert campaign(world).is_approved


def test_a_halt_withdraws_the_approval_of_a_stage_that_has_not_begun() -> None:
    world = of(3)
    start(world, APPROVED)
    world.advance("1h30m")
    assert campaign(world).done == 2
    steer(world, lambda work: campaigns.approve(work, "bios", 2))
    steer(world, lambda work: campaigns.halt(work, "bios"), reason="VMs crash")
    assert not campaign(world).is_approved
    [halted] = (
        operators.detail_of(entry)
        for entry in world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
        if entry.kind is AuditKind.CAMPAIGN_HALTED
    )
    assert halted == "the approval of stage 2 is withdrawn"
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    world.advance("1d")
    assert in_work(world) == []
    assert "stage 2 of campaign bios needs an approval" in waits_for(world)
    steer(world, lambda work: campaigns.approve(work, "bios", 2))
    assert in_work(world) == [name_of(2)]


def test_done_hosts_and_ended_campaigns_say_so() -> None:
    world = of(3)
    start(world, APPROVED)
    world.advance("30m")
    assert campaign(world).done == 1
    with pytest.raises(
        RefusedError, match=f"host {name_of(0)} is done in campaign bios"
    ):
        steer(world, lambda work: campaigns.skip(work, "bios", [name_of(0)]))
    steer(world, lambda work: campaigns.halt(work, "bios"))
    left = [name_of(1), name_of(2)]
    steer(world, lambda work: campaigns.skip(work, "bios", left))
    row = campaign(world)
    assert row.state is CampaignState.DONE
    told = world.read(lambda reader: campaign_report(reader, row, now=world.now))
    assert told["halted"] is None, "it ended"


def test_more_hosts_in_flight_than_a_smaller_ramp_allows() -> None:
    world = of(8)
    start(world, "[campaign.budget]\nin_flight = 4\n" + ONE_STAGE)
    world.advance("30m")
    assert len(in_work(world)) == 2
    steer(world, lambda work: campaigns.pause(work, "bios"))
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    assert waits_for(world).startswith(
        "campaign bios: 2 hosts are in flight, and now at most 1 can be, growing to 4"
    )


def test_a_pause_keeps_an_approval() -> None:
    world = of(3)
    start(world, APPROVED)
    world.advance("1h30m")
    steer(world, lambda work: campaigns.approve(work, "bios", 2))
    steer(world, lambda work: campaigns.pause(work, "bios"))
    world.advance("3h")
    assert in_work(world) == []
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    assert in_work(world) == [name_of(2)]
