"""Notifications in Slack, by an incoming webhook.

Everything that was said by others is in fields of plain text, in which Slack looks for
no mark-up; so nobody can mention a channel by the description of an event.
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
"""Bounds of Slack's: what is longer or more is refused as a whole."""

_MARKS = {
    Severity.ERROR: ":red_circle:",
    Severity.WARNING: ":large_yellow_circle:",
    Severity.NOTICE: ":large_blue_circle:",
    Severity.INFO: ":white_circle:",
}


def message(told: Told) -> dict[str, Any]:
    """Return the message; `text` is what a telephone shows before it is opened."""
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
    """Return a text in which Slack finds no link and no mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


KIND = chat_kind(message)
