"""Faulty answers are made from the genuine answer only."""

import json

import pytest

from forewarn.metadata import answers
from forewarn.metadata.http import Response, build
from forewarn.protocol import documents
from forewarn.protocol.versions import VERSIONS
from forewarn.sim.faults import bodies, syntax
from forewarn.sim.faults.fault import FAULTS, Fault, Group, Replacement
from tests.unit.metadata.support import EVENT, Parsed, parse

SECOND_ID = "D7061BAC-AFDC-4513-B24B-AA5F13A16124"


def document(incarnation: int = 4, *, version: int = -1, events: int = 2) -> Response:
    shown = documents.render(incarnation, (EVENT,) * events, VERSIONS[version])
    shown = shown.replace(EVENT.event_id.encode(), SECOND_ID.encode(), 1)
    return build(200, shown, headers=(("ETag", f'"{incarnation}"'),))


def spoilt(
    text: str, genuine: Response | None = None, **more: list[Response]
) -> Parsed:
    response = bodies.faulty(syntax.parse_fault(text), genuine or document(), **more)
    parsed = parse(response.payload)
    assert parsed.status == response.status
    if parsed.status != 304:
        assert parsed.headers["Content-Length"] == str(len(parsed.body))
    return parsed


@pytest.mark.parametrize("status", [400, 404, 410, 429, 500, 503])
def test_status_fault_returns_a_json_error(status: int) -> None:
    response = spoilt(str(status))
    assert response.status == status
    assert response.json.keys() == {"error"}
    assert ("Retry-After" in response.headers) == (status == 429)


def test_retry_after_has_the_configured_value() -> None:
    assert spoilt("429").headers["Retry-After"] == "5"
    assert spoilt("429 retry-after 9").headers["Retry-After"] == "9"
    assert spoilt("503 retry-after 0").headers["Retry-After"] == "0"


def test_body_faults_replace_the_json_or_its_content_type() -> None:
    assert spoilt("empty").body == b""
    assert spoilt("text").headers["Content-Type"].startswith("text/plain")
    assert spoilt("html").headers["Content-Type"].startswith("text/html")
    mistyped = spoilt("mistyped")
    assert mistyped.headers["Content-Type"].startswith("text/plain")
    assert mistyped.body == parse(document().payload).body
    for text in ("empty", "text", "html", "broken", "newline"):
        with pytest.raises(ValueError):
            _ = spoilt(text).json


@pytest.mark.parametrize("events", [0, 2])
@pytest.mark.parametrize("version", range(len(VERSIONS)))
def test_newline_fault_adds_a_line_break_only_inside_a_string(
    version: int, events: int
) -> None:
    body = spoilt("newline", document(version=version, events=events)).body
    with pytest.raises(ValueError, match="control character"):
        json.loads(body)
    read = json.loads(body, strict=False)
    assert len(read["Events"]) == events
    assert b"\n" in body


def test_events_can_be_missing_null_duplicated_or_reversed() -> None:
    events = parse(document().payload).json["Events"]
    assert "Events" not in spoilt("no-events").json
    assert spoilt("null-events").json["Events"] is None
    doubled = spoilt("duplicate-events").json["Events"]
    assert doubled == [events[0], events[0], events[1], events[1]]
    assert spoilt("reordered-events").json["Events"] == events[::-1]


def test_old_document_is_returned_with_its_etag() -> None:
    earlier = [document(1), document(2), document(3)]
    assert spoilt("stale", earlier=earlier).headers["ETag"] == '"3"'
    assert spoilt("stale 3", earlier=earlier).json["DocumentIncarnation"] == 1
    assert spoilt("stale 8", earlier=earlier).json["DocumentIncarnation"] == 1
    assert spoilt("stale").json["DocumentIncarnation"] == 4
    assert spoilt("stuck", earlier=earlier).json["DocumentIncarnation"] == 1


def test_incarnation_reset_keeps_the_events() -> None:
    response = spoilt("incarnation-reset")
    assert response.json["DocumentIncarnation"] == 1
    assert response.headers["ETag"] == '"1"'
    assert response.json["Events"] == parse(document().payload).json["Events"]
    assert spoilt("incarnation-reset 40").json["DocumentIncarnation"] == 40


def test_iso_dates_keep_the_same_instant() -> None:
    (event, _) = spoilt("iso-dates").json["Events"]
    assert event["NotBefore"] == "2022-04-11T22:26:58Z"


@pytest.mark.parametrize(
    "kind", [kind.name for kind in FAULTS.values() if kind.group is Group.DOCUMENT]
)
def test_document_fault_does_not_change_a_404_response(kind: str) -> None:
    response = bodies.faulty(
        syntax.parse_fault(kind), answers.NOT_FOUND, earlier=[document(1)]
    )
    assert response is answers.NOT_FOUND


@pytest.mark.parametrize("kind", ["empty", "text", "html"])
def test_body_fault_does_not_change_a_rate_limit_response(kind: str) -> None:
    fault = syntax.parse_fault(kind)
    assert bodies.faulty(fault, answers.TOO_MANY) is answers.TOO_MANY
    assert bodies.faulty(fault, None).status == 200


def test_custom_response_is_returned_as_written() -> None:
    replacement = Replacement(
        status=403,
        headers=(("Via", "1.1 proxy"), ("Content-Type", "no/matter")),
        body=b"<h1>no</h1>",
        content_type="text/html",
    )
    response = bodies.faulty(Fault(kind="replace", replacement=replacement), None)
    parsed = parse(response.payload)
    assert parsed.status == response.status == 403
    assert parsed.headers == {
        "Server": "forewarn",
        "Via": "1.1 proxy",
        "Content-Type": "text/html",
        "Content-Length": "11",
    }
    assert parsed.body == b"<h1>no</h1>"
    empty = Replacement(status=304, body=b"never sent")
    bare = bodies.faulty(Fault(kind="replace", replacement=empty), None)
    assert parse(bare.payload).body == b""
