"""The brake halts all campaigns, which withdraw their own announcements."""

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import HaltCause
from forewarn.control.requests import brake, campaigns, failures
from forewarn.control.rules.policy import BrakeLimits
from forewarn.protocol.operations import OperationState, Verb
from forewarn.settings.amounts import Amount
from forewarn.wording import rollouts
from tests.support.campaigns import announced, campaign, start, steer
from tests.support.rollouts import name_of, world_of
from tests.support.worlds import World

pytestmark = pytest.mark.clause("4.2")


def of(hosts: int) -> World:
    return world_of([{f"s{number}": 0} for number in range(hosts)])


def routine(world: World) -> list[OperationState]:
    return [
        operation.state
        for operation in world.operations()
        if operation.verb is Verb.MAINTAIN
    ]


def test_losses_halt_a_campaign_and_withdraw_its_announcements() -> None:
    world = of(6)
    limits = BrakeLimits(hosts=Amount(value=1))
    world.plane.policy = type(world.plane.policy)(brake=limits)
    start(world)
    assert len(announced(world)) == 1
    for number in (4, 5):
        host = name_of(number)
        world.order(lambda work, h=host: failures.fail_host(work, h))
    world.settle()
    halted = campaign(world)
    assert halted.state is CampaignState.HALTED
    assert halted.halt is not None
    assert halted.halt.cause is HaltCause.BRAKE
    assert rollouts.halt(halted.halt) == "the brake came on: too much was lost at once"
    assert announced(world) == []
    assert halted.withdrawn == 1
    # The end of the brake does not resume it: an operator does.
    world.order(brake.take_off, actor="bob")
    world.settle()
    assert OperationState.ANNOUNCED not in routine(world)
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    assert len(announced(world)) == 1


def test_brake_by_hand_halts_campaigns_only_if_it_withdraws() -> None:
    world = of(3)
    start(world)
    world.order(brake.put_on, actor="bob", reason="power is unstable")
    assert campaign(world).state is CampaignState.RUNNING
    assert len(announced(world)) == 1
    world.order(
        lambda work: brake.put_on(work, withdraw=True), actor="bob", reason="all out"
    )
    world.settle()
    halted = campaign(world).halt
    assert halted is not None
    assert rollouts.halt(halted) == "the brake came on: all out"
    assert announced(world) == []
