"""The openings of maintenance windows, with time zones and their changes.

A window starts by the wall clock and lasts a fixed time. If the wall clock skips the
start, the window opens at the first instant after the skipped times. If the start occurs
twice, the window opens at the first one.
"""

import zoneinfo
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from heapq import merge

from forewarn.campaigns.model import Window
from forewarn.instants import DAY, SECOND, Micros, zone_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

LAST_DAY = date(9000, 1, 1)
"""No opening is computed after this day, far below the end of the calendar."""

JOINED_MAX: Micros = 400 * DAY
"""Maximum length of joined openings: windows that are always open would have no end."""

MISSES_MAX = 400
"""Maximum openings in a row that are too short for a host, before it counts as never:
more than a year of windows, of which a change of the clock can join some."""


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
    joined: Opening | None = None
    for each in merge(*(_openings(window, after) for window in windows)):
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


def _openings(window: Window, after: Micros) -> Iterator[Opening]:
    zone = zone_of(window.timezone)
    # The first window to consider began at most its length ago, and a day earlier by the
    # wall clock of the zone.
    day = _moment(after - window.length - DAY).astimezone(zone).date()
    while day < LAST_DAY:
        if day.weekday() in window.days:
            opens = _opens(day, window.start, zone)
            yield Opening(opens, opens + window.length)
        day += timedelta(days=1)


def _opens(day: date, minutes: int, zone: tzinfo) -> Micros:
    """Return the first instant at which the wall clock shows a time, or a later one."""
    shown = datetime.combine(day, time(minutes // 60, minutes % 60))
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


class Calendar:
    """The openings of a campaign from an instant on; without windows, always open."""

    def __init__(self, windows: Sequence[Window], after: Micros) -> None:
        """Find openings after `after` when they are needed."""
        self._is_open = not windows
        self._coming = openings(windows, after)
        self._found: list[Opening] = []
        self._closes: list[Micros] = []

    def next_notice(self, at: Micros, notice: Micros, work: Micros) -> Micros | None:
        """Return when a host can be announced: at this time, later, or never (None).

        Its work begins after the notice and the opening, and must fit before the close.
        """
        if self._is_open:
            return at
        end = at + notice + work
        while not self._closes or self._closes[-1] < end:
            if not self._find():
                return None
        place = bisect_left(self._closes, end)
        for number in range(place, place + MISSES_MAX):
            if number == len(self._found) and not self._find():
                return None
            opening = self._found[number]
            if max(at + notice, opening.opens) + work <= opening.closes:
                return max(at, opening.opens - notice)
        return None

    def _find(self) -> bool:
        found = next(self._coming, None)
        if found is None:
            return False
        self._found.append(found)
        self._closes.append(found.closes)
        return True
