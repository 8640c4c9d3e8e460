"""Notices about campaigns, the brake and blackouts as JSON. For operators only."""

from typing import Any, TypeAlias

from forewarn.campaigns.record import Halt
from forewarn.instants import format_instant, instant_or_none
from forewarn.store.notices import CampaignStatus, Notice
from forewarn.wording import notices, rollouts

Json: TypeAlias = dict[str, Any]


def notice_report(notice: Notice) -> Json:
    """Return a notice with its texts and values."""
    return {
        "notice": notice.kind.value,
        "title": notices.title(notice),
        "message": notices.sentence(notice),
        "by": notice.by.text,
        "reason": notice.why or None,
        "campaign": None if notice.campaign is None else _campaign(notice.campaign),
        "halted": None if notice.halt is None else _halt(notice.halt),
        "blackout": notice.blackout or None,
    }


def _campaign(found: CampaignStatus) -> Json:
    return {
        "campaign": found.campaign_id,
        "name": found.name,
        "reason": found.reason,
        "impact": found.impact.value,
        "state": found.state.value,
        "created": format_instant(found.created),
        "ended": instant_or_none(found.ended),
        "stage": found.stage,
        "stages": found.stages,
        "hosts": found.hosts,
        "done": found.done,
        "skipped": found.skipped,
        "failed": found.failed,
        "failed_hosts": list(found.failed_hosts),
    }


def _halt(found: Halt) -> Json:
    return {
        "cause": found.cause.value,
        "by": found.by.text,
        "host": found.host or None,
        "check": found.check or None,
        "message": rollouts.halt(found),
    }
