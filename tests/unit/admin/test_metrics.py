"""`/metrics`: the text for Prometheus, and the right to read it."""

from collections import Counter
from collections.abc import Iterable

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from forewarn.admin.app import create_app
from forewarn.admin.meters import Histogram, Meter, Reading
from forewarn.admin.metrics import render
from forewarn.admin.tokens import parse_tokens
from tests.unit.admin.gateway import LocalGateway

ASKED = Meter(
    name="x_asked_total",
    kind="counter",
    text="How often it was asked.",
    labels={"status": ("200", "404")},
)
LENGTH = Meter(
    name="x_seconds",
    kind="histogram",
    text="How long it took.",
    labels={},
    buckets=(0.5, 1),
)


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def shown(*readings: Reading) -> dict[tuple[str, tuple[str, ...]], float]:
    return samples(render(readings)[0].decode())


def test_every_series_exists_before_the_first_event() -> None:
    assert shown(Reading(ASKED, {}), Reading(LENGTH, {})) == {
        ("x_asked_total", ("200",)): 0,
        ("x_asked_total", ("404",)): 0,
        ("x_seconds_bucket", ("0.5",)): 0,
        ("x_seconds_bucket", ("1",)): 0,
        ("x_seconds_bucket", ("+Inf",)): 0,
        ("x_seconds_count", ()): 0,
        ("x_seconds_sum", ()): 0,
    }


def test_unexpected_label_value_is_exported() -> None:
    metrics = shown(Reading(ASKED, {"200": 3, "418": 1}))
    assert metrics["x_asked_total", ("200",)] == 3
    assert metrics["x_asked_total", ("404",)] == 0
    assert metrics["x_asked_total", ("418",)] == 1


def test_histogram_buckets_include_their_upper_bound() -> None:
    histogram = Histogram((0.5, 1))
    for value in (0.1, 0.5, 0.6, 7):
        histogram.observe(value)
    metrics = shown(Reading(LENGTH, histogram))
    assert metrics["x_seconds_bucket", ("0.5",)] == 2
    assert metrics["x_seconds_bucket", ("1",)] == 3
    assert metrics["x_seconds_bucket", ("+Inf",)] == metrics["x_seconds_count", ()] == 4
    assert metrics["x_seconds_sum", ()] == pytest.approx(8.2)


def test_metrics_format_follows_the_accept_header() -> None:
    body, media_type = render([Reading(ASKED, {"200": 1})])
    assert media_type.startswith("text/plain; version=0.0.4")
    assert b"# TYPE x_asked_total counter\n" in body
    body, media_type = render(
        [Reading(ASKED, {"200": 1})],
        accept="application/openmetrics-text;version=1.0.0",
    )
    assert media_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


@pytest.fixture(scope="module")
def answered() -> Counter[str]:
    return Counter()


@pytest.fixture(scope="module")
def app(answered: Counter[str]) -> FastAPI:
    async def collect() -> Iterable[Reading]:
        return [Reading(ASKED, {"200": 5})]

    return create_app(
        LocalGateway(),
        tokens=parse_tokens("prometheus: s3cret-of-24-characters-x7", file="tokens"),
        version="1",
        collect=collect,
        answered=answered,
    )


def test_metrics_require_a_token_if_tokens_are_configured(
    app: FastAPI, answered: Counter[str]
) -> None:
    client = TestClient(app, base_url="http://127.0.0.1:8200")
    before = answered.copy()
    assert client.get("/metrics").status_code == 401
    headers = {"Authorization": "Bearer s3cret-of-24-characters-x7"}
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    assert samples(answer.text)["x_asked_total", ("200",)] == 5
    assert answered - before == {"401": 1, "200": 1}


def test_without_metrics_the_page_does_not_exist(client: TestClient) -> None:
    assert client.get("/metrics").status_code == 404
