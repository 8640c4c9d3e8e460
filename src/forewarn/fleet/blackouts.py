"""Blackouts: times in which no planned work on hosts begins, whatever the windows say.

A blackout has two wall-clock times, or recurs like a window. The rule and its time zone
are kept, and never instants, so that a change of the zone's rules moves the blackout.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge

from forewarn.fleet.windows import Opening, Window, join, openings_of, wall_clock
from forewarn.instants import Micros, zone_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackout:
    """A time in which no planned work on hosts begins."""

    name: str
    """The name in messages, such as `year-end`."""
    begins: str = ""
    """Start by the wall clock, such as `2026-12-24T18:00`; empty: it recurs."""
    ends: str = ""
    timezone: str = "UTC"
    """The time zone of both times."""
    window: Window | None = None
    """The times at which it recurs; None: it has two times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """The time of a blackout that a plan for some work overlaps."""

    name: str
    begins: Micros
    ends: Micros


def times_of(blackout: Blackout, after: Micros) -> Iterator[Opening]:
    """Return the times of one blackout that can count after an instant."""
    if blackout.window is not None:
        return openings_of(blackout.window, after)
    zone = zone_of(blackout.timezone)
    begins, ends = (
        wall_clock(datetime.fromisoformat(text), zone)
        for text in (blackout.begins, blackout.ends)
    )
    # A change of the clock can leave nothing of a short blackout.
    return iter([Opening(begins, ends)] if begins < ends else [])


def closed_times(blackouts: Sequence[Blackout], after: Micros) -> Iterator[Opening]:
    """Yield the times of blackouts that end after an instant; overlapping ones are one."""
    return join((times_of(blackout, after) for blackout in blackouts), after)


def coming(
    blackouts: Sequence[Blackout], after: Micros, until: Micros
) -> Iterator[Clash]:
    """Yield the next time of each blackout, and all times that begin before an instant.

    They are in the order of their begins.
    """
    occurrences = (_coming(blackout, after, until) for blackout in blackouts)
    return merge(*occurrences, key=lambda blackout: (blackout.begins, blackout.name))


def _coming(blackout: Blackout, after: Micros, until: Micros) -> Iterator[Clash]:
    is_first = True
    for time in times_of(blackout, after):
        if time.closes > after:
            if not is_first and time.opens >= until:
                return
            is_first = False
            yield Clash(name=blackout.name, begins=time.opens, ends=time.closes)


def clash(blackouts: Sequence[Blackout], start: Micros, end: Micros) -> Clash | None:
    """Return the first blackout that work from `start` to `end` would overlap.

    Work can end when a blackout begins, and begin when it ends.
    """
    clashes: list[Clash] = []
    for blackout in blackouts:
        for time in times_of(blackout, start):
            if time.closes > start:
                if time.opens < max(end, start + 1):
                    clashes.append(
                        Clash(name=blackout.name, begins=time.opens, ends=time.closes)
                    )
                break
    return min(
        clashes,
        key=lambda occurrence: (occurrence.begins, occurrence.name),
        default=None,
    )
