"""Messages to chats: Slack, Microsoft Teams and plain text. Pure.

All text from other sources is in plain-text fields of Slack, and in text runs of an
Adaptive Card in Teams. Both look for no markup there, so a text cannot mention a channel
or contain a link. The agent and the service send the same shapes.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from forewarn.texts import cleaned, shortened

HEADER_CHARACTERS = 150
TEXT_CHARACTERS = 3_000
FIELD_CHARACTERS = 2_000
FIELDS_MAX = 10
"""Limits of Slack, which refuses any message that exceeds one."""

CARD_VERSION = "1.4"
"""Every Teams client supports this version; text runs exist since 1.2."""


class Severity(enum.IntEnum):
    """The severity, with the numbers of syslog (RFC 5424, 6.2.1)."""

    ERROR = 3
    """Something failed that should have worked, and needs attention."""
    WARNING = 4
    NOTICE = 5
    """A normal event that matters to its readers."""
    INFO = 6


_MARKS = {
    Severity.ERROR: ":red_circle:",
    Severity.WARNING: ":large_yellow_circle:",
    Severity.NOTICE: ":large_blue_circle:",
    Severity.INFO: ":white_circle:",
}

_COLORS = {
    Severity.ERROR: "Attention",
    Severity.WARNING: "Warning",
    Severity.NOTICE: "Accent",
    Severity.INFO: "Default",
}


class ChatText(NamedTuple):
    """The texts of one message."""

    title: str
    sentence: str
    facts: Sequence[tuple[str, str]]
    """Names and values, in display order."""
    severity: Severity


def plain(text: str, characters_max: int = 200) -> str:
    """Return a text on one line, without unprintable characters, cut if it is too
    long."""
    return shortened(cleaned(text), characters_max)


def text_message(text: ChatText) -> str:
    """Return the message as lines of plain text."""
    lines = [
        plain(text.title),
        plain(text.sentence, TEXT_CHARACTERS),
        *(f"{name}: {plain(value, FIELD_CHARACTERS)}" for name, value in text.facts),
    ]
    return "\n".join(lines) + "\n"


NO_TEXT = "-"
"""In place of an empty text, which Slack and Teams refuse."""


# Slack


def slack_message(text: ChatText) -> dict[str, Any]:
    """Return the message; `text` is its preview, such as on a phone."""
    mark = _MARKS[text.severity]
    fields = [
        _plain(f"{name}\n{value}", FIELD_CHARACTERS) for name, value in text.facts
    ]
    return {
        "text": f"{mark} {_escaped(text.title)}",
        "blocks": [
            {"type": "header", "text": _plain(text.title, HEADER_CHARACTERS)},
            {"type": "section", "text": _plain(text.sentence, TEXT_CHARACTERS)},
            # Slack refuses a section without fields.
            *([{"type": "section", "fields": fields[:FIELDS_MAX]}] if fields else []),
        ],
    }


def _plain(text: str, characters_max: int) -> dict[str, Any]:
    head, line, rest = text.partition("\n")
    rest_max = characters_max - len(head) - len(line)
    cut = plain(rest, rest_max) if line else plain(text, characters_max)
    return {
        "type": "plain_text",
        "text": f"{head}{line}{cut}" if line else cut or NO_TEXT,
        "emoji": False,
    }


def _escaped(text: str) -> str:
    """Return a text without links and mentions for Slack."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# Teams


def teams_message(text: ChatText) -> dict[str, Any]:
    """Return the message with its card: about 3 KB, of the 28 KB that Teams accepts."""
    color = _COLORS[text.severity]
    heading = _run(text.title, weight="Bolder", size="Medium", color=color)
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": CARD_VERSION,
        "msteams": {"width": "Full"},
        "fallbackText": text.title,
        "body": [
            _block(heading),
            _block(_run(text.sentence)),
            *(
                _block(_run(f"{name}: ", weight="Bolder"), _run(value))
                for name, value in text.facts
            ),
        ],
    }
    return {
        "type": "message",
        "summary": text.title,
        "attachments": [
            {
                "contentType": "application/vnd.microsoft.card.adaptive",
                "contentUrl": None,
                "content": card,
            }
        ],
    }


def _block(*runs: dict[str, Any]) -> dict[str, Any]:
    return {"type": "RichTextBlock", "spacing": "Small", "inlines": list(runs)}


def _run(text: str, **style: str) -> dict[str, Any]:
    return {"type": "TextRun", "text": text or NO_TEXT, **style}
