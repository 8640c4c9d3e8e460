"""The posted bodies: one event or notice, for programs or for people.

Programs get the envelope of Azure Event Grid; people get the message of a chat.

docs/how-to/operate/webhooks.md shows one; a test compares it.
"""

import enum
import json
from typing import Any, TypeAlias

from forewarn.chat import ChatText, slack_message, teams_message, text_message
from forewarn.control.redaction.redact import actor_for
from forewarn.instants import Micros, format_instant
from forewarn.reporting.notices import notice_report
from forewarn.store.notices import Notice, NoticeKind
from forewarn.store.records import EventChange, OutboxMessage
from forewarn.wording import chat_texts

Json: TypeAlias = dict[str, Any]

FAMILY = "Forewarn.ScheduledEvents"

EVENT_TYPES = {
    change: f"{FAMILY}.Event{change.value.title()}" for change in EventChange
}
"""The `eventType` of each change: `Forewarn.ScheduledEvents.EventScheduled`."""

NOTICE_FAMILY = "Forewarn.Maintenance"

NOTICE_TYPES = {
    kind: f"{NOTICE_FAMILY}.{kind.value.title().replace('-', '')}"
    for kind in NoticeKind
}
"""The `eventType` of each notice: `Forewarn.Maintenance.CampaignHalted`."""

PING = f"{FAMILY}.Ping"
"""The `eventType` of the ping that `forewarn webhook test` sends."""

DATA_VERSION = "1"
"""Increased if a member of `data` changes its meaning or is removed; new members can be
added without that."""


class Format(enum.Enum):
    """The form of the bodies for a receiver."""

    EVENTS = "events"
    SLACK = "slack"
    TEAMS = "teams"
    TEXT = "text"

    @property
    def content_type(self) -> str:
        """Return the header Content-Type of the bodies."""
        is_text = self is Format.TEXT
        return "text/plain; charset=utf-8" if is_text else "application/json"


def told(
    message: OutboxMessage,
    *,
    tenant: str,
    form: Format = Format.EVENTS,
    figures: Json | None = None,
) -> bytes:
    """Return the body for a message to a receiver of `tenant`, or of operators if
    `tenant` is empty. `figures` are the sums of a campaign that is done."""
    if message.notice is not None:
        assert not tenant, f"notice {message.message_id} for tenant {tenant}"
        if form is Format.EVENTS:
            return _posted(_notice(message, message.notice, figures))
        return _shaped(chat_texts.notice_text(message.notice, figures), form)
    data = json.loads(message.body)
    assert message.change is not None, message.message_id
    if tenant and message.approver is not None:
        # The event belongs to the tenant, and so does each VM that sees the event.
        data["approved_by"] = actor_for(
            message.approver, tenant, had_vm=lambda _vm: True
        ).as_approver
    if form is not Format.EVENTS:
        return _shaped(chat_texts.event_text(message.change, data), form)
    return _posted(
        {
            "id": message.public_id,
            "topic": f"/tenants/{data['tenant']}",
            "subject": f"/scopes/{data['scope']}/events/{data['EventId']}",
            "eventType": EVENT_TYPES[message.change],
            "eventTime": format_instant(message.at),
            "data": data,
        }
    )


def _notice(message: OutboxMessage, notice: Notice, figures: Json | None) -> Json:
    return {
        "id": message.public_id,
        "topic": "/",
        "subject": _subject(notice),
        "eventType": NOTICE_TYPES[notice.kind],
        "eventTime": format_instant(message.at),
        "data": {**notice_report(notice), "sums": figures},
    }


def _subject(notice: Notice) -> str:
    if notice.campaign is not None:
        return f"/campaigns/{notice.campaign.campaign_id}"
    return f"/blackouts/{notice.blackout}" if notice.blackout else "/brake"


def _shaped(text: ChatText, form: Format) -> bytes:
    if form is Format.TEXT:
        return text_message(text).encode("utf-8", "replace")
    shape = slack_message if form is Format.SLACK else teams_message
    return json.dumps(shape(text)).encode("ascii")


def ping(
    public_id: str,
    *,
    receiver: str,
    tenant: str,
    now: Micros,
    form: Format = Format.EVENTS,
) -> bytes:
    """Return the body of a ping."""
    if form is not Format.EVENTS:
        return _shaped(chat_texts.ping_text(receiver), form)
    return _posted(
        {
            "id": public_id,
            "topic": f"/tenants/{tenant}" if tenant else "/",
            "subject": f"/webhooks/{receiver}",
            "eventType": PING,
            "eventTime": format_instant(now),
            "data": {"webhook": receiver},
        }
    )


def _posted(event: dict[str, Any]) -> bytes:
    whole = {**event, "dataVersion": DATA_VERSION, "metadataVersion": "1"}
    return json.dumps([whole], separators=(",", ":")).encode("ascii")
