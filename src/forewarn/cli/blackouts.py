"""Blackouts as lines of text, and `blackout show`."""

from collections.abc import Iterator, Sequence
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call
from forewarn.texts import count

TIMES_SHOWN = 10
"""Times of blackouts in the text of a plan; --json has more."""


def blackout_line(blackout: dict[str, Any]) -> str:
    """Return the time of a blackout as a line."""
    if not blackout["begins"]:
        return f"blackout {blackout['name']} has ended"
    return f"blackout {blackout['name']}: {blackout['begins']} to {blackout['ends']}"


def blackout_lines(times: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the first times of blackouts as lines."""
    yield from map(blackout_line, times[:TIMES_SHOWN])
    if (left := len(times) - TIMES_SHOWN) > 0:
        yield f"and {count(left, 'more time')} of blackouts"


def show(call: Call) -> int:
    """Print the blackouts of the service."""
    answer = Client.of(call).get("blackouts")
    return output.said(call, answer, "\n".join(wide_blackout_lines(answer)))


def wide_blackout_lines(answer: Json) -> Iterator[str]:
    """Yield the blackouts of the service, one per line."""
    for blackout in answer["blackouts"]:
        now = " (now)" if blackout["in_force"] else ""
        where = ", ".join(blackout["where"]) or "the whole fleet"
        yield (
            f"{blackout_line(blackout)}{now}, {where}, set by {blackout['by']} at "
            f"{blackout['since']}: {blackout['reason']}"
        )
    if not answer["blackouts"]:
        yield "the service has no blackouts"
