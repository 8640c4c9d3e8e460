"""When the hosts of a running campaign are expected to begin and end: values in, values out.

The estimate uses the median of the hosts that ended last, and the number of hosts that may
be in flight. It never plays the order of hosts as `forecast` does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_high
from typing import NamedTuple

from forewarn.fleet.windows import Opening
from forewarn.instants import MINUTE, Micros

PACE_HOSTS = 20
"""Hosts that ended last whose times count: enough for a median, and few enough to follow
a change of the work."""


class Sample(NamedTuple):
    """The times of one host that was done."""

    announced: Micros
    started: Micros
    over: Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The usual times of a host of a campaign."""

    hosts: int
    """Number of hosts that it was measured on."""
    turn: Micros
    """From the announcement of a host to its end: as long as it uses a place in flight."""
    work: Micros
    """From the start of its work to its end."""


def pace_of(samples: Sequence[Sample]) -> Pace | None:
    """Return the usual times of a host; None: no host is done."""
    if not samples:
        return None
    return Pace(
        hosts=len(samples),
        turn=max(1, median_high(sample.over - sample.announced for sample in samples)),
        work=max(1, median_high(sample.over - sample.started for sample in samples)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The hosts of a campaign that are left, and how many can be in flight."""

    waiting: int
    in_flight: int
    slots: int
    """Maximum hosts in flight, at least 1."""


def turn_after(line: Line, pace: Pace, ahead: int) -> Micros:
    """Return after which working time the host is announced that has `ahead` before it.

    On average, half of the time of the hosts in flight has passed.
    """
    before = 2 * max(0, ahead - max(0, line.slots - line.in_flight)) + min(
        line.in_flight, line.slots
    )
    is_free = ahead < line.slots - line.in_flight
    return 0 if is_free else before * pace.turn // (2 * line.slots)


def end_after(line: Line, pace: Pace) -> Micros:
    """Return after which working time all hosts that are left have ended."""
    if not line.waiting:
        return pace.turn // 2 if line.in_flight else 0
    return turn_after(line, pace, line.waiting - 1) + pace.turn


def spent(free: Iterable[Opening], working: Micros) -> Micros | None:
    """Return the instant at which some working time has passed; None: it does not fit.

    `free` has the times in which hosts may be announced, the earliest first.
    """
    for opening in free:
        length = opening.closes - opening.opens
        if working <= length:
            return opening.opens + working
        working -= length
    return None


def whole_minute(instant: Micros) -> Micros:
    """Return the end of the minute of an instant, so that an estimate moves in steps."""
    return -(-instant // MINUTE) * MINUTE
