"""Failed visits of hosts of campaigns: `problems`, hints and `visit skip` know the campaign."""

from dataclasses import replace

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import campaigns, cordons, visiting
from forewarn.control.requests.visiting import check_not_visited
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.visits import SkipReason, Visit, VisitState
from forewarn.reporting import attention
from forewarn.reporting.problem import Problem, ProblemKind
from forewarn.store import kinds
from tests.support.campaigns import ONE_STAGE, campaign, start, steer
from tests.support.rollouts import name_of
from tests.support.worlds import World
from tests.unit.control.test_campaign_steps import STEPS, is_open, of, visits

HOST = name_of(0)


def failing(*faults: str, impact: str = "none", hosts: int = 2) -> World:
    """Return a world in which the first host of a campaign has failed."""
    world = of(hosts, *faults)
    start(world, STEPS + ONE_STAGE, impact=impact)
    world.advance("1d")
    assert campaign(world).failed_hosts == (HOST,)
    return world


def visit_of(world: World) -> Visit:
    return next(visit for visit in visits(world) if visit.host == HOST)


def problem(world: World) -> Problem:
    problems = world.read(lambda reader: attention.problems(reader, now=world.now))
    return next(row for row in problems if row.kind is ProblemKind.VISIT_FAILED)


def test_problem_of_a_failed_visit_has_the_commands_of_its_campaign() -> None:
    world = failing("work fail")
    found = problem(world)
    assert found.actions == ("campaign retry", "campaign skip")
    assert found.campaign == "bios"
    assert f"`forewarn campaign retry bios {HOST}`" in found.text
    assert f"`forewarn campaign skip bios {HOST} --reason TEXT`" in found.text
    assert "forewarn visit" not in found.text
    # Beside buttons, the commands are left out.
    assert found.short.startswith(f"host {HOST}: step work failed")
    assert found.short.endswith("it stays cordoned")
    assert attention.report(found)["text_shortly"] == found.short


def test_visit_of_an_open_campaign_is_not_skipped_past_the_campaign() -> None:
    world = failing("work fail")
    with pytest.raises(
        RefusedError, match=f"host {HOST} belongs to campaign bios"
    ) as error:
        world.order(lambda work: visiting.skip(work, HOST))
    assert error.value.hint == (
        f"Run `forewarn campaign skip bios {HOST} --reason TEXT`. The host stays cordoned "
        f"until `forewarn host open {HOST} --all-owners`."
    )
    assert visit_of(world).state is VisitState.FAILED
    steer(world, lambda work: campaigns.skip(work, "bios", [HOST]))
    assert not is_open(world, HOST)
    world.order(lambda work: cordons.open_host(work, HOST, by_all=True))
    assert is_open(world, HOST)


def test_visit_of_an_ended_campaign_is_skipped_and_its_host_opened() -> None:
    world = failing("work fail", hosts=3)
    steer(world, lambda work: campaigns.abort(work, "bios"))
    world.advance("1d")
    assert campaign(world).state is CampaignState.ABORTED
    found = problem(world)
    assert found.actions == ("visit retry", "visit skip")
    assert f"`forewarn visit skip {HOST}`" in found.text
    world.order(lambda work: visiting.skip(work, HOST))
    assert visit_of(world).skipped is SkipReason.GIVEN_UP
    assert is_open(world, HOST)


def test_work_done_by_hand_is_verified_in_a_campaign_too() -> None:
    world = failing("verify fail times=1000", hosts=1)
    assert isinstance(world.driver, SimulatedDriver)
    world.driver.clear()
    world.order(lambda work: visiting.retry(work, HOST, only_verify=True))
    world.advance("1d")
    assert (campaign(world).state, campaign(world).failed) == (CampaignState.DONE, ())
    assert is_open(world, HOST)


@pytest.mark.parametrize(
    ("fault", "impact", "said"),
    [
        ("enter fail", "none", "failed before its work"),
        ("work fail", "reboot", "run again, so the work cannot be repeated"),
        ("work lie", "reboot", "run again, so the work cannot be repeated"),
    ],
)
def test_visit_that_must_begin_again_does_so_in_its_campaign(
    fault: str, impact: str, said: str
) -> None:
    world = failing(fault, impact=impact)
    with pytest.raises(RefusedError, match=said) as error:
        world.order(lambda work: visiting.retry(work, HOST))
    assert error.value.hint.startswith(
        f"Run `forewarn campaign retry bios {HOST}`: the host gets another visit, with a "
        "full notice."
    )
    assert ("--only-verify" in error.value.hint) is (fault == "work lie")


def test_refusals_about_a_visited_host_name_its_campaign() -> None:
    world = failing("work fail")
    with pytest.raises(RefusedError, match="has visit") as error:
        world.order(lambda work: check_not_visited(work, HOST))
    skip = f"`forewarn campaign skip bios {HOST} --reason TEXT`"
    assert error.value.hint == (f"Run `forewarn campaign retry bios {HOST}` or {skip}.")
    # The campaign has a cordon too, which goes first.
    world.order(lambda work: cordons.open_host(work, HOST, by_all=True))
    with pytest.raises(RefusedError, match="is cordoned by") as refused:
        world.order(lambda work: cordons.open_host(work, HOST, by_all=True))
    assert refused.value.hint == f"Run {skip} if the visit has failed."


def test_forgotten_operation_leaves_a_visit_without_stopped_vms() -> None:
    """Retention keeps it, so this is a damaged store."""
    world = failing("work fail")
    world.order(
        lambda work: work.tx.replace(
            visit_of(world), replace(visit_of(world), operation="op-none")
        )
    )
    assert problem(world).vms == ()
    assert [
        visit.host
        for visit in world.read(lambda r: r.select(kinds.OPEN_VISITS, limit=9))
    ] == [HOST]


def cordoned(world: World) -> list[Problem]:
    problems = world.read(lambda reader: attention.problems(reader, now=world.now))
    return [row for row in problems if row.kind is ProblemKind.HOST_CORDONED]


@pytest.mark.parametrize("end", ["skip", "abort"])
def test_any_operator_opens_a_host_that_its_campaign_needs_no_more(end: str) -> None:
    world = failing("work fail", hosts=3)
    with pytest.raises(RefusedError, match="is cordoned by"):
        world.order(
            lambda work: cordons.open_host(work, HOST, by_all=False), actor="bob"
        )
    assert not any("has skipped" in row.text for row in cordoned(world))
    if end == "skip":
        steer(world, lambda work: campaigns.skip(work, "bios", [HOST]))
    else:
        steer(world, lambda work: campaigns.abort(work, "bios"))
        world.order(lambda work: visiting.skip(work, HOST))
    if end == "skip":
        (left,) = cordoned(world)
        assert (left.hosts, left.actions) == ((HOST,), ("host open",))
        assert left.text.endswith(
            ", which has ended or has skipped the host: open it when it is repaired"
        )
        world.order(
            lambda work: cordons.open_host(work, HOST, by_all=False), actor="bob"
        )
    assert is_open(world, HOST)
    assert cordoned(world) == []


def test_host_that_is_tried_again_is_not_left_behind() -> None:
    world = failing("work lie", impact="reboot")
    steer(world, lambda work: campaigns.pause(work, "bios"))
    steer(world, lambda work: campaigns.retry(work, "bios", [HOST]))
    assert campaign(world).failed == ()
    with pytest.raises(RefusedError, match="is cordoned by"):
        world.order(
            lambda work: cordons.open_host(work, HOST, by_all=False), actor="bob"
        )
