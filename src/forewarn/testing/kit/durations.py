"""Lengths of time in tests, such as `"15m"`, 2.5 or a timedelta, and default timeouts.

Timeouts are in real time, because the program under test runs in real time, even if the
clock of the world is virtual.
"""

import reprlib
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from forewarn.instants import DURATION_MAX, SECOND, Micros, parse_duration
from forewarn.protocol.errors import RefusedError

__tracebackhide__ = True
"""pytest shows the line of the test that failed, and no line of this module."""

Length: TypeAlias = str | float | timedelta
"""A text such as `"15m"`, a number of seconds, or a timedelta."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros_of(length: Length) -> Micros:
    """Return a length in microseconds; raises RefusedError if it is invalid."""
    if isinstance(length, str):
        try:
            return parse_duration(length)
        except ValueError as error:
            raise RefusedError(str(error)) from error
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    # A NaN fails every comparison, so this refuses it too.
    if not (is_number(seconds) and 0 <= seconds <= DURATION_MAX / SECOND):
        raise RefusedError(
            f"{reprlib.repr(length)} is not a valid length",
            hint='Use a string such as "15m", a timedelta, or seconds up to ten years.',
        )
    return round(seconds * SECOND)


def is_number(value: object) -> bool:
    """Return whether a value is a number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def seconds_of(length: Length) -> float:
    """Return a length in seconds."""
    return micros_of(length) / SECOND


def moment_of(instant: Micros) -> datetime | None:
    """Return an instant as a datetime in UTC; None for 0, which means never."""
    return _EPOCH + timedelta(microseconds=instant) if instant else None


def instant_of(moment: datetime) -> Micros:
    """Return a datetime as an instant; raises RefusedError if it has no time zone."""
    if moment.tzinfo is None:
        raise RefusedError(f"{moment} has no time zone", hint="Add tzinfo=UTC.")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def length_text(micros: Micros) -> str:
    """Return a length for a message: `3 s`, `0.25 s`."""
    return f"{round(micros / SECOND, 2):g} s"


APPROVAL_SECONDS = 10.0
"""Wait for an approval: a client that polls every second has had ten chances."""

STATUS_SECONDS = 10.0
"""Wait for a status that follows automatically, such as Started after an approval."""

REQUEST_SECONDS = 10.0
"""Wait for a request: as long as a slow program under test needs to start."""

EVENT_SECONDS = 10.0
"""Wait for an event of a scenario or a recording."""

REPLAY_SECONDS = 10.0
"""Wait for the first request of a replay, and additional wait for its end."""

CLIENT_SECONDS = 60.0
"""Wait for the first poll of a client before a scenario begins without one. It is the
same as `forewarn simulate --wait`."""

SCENARIO_SECONDS = 600.0
"""Wait for a whole scenario, in addition to its length without approvals. Its own
expectations have much shorter limits."""
