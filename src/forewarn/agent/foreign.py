"""What other programs say, taken without trust.

Of their JSON, what is of another form is empty. Their texts are made fit to be shown,
kept and sent on: without the secrets that the agent holds, on one line, and bounded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from forewarn.agent.secrets import BEGIN_CHARACTERS, SPELLING_CHARACTERS_MAX, masked

TOLD_CHARACTERS = 2_000
"""Of what is told of a run, a lock, an alert: a sentence of the agent with a line or two
of others in it."""

_BEGIN = BEGIN_CHARACTERS * SPELLING_CHARACTERS_MAX
"""Characters by which a secret is known, in its longest form."""


def told(text: str, most: int = TOLD_CHARACTERS, *, also: Sequence[str] = ()) -> str:
    """Return a text as it may be shown, with at most so many characters.

    `also` has what is a secret in this text alone.
    """
    # Some more than is shown, so that a secret at the end is known by its beginning.
    shown = masked(text[: most + _BEGIN], also)
    line = "".join(c if c.isprintable() else " " for c in shown)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def json_members(body: bytes) -> dict[str, Any] | None:
    """Return what a JSON object in UTF-8 has; None: it is none."""
    try:
        value: object = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def members(value: object) -> dict[str, Any]:
    """Return what an object has; nothing where the value is none."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return what a list has; nothing where the value is none."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list, empty where one of them is none."""
    return [members(each) for each in items(value)]
