"""`/metrics`: the readings that other modules return, in the formats of Prometheus.

The formats come from prometheus_client, which takes 0.7 MiB in addition.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fastapi import APIRouter
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forewarn.admin.answers import ANY_ERROR
from forewarn.admin.meters import Collect, Histogram, Meter, Reading, Value


def render(readings: Iterable[Reading], *, accept: str = "") -> tuple[bytes, str]:
    """Return the readings as text, and its media type, according to `accept`."""
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
        """Return the metrics for Prometheus; see the page "Metrics"."""
        accept = request.headers.get("accept", "")
        body, media_type = render(await collect(), accept=accept)
        return Response(body, headers={"Content-Type": media_type})

    return routes


class Responses:
    """Middleware that counts responses by their status."""

    def __init__(self, app: ASGIApp, *, counts: Counter[str]) -> None:
        """Count the responses of `app` in `counts`."""
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
    """Families of metrics that are made already."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _family(reading: Reading) -> Metric:
    meter = reading.meter
    name = meter.name.removesuffix("_total") if meter.kind == "counter" else meter.name
    family = Metric(name, meter.text, meter.kind)
    values = dict(_by_key(reading.values))
    for key in dict.fromkeys([*meter.keys(), *values]):
        labels = dict(zip(meter.labels, key, strict=True))
        if meter.kind == "histogram":
            _add_histogram(family, labels, meter, values.get(key))
        else:
            value = values.get(key, 0)
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
    # Another thread counts meanwhile: the copy makes the buckets and `_count` consistent,
    # and `_sum` may lack the last observations.
    total, counts = histogram.sum, list(histogram.counts)
    bounds = [*(f"{bound:g}" for bound in meter.buckets), "+Inf"]
    for bound, count in zip(bounds, itertools.accumulate(counts), strict=True):
        family.add_sample(f"{meter.name}_bucket", {**labels, "le": bound}, count)
    family.add_sample(f"{meter.name}_count", labels, sum(counts))
    family.add_sample(f"{meter.name}_sum", labels, total)
