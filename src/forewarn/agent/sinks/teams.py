"""Notifications to Microsoft Teams, through a Workflows webhook with Adaptive Cards.

All text is in text runs, in which Teams looks for no Markdown. The description of an
event can therefore not contain a link.
"""

from __future__ import annotations

from typing import Any

from forewarn.agent.sinks.chat import chat_kind
from forewarn.agent.sinks.port import Told
from forewarn.agent.sinks.wording import Severity, facts, sentence, severity, title

CARD_VERSION = "1.4"
"""Every Teams client supports this version; text runs exist since 1.2."""

_COLOURS = {
    Severity.ERROR: "Attention",
    Severity.WARNING: "Warning",
    Severity.NOTICE: "Accent",
    Severity.INFO: "Default",
}


def message(told: Told) -> dict[str, Any]:
    """Return the message with its card: about 3 KB, of the 28 KB that Teams accepts."""
    colour = _COLOURS[severity(told)]
    heading = _run(title(told), weight="Bolder", size="Medium", color=colour)
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": CARD_VERSION,
        "msteams": {"width": "Full"},
        "fallbackText": title(told),
        "body": [
            _block(heading),
            _block(_run(sentence(told))),
            *(
                _block(_run(f"{name}: ", weight="Bolder"), _run(value))
                for name, value in facts(told)
            ),
        ],
    }
    return {
        "type": "message",
        "summary": title(told),
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
    return {"type": "TextRun", "text": text, **style}


KIND = chat_kind(message)
