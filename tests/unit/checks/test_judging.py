"""Answers to checks: what passes, what fails, and everything that is neither."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.checks.judging import judge_exit, judge_page, judge_query
from forewarn.checks.model import Bounds, Judged, Outcome, Page

LOW = Bounds(below=0.01)


def vector(*values: str, **more: Any) -> bytes:
    """Return the answer of Prometheus with a sample of each value."""
    result = [
        {
            "metric": {"__name__": "errors", "job": f"j{at}"},
            "value": [1435781451.7, value],
        }
        for at, value in enumerate(values)
    ]
    data = {"resultType": "vector", "result": result}
    return json.dumps({"status": "success", "data": data, **more}).encode()


def scalar(value: str) -> bytes:
    data = {"resultType": "scalar", "result": [1435781451.781, value]}
    return json.dumps({"status": "success", "data": data}).encode()


def asked(body: bytes, bounds: Bounds = LOW, *, status: int = 200) -> tuple[str, str]:
    judged = judge_query(status, body, bounds)
    return judged.outcome.value, judged.reason


def test_each_sample_must_be_within_the_bounds() -> None:
    assert asked(vector("0.001", "0")) == (
        "pass",
        '0.001 of errors{job="j0"}, 0 of errors{job="j1"}, below 0.01',
    )
    assert asked(vector("0.001", "0.5")) == (
        "fail",
        '0.5 of errors{job="j1"}, not below 0.01',
    )
    # A bound itself is not within it.
    assert asked(scalar("0.01"))[0] == "fail"
    assert asked(scalar("+Inf"))[0] == "fail"
    assert asked(scalar("-Inf"))[0] == "pass"
    between = Bounds(above=2, below=5)
    assert asked(scalar("3"), between) == ("pass", "3, above 2 and below 5")
    assert asked(scalar("2"), between)[0] == "fail"


def test_reason_names_a_few_samples_of_many() -> None:
    outcome, reason = asked(vector(*["1"] * 40))
    assert outcome == "fail"
    assert reason.endswith('1 of errors{job="j2"}, and 37 more, not below 0.01')


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (vector(), "the result of the query is empty"),
        (vector("NaN"), 'NaN of errors{job="j0"}: not a number'),
        (vector("0", warnings=["no store"]), "the result is not complete: no store"),
        (vector("zero"), "a sample has no number"),
        (b"<html>", "the answer is not JSON"),
        (b"[]", "the answer is not an object as of Prometheus"),
        (b"null", "the answer is not an object as of Prometheus"),
        (b"[" * 100_000, "the answer is not JSON"),
        (b'{"status":"success"}', "data is not an object as of Prometheus"),
        (
            b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
            "the query returns a matrix; it must return a scalar or a vector",
        ),
        (
            (
                b'{"status":"success","data":{"resultType":"vector","result":'
                b'[{"metric":{},"histogram":[1,{"count":"1"}]}]}}'
            ),
            "a sample has no value, but perhaps a histogram",
        ),
        (b'{"data":{}}', "HTTP status 200, which is not Prometheus' success"),
    ],
)
def test_unusable_result_is_unknown(body: bytes, reason: str) -> None:
    assert asked(body) == ("unknown", reason.replace("NaN", "nan"))


def test_error_of_prometheus_is_unknown_with_its_text() -> None:
    body = b'{"status":"error","errorType":"bad_data","error":"parse error"}'
    assert asked(body, status=400) == ("unknown", "bad_data: parse error")
    assert asked(b"busy", status=503) == (
        "unknown",
        "HTTP status 503, and the answer is not JSON",
    )
    # A proxy's own page can be JSON too.
    assert asked(scalar("0"), status=502)[0] == "unknown"


def test_missing_data_never_hides_a_failure() -> None:
    assert asked(vector("1", "NaN"))[0] == "fail"
    assert asked(vector("1", warnings=["no store"]))[0] == "fail"


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["status", "data", "resultType", "result", "metric", "value"]
            )
            | st.text(max_size=3),
            inner | st.sampled_from(["success", "error", "vector", "scalar", "1"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40))
def test_no_answer_is_an_error_and_only_numbers_pass(body: bytes) -> None:
    judged = judge_query(200, body, LOW)
    assert isinstance(judged, Judged)
    if judged.outcome is Outcome.PASS:
        assert b'"success"' in body


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=5), st.floats(-9, 9))
def test_a_query_passes_exactly_if_all_values_are_below(
    values: list[float], below: float
) -> None:
    outcome, _ = asked(vector(*map(str, values)), Bounds(below=below))
    assert outcome == ("pass" if all(value < below for value in values) else "fail")


@pytest.mark.parametrize(
    ("status", "outcome", "reason"),
    [
        (200, "pass", "HTTP status 200"),
        (503, "fail", "HTTP status 503, not 200"),
        (404, "fail", "HTTP status 404, not 200"),
        (302, "unknown", "HTTP status 302: redirects are not followed"),
        (401, "unknown", "HTTP status 401: unauthorized"),
        (403, "unknown", "HTTP status 403: forbidden"),
    ],
)
def test_status_of_a_page_decides(status: int, outcome: str, reason: str) -> None:
    assert judge_page(status, b"", Page()) == Judged(
        outcome=Outcome(outcome), reason=reason
    )


def test_page_must_contain_its_text() -> None:
    page = Page(status=302, contains="ready ✓")
    assert judge_page(302, "all ready ✓!".encode(), page).outcome is Outcome.PASS
    judged = judge_page(302, b"starting", page)
    assert judged.outcome is Outcome.FAIL
    assert judged.reason == "HTTP status 302, but the page lacks 'ready ✓'"


def test_exit_status_of_a_program_decides() -> None:
    assert judge_exit(0, "").reason == "exit status 0"
    assert [
        judge_exit(status, "why").outcome.value for status in (0, 1, 2, 127, -9)
    ] == [
        "pass",
        "fail",
        "unknown",
        "unknown",
        "unknown",
    ]
    assert judge_exit(-9, "why").reason == "ended by signal 9: why"
