"""An emergency that one operator orders begins when another one releases it."""

from pathlib import Path

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import campaigns
from forewarn.control.requests.verbs.changes import OrderOptions, maintain
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action
from forewarn.reporting.attention import problems
from forewarn.reporting.campaigns import campaign_report
from forewarn.reporting.problem import ProblemKind
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind
from forewarn.store.sqlite import SqliteStore
from tests.support.campaigns import (
    ONE_STAGE,
    announced,
    campaign,
    start,
    steer,
    waits_for,
)
from tests.support.rollouts import fleet
from tests.support.worlds import World
from tests.unit.control.test_emergency_campaigns import EMERGENCY, world

NEEDED = (
    "stage 1 of campaign bios needs an approval: `forewarn campaign approve bios 1`"
)


def strict(hosts: int = 3) -> World:
    return world(hosts, Policy(second_person=True))


def approve(it: World, stage: int, *, actor: str) -> None:
    steer(it, lambda work: campaigns.approve(work, "bios", stage), actor=actor)


def entries(it: World, kind: AuditKind) -> list[str]:
    """Return the actors of the history entries of a kind."""
    return [
        each.actor.text
        for each in it.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
        if each.kind is kind
    ]


def is_released(it: World) -> bool:
    found = campaign(it)
    report = it.read(lambda reader: campaign_report(reader, found, now=it.now))
    return report["released"]


def test_nothing_is_announced_before_another_operator_releases_it() -> None:
    it = strict()
    start(it, EMERGENCY + ONE_STAGE)
    it.advance("3h")
    assert announced(it) == []
    assert waits_for(it) == NEEDED
    assert it.explain(it.operations()[0].operation_id) == [NEEDED]
    assert not is_released(it)
    with pytest.raises(RefusedError, match="alice started the campaign and cannot"):
        approve(it, 1, actor="alice")
    assert announced(it) == []
    approve(it, 1, actor="bob")
    assert is_released(it)
    assert len(announced(it)) == 1
    assert entries(it, AuditKind.CAMPAIGN_STARTED) == ["alice"]
    assert entries(it, AuditKind.CAMPAIGN_STAGE_APPROVED) == ["bob"]
    assert len(entries(it, AuditKind.CAMPAIGN_APPROVAL_NEEDED)) == 1
    with pytest.raises(RefusedError, match="stage 1 cannot be approved"):
        approve(it, 1, actor="bob")


def test_only_its_first_stage_releases_it_and_a_resumption_does_not() -> None:
    it = strict()
    start(it, EMERGENCY + ONE_STAGE)
    with pytest.raises(RefusedError, match="has not begun, so stage 2") as refused:
        approve(it, 2, actor="bob")
    assert "`forewarn campaign approve bios 1`" in refused.value.hint
    steer(it, lambda work: campaigns.pause(work, "bios"), actor="alice")
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=True), actor="alice")
    assert announced(it) == []
    # It can be ended without a release.
    steer(it, lambda work: campaigns.abort(work, "bios"), actor="alice")
    assert campaign(it).state is CampaignState.ABORTED


def test_a_restart_keeps_it_waiting(tmp_path: Path) -> None:
    it = World(
        store=lambda: SqliteStore(tmp_path / "store.db"),
        driver=SimulatedDriver(),
        fleet=fleet([{"s0": 0}, {"s1": 0}]),
        policy=Policy(second_person=True),
    )
    start(it, EMERGENCY + ONE_STAGE)
    it.restart()
    it.advance("1h")
    assert announced(it) == []
    approve(it, 1, actor="bob")
    assert len(announced(it)) == 1


def test_problems_list_the_release_that_is_needed() -> None:
    it = strict()
    start(it, EMERGENCY + ONE_STAGE)
    found = it.read(lambda reader: problems(reader, now=it.now))
    (waits,) = [each for each in found if each.kind is ProblemKind.CAMPAIGN_WAITS]
    assert waits.since == campaign(it).created


def test_it_holds_up_no_routine_campaign_before_its_release() -> None:
    it = strict(4)
    start(it, ONE_STAGE, name="routine")
    start(it, EMERGENCY + ONE_STAGE)
    # The window of a tenant on one of the hosts opens in twelve hours.
    it.advance("2d")
    routine = campaign(it, "routine")
    assert (routine.state, routine.done) == (CampaignState.DONE, 4)
    assert campaign(it).done == 0
    approve(it, 1, actor="bob")
    it.advance("1d")
    assert campaign(it).done == 4


def test_it_takes_hosts_over_from_its_release_on() -> None:
    it = strict(4)
    start(it, ONE_STAGE, name="routine")
    start(it, EMERGENCY + ONE_STAGE)
    assert len(announced(it)) == 1
    assert campaign(it, "routine").skipped == 0
    approve(it, 1, actor="bob")
    assert campaign(it, "routine").skipped == 4
    assert len(announced(it)) == 1
    it.advance("2d")
    assert campaign(it).done == 4
    assert campaign(it, "routine").state is CampaignState.DONE


def test_routine_campaigns_and_services_without_the_setting_need_no_release() -> None:
    it = strict()
    start(it, ONE_STAGE)
    assert announced(it)
    it = world()
    start(it, EMERGENCY + ONE_STAGE)
    assert announced(it)
    assert is_released(it)


def test_emergency_work_of_maintain_is_refused() -> None:
    it = strict()
    wishes = OrderOptions(emergency=True)
    with pytest.raises(RefusedError, match="needs a second person") as refused:
        it.order(lambda work: maintain(work, ["h0001"], Action.REBOOT, wishes))
    assert "emergency = true" in refused.value.hint
    usual = OrderOptions()
    it.order(lambda work: maintain(work, ["h0001"], Action.REBOOT, usual))
