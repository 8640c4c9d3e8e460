"""The list of a lock's holders, as a text that several agents share. Pure.

The text is JSON: `{"holders": {"web_1": {"since": "…Z", "until": "…Z"}}}`. All its times
are from the clock of the server that stores it, never from an agent's clock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from forewarn.agent.foreign import members, told
from forewarn.instants import Micros, format_instant, parse_instant
from forewarn.protocol.frozen import frozen_dataclass

TEXT_CHARACTERS_MAX = 256 * 1024
"""Maximum length of the text, in characters: a thousand holders need 90,000."""

SHOWN_MAX = 5
"""Maximum number of holders that a message names."""

NAME_CHARACTERS = 100
"""Maximum length of a holder's name in a message, in characters."""


@frozen_dataclass
class Holder:
    """A VM that holds the lock."""

    name: str
    since: Micros
    until: Micros
    """When the holder's slot expires, unless it is confirmed before."""


Roster = tuple[Holder, ...]


def parse(text: str) -> Roster:
    """Return the holders of a text; an empty text has none.

    Raises ValueError with a sentence if the text is not valid.
    """
    if not text.strip():
        return ()
    if len(text) > TEXT_CHARACTERS_MAX:
        raise ValueError(f"it has more than {TEXT_CHARACTERS_MAX} characters")
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    holders: object = members(found).get("holders")
    if not isinstance(holders, dict):
        raise ValueError("it has no object `holders`")  # noqa: TRY004
    named = cast("dict[str, object]", holders)
    return tuple(_holder(name, each) for name, each in named.items())


def _holder(name: str, value: object) -> Holder:
    times = members(value)
    try:
        return Holder(
            name=name,
            since=parse_instant(str(times["since"])),
            until=parse_instant(str(times["until"])),
        )
    except (KeyError, ValueError):
        shown = told(name, NAME_CHARACTERS)
        raise ValueError(f"the times of the holder {shown!r} are not valid") from None


def text_of(roster: Roster) -> str:
    """Return the text of a roster."""
    holders = {
        each.name: {
            "since": format_instant(each.since),
            "until": format_instant(each.until),
        }
        for each in roster
    }
    return json.dumps({"holders": holders})


def taken(
    roster: Roster, name: str, *, slots: int, ttl: Micros, now: Micros
) -> Roster | None:
    """Return the roster in which `name` holds the lock; None: all slots are taken.

    A holder keeps its slot even if the number of slots was reduced. Expired holders are
    removed.
    """
    others = [each for each in roster if each.name != name and now < each.until]
    mine = [each for each in roster if each.name == name and now < each.until]
    if not mine and len(others) >= slots:
        return None
    since = mine[0].since if mine else now
    return (*others, Holder(name=name, since=since, until=now + ttl))


def without(roster: Roster, name: str) -> Roster:
    """Return the roster without `name`."""
    return tuple(each for each in roster if each.name != name)


def described(roster: Sequence[Holder], *, now: Micros) -> str:
    """Return the holders of the lock for a message; empty: it is free."""
    valid = [each for each in roster if now < each.until]
    shown = ", ".join(
        f"{told(each.name, NAME_CHARACTERS)} since {format_instant(each.since // 1_000_000 * 1_000_000)}"
        for each in valid[:SHOWN_MAX]
    )
    more = len(valid) - SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
