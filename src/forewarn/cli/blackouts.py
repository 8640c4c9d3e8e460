"""Blackouts as lines of text."""

from collections.abc import Iterator, Sequence
from typing import Any

from forewarn.texts import count

TIMES_SHOWN = 10
"""Times of blackouts in the text of a plan; --json has more."""


def blackout_line(told: dict[str, Any]) -> str:
    """Return the time of a blackout as a line."""
    if not told["begins"]:
        return f"blackout {told['name']} has ended"
    return f"blackout {told['name']}: {told['begins']} to {told['ends']}"


def blackout_lines(times: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the first times of blackouts as lines."""
    yield from map(blackout_line, times[:TIMES_SHOWN])
    if (left := len(times) - TIMES_SHOWN) > 0:
        yield f"and {count(left, 'more time')} of blackouts"
