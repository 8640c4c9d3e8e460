"""The messages of webhooks for people: events and notices as texts of a chat.

An event is described from its posted JSON, so that a tenant's chat shows no more than
its webhook.
"""

from collections.abc import Mapping
from typing import Any

from forewarn.chat import ChatText, Severity
from forewarn.instants import cut_to_second, format_instant
from forewarn.problems import listed
from forewarn.store.notices import Notice, NoticeKind
from forewarn.store.records import EventChange
from forewarn.wording import campaign_figures, notices

NAMES_SHOWN = 10
"""Maximum VMs that a string names; an event may have hundreds."""

_ERRORS = frozenset({NoticeKind.CAMPAIGN_HALTED, NoticeKind.BRAKE_ON})
_WARNINGS = frozenset({NoticeKind.APPROVAL_NEEDED, NoticeKind.CAMPAIGN_PAUSED})

_CHANGES: Mapping[EventChange, str] = {
    EventChange.SCHEDULED: "It is announced",
    EventChange.CHANGED: "Its VMs, time or description have changed",
    EventChange.APPROVED: "It is approved",
    EventChange.STARTED: "It has started",
    EventChange.COMPLETED: "It is over",
    EventChange.CANCELLED: "It was cancelled and does not happen",
    EventChange.FAILED: "It failed",
}


def notice_text(notice: Notice, figures: Mapping[str, Any] | None = None) -> ChatText:
    """Return the texts of a notice; `figures` are the sums of a campaign."""
    title = notices.title(notice)
    severity = Severity.NOTICE
    if notice.kind in _ERRORS:
        severity = Severity.ERROR
    elif notice.kind in _WARNINGS:
        severity = Severity.WARNING
    return ChatText(
        title=title[:1].upper() + title[1:],
        sentence=notices.sentence(notice),
        facts=[
            *_facts(notice),
            *(campaign_figures.figures(figures) if figures else ()),
        ],
        severity=severity,
    )


def _facts(notice: Notice) -> list[tuple[str, str]]:
    campaign = notice.campaign
    if campaign is None:
        return []
    facts = [
        ("Campaign", f"{campaign.name} ({campaign.campaign_id})"),
        ("Reason", campaign.reason),
        ("Stage", f"{campaign.stage} of {campaign.stages}"),
        ("Hosts", f"{campaign.done:,} of {campaign.hosts:,} done"),
    ]
    if campaign.failed_hosts:
        facts.append(("Failed", listed(campaign.failed_hosts, NAMES_SHOWN)))
    if campaign.ended:
        started, ended = (
            format_instant(cut_to_second(campaign.created)),
            format_instant(cut_to_second(campaign.ended)),
        )
        facts.append(("Time", f"{started} to {ended}"))
    return facts


def event_text(change: EventChange, data: Mapping[str, Any]) -> ChatText:
    """Return the texts of the change of an event, from its posted JSON."""
    vms = listed(data["vms"], NAMES_SHOWN)
    facts = [
        ("Scope", str(data["scope"])),
        ("Not before", str(data["NotBefore"])),
        ("Description", str(data["Description"])),
        ("Approved by", str(data["approved_by"] or "")),
        ("Event ID", str(data["EventId"])),
    ]
    is_bad = change is EventChange.FAILED
    return ChatText(
        title=f"{data['EventType']} of {vms}: {change.value}",
        sentence=f"{_CHANGES[change]}.",
        facts=[(name, value) for name, value in facts if value],
        severity=Severity.ERROR if is_bad else Severity.NOTICE,
    )


def ping_text(receiver: str) -> ChatText:
    """Return the texts of a test message."""
    return ChatText(
        title=f"Test of webhook {receiver}",
        sentence="`forewarn webhook test` sent this message.",
        facts=[],
        severity=Severity.INFO,
    )
