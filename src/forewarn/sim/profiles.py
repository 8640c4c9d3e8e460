"""How strict a simulated endpoint is: as the real one, as a judge, or as kind as can be.

A profile only chooses settings, and whether deviations of clients are told. What is
right and wrong on the wire is the endpoint's to know, and the same in all of them.
"""

import enum
from collections.abc import Mapping

from forewarn.instants import format_duration, parse_duration

FIRST_ANSWER = "60s"
"""Before a first document: what was seen of the real one, which may take two minutes."""

FIRST_EVENTS = "5m"
"""From the first request until events are told: as long as the real one may take."""

RATE = "5"
"""Requests a second of one VM: what the real one documents."""


class Profile(enum.Enum):
    """Whom the endpoint behaves like."""

    REAL = "real"
    """Slow to begin, and 429 for who asks too often, as Azure's public behaviour."""
    STRICT = "strict"
    """Every deviation of a client is told and counted."""
    LENIENT = "lenient"
    """At once, without a limit, and no word about deviations."""

    @property
    def tells(self) -> bool:
        """Tell whether deviations of clients count."""
        return self is Profile.STRICT


def settings_of(profile: Profile, *, speed: float) -> Mapping[str, str]:
    """Return the profile's settings by their names, as a flag writes them.

    The two delays are divided by `speed`, as everything is that the platform takes.
    The limit of requests is not: a client lives by its own clock.
    """
    if profile is not Profile.REAL:
        return {"metadata.rate_limit": "0"}
    return {
        "metadata.rate_limit": RATE,
        "metadata.first_answer_delay": _divided(FIRST_ANSWER, speed),
        "metadata.first_events_delay": _divided(FIRST_EVENTS, speed),
    }


def _divided(duration: str, speed: float) -> str:
    """Return a duration divided by a speed of at least one, as a setting is written."""
    return format_duration(round(parse_duration(duration) / max(speed, 1.0)))
