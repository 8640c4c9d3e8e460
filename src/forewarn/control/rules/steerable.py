"""Why a campaign does not allow a request now: the decisions and the reports ask. Pure."""

from forewarn.campaigns import gate
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules import second_person
from forewarn.control.rules.second_person import Asker
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Request
from forewarn.texts import count

FIRST_STAGE = 1
"""The stage whose approval releases an emergency campaign."""


def why_ended(campaign: CampaignRecord) -> RefusedError | None:
    """Return why a campaign cannot be steered at all; None: it can."""
    if not campaign.has_ended:
        return None
    return RefusedError(
        f"campaign {campaign.name} is {campaign.state.value}",
        hint=f"Run `forewarn campaign report {campaign.name}` to see how it ended.",
    )


def why_no_halt(campaign: CampaignRecord) -> RefusedError | None:
    """Return why a campaign cannot be halted; None: it can."""
    if campaign.halt is None:
        return None
    return RefusedError(
        f"campaign {campaign.name} is already halted",
        hint=f"Run `forewarn campaign show {campaign.name}` to see why.",
    )


def why_no_more_hosts(
    campaign: CampaignRecord, request: Request
) -> RefusedError | None:
    """Return why no host can be added to a campaign with this rollout; None: one can."""
    if request.hosts_unplanned:
        return RefusedError(
            f"campaign {campaign.name} is being started",
            hint="Try again in a few seconds.",
        )
    if campaign.is_emergency:
        return RefusedError(
            f"campaign {campaign.name} is an emergency, and takes no more hosts",
            hint="Start another campaign for them.",
        )
    return None


def stage_to_approve(campaign: CampaignRecord) -> int:
    """Return the only stage of a campaign that an approval can be about."""
    return campaign.stage + 1 if campaign.is_released else FIRST_STAGE


def why_no_skip(campaign: CampaignRecord, started: int) -> RefusedError | None:
    """Return why no host of a campaign can be skipped; None: one can.

    `started` is the number of its hosts whose work has started and has not ended.
    """
    if campaign.failed or campaign.left > started:
        return None
    return RefusedError(
        f"each host that is left in campaign {campaign.name} has started",
        hint=f"Run `forewarn campaign show {campaign.name}` to follow them.",
    )


def why_no_approval(
    campaign: CampaignRecord, stage: int, asker: Asker
) -> RefusedError | None:
    """Return why the actor cannot approve a stage of a campaign; None: it can.

    The state of the campaign comes first, so that a refusal names a stage that can be
    approved.
    """
    return _why_no_approval_now(campaign, stage) or second_person.why_not(
        asker,
        starter=campaign.actor,
        act=f"approve stage {stage} of campaign {campaign.name}",
    )


def _why_no_approval_now(campaign: CampaignRecord, stage: int) -> RefusedError | None:
    name, following = campaign.name, stage_to_approve(campaign)
    if not campaign.is_released:
        if stage == following:
            return None
        return RefusedError(
            f"emergency campaign {name} has not begun, so stage {stage} cannot be "
            "approved",
            hint=f"Run `forewarn campaign approve {name} {following}` first.",
        )
    if campaign.is_last_stage or stage != following:
        return RefusedError(
            f"campaign {name} is in stage {campaign.stage} of {len(campaign.stages)}, so "
            f"stage {stage} cannot be approved",
            hint=""
            if campaign.is_last_stage
            else f"Run `forewarn campaign approve {name} {following}`.",
        )
    if not campaign.stages[campaign.stage - 1].approval or campaign.is_approved:
        return RefusedError(
            f"stage {stage} of campaign {name} is already approved"
            if campaign.is_approved
            else f"stage {stage} of campaign {name} needs no approval"
        )
    if not gate.is_stage_over(campaign):
        return RefusedError(
            f"stage {stage} of campaign {name} cannot be approved yet: "
            f"{count(campaign.stage_left, 'host')} of stage {campaign.stage} left",
            hint=f"Approve it when these hosts are done or skipped. Run `forewarn campaign "
            f"show {name}` to follow them.",
        )
    return None
