"""The checks of a campaign halt it, or hold its next hosts."""

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import HaltCause
from forewarn.checks.board import Board
from forewarn.checks.model import CheckResult, Outcome
from forewarn.control.requests import campaign_changes, campaigns
from forewarn.instants import MINUTE
from forewarn.protocol.errors import RefusedError
from forewarn.reporting import attention
from tests.support.campaigns import (
    ONE_STAGE,
    announced,
    campaign,
    in_work,
    start,
    steer,
    waits_for,
)
from tests.support.rollouts import name_of, world_of
from tests.support.worlds import World

FILE = '[[campaign.check]]\nuse = "errors"\n' + ONE_STAGE


def of(hosts: int) -> World:
    world = world_of([{f"s{number}": 0} for number in range(hosts)])
    world.plane.checks = Board({"errors": 5 * MINUTE})
    return world


def say(world: World, outcome: Outcome, reason: str = "3 errors") -> None:
    result = CheckResult(name="errors", outcome=outcome, reason=reason, at=world.now)
    world.plane.checks.take(result)


def pass_for(world: World, minutes: int) -> None:
    for _ in range(minutes):
        say(world, Outcome.PASS)
        world.advance("1m")


def test_no_host_is_announced_before_the_check_has_passed() -> None:
    world = of(3)
    start(world, FILE)
    assert world.plane.checks.needed == {"errors"}
    assert in_work(world) == []
    assert waits_for(world).startswith("check errors of campaign bios is unknown: ")
    say(world, Outcome.PASS)
    world.advance("20s")
    assert in_work(world) == [name_of(0)]
    pass_for(world, 120)
    assert campaign(world).state is CampaignState.DONE
    assert world.plane.checks.needed == frozenset()


def test_a_failed_check_halts_the_campaign_and_withdraws_its_announcements() -> None:
    world = of(3)
    start(world, FILE)
    say(world, Outcome.PASS)
    world.advance("20s")
    assert announced(world) == [name_of(0)]
    say(world, Outcome.FAIL)
    world.advance("20s")
    row = campaign(world)
    assert row.halt is not None
    assert row.halt.cause is HaltCause.CHECK
    assert announced(world) == []
    with pytest.raises(
        RefusedError, match="check errors of campaign bios fails: "
    ) as no:
        steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    assert "--despite errors --reason TEXT`" in no.value.hint
    assert campaign(world).state is CampaignState.HALTED
    steer(
        world,
        lambda work: campaigns.resume(work, "bios", by_all=False, despite=["errors"]),
    )
    world.advance("1d")
    assert campaign(world).state is CampaignState.DONE


def test_an_unknown_check_pauses_the_campaign_until_it_passes() -> None:
    world = of(4)
    start(world, FILE)
    pass_for(world, 40)
    assert campaign(world).done == 1
    world.advance("10m")
    assert campaign(world).state is CampaignState.RUNNING
    assert waits_for(world).startswith(
        "check errors of campaign bios is unknown: its last"
    )
    world.advance("20m")
    (pause,) = campaign(world).pauses
    assert pause.by.text == "checks"
    assert in_work(world) == []
    pass_for(world, 1)
    assert campaign(world).state is CampaignState.RUNNING
    assert len(in_work(world)) == 1


def test_a_pause_by_an_unknown_check_is_a_problem_that_names_what_works() -> None:
    world = of(4)
    start(world, FILE)
    world.advance("20m")
    assert campaign(world).state is CampaignState.PAUSED
    command = "forewarn campaign resume bios --despite errors --reason TEXT"
    problems = world.read(lambda reader: attention.problems(reader, now=world.now))
    (problem,) = (problem for problem in problems if problem.campaign)
    assert problem.kind.value == "campaign-waits"
    assert problem.since == campaign(world).pauses[0].at
    assert problem.actions == ("check run", "campaign resume")
    assert problem.text == waits_for(world)
    assert problem.text.startswith(
        "campaign bios is paused until check errors passes: "
    )
    assert problem.text.endswith(
        f"; look with `forewarn check run errors`, or continue without it with `{command}`"
    )
    with pytest.raises(
        RefusedError, match="is paused until its checks answer: errors"
    ) as no:
        steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    assert command in no.value.hint
    steer(
        world,
        lambda work: campaigns.resume(work, "bios", by_all=False, despite=["errors"]),
    )
    assert campaign(world).state is CampaignState.RUNNING
    world.advance("1h")
    assert campaign(world).done


def test_a_pause_of_an_operator_comes_before_that_of_a_check() -> None:
    world = of(4)
    start(world, FILE)
    world.advance("20m")
    steer(world, lambda work: campaigns.pause(work, "bios"), reason="release tonight")
    assert waits_for(world).endswith("release tonight")
    steer(
        world,
        lambda work: campaigns.resume(work, "bios", by_all=False, despite=["errors"]),
    )
    assert campaign(world).pauses == ()


def test_a_campaign_needs_the_check_in_the_settings() -> None:
    world = world_of([{"a": 0}])
    with pytest.raises(RefusedError, match="there is no check errors"):
        start(world, FILE)
    world = of(1)
    start(world, FILE)
    say(world, Outcome.FAIL)
    world.advance("20s")
    with pytest.raises(RefusedError, match="campaign bios has no check latency"):
        steer(
            world,
            lambda work: campaigns.resume(
                work, "bios", by_all=False, despite=["latency"]
            ),
        )


def test_a_removed_check_ends_its_pause_and_an_added_one_counts_at_once() -> None:
    world = of(2)
    start(world, FILE)
    world.advance("16m")
    assert campaign(world).state is CampaignState.PAUSED
    change = campaign_changes.change
    steer(
        world,
        lambda work: change(work, campaign(world), {"remove_check": "errors"}),
    )
    assert campaign(world).state is CampaignState.RUNNING
    assert (campaign(world).checks, campaign(world).unknown) == ((), ())
    assert world.plane.checks.needed == frozenset()
    assert len(in_work(world)) == 1
    steer(world, lambda work: change(work, campaign(world), {"check": "errors"}))
    assert world.plane.checks.needed == {"errors"}
    assert waits_for(world).startswith("check errors of campaign bios is unknown: ")
