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


def fail(world: World, host: str) -> None:
    world.order(lambda work: failures.fail_host(work, host))
    world.settle()


def restore(world: World, host: str) -> None:
    world.order(lambda work: failures.restore_host(work, host))
    world.settle()


def open_of(world: World, host: str) -> Operation:
    (record,) = (
        operation
        for operation in world.operations()
        if operation.host == host and not operation.ended_at and operation.position
    )
    return record


@pytest.mark.parametrize("steps", ["", STEPS])
def test_a_waiting_host_that_goes_down_is_done_after_it_is_restored(steps: str) -> None:
    world = of(3)
    start(world, steps + ONE_STAGE, impact="reboot")
    fail(world, name_of(2))
    world.advance("4h")
    record = campaign(world)
    assert (record.state, record.done, record.skipped) == (CampaignState.RUNNING, 2, 0)
    assert open_of(world, name_of(2)).state is OperationState.PLANNED
    down = f"host {name_of(2)} is down until `forewarn restore {name_of(2)}`"
    assert waits_for(world).endswith(down)
    assert world.explain(open_of(world, name_of(2)).operation_id) == [down]
    restore(world, name_of(2))
    world.advance("1d")
    record = campaign(world)
    assert (record.state, record.done, record.skipped) == (CampaignState.DONE, 3, 0)


def test_an_announced_host_that_goes_down_is_announced_again() -> None:
    world = of(3)
    start(world, ONE_STAGE)
    (first,) = announced(world)
    fail(world, first)
    assert announced(world) == [name_of(1)]
    (old,) = (
        operation
        for operation in world.operations()
        if isinstance(operation.note, HostWentDown)
    )
    again = open_of(world, first)
    assert operators.note(old.note) == (
        f"host {first} failed; it waits as {again.operation_id} until it is restored"
    )
    restore(world, first)
    world.advance("1d")
    record = campaign(world)
    assert (record.state, record.done, record.skipped) == (CampaignState.DONE, 3, 0)


def test_a_host_that_stays_down_is_a_problem_and_can_be_skipped() -> None:
    world = of(2)
    start(world, ONE_STAGE)
    fail(world, name_of(1))
    world.advance("3d")
    (problem,) = (
        problem
        for problem in world.read(
            lambda reader: attention.problems(reader, now=world.now)
        )
        if problem.campaign
    )
    assert problem.kind.value == "campaign-stalled"
    down = f"host {name_of(1)} is down until `forewarn restore {name_of(1)}`"
    assert problem.text.endswith(down)
    steer(world, lambda work: campaigns.skip(work, "bios", [name_of(1)]))
    record = campaign(world)
    assert (record.state, record.done, record.skipped) == (CampaignState.DONE, 1, 1)


def test_a_host_that_goes_down_after_an_abort_is_left_out() -> None:
    world = of(2)
    start(world, ONE_STAGE)
    fail(world, name_of(1))
    steer(world, lambda work: campaigns.abort(work, "bios"))
    restore(world, name_of(1))
    world.advance("1d")
    assert campaign(world).state is CampaignState.ABORTED
    assert campaign(world).done == 0
