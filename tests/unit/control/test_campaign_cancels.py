"""Cancel the rollout of a campaign, or one of its hosts."""

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import campaigns, verbs
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.notes import Cancelled
from forewarn.protocol.operations import Operation
from tests.support.campaigns import campaign, rollout, start, steer
from tests.support.rollouts import world_of
from tests.support.worlds import World


def of(hosts: int) -> World:
    """Return a world of hosts, each with a VM of a scope of its own."""
    return world_of([{f"s{number}": 0} for number in range(hosts)])


def cancel(world: World, name: str) -> list[Operation]:
    result = world.order(
        lambda work: verbs.cancel(work, name, note=Cancelled(by=work.who.actor))
    )
    world.settle()
    return result


def test_rollout_of_a_campaign_is_not_cancelled() -> None:
    world = of(3)
    start(world)
    name = rollout(world).request_id
    with pytest.raises(
        RefusedError, match="of campaign bios, which is Running"
    ) as it_is:
        cancel(world, name)
    assert "forewarn campaign abort bios --reason TEXT" in it_is.value.hint
    assert campaign(world).state is CampaignState.RUNNING
    steer(world, lambda work: campaigns.abort(work, "bios"))
    with pytest.raises(RefusedError, match=r"are already Cancelled$"):
        cancel(world, name)
    assert campaign(world).state is CampaignState.ABORTED


def test_cancelled_host_counts_as_skipped() -> None:
    world = of(3)
    start(world)
    [operation] = [operation for operation in world.operations() if operation.scopes]
    cancel(world, operation.operation_id)
    assert campaign(world).skipped == 1
    world.advance("1d")
    assert campaign(world).state is CampaignState.DONE
    assert campaign(world).done == 2
