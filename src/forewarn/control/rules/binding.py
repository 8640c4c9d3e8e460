"""Read the constraint that binds each campaign: why it announces no further host now.

This module only reads.
"""

from collections.abc import Iterator

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules import shared_limit
from forewarn.control.rules.brake import why_braked
from forewarn.instants import Micros
from forewarn.protocol.blockers import AnyBlocker, BrakeOn
from forewarn.protocol.operations import Request
from forewarn.protocol.turn_blockers import (
    BudgetUsed,
    CampaignStopped,
    CheckUnknown,
    InBlackout,
    OutsideWindow,
    StageWaits,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, every

BINDING_KINDS = tuple(
    blocker.kind
    for blocker in (
        CampaignStopped,
        BrakeOn,
        StageWaits,
        OutsideWindow,
        InBlackout,
        BudgetUsed,
        CheckUnknown,
    )
)
"""The kinds of reasons that keep a whole campaign from announcing its next host."""


def binding_constraints(reader: Reader, *, now: Micros) -> Iterator[AnyBlocker]:
    """Yield what keeps each campaign from announcing its next host now.

    A campaign has none if it has no host left to announce, or if each of its hosts waits
    for something of its own.
    """
    campaign: CampaignRecord
    for campaign in every(reader, kinds.CAMPAIGNS_OPEN):
        request = reader.get(Request, campaign.request)
        assert request is not None, f"{campaign.campaign_id} has no rollout"
        blocker = shared_limit.ask(reader, request, campaign, now=now).blocker
        if not isinstance(blocker, CampaignStopped):
            blocker = next(iter(why_braked(reader, request.verb)), blocker)
        if blocker is not None and campaign.left > request.in_flight:
            yield blocker
