"""`/metrics`: what Prometheus reads, from values that others have counted.

A `Meter` describes one metric, with every value that each of its labels can have,
so that all of its series are there from the first scrape, at nothing. Who counts
keeps plain numbers; only a scrape makes a text of them. There is no registry: each
service has its own readings. prometheus_client has the form (0.7 MiB on top of what
the service holds anyway); its own counters are not used, since they cost four times
as much as a number in a list, and can be turned into files by a variable of the
environment.
"""

import bisect
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fastapi import APIRouter
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forewarn.admin.answers import ANY_ERROR

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
"""Buckets of what should take milliseconds."""

TURNS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075),
    *(0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 60),
)
"""Buckets of turns that others wait for: close to each other up to 50 ms and a little
beyond it, which no turn of a service that has started should take."""

MINUTES = (1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 14400, 86400)
"""Buckets of what people and their programs take time for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """One metric: its name, what it tells, and all that its labels can say."""

    name: str
    kind: str
    """counter, gauge or histogram."""
    text: str
    """A sentence."""
    labels: Mapping[str, Sequence[str]]
    """Of each label, every value that it is sure to have; others may come."""
    buckets: Sequence[float] = ()

    def keys(self) -> Iterator[tuple[str, ...]]:
        """Yield every series that is there from the beginning."""
        return itertools.product(*self.labels.values())


class Histogram:
    """How often what took how long."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Count what is at most each bound, and what is beyond the last."""
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
    """What a metric says now; a series that is left out is at nothing."""

    meter: Meter
    values: Mapping[Any, Value] | Value
    """By the labels' values: a tuple, or a text where there is one label."""


Collect: TypeAlias = Callable[[], Awaitable[Iterable[Reading]]]
"""What a scrape asks."""


def render(readings: Iterable[Reading], *, accept: str = "") -> tuple[bytes, str]:
    """Return the text of the readings and its media type, as `accept` wants it."""
    encode, media_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given([_family(reading) for reading in readings]))
    return encode(registry), media_type


def router(collect: Collect) -> APIRouter:
    """Return the route of `/metrics`."""
    routes = APIRouter(tags=["health"])
    text = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

    @routes.get("/metrics", response_class=Response, responses={**text, **ANY_ERROR})
    async def metrics(request: Request) -> Response:
        """Tell what Prometheus asks; docs/reference/metrics.md explains each line."""
        accept = request.headers.get("accept", "")
        body, media_type = render(await collect(), accept=accept)
        return Response(body, headers={"Content-Type": media_type})

    return routes


class Responses:
    """Counts answers by their status."""

    def __init__(self, app: ASGIApp, *, counts: Counter[str]) -> None:
        """Count what `app` answers in `counts`."""
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._counts[str(message["status"])] += 1
            await send(message)

        await self._app(scope, receive, sending)


class _Given(Collector):
    """Families that are there already."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _family(reading: Reading) -> Metric:
    meter = reading.meter
    name = meter.name.removesuffix("_total") if meter.kind == "counter" else meter.name
    family = Metric(name, meter.text, meter.kind)
    found = dict(_by_key(reading.values))
    for key in dict.fromkeys([*meter.keys(), *found]):
        labels = dict(zip(meter.labels, key, strict=True))
        if meter.kind == "histogram":
            _add_histogram(family, labels, meter, found.get(key))
        else:
            value = found.get(key, 0)
            assert not isinstance(value, Histogram), meter
            family.add_sample(meter.name, labels, value)
    return family


def _by_key(
    values: Mapping[Any, Value] | Value,
) -> Iterator[tuple[tuple[str, ...], Value]]:
    if not isinstance(values, Mapping):
        yield (), values
        return
    for key, value in values.items():
        yield ((key,) if isinstance(key, str) else key), value


def _add_histogram(
    family: Metric, labels: dict[str, str], meter: Meter, found: Value | None
) -> None:
    histogram = Histogram(meter.buckets) if found is None else found
    assert isinstance(histogram, Histogram), meter
    # A copy: another thread goes on counting, and the parts must agree.
    total, counts = histogram.sum, list(histogram.counts)
    bounds = [*(f"{bound:g}" for bound in meter.buckets), "+Inf"]
    for bound, count in zip(bounds, itertools.accumulate(counts), strict=True):
        family.add_sample(f"{meter.name}_bucket", {**labels, "le": bound}, count)
    family.add_sample(f"{meter.name}_count", labels, sum(counts))
    family.add_sample(f"{meter.name}_sum", labels, total)
