"""A host of a campaign that goes down before its start is considered again when it is up."""

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import campaigns, failures
from forewarn.protocol.notes import HostWentDown
from forewarn.protocol.operations import Operation, OperationState
from forewarn.reporting import attention
from forewarn.wording import operators
from tests.support.campaigns import (
    ONE_STAGE,
    announced,
    campaign,
    start,
    steer,
    waits_for,
)
from tests.support.rollouts import name_of, world_of
from tests.support.worlds import World

STEPS = """
[campaign.steps]
needed = { step = "outdated", version = "2.19" }
work = { step = "flash", version = "2.19" }
"""


def of(hosts: int) -> World:
    return world_of([{f"s{number}": 0} for number in range(hosts)])


def fail(it: World, host: str) -> None:
    it.order(lambda work: failures.fail_host(work, host))
    it.settle()


def restore(it: World, host: str) -> None:
    it.order(lambda work: failures.restore_host(work, host))
    it.settle()


def open_of(it: World, host: str) -> Operation:
    (found,) = (
        each
        for each in it.operations()
        if each.host == host and not each.ended_at and each.position
    )
    return found


@pytest.mark.parametrize("steps", ["", STEPS])
def test_a_waiting_host_that_goes_down_is_done_after_it_is_restored(steps: str) -> None:
    it = of(3)
    start(it, steps + ONE_STAGE, impact="reboot")
    fail(it, name_of(2))
    it.advance("4h")
    found = campaign(it)
    assert (found.state, found.done, found.skipped) == (CampaignState.RUNNING, 2, 0)
    assert open_of(it, name_of(2)).state is OperationState.PLANNED
    down = f"host {name_of(2)} is down"
    assert waits_for(it).endswith(down)
    assert it.explain(open_of(it, name_of(2)).operation_id) == [down]
    restore(it, name_of(2))
    it.advance("1d")
    found = campaign(it)
    assert (found.state, found.done, found.skipped) == (CampaignState.DONE, 3, 0)


def test_an_announced_host_that_goes_down_is_announced_again() -> None:
    it = of(3)
    start(it, ONE_STAGE)
    (first,) = announced(it)
    fail(it, first)
    assert announced(it) == [name_of(1)]
    (old,) = (each for each in it.operations() if isinstance(each.note, HostWentDown))
    again = open_of(it, first)
    assert operators.note(old.note) == (
        f"host {first} failed; it waits as {again.operation_id} until it is restored"
    )
    restore(it, first)
    it.advance("1d")
    found = campaign(it)
    assert (found.state, found.done, found.skipped) == (CampaignState.DONE, 3, 0)


def test_a_host_that_stays_down_is_a_problem_and_can_be_skipped() -> None:
    it = of(2)
    start(it, ONE_STAGE)
    fail(it, name_of(1))
    it.advance("3d")
    (problem,) = (
        each
        for each in it.read(lambda reader: attention.problems(reader, now=it.now))
        if each.campaign
    )
    assert problem.kind.value == "campaign-stalled"
    assert problem.text.endswith(f"host {name_of(1)} is down")
    steer(it, lambda work: campaigns.skip(work, "bios", [name_of(1)]))
    found = campaign(it)
    assert (found.state, found.done, found.skipped) == (CampaignState.DONE, 1, 1)


def test_a_host_that_goes_down_after_an_abort_is_left_out() -> None:
    it = of(2)
    start(it, ONE_STAGE)
    fail(it, name_of(1))
    steer(it, lambda work: campaigns.abort(work, "bios"))
    restore(it, name_of(1))
    it.advance("1d")
    assert campaign(it).state is CampaignState.ABORTED
    assert campaign(it).done == 0
