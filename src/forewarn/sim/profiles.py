"""Profiles of a simulated endpoint: like the real one, strict, or lenient.

A profile selects settings, and whether deviations of clients are reported. The rules of
the protocol are the same in all profiles.
"""

import enum
from collections.abc import Mapping

from forewarn.instants import format_duration, parse_duration

FIRST_ANSWER = "60s"
"""Delay of the first document, as measured at Azure, where it may take two minutes."""

FIRST_EVENTS = "5m"
"""Delay from the first request until events appear: the maximum at Azure."""

RATE = "5"
"""Requests per second of one VM, as documented for Azure."""


class Profile(enum.Enum):
    """The behavior of the endpoint."""

    REAL = "real"
    """Like Azure's public endpoint: slow to start, and 429 for too many requests."""
    STRICT = "strict"
    """Each deviation of a client is reported and counted."""
    LENIENT = "lenient"
    """Immediate answers, no limit, no reports of deviations."""

    @property
    def tells(self) -> bool:
        """Return whether deviations of clients are reported and counted."""
        return self is Profile.STRICT


def settings_of(profile: Profile, *, speed: float) -> Mapping[str, str]:
    """Return the settings of the profile by name, as a flag writes them.

    The two delays are divided by `speed`, like all times of the platform. The rate
    limit is not: a client uses its own clock.
    """
    if profile is not Profile.REAL:
        return {"metadata.rate_limit": "0"}
    return {
        "metadata.rate_limit": RATE,
        "metadata.first_answer_delay": _divided(FIRST_ANSWER, speed),
        "metadata.first_events_delay": _divided(FIRST_EVENTS, speed),
    }


def _divided(duration: str, speed: float) -> str:
    """Return a duration divided by the speed (at least 1), in the form of a setting."""
    return format_duration(round(parse_duration(duration) / max(speed, 1.0)))
