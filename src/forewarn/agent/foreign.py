"""Handle data from other programs without trusting it.

JSON values of a wrong type count as empty. Texts are made safe to show, store and send:
without the agent's secrets, on one line, and with limited length.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from forewarn.agent.secrets import BEGIN_CHARACTERS, SPELLING_CHARACTERS_MAX, masked
from forewarn.instants import Micros, parse_instant
from forewarn.texts import cleaned, shortened

TOLD_CHARACTERS = 2_000
"""Maximum length of a detail about a run, a lock or an alert: one sentence of the agent
with a line or two of foreign text."""

_BEGIN = BEGIN_CHARACTERS * SPELLING_CHARACTERS_MAX
"""Maximum length of the beginning of a secret, in its longest spelling."""


def told(
    text: str, characters_max: int = TOLD_CHARACTERS, *, also: Sequence[str] = ()
) -> str:
    """Return a string that is safe to show, with a maximum length.

    `also` has further secrets for this text only.
    """
    # The extra characters make a secret at the end recognizable. Without its control
    # characters, a string can have a secret that it did not have before.
    line = masked(cleaned(masked(text[: characters_max + _BEGIN], also)), also)
    return shortened(line, characters_max)


def json_members(body: bytes) -> dict[str, Any] | None:
    """Return the members of a JSON object in UTF-8; None: it is not one."""
    try:
        value: object = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def members(value: object) -> dict[str, Any]:
    """Return the members of a JSON object; empty for any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return the items of a JSON array; empty for any other value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a JSON array, with empty ones for other values."""
    return [members(item) for item in items(value)]


def instant_in(text: str) -> Micros | None:
    """Return the instant that a string has; None: it is not valid."""
    try:
        return parse_instant(text)
    except ValueError:
        return None
