"""The answers of an alert server, and the text for them."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from forewarn.agent.alerts import reading
from forewarn.agent.alerts.reading import (
    Alert,
    AlertsError,
    counted,
    of_alertmanager,
    of_prometheus,
    selection,
    words_of,
)
from tests.support.fake_alerts import Fires

ALL = selection((), ())


def prometheus(*alerts: object, **more: object) -> bytes:
    whole = {"status": "success", "data": {"alerts": list(alerts)}, **more}
    return json.dumps(whole).encode()


def named(*names: str) -> list[Alert]:
    return [Alert(labels={"alertname": name}) for name in names]


def test_prometheus_firing_and_pending_alerts_are_read() -> None:
    body = prometheus(
        Fires("A", {"severity": "page"}).of_prometheus(),
        Fires("B", state="pending").of_prometheus(),
        Fires("C", state="inactive").of_prometheus(),
        warnings=["one"],
    )
    alerts = of_prometheus(body)
    assert [(alert.name, alert.is_pending) for alert in alerts] == [
        ("A", False),
        ("B", True),
    ]
    assert alerts[0].labels["severity"] == "page"
    assert [alert.name for alert in counted(alerts, ALL, pending=False)] == ["A"]
    assert len(counted(alerts, ALL, pending=True)) == 2


def test_alertmanager_active_alerts_are_read() -> None:
    listed = [
        Fires("A").of_alertmanager(),
        Fires("B", state="silenced").of_alertmanager(),
        Fires("C", state="inhibited").of_alertmanager(),
    ]
    listed.append({**listed[0], "status": {"state": "unprocessed"}})
    alerts = of_alertmanager(json.dumps(listed).encode())
    assert [alert.name for alert in alerts] == ["A", "A"]


BAD_PROMETHEUS: list[Any] = [
    b"",
    b"<html>",
    b"[]",
    b"{}",
    b"null",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"status":"success"}',
    b'{"status":"success","data":{}}',
    b'{"status":"success","data":{"alerts":null}}',
    b'{"status":"success","data":{"alerts":{}}}',
    b'{"status":"success","data":[]}',
    b'{"status":"success","data":{"alerts":[1]}}',
    b'{"status":"success","data":{"alerts":[{"state":"firing"}]}}',
    b'{"status":"success","data":{"alerts":[{"labels":[],"state":"firing"}]}}',
    b'{"status":"success","data":{"alerts":[{"labels":{}}]}}',
    b'{"status":"success","data":{"alerts":[{"labels":{},"state":["firing"]}]}}',
    b'{"status":"error","errorType":"timeout","error":"too slow"}',
]


@pytest.mark.parametrize("body", BAD_PROMETHEUS, ids=range(len(BAD_PROMETHEUS)))
def test_invalid_prometheus_answer_is_rejected(body: bytes) -> None:
    with pytest.raises(AlertsError):
        of_prometheus(body)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"null", b"[1]", b"[{}]", b'[{"status":{"state":"active"}}]']
)
def test_invalid_alertmanager_answer_is_rejected(body: bytes) -> None:
    with pytest.raises(AlertsError):
        of_alertmanager(body)


def test_prometheus_error_is_reported() -> None:
    with pytest.raises(AlertsError, match="timeout: too slow"):
        of_prometheus(BAD_PROMETHEUS[-1])


@given(some.binary(max_size=300) | some.text(max_size=300).map(str.encode))
def test_arbitrary_bytes_raise_only_alerts_error(body: bytes) -> None:
    for read in (of_prometheus, of_alertmanager):
        with contextlib.suppress(AlertsError):
            assert isinstance(read(body), list)


def test_labels_that_are_not_strings_are_ignored() -> None:
    labels = {"alertname": 7, "a": None, "b": "c", "d": {"e": "f"}}
    [alert] = of_prometheus(prometheus({"labels": labels, "state": "firing"}))
    assert alert.labels == {"b": "c"}
    assert words_of([alert]) == "1 alert fires: without a name"


def test_too_many_alerts_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ALERTS_MAX", 2)
    alerts = [Fires("A").of_prometheus()] * 3
    with pytest.raises(AlertsError, match="more than 2 alerts"):
        of_prometheus(prometheus(*alerts))


@pytest.mark.parametrize(
    ("alerts", "text"),
    [
        ([], "no alert fires"),
        (named("A"), "1 alert fires: A"),
        (named("B", "A"), "2 alerts fire: A, B"),
        (named("A", "B", "B"), "3 alerts fire: B (2), A"),
        (named(*"ABCDE"), "5 alerts fire: A, B, C, D, E"),
        (named(*"ABCDEFG"), "7 alerts fire: A, B, C, D, E, and 2 more names"),
        (
            [*named("A"), Alert(labels={"alertname": "B"}, is_pending=True)],
            "2 alerts fire or are pending: A, B",
        ),
        (
            [Alert(labels={}, is_pending=True)],
            "1 alert fires or is pending: without a name",
        ),
    ],
)
def test_alerts_are_described(alerts: list[Alert], text: str) -> None:
    assert words_of(alerts) == text


@given(some.lists(some.text(max_size=500), max_size=50))
def test_description_of_alerts_is_one_bounded_line(names: list[str]) -> None:
    text = words_of(named(*names))
    assert len(text) < 500
    assert text.isprintable()
