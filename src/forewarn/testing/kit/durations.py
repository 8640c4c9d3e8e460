"""Lengths of time as a test writes them: `"15m"`, 2.5 or a timedelta."""

import reprlib
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from forewarn.instants import DURATION_MAX, SECOND, Micros, parse_duration
from forewarn.protocol.errors import RefusedError

Length: TypeAlias = str | float | timedelta
"""A text such as `"15m"`, a number of seconds, or a timedelta."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros_of(length: Length) -> Micros:
    """Return a length in microseconds; refuse what is none, or is negative."""
    __tracebackhide__ = True
    if isinstance(length, str):
        try:
            return parse_duration(length)
        except ValueError as error:
            raise RefusedError(str(error)) from error
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    # A number that is none compares to nothing, so it is refused too.
    if not (is_number(seconds) and 0 <= seconds <= DURATION_MAX / SECOND):
        raise RefusedError(
            f"{reprlib.repr(length)} is no length",
            hint='a text such as "15m", a timedelta, or seconds up to ten years',
        )
    return round(seconds * SECOND)


def is_number(value: object) -> bool:
    """Tell whether it is a number, which true and false are to Python alone."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def seconds_of(length: Length) -> float:
    """Return a length in seconds, for a wait."""
    __tracebackhide__ = True
    return micros_of(length) / SECOND


def moment_of(instant: Micros) -> datetime | None:
    """Return an instant as a moment in UTC; None for 0, which is never."""
    return _EPOCH + timedelta(microseconds=instant) if instant else None


def instant_of(moment: datetime) -> Micros:
    """Return a moment as an instant; refuse one without an offset."""
    if moment.tzinfo is None:
        raise RefusedError(f"{moment} has no offset", hint="add tzinfo=UTC")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def told(micros: Micros) -> str:
    """Return a length for a sentence: `3 s`, `0.25 s`."""
    return f"{round(micros / SECOND, 2):g} s"
