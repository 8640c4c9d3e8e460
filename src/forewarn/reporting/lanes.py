"""Times of several hosts merged into one lane: values in, values out.

At each instant, a lane shows the state that needs attention most.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from forewarn.instants import Micros
from forewarn.reporting.campaign_states import HostState

_ENDLESS: Micros = 2**62

_ORDER = (
    *(HostState.FAILED, HostState.IMPACTING, HostState.RECOVERING),
    *(HostState.READY, HostState.ANNOUNCED, HostState.DONE),
    *(HostState.SKIPPED, HostState.PLANNED),
)
"""The states by what a lane shows first: work hides notices, and both hide the past."""


class Stretch(NamedTuple):
    """The time of a host in one state."""

    state: HostState
    begins: Micros
    ends: Micros
    """0: it has not ended."""


def merged(
    stretches: Iterable[Stretch], *, stretches_max: int, now: Micros
) -> list[Stretch]:
    """Return the lane of some stretches in the order of time: the last `stretches_max`.

    A stretch without an end goes on until `now`, and an expected one can follow it.
    """
    changes: list[tuple[Micros, int, HostState]] = []
    going_on: set[HostState] = set()
    for stretch in stretches:
        ends = stretch.ends or now
        if stretch.begins < ends:
            changes += [(stretch.begins, 1, stretch.state), (ends, -1, stretch.state)]
        if not stretch.ends:
            going_on.add(stretch.state)
    changes.sort(key=lambda change: change[0])
    counts = dict.fromkeys(_ORDER, 0)
    lane: list[Stretch] = []
    shown: HostState | None = None
    since: Micros = 0
    for place, (at, by, state) in enumerate(changes):
        counts[state] += by
        is_last = place + 1 == len(changes) or changes[place + 1][0] > at
        if not is_last:
            continue
        following = next((state for state in _ORDER if counts[state]), None)
        if following is shown:
            continue
        if shown is not None:
            goes_on = at == now and shown in going_on
            lane.append(Stretch(shown, since, 0 if goes_on else at))
        shown, since = following, at
    return lane[-stretches_max:]


def within(stretches: Sequence[Stretch], first: Micros, last: Micros) -> list[Stretch]:
    """Return the stretches that overlap a time; `last` 0: it has no end."""
    return [
        stretch
        for stretch in stretches
        if (stretch.ends or _ENDLESS) > first and (not last or stretch.begins < last)
    ]


def busy_between(
    begins: Sequence[Micros],
    ends: Sequence[Micros],
    first: Micros,
    last: Micros,
    *,
    steps: int,
) -> list[int]:
    """Return what `busy` does, for stretches whose beginnings and ends are sorted.

    `ends` has those that have ended. The work does not depend on the number of stretches.
    """
    width = max(1, last - first)
    edges = [first - (-step * width // steps) for step in range(steps + 1)]
    return [
        bisect_left(begins, min(after, last)) - bisect_left(ends, before)
        for before, after in pairwise(edges)
    ]


def busy(
    stretches: Iterable[Stretch], first: Micros, last: Micros, *, steps: int
) -> list[int]:
    """Return how many stretches there are in each of some equal steps of a time."""
    counts = [0] * (steps + 1)
    width = max(1, last - first)
    for stretch in stretches:
        ends = min(stretch.ends or last, last)
        if stretch.begins >= last or ends < first:
            continue
        begin = max(0, (stretch.begins - first) * steps // width)
        end = min(steps - 1, (ends - first) * steps // width)
        counts[begin] += 1
        counts[end + 1] -= 1
    total = 0
    for place, change in enumerate(counts):
        total += change
        counts[place] = total
    return counts[:steps]
