"""Texts of the notices about campaigns, the brake and blackouts, for operators."""

from collections.abc import Mapping

from forewarn.campaigns.record import HaltCause
from forewarn.problems import listed
from forewarn.store.notices import CampaignStatus, Notice, NoticeKind
from forewarn.texts import count
from forewarn.wording import holds, rollouts

_TITLES: Mapping[NoticeKind, str] = {
    NoticeKind.CAMPAIGN_STARTED: "campaign {name} has started",
    NoticeKind.STAGE_STARTED: "campaign {name}: stage {stage} of {stages} has started",
    NoticeKind.APPROVAL_NEEDED: "campaign {name}: stage {next} waits for approval",
    NoticeKind.CAMPAIGN_PAUSED: "campaign {name} is paused",
    NoticeKind.CAMPAIGN_HALTED: "campaign {name} is halted",
    NoticeKind.CAMPAIGN_RESUMED: "campaign {name} was resumed",
    NoticeKind.CAMPAIGN_DONE: "campaign {name} is done",
    NoticeKind.CAMPAIGN_ABORTED: "campaign {name} was aborted",
    NoticeKind.BRAKE_ON: "the brake is on",
    NoticeKind.BRAKE_OFF: "the brake is off",
    NoticeKind.BLACKOUT_SET: "blackout {name} is set",
    NoticeKind.BLACKOUT_REMOVED: "blackout {name} was removed",
}


def title(notice: Notice) -> str:
    """Return what has happened: `campaign bios-2.19 is halted`."""
    campaign = notice.campaign
    if campaign is None:
        return _TITLES[notice.kind].format(name=notice.blackout)
    return _TITLES[notice.kind].format(
        name=campaign.name,
        stage=campaign.stage,
        stages=campaign.stages,
        next=campaign.stage + 1,
    )


def sentence(notice: Notice) -> str:
    """Return why it has happened, and what an operator can do."""
    campaign = notice.campaign
    if notice.blackout:
        return _blackout(notice)
    if campaign is None:
        return _brake(notice)
    match notice.kind:
        case NoticeKind.CAMPAIGN_STARTED:
            return (
                f"{campaign.impact.value} of {count(campaign.hosts, 'host')} in "
                f"{count(campaign.stages, 'stage')}, by {notice.by.text}: {campaign.reason}."
            )
        case NoticeKind.STAGE_STARTED:
            return f"Stage {campaign.stage} has {count(campaign.stage_hosts, 'host')}; {_sums(campaign)}."
        case NoticeKind.APPROVAL_NEEDED:
            return (
                f"{_sums(campaign)}. Run `forewarn campaign approve {campaign.name} "
                f"{campaign.stage + 1}` to let stage {campaign.stage + 1} begin."
            )
        case NoticeKind.CAMPAIGN_HALTED:
            return _halted(notice, campaign)
        case NoticeKind.CAMPAIGN_PAUSED:
            return f"By {notice.by.text}{_why(notice)}. Hosts in flight continue."
        case NoticeKind.CAMPAIGN_RESUMED:
            return f"By {notice.by.text}{_why(notice)}."
        case NoticeKind.CAMPAIGN_DONE:
            return f"{_sums(campaign)}. Run `forewarn campaign report {campaign.name}`."
        case _:
            return (
                f"By {notice.by.text}{_why(notice)}. {_sums(campaign)}. Run `forewarn "
                f"campaign report {campaign.name}`."
            )


def _halted(notice: Notice, campaign: CampaignStatus) -> str:
    halt = notice.halt
    if halt is None:
        return f"{_sums(campaign)}."
    by = f"by {halt.by.text}: " if halt.cause is HaltCause.OPERATOR else ""
    failed = (
        f" Failed: {listed(campaign.failed_hosts)}." if campaign.failed_hosts else ""
    )
    return (
        f"{_upper(by + rollouts.halt(halt))}.{failed} {_sums(campaign)}. Run `forewarn "
        f"campaign show {campaign.name}`, then `campaign resume` or `campaign abort`."
    )


def _brake(notice: Notice) -> str:
    if notice.kind is NoticeKind.BRAKE_OFF:
        return f"By {notice.by.text}{_why(notice)}. Planned work continues."
    lost = f", {holds.losses(notice.losses)}" if notice.losses is not None else ""
    return (
        f"By {notice.by.text}{_why(notice)}{lost}. No planned work begins until "
        "`forewarn brake off`."
    )


def _blackout(notice: Notice) -> str:
    by = f"By {notice.by.text}{_why(notice)}."
    if notice.kind is NoticeKind.BLACKOUT_REMOVED:
        return f"{by} Planned work that it held continues."
    return f"{by} No planned work begins in it: {notice.time}."


def _why(notice: Notice) -> str:
    return f": {notice.why}" if notice.why else ""


def _sums(campaign: CampaignStatus) -> str:
    """Return the hosts of a campaign by result."""
    parts = [f"{campaign.done:,} of {count(campaign.hosts, 'host')} done"]
    if campaign.skipped:
        parts.append(f"{campaign.skipped:,} skipped")
    if campaign.failed:
        parts.append(f"{campaign.failed:,} failed")
    return ", ".join(parts)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
