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
from tests.unit.control.test_emergency_campaigns import EMERGENCY, new_world

NEEDED = (
    "stage 1 of campaign bios needs an approval: `forewarn campaign approve bios 1`"
)


def strict(hosts: int = 3) -> World:
    return new_world(hosts, Policy(second_person=True))


def approve(it: World, stage: int, *, actor: str) -> None:
    steer(it, lambda work: campaigns.approve(work, "bios", stage), actor=actor)


def entries(it: World, kind: AuditKind) -> list[str]:
    """Return the actors of the history entries of a kind."""
    return [
        entry.actor.text
        for entry in it.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
        if entry.kind is kind
    ]


def is_released(it: World) -> bool:
    row = campaign(it)
    report = it.read(lambda reader: campaign_report(reader, row, now=it.now))
    return report["released"]


def test_nothing_is_announced_before_another_operator_releases_it() -> None:
    world = strict()
    start(world, EMERGENCY + ONE_STAGE)
    world.advance("3h")
    assert announced(world) == []
    assert waits_for(world) == NEEDED
    assert world.explain(world.operations()[0].operation_id) == [NEEDED]
    assert not is_released(world)
    with pytest.raises(RefusedError, match="alice started the campaign and cannot"):
        approve(world, 1, actor="alice")
    assert announced(world) == []
    approve(world, 1, actor="bob")
    assert is_released(world)
    assert len(announced(world)) == 1
    assert entries(world, AuditKind.CAMPAIGN_STARTED) == ["alice"]
    assert entries(world, AuditKind.CAMPAIGN_STAGE_APPROVED) == ["bob"]
    assert len(entries(world, AuditKind.CAMPAIGN_APPROVAL_NEEDED)) == 1
    with pytest.raises(RefusedError, match="stage 1 cannot be approved"):
        approve(world, 1, actor="bob")


def test_only_its_first_stage_releases_it_and_a_resumption_does_not() -> None:
    world = strict()
    start(world, EMERGENCY + ONE_STAGE)
    with pytest.raises(RefusedError, match="has not begun, so stage 2") as refused:
        approve(world, 2, actor="bob")
    assert "`forewarn campaign approve bios 1`" in refused.value.hint
    steer(world, lambda work: campaigns.pause(work, "bios"), actor="alice")
    steer(
        world, lambda work: campaigns.resume(work, "bios", by_all=True), actor="alice"
    )
    assert announced(world) == []
    # It can be ended without a release.
    steer(world, lambda work: campaigns.abort(work, "bios"), actor="alice")
    assert campaign(world).state is CampaignState.ABORTED


def test_a_restart_keeps_it_waiting(tmp_path: Path) -> None:
    world = World(
        store=lambda: SqliteStore(tmp_path / "store.db"),
        driver=SimulatedDriver(),
        fleet=fleet([{"s0": 0}, {"s1": 0}]),
        policy=Policy(second_person=True),
    )
    start(world, EMERGENCY + ONE_STAGE)
    world.restart()
    world.advance("1h")
    assert announced(world) == []
    approve(world, 1, actor="bob")
    assert len(announced(world)) == 1


def test_problems_list_the_release_that_is_needed() -> None:
    world = strict()
    start(world, EMERGENCY + ONE_STAGE)
    found = world.read(lambda reader: problems(reader, now=world.now))
    (waits,) = [
        problem for problem in found if problem.kind is ProblemKind.CAMPAIGN_WAITS
    ]
    assert waits.since == campaign(world).created


def test_it_holds_up_no_routine_campaign_before_its_release() -> None:
    world = strict(4)
    start(world, ONE_STAGE, name="routine")
    start(world, EMERGENCY + ONE_STAGE)
    # The window of a tenant on one of the hosts opens in twelve hours.
    world.advance("2d")
    routine = campaign(world, "routine")
    assert (routine.state, routine.done) == (CampaignState.DONE, 4)
    assert campaign(world).done == 0
    approve(world, 1, actor="bob")
    world.advance("1d")
    assert campaign(world).done == 4


def test_it_takes_hosts_over_from_its_release_on() -> None:
    world = strict(4)
    start(world, ONE_STAGE, name="routine")
    start(world, EMERGENCY + ONE_STAGE)
    assert len(announced(world)) == 1
    assert campaign(world, "routine").skipped == 0
    approve(world, 1, actor="bob")
    assert campaign(world, "routine").skipped == 4
    assert len(announced(world)) == 1
    world.advance("2d")
    assert campaign(world).done == 4
    assert campaign(world, "routine").state is CampaignState.DONE


def test_routine_campaigns_and_services_without_the_setting_need_no_release() -> None:
    world = strict()
    start(world, ONE_STAGE)
    assert announced(world)
    world = new_world()
    start(world, EMERGENCY + ONE_STAGE)
    assert announced(world)
    assert is_released(world)


def test_emergency_work_of_maintain_is_refused() -> None:
    world = strict()
    wishes = OrderOptions(emergency=True)
    with pytest.raises(RefusedError, match="needs a second person") as refused:
        world.order(lambda work: maintain(work, ["h0001"], Action.REBOOT, wishes))
    assert "emergency = true" in refused.value.hint
    usual = OrderOptions()
    world.order(lambda work: maintain(work, ["h0001"], Action.REBOOT, usual))
