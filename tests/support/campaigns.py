"""Campaigns on the virtual clock: files, starts, and what came of them."""

from collections.abc import Callable

from forewarn.campaigns.record import CampaignRecord
from forewarn.campaigns.text import CampaignText
from forewarn.control.requests import campaign_starts, campaigns
from forewarn.control.transactions.work import Work
from forewarn.protocol.operations import Operation, OperationState, Request
from forewarn.reporting.campaigns import campaign_report
from tests.support.rollouts import PLANNED
from tests.support.worlds import World

ONE_STAGE = """
[[campaign.stage]]
hosts = "100%"
"""


def file_of(
    more: str = ONE_STAGE, *, impact: str = "reboot", name: str = "bios"
) -> str:
    return (
        f'[campaign]\nname = "{name}"\nreason = "CVE-2026-1234"\nimpact = "{impact}"\n'
        f'order = "rack"\nselect = {{ all = true }}\n{more}'
    )


def start(
    world: World,
    more: str = ONE_STAGE,
    *,
    impact: str = "reboot",
    name: str = "bios",
    is_settled: bool = True,
) -> CampaignRecord:
    """Plan a campaign of all hosts, and start this plan.

    Unless `is_settled`, the service has not acted on it yet.
    """
    written = file_of(more, impact=impact, name=name)
    return start_text(world, written, is_settled=is_settled)


def start_text(
    world: World, written: str, *, is_settled: bool = True
) -> CampaignRecord:
    """Plan the campaign of a file, and start this plan."""
    text = CampaignText(name="campaign.toml", text=written)
    planned = campaign_starts.plan_request(
        text,
        world.plane.policy,
        now=world.now,
        host_steps=world.driver.host_steps(),
    )
    prepared = world.read(
        lambda reader: campaign_starts.prepared_of(
            reader, campaign_starts.plan_of(reader, planned), text
        )
    )
    order = world.order(lambda work: campaigns.start(work, prepared), actor="alice")
    if is_settled:
        world.settle()
    return order


def campaign(world: World, name: str = "bios") -> CampaignRecord:
    return world.read(lambda reader: campaigns.find(reader, name))


def steer(
    world: World,
    decide: Callable[[Work], CampaignRecord],
    *,
    actor: str = "alice",
    reason: str = "a reason",
) -> CampaignRecord:
    """Give an order, and let the service act on it."""
    order = world.order(decide, actor=actor, reason=reason)
    world.settle()
    return order


def waits_for(world: World, name: str = "bios") -> str:
    """Return why the campaign announces no further host now."""
    record = campaign(world, name)
    report = world.read(lambda reader: campaign_report(reader, record, now=world.now))
    return report["waits_for"]


def rollout(world: World, name: str = "bios") -> Request:
    request = world.read(
        lambda reader: reader.get(Request, campaign(world, name).request)
    )
    assert request is not None
    return request


def announced(world: World) -> list[str]:
    """Return the hosts that are announced and have not started."""
    waiting = {OperationState.ANNOUNCED, OperationState.READY}
    return [
        operation.host for operation in world.operations() if operation.state in waiting
    ]


def in_work(world: World) -> list[str]:
    """Return the hosts that are announced or in work."""
    return [
        operation.host
        for operation in world.operations()
        if not operation.ended_at and operation.state is not PLANNED
    ]


def ended(world: World, state: OperationState) -> list[Operation]:
    return [operation for operation in world.operations() if operation.state is state]
