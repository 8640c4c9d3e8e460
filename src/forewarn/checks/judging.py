"""Judge the answers to checks: bytes and numbers in, an outcome with its reason out.

Every function returns for every answer, whatever a server or program sends.
"""

import json
import math
from collections.abc import Iterator
from typing import Any, cast

from forewarn.checks.model import Bounds, Judged, Page, failed, passed, unknown

SAMPLES_SHOWN_MAX = 3
"""Maximum samples that a reason names: an operator looks at the others in Prometheus."""

_OK = 200
_REDIRECTS = range(300, 400)
_NOT_ADMITTED = {401: "unauthorized", 403: "forbidden", 407: "proxy authentication"}


class _UnusableError(Exception):
    """The answer of Prometheus cannot be used; the text says why."""


def judge_query(status: int, body: bytes, bounds: Bounds) -> Judged:
    """Judge the answer to an instant query of Prometheus' HTTP API.

    The check fails if a sample is out of bounds. It passes if there is a sample, all are
    within bounds, and the server reports no missing data.
    """
    try:
        answer = _object(_parsed(status, body), "the answer")
        samples = list(_samples(status, answer))
    except _UnusableError as error:
        return unknown(str(error))
    wrong = [sample for sample in samples if not bounds.contains(sample[1])]
    numbers = [sample for sample in wrong if not math.isnan(sample[1])]
    if numbers:
        return failed(f"{_shown(numbers)}, not {bounds.text}")
    if wrong:
        return unknown(f"{_shown(wrong)}: not a number")
    if not samples:
        return unknown("the result of the query is empty")
    if warnings := answer.get("warnings"):
        return unknown(f"the result is not complete: {_first(warnings)}")
    return passed(f"{_shown(samples)}, {bounds.text}")


def judge_page(status: int, body: bytes, page: Page) -> Judged:
    """Judge the answer of a web server.

    A redirect, or a refusal to answer without rights, is not from the page itself, so the
    outcome is unknown.
    """
    if status != page.status:
        if status in _REDIRECTS:
            return unknown(f"HTTP status {status}: redirects are not followed")
        if status in _NOT_ADMITTED:
            return unknown(f"HTTP status {status}: {_NOT_ADMITTED[status]}")
        return failed(f"HTTP status {status}, not {page.status}")
    if page.contains and page.contains.encode() not in body:
        return failed(f"HTTP status {status}, but the page lacks {page.contains!r}")
    return passed(f"HTTP status {status}")


def judge_exit(status: int, output: str) -> Judged:
    """Judge the exit status of a program; negative: the signal that ended it.

    `output` is the last line of its output.
    """
    more = f": {output}" if output else ""
    if status == 0:
        return passed(f"exit status 0{more}")
    if status == 1:
        return failed(f"exit status 1{more}")
    if status < 0:
        return unknown(f"ended by signal {-status}{more}")
    return unknown(f"exit status {status}, neither 0 nor 1{more}")


def _parsed(status: int, body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        prefix = "" if status == _OK else f"HTTP status {status}, and "
        raise _UnusableError(f"{prefix}the answer is not JSON") from error


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _UnusableError(f"{name} is not an object as of Prometheus")
    return cast("dict[str, Any]", value)


def _samples(status: int, answer: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the labels and the value of each sample."""
    if answer.get("status") == "error":
        kind, error = answer.get("errorType", "error"), answer.get("error", "no reason")
        raise _UnusableError(f"{kind}: {error}")
    if status != _OK or answer.get("status") != "success":
        raise _UnusableError(f"HTTP status {status}, which is not Prometheus' success")
    data = _object(answer.get("data"), "data")
    result = data.get("result")
    if not isinstance(result, list):
        raise _UnusableError("data has no list of results")
    items = cast("list[object]", result)
    match data.get("resultType"):
        case "scalar":
            yield "", _number(items)
        case "vector":
            for item in items:
                sample = _object(item, "a sample")
                if "value" not in sample:
                    raise _UnusableError(
                        "a sample has no value, but perhaps a histogram"
                    )
                labels = _object(sample.get("metric"), "a metric")
                yield _labels(labels), _number(sample["value"])
        case other:
            raise _UnusableError(
                f"the query returns a {other}; it must return a scalar or a vector"
            )


def _number(pair: object) -> float:
    """Return the value of `[time, "1.5"]`."""
    if isinstance(pair, list):
        items = cast("list[object]", pair)
        if len(items) == len(("time", "value")) and isinstance(items[1], str):
            try:
                return float(items[1])
            except ValueError:
                pass
    raise _UnusableError("a sample has no number")


def _labels(labels: dict[str, Any]) -> str:
    inner = ",".join(
        f'{name}="{value}"' for name, value in labels.items() if name != "__name__"
    )
    return f"{labels.get('__name__', '')}{{{inner}}}" if inner else ""


def _shown(samples: list[tuple[str, float]]) -> str:
    """Return the first samples: `0.02 of {job="api"}, and 2 more`."""
    some = [
        f"{value:g} of {labels}" if labels else f"{value:g}"
        for labels, value in samples[:SAMPLES_SHOWN_MAX]
    ]
    left = len(samples) - len(some)
    return ", ".join(some) + (f", and {left} more" if left else "")


def _first(values: object) -> str:
    listed = cast("list[object]", values) if isinstance(values, list) else [values]
    return str(listed[0])
