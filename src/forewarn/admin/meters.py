"""Values of metrics: their definitions, their counters, and what a scrape reads.

A `Meter` describes one metric with the expected values of its labels, so these series
exist from the first scrape, with the value 0. The counters are plain numbers, and only a
scrape formats them (`admin.metrics`). There is no registry: each service has its own
readings. The counters of prometheus_client are not used, since they cost four times as
much as a number in a list, and an environment variable can turn them into files.
"""

import bisect
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
"""Buckets for actions that should take milliseconds."""

TURNS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075),
    *(0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 60),
)
"""Buckets for work that delays other work: close to each other up to 50 ms. After the
start, no such work should take longer."""

MINUTES = (1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 14400, 86400)
"""Buckets for actions of people and their programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """One metric: its name, its meaning, and the values of its labels."""

    name: str
    kind: str
    """counter, gauge or histogram."""
    text: str
    """A sentence."""
    labels: Mapping[str, Sequence[str]]
    """Expected values of each label; others are possible."""
    buckets: Sequence[float] = ()

    def keys(self) -> Iterator[tuple[str, ...]]:
        """Yield every series that exists from the beginning."""
        return itertools.product(*self.labels.values())


class Histogram:
    """A histogram of durations."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Count values up to each bound, and values above the last one."""
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value; used by one thread."""
        self.counts[bisect.bisect_left(self._bounds, value)] += 1
        self.sum += value


Value: TypeAlias = float | Histogram


@dataclass(frozen=True, slots=True)
class Reading:
    """The current values of a metric; a series that is left out is 0."""

    meter: Meter
    values: Mapping[Any, Value] | Value
    """The value of each series. The key has the values of its labels: a tuple, or a
    string if there is only one label."""


Collect: TypeAlias = Callable[[], Awaitable[Iterable[Reading]]]
"""Returns the readings for a scrape."""
