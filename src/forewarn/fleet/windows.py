"""The openings of maintenance windows, with time zones and their changes.

A window starts by the wall clock and lasts a fixed time. If the wall clock skips the
start, the window opens at the first instant after the skipped times. If the start occurs
twice, the window opens at the first one.
"""

import zoneinfo
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from heapq import merge
from typing import NamedTuple

from forewarn.instants import DAY, MINUTE, SECOND, Micros, zone_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

LAST_DAY = date(9000, 1, 1)
"""No opening is computed after this day, far below the end of the calendar."""

_FIRST_DAY = date(1970, 1, 1).toordinal()
_DAYS_MAX = LAST_DAY.toordinal() - _FIRST_DAY

JOINED_MAX: Micros = 400 * DAY
"""Maximum length of joined openings: windows that are always open would have no end."""

MIDNIGHTS_KEPT = 2_000
"""Maximum days of time zones whose begin is remembered: two weeks in a hundred zones, in
some 300 KiB. Windows of a zone share it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A recurring time in which work on hosts may begin.

    It starts at a wall-clock time and has a fixed length, so a change between summer
    and winter time neither shortens nor lengthens it.
    """

    days: tuple[int, ...]
    """Days of the week on which it starts; 0 is Monday."""
    start: int
    """Minutes after midnight."""
    length: Micros
    timezone: str = "UTC"
    """A name of the time zone database."""


class Opening(NamedTuple):
    """A time in which hosts may be worked on."""

    opens: Micros
    closes: Micros


def zone_names() -> list[str]:
    """Return the known names of time zones."""
    return sorted({"UTC", *zoneinfo.available_timezones()})


def openings(
    windows: Sequence[Window], after: Micros, *, beside: Opening | None = None
) -> Iterator[Opening]:
    """Yield the openings that end after an instant, the earliest first.

    `beside` is one more opening. Overlapping openings are one.
    """
    iterators = [openings_of(window, after) for window in windows]
    return join([*iterators, iter([beside])] if beside else iterators, after)


def join(iterators: Iterable[Iterator[Opening]], after: Micros) -> Iterator[Opening]:
    """Yield the openings of several sources that end after an instant, in their order.

    Each source is in order. Overlapping openings are one.
    """
    joined: Opening | None = None
    for opening in merge(*iterators):
        if opening.closes <= after:
            continue
        if joined is None:
            joined = opening
        elif opening.opens <= joined.closes < joined.opens + JOINED_MAX:
            joined = Opening(joined.opens, max(joined.closes, opening.closes))
        else:
            yield joined
            joined = opening
    if joined is not None:
        yield joined


def openings_of(window: Window, after: Micros) -> Iterator[Opening]:
    """Yield the openings of one window that close after an instant."""
    # A day of a time zone begins less than a day before or after that of UTC.
    first = (after - window.length - window.start * MINUTE) // DAY - 1
    # 1970-01-01 was a Thursday.
    for day in range(first, _DAYS_MAX):
        if (day + 3) % 7 in window.days:
            midnight = _midnight(window.timezone, day)
            if midnight is None:
                local = _day(day) + timedelta(minutes=window.start)
                opens = wall_clock(local, zone_of(window.timezone))
            else:
                opens = midnight + window.start * MINUTE
            closes = opens + window.length
            if closes > after:
                yield Opening(opens, closes)


@lru_cache(maxsize=MIDNIGHTS_KEPT)
def _midnight(timezone: str, day: int) -> Micros | None:
    """Return the instant at which a day begins by the wall clock of a time zone.

    Return None if the clock changes on that day. Days are counted from 1970.
    """
    zone = zone_of(timezone)
    begins, ends = (
        {_instant(local.replace(tzinfo=zone, fold=fold)) for fold in (0, 1)}
        for local in (_day(day), _day(day + 1))
    )
    if len(begins) > 1 or len(ends) > 1 or max(ends) - max(begins) != DAY:
        return None
    return max(begins)


def _day(number: int) -> datetime:
    return datetime.combine(date.fromordinal(_FIRST_DAY + number), time())


def wall_clock(local: datetime, zone: tzinfo) -> Micros:
    """Return the first instant at which the wall clock shows a time, or a later one."""
    early = _instant(local.replace(tzinfo=zone, fold=0))
    if _moment(early).astimezone(zone).replace(tzinfo=None) == local:
        return early
    # The clock skips this time: find the change, between the two readings of the time.
    low = _instant(local.replace(tzinfo=zone, fold=1))
    offset = _moment(low).astimezone(zone).utcoffset()
    high = early
    while high - low > SECOND:
        middle = (low + high) // 2
        if _moment(middle).astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high // SECOND * SECOND


def _moment(instant: Micros) -> datetime:
    return _EPOCH + timedelta(microseconds=instant)


def _instant(moment: datetime) -> Micros:
    return (moment - _EPOCH) // _MICROSECOND
