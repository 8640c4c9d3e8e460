"""The openings of maintenance windows, with time zones and their changes.

A window starts by the wall clock and lasts a fixed time. If the wall clock skips the
start, the window opens at the first instant after the skipped times. If the start occurs
twice, the window opens at the first one.
"""

import zoneinfo
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from heapq import merge

from forewarn.instants import DAY, SECOND, Micros, zone_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

LAST_DAY = date(9000, 1, 1)
"""No opening is computed after this day, far below the end of the calendar."""

JOINED_MAX: Micros = 400 * DAY
"""Maximum length of joined openings: windows that are always open would have no end."""


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


@dataclass(frozen=True, slots=True, order=True)
class Opening:
    """A time in which hosts may be worked on."""

    opens: Micros
    closes: Micros


def zone_names() -> list[str]:
    """Return the known names of time zones."""
    return sorted({"UTC", *zoneinfo.available_timezones()})


def openings(windows: Sequence[Window], after: Micros) -> Iterator[Opening]:
    """Yield the openings that end after an instant, the earliest first.

    Overlapping openings are one.
    """
    return join((openings_of(window, after) for window in windows), after)


def join(found: Iterable[Iterator[Opening]], after: Micros) -> Iterator[Opening]:
    """Yield the openings of several sources that end after an instant, in their order.

    Each source is in order. Overlapping openings are one.
    """
    joined: Opening | None = None
    for each in merge(*found):
        if each.closes <= after:
            continue
        if joined is None:
            joined = each
        elif each.opens <= joined.closes < joined.opens + JOINED_MAX:
            joined = Opening(joined.opens, max(joined.closes, each.closes))
        else:
            yield joined
            joined = each
    if joined is not None:
        yield joined


def openings_of(window: Window, after: Micros) -> Iterator[Opening]:
    """Yield the openings of one window from a day before an instant on."""
    zone = zone_of(window.timezone)
    # The first window to consider began at most its length ago, and a day earlier by the
    # wall clock of the zone.
    day = _moment(after - window.length - DAY).astimezone(zone).date()
    while day < LAST_DAY:
        if day.weekday() in window.days:
            start = datetime.combine(day, time(*divmod(window.start, 60)))
            opens = wall_clock(start, zone)
            yield Opening(opens, opens + window.length)
        day += timedelta(days=1)


def wall_clock(shown: datetime, zone: tzinfo) -> Micros:
    """Return the first instant at which the wall clock shows a time, or a later one."""
    early = _instant(shown.replace(tzinfo=zone, fold=0))
    if _moment(early).astimezone(zone).replace(tzinfo=None) == shown:
        return early
    # The clock skips this time: find the change, between the two readings of the time.
    low = _instant(shown.replace(tzinfo=zone, fold=1))
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


HORIZON: Micros = 14 * DAY
"""Maximum time that is searched for a common opening. Windows recur every week; the
second week covers a change of the clock in one of their time zones."""


def next_open(groups: Sequence[Sequence[Window]], at: Micros) -> Micros | None:
    """Return the first instant, from `at` on, at which a window of each group is open.

    Return None if there is none within `HORIZON`.
    """
    instant = at
    while instant <= at + HORIZON:
        opens = max(
            (_opens_next(windows, instant) for windows in groups), default=instant
        )
        if opens == instant:
            return instant
        instant = opens
    return None


def _opens_next(windows: Sequence[Window], at: Micros) -> Micros:
    """Return the first instant, from `at` on, at which one of the windows is open."""
    coming = (
        next(each for each in openings_of(window, at) if each.closes > at)
        for window in windows
    )
    return max(at, min(each.opens for each in coming))
