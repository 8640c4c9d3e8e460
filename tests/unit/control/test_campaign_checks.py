"""The checks of a campaign halt it, or hold its next hosts."""

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import HaltCause
from forewarn.checks.board import Board
from forewarn.checks.model import CheckResult, Outcome
from forewarn.control.requests import campaigns
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
    it = world_of([{f"s{number}": 0} for number in range(hosts)])
    it.plane.checks = Board({"errors": 5 * MINUTE})
    return it


def say(it: World, outcome: Outcome, reason: str = "3 errors") -> None:
    result = CheckResult(name="errors", outcome=outcome, reason=reason, at=it.now)
    it.plane.checks.take(result)


def pass_for(it: World, minutes: int) -> None:
    for _ in range(minutes):
        say(it, Outcome.PASS)
        it.advance("1m")


def test_no_host_is_announced_before_the_check_has_passed() -> None:
    it = of(3)
    start(it, FILE)
    assert it.plane.checks.needed == {"errors"}
    assert in_work(it) == []
    assert waits_for(it).startswith("check errors of campaign bios is unknown: ")
    say(it, Outcome.PASS)
    it.advance("20s")
    assert in_work(it) == [name_of(0)]
    pass_for(it, 120)
    assert campaign(it).state is CampaignState.DONE
    assert it.plane.checks.needed == frozenset()


def test_a_failed_check_halts_the_campaign_and_withdraws_its_announcements() -> None:
    it = of(3)
    start(it, FILE)
    say(it, Outcome.PASS)
    it.advance("20s")
    assert announced(it) == [name_of(0)]
    say(it, Outcome.FAIL)
    it.advance("20s")
    found = campaign(it)
    assert found.halt is not None
    assert found.halt.cause is HaltCause.CHECK
    assert announced(it) == []
    with pytest.raises(
        RefusedError, match="check errors of campaign bios fails: "
    ) as no:
        steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))
    assert "--despite errors --reason TEXT`" in no.value.hint
    assert campaign(it).state is CampaignState.HALTED
    steer(
        it,
        lambda work: campaigns.resume(work, "bios", by_all=False, despite=["errors"]),
    )
    it.advance("1d")
    assert campaign(it).state is CampaignState.DONE


def test_an_unknown_check_pauses_the_campaign_until_it_passes() -> None:
    it = of(4)
    start(it, FILE)
    pass_for(it, 40)
    assert campaign(it).done == 1
    it.advance("10m")
    assert campaign(it).state is CampaignState.RUNNING
    assert waits_for(it).startswith(
        "check errors of campaign bios is unknown: its last"
    )
    it.advance("20m")
    (pause,) = campaign(it).pauses
    assert pause.by.text == "checks"
    assert in_work(it) == []
    pass_for(it, 1)
    assert campaign(it).state is CampaignState.RUNNING
    assert len(in_work(it)) == 1


def test_a_pause_by_an_unknown_check_is_a_problem_that_names_what_works() -> None:
    it = of(4)
    start(it, FILE)
    it.advance("20m")
    assert campaign(it).state is CampaignState.PAUSED
    command = "forewarn campaign resume bios --despite errors --reason TEXT"
    found = it.read(lambda reader: attention.problems(reader, now=it.now))
    (problem,) = (each for each in found if each.campaign)
    assert problem.kind.value == "campaign-waits"
    assert problem.since == campaign(it).pauses[0].at
    assert problem.actions == ("check run", "campaign resume")
    assert problem.text == waits_for(it)
    assert problem.text.startswith(
        "campaign bios is paused until check errors passes: "
    )
    assert problem.text.endswith(
        f"; look with `forewarn check run errors`, or continue without it with `{command}`"
    )
    with pytest.raises(
        RefusedError, match="is paused until its checks answer: errors"
    ) as no:
        steer(it, lambda work: campaigns.resume(work, "bios", by_all=False))
    assert command in no.value.hint
    steer(
        it,
        lambda work: campaigns.resume(work, "bios", by_all=False, despite=["errors"]),
    )
    assert campaign(it).state is CampaignState.RUNNING
    it.advance("1h")
    assert campaign(it).done


def test_a_pause_of_an_operator_comes_before_that_of_a_check() -> None:
    it = of(4)
    start(it, FILE)
    it.advance("20m")
    steer(it, lambda work: campaigns.pause(work, "bios"), reason="release tonight")
    assert waits_for(it).endswith("release tonight")
    steer(
        it,
        lambda work: campaigns.resume(work, "bios", by_all=False, despite=["errors"]),
    )
    assert campaign(it).pauses == ()


def test_a_campaign_needs_the_check_in_the_settings() -> None:
    it = world_of([{"a": 0}])
    with pytest.raises(RefusedError, match="there is no check errors"):
        start(it, FILE)
    it = of(1)
    start(it, FILE)
    say(it, Outcome.FAIL)
    it.advance("20s")
    with pytest.raises(RefusedError, match="campaign bios has no check latency"):
        steer(
            it,
            lambda work: campaigns.resume(
                work, "bios", by_all=False, despite=["latency"]
            ),
        )
