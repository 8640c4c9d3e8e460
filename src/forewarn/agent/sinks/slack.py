"""Notifications to Slack, through an incoming webhook.

All text from other sources is in plain-text fields, in which Slack looks for no markup.
The description of an event can therefore not mention a channel.
"""

from __future__ import annotations

from typing import Any

from forewarn.agent.sinks.chat import chat_kind
from forewarn.agent.sinks.port import Told
from forewarn.agent.sinks.wording import (
    Severity,
    facts,
    plain,
    sentence,
    severity,
    title,
)

HEADER_CHARACTERS = 150
TEXT_CHARACTERS = 3_000
FIELD_CHARACTERS = 2_000
FIELDS_MAX = 10
"""Limits of Slack, which refuses any message that exceeds one."""

_MARKS = {
    Severity.ERROR: ":red_circle:",
    Severity.WARNING: ":large_yellow_circle:",
    Severity.NOTICE: ":large_blue_circle:",
    Severity.INFO: ":white_circle:",
}


def message(told: Told) -> dict[str, Any]:
    """Return the message; `text` is its preview, such as on a phone."""
    mark = _MARKS[severity(told)]
    fields = [
        _plain(f"{name}\n{value}", FIELD_CHARACTERS) for name, value in facts(told)
    ]
    return {
        "text": f"{mark} {_escaped(title(told))}",
        "blocks": [
            {"type": "header", "text": _plain(title(told), HEADER_CHARACTERS)},
            {"type": "section", "text": _plain(sentence(told), TEXT_CHARACTERS)},
            {"type": "section", "fields": fields[:FIELDS_MAX]},
        ],
    }


def _plain(text: str, most: int) -> dict[str, Any]:
    head, line, rest = text.partition("\n")
    cut = plain(rest, most - len(head) - len(line)) if line else plain(text, most)
    return {
        "type": "plain_text",
        "text": f"{head}{line}{cut}" if line else cut,
        "emoji": False,
    }


def _escaped(text: str) -> str:
    """Return a text without links and mentions for Slack."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


KIND = chat_kind(message)
