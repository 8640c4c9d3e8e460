"""Notices: messages about campaigns, the brake and blackouts to receivers of webhooks.

A notice has the values of the moment at which it was written, so that it is the same at
each delivery. Only receivers of operators get notices.
"""

from dataclasses import dataclass

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.model import Impact
from forewarn.campaigns.record import CampaignRecord, Halt
from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.losses import Losses

NOTICE_HOSTS_MAX = 10
"""Maximum failed hosts that a notice names: its report has all of them."""


class NoticeKind(Enumeration):
    """The kind of a notice."""

    CAMPAIGN_STARTED = "campaign-started"
    STAGE_STARTED = "stage-started"
    APPROVAL_NEEDED = "approval-needed"
    CAMPAIGN_PAUSED = "campaign-paused"
    CAMPAIGN_HALTED = "campaign-halted"
    CAMPAIGN_RESUMED = "campaign-resumed"
    CAMPAIGN_DONE = "campaign-done"
    CAMPAIGN_ABORTED = "campaign-aborted"
    BRAKE_ON = "brake-on"
    BRAKE_OFF = "brake-off"
    BLACKOUT_SET = "blackout-set"
    BLACKOUT_REMOVED = "blackout-removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignStatus:
    """How far a campaign was when its notice was written."""

    campaign_id: str
    name: str
    reason: str
    impact: Impact
    state: CampaignState
    created: Micros
    ended: Micros
    hosts: int
    done: int
    skipped: int
    failed: int
    failed_hosts: tuple[str, ...]
    """The first `NOTICE_HOSTS_MAX` of them."""
    stage: int
    stage_hosts: int
    """Hosts of the current stage alone."""
    stages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One notice."""

    kind: NoticeKind
    by: Actor
    why: str = ""
    """The reason that the actor gave."""
    campaign: CampaignStatus | None = None
    """None: the notice is about the brake or a blackout."""
    halt: Halt | None = None
    losses: Losses | None = None
    """The losses for which the brake came on by itself."""
    blackout: str = ""
    """Name of the blackout of the service; empty: the notice is about something else."""
    time: str = ""
    """When the blackout is, and where."""


def status_of(campaign: CampaignRecord) -> CampaignStatus:
    """Return how far a campaign is."""
    return CampaignStatus(
        campaign_id=campaign.campaign_id,
        name=campaign.name,
        reason=campaign.reason,
        impact=campaign.impact,
        state=campaign.state,
        created=campaign.created,
        ended=campaign.ended,
        hosts=campaign.hosts,
        done=campaign.done,
        skipped=campaign.skipped,
        failed=len(campaign.failed),
        failed_hosts=campaign.failed_hosts[:NOTICE_HOSTS_MAX],
        stage=campaign.stage,
        stage_hosts=campaign.stages[campaign.stage - 1].hosts,
        stages=len(campaign.stages),
    )
