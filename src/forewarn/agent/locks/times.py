"""What time it is for a server, by the header `Date` of its answers. Pure."""

from __future__ import annotations

from forewarn.agent.wire.answers import Answer
from forewarn.instants import Micros, parse_http_date


def server_time(answer: Answer, otherwise: Micros) -> Micros:
    """Return what an answer says; `otherwise` where it says nothing that can be read."""
    try:
        return parse_http_date(answer.header("date") or "")
    except ValueError:
        return otherwise
