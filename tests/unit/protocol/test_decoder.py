"""Test the reader of documents of any origin: only an empty response is refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.instants import SECOND, parse_instant
from forewarn.protocol.decoder import (
    DESCRIPTION_MAX,
    DOCUMENT_BYTES_MAX,
    ID_MAX,
    WARNINGS_MAX,
    UnreadableError,
    decode,
    is_empty,
)
from forewarn.protocol.documents import render
from forewarn.protocol.events import EventSource, EventType
from forewarn.protocol.notices import Notice
from forewarn.protocol.versions import NEWEST

pytestmark = pytest.mark.clause("8.1")

ID = "602D9444-D2CD-49C7-8624-8643E7171297"
NOT_BEFORE = parse_instant("2022-04-11T22:26:58Z")

EVENT: dict[str, Any] = {
    "EventId": ID,
    "EventStatus": "Scheduled",
    "EventType": "Freeze",
    "ResourceType": "VirtualMachine",
    "Resources": ["vm_0", "vm_1"],
    "NotBefore": "Mon, 11 Apr 2022 22:26:58 GMT",
    "Description": "Host server is undergoing maintenance.",
    "EventSource": "Platform",
    "DurationInSeconds": 5,
}

NOTICE = Notice(
    event_id=ID,
    event_type="Freeze",
    status="Scheduled",
    source="Platform",
    resources=("vm_0", "vm_1"),
    resource_type="VirtualMachine",
    not_before=NOT_BEFORE,
    duration_seconds=5,
    description="Host server is undergoing maintenance.",
)


def document(*events: object, **members: object) -> bytes:
    whole = {"DocumentIncarnation": 2, "Events": list(events), **members}
    return json.dumps(whole).encode()


def only(**changes: object) -> tuple[Notice, tuple[str, ...]]:
    """Return the one notice of a document whose event has these members."""
    event = {**EVENT, **changes}
    reading = decode(document({k: v for k, v in event.items() if v is not ...}))
    (notice,) = reading.notices
    return notice, reading.warnings


def test_document_is_decoded() -> None:
    reading = decode(document(EVENT))
    assert reading.notices == (NOTICE,)
    assert reading.incarnation == 2
    assert reading.warnings == ()
    assert reading.notices[0].id_on_wire == ID


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"", True),
        (b" \r\n\t", True),
        (b"\xef\xbb\xbf", True),
        (b"{}", False),
        (b"null", False),
        (b"\x00", False),
    ],
)
def test_empty_body_is_recognized(body: bytes, *, wanted: bool) -> None:
    assert is_empty(body) is wanted


def test_empty_document_of_forewarn_is_read_without_warnings() -> None:
    reading = decode(render(1, [], NEWEST))
    assert (reading.incarnation, reading.notices, reading.warnings) == (1, (), ())


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "is empty"),
        (b" \r\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"<!DOCTYPE html><html></html>", "HTML"),
        (b"The metadata service is starting.", "is not JSON"),
        (b'{"DocumentIncarnation":2,"Events":[{"Eve', "is not JSON"),
        (b'{"Events":[]} {"Events":[]}', "is not JSON"),
        (b"null", "null or missing, not an object"),
        (b"[]", "a list, not an object"),
        (b'"Events"', "a text, not an object"),
        (b'{"DocumentIncarnation":2}', "no member Events"),
        (b'{"error":"Not found"}', "Events: 'Not found'"),
        (b'{"Events":{}}', "an object, not a list"),
        (b'{"DocumentIncarnation":3,"Events":null}', "Events is null"),
        (b'{"Events":"none"}', "a text, not a list"),
        (b'{"Events":false}', "true or false, not a list"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"Events":' + b"[" * 100_000, "nested too deeply"),
        (b" " * (DOCUMENT_BYTES_MAX + 1), "more than 1048576 bytes"),
        (b"\xff\xfe\x00", "is not JSON"),
    ],
)
def test_document_without_events_is_refused(body: bytes, sentence: str) -> None:
    with pytest.raises(UnreadableError, match=sentence):
        decode(body)


def test_byte_order_mark_is_ignored() -> None:
    assert decode(b"\xef\xbb\xbf" + document(EVENT)).notices == (NOTICE,)


def test_a_raw_line_break_in_a_string_is_read() -> None:
    body = document(EVENT).replace(b"undergoing ", b"undergoing\n")
    (notice,) = decode(body).notices
    assert notice.description == "Host server is undergoing\nmaintenance."


def test_invalid_utf_8_is_replaced_and_reported() -> None:
    reading = decode(document(EVENT).replace(b"vm_1", b"vm_\xff"))
    assert reading.notices[0].resources == ("vm_0", "vm_\ufffd")
    assert reading.warnings == ("the document is not UTF-8",)


@pytest.mark.parametrize(
    ("value", "incarnation", "odd"),
    [
        (0, 0, False),
        (-1, -1, False),
        ("2", 2, True),
        (2.0, 2, True),
        (2.5, None, True),
        (True, None, True),
        (None, None, True),
        ("two", None, True),
        ([2], None, True),
        (1e300, None, True),
        (1e15 - 1, 10**15 - 1, True),
        (1e15, None, True),
        (10**18 - 1, 10**18 - 1, False),
        (10**18, None, True),
        (10**4_000, None, True),
    ],
)
def test_incarnation_of_any_type_is_read(
    value: Any, incarnation: int | None, odd: bool
) -> None:
    text = json.dumps(value).replace("0" * 4_000, "0" * 5_000)
    reading = decode(b'{"DocumentIncarnation":%b,"Events":[]}' % text.encode())
    assert reading.incarnation == incarnation
    assert bool(reading.warnings) == odd


@pytest.mark.parametrize(
    ("value", "not_before", "odd"),
    [
        ("Mon, 11 Apr 2022 22:26:58 GMT", NOT_BEFORE, False),
        ("2022-04-11T22:26:58Z", NOT_BEFORE, True),
        ("2022-04-11T22:26:58.1234567Z", NOT_BEFORE + 123_456, True),
        ("2022-04-12T00:26:58+02:00", NOT_BEFORE, True),
        ("2022-04-11T22:26:58", NOT_BEFORE, True),
        ("2022-04-11 22:26:58", NOT_BEFORE, True),
        ("", None, True),
        (" ", None, True),
        (None, None, True),
        (..., None, True),
        ("soon", None, True),
        ("Mon, 31 Feb 2022 22:26:58 GMT", None, True),
        ("4/11/2022 10:26:58 PM", None, True),
        (1649716018, None, True),
        (["Mon"], None, True),
    ],
)
def test_not_before_is_read_in_every_form(
    value: object, not_before: int | None, odd: bool
) -> None:
    notice, warnings = only(NotBefore=value)
    assert notice.not_before == not_before
    assert bool(warnings) == odd


def test_started_event_needs_no_not_before() -> None:
    notice, warnings = only(NotBefore="", EventStatus="Started")
    assert notice.has_started
    assert notice.not_before is None
    assert warnings == ()


@pytest.mark.parametrize(
    ("value", "seconds", "odd"),
    [
        (0, 0, False),
        (9, 9, False),
        (-1, -1, False),
        (-7, -1, False),
        (..., -1, False),
        ("5", 5, True),
        (5.0, 5, True),
        (8.2, 9, True),
        ("8.5", -1, True),
        (None, -1, True),
        (False, -1, True),
        ("short", -1, True),
        (1e300, -1, True),
    ],
)
def test_duration_is_never_rounded_down(value: object, seconds: int, odd: bool) -> None:
    notice, warnings = only(DurationInSeconds=value)
    assert notice.duration_seconds == seconds
    assert bool(warnings) == odd


@pytest.mark.parametrize(
    ("value", "names", "odd"),
    [
        (["vm_0"], ("vm_0",), False),
        ([], (), False),
        ("vm_0", ("vm_0",), True),
        (None, (), True),
        (..., (), True),
        (7, (), True),
        (["vm_0", None, 7, "", "vm_1"], ("vm_0", "vm_1"), True),
        (["vm_0", "vm_0", " vm_1 "], ("vm_0", "vm_1"), False),
    ],
)
def test_resources_of_any_type_are_read(
    value: object, names: tuple[str, ...], odd: bool
) -> None:
    notice, warnings = only(Resources=value)
    assert notice.resources == names
    assert bool(warnings) == odd


def test_leading_underscore_is_removed_only_for_the_preview() -> None:
    event = {**EVENT, "Resources": ["_vm_0", "__x"]}
    (notice,) = decode(document(event), underscored=True).notices
    assert notice.resources == ("vm_0", "_x")
    (notice,) = decode(document(event)).notices
    assert notice.resources == ("_vm_0", "__x")


def test_values_of_later_versions_are_kept() -> None:
    notice, warnings = only(
        EventType="Hibernate", EventStatus="Paused", EventSource="Weather", More={}
    )
    arguments = (notice.event_type, notice.status, notice.source)
    assert arguments == ("Hibernate", "Paused", "Weather")
    assert not notice.has_started
    assert warnings == ()


def test_known_values_are_case_insensitive() -> None:
    notice, _ = only(EventType="REBOOT", EventStatus="started", EventSource="user")
    arguments = (notice.event_type, notice.status, notice.source)
    assert arguments == ("Reboot", "Started", "User")


def test_values_of_a_wrong_type_cause_warnings() -> None:
    notice, warnings = only(
        EventType=None, EventStatus=4, EventSource=[], Description=1
    )
    arguments = (notice.event_type, notice.status, notice.source, notice.description)
    assert arguments == ("", "", "", "")
    # Without a status it is unknown whether there should be a NotBefore.
    assert len(warnings) == 4


def test_members_missing_in_old_versions_cause_no_warning() -> None:
    notice, warnings = only(Description=..., EventSource=..., DurationInSeconds=...)
    assert (notice.description, notice.source, notice.duration_seconds) == ("", "", -1)
    assert warnings == ()


def test_event_id_is_case_insensitive_and_keeps_its_wire_form() -> None:
    reading = decode(document({**EVENT, "EventId": ID.lower()}))
    (notice,) = reading.notices
    assert (notice.event_id, notice.id_on_wire) == (ID, ID.lower())


def test_last_duplicate_wins_and_started_is_kept() -> None:
    first = {**EVENT, "Description": "first"}
    last = {**EVENT, "EventId": ID.lower(), "Description": "last"}
    reading = decode(document(first, last))
    assert [notice.description for notice in reading.notices] == ["last"]
    assert reading.warnings == (f"event {ID} is listed twice",)
    started = {**first, "EventStatus": "Started", "NotBefore": ""}
    reading = decode(document(started, last))
    assert [notice.description for notice in reading.notices] == ["first"]


def test_entries_that_are_not_events_are_skipped() -> None:
    entries = [None, 7, "x", [], {}, {**EVENT, "EventId": 7}, {**EVENT, "EventId": " "}]
    reading = decode(document(*entries, {**EVENT, "EventId": "a\nb"}, EVENT))
    assert reading.notices == (NOTICE,)
    assert len(reading.warnings) == 8


def test_invalid_characters_are_replaced() -> None:
    notice, _ = only(Description="a\x00b\ud800c", Resources=["x\x00"])
    assert notice.description == "a\ufffdb\ufffdc"
    assert notice.resources == ("x\ufffd",)
    assert len(only(Description="x" * 9_999)[0].description) == DESCRIPTION_MAX


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({"NotBefore": 5}, f"NotBefore of event {ID} is a number"),
        ({"NotBefore": True}, f"NotBefore of event {ID} is true or false"),
        ({"NotBefore": None}, f"event {ID} is Scheduled and has no NotBefore"),
        ({"NotBefore": " "}, f"event {ID} is Scheduled and has no NotBefore"),
        (
            {"NotBefore": "x" * 40},
            f"NotBefore of event {ID} is not a time: '{'x' * 40}'",
        ),
        (
            {"NotBefore": "x" * 41},
            f"NotBefore of event {ID} is not a time: '{'x' * 40}\\u2026'",
        ),
        (
            {"DurationInSeconds": 1.5},
            f"DurationInSeconds of event {ID} is not a whole number",
        ),
        ({"DurationInSeconds": "9"}, f"DurationInSeconds of event {ID} is a text"),
        (
            {"DurationInSeconds": True},
            f"DurationInSeconds of event {ID} is true or false",
        ),
        (
            {"DurationInSeconds": None},
            f"DurationInSeconds of event {ID} is null or missing",
        ),
        ({"DurationInSeconds": []}, f"DurationInSeconds of event {ID} is a list"),
        ({"DurationInSeconds": {}}, f"DurationInSeconds of event {ID} is an object"),
        ({"Resources": "vm_0"}, f"Resources of event {ID} is a text, not a list"),
        ({"Resources": 7}, f"Resources of event {ID} is a number, not a list"),
        ({"EventType": []}, f"EventType of event {ID} is a list"),
    ],
)
def test_each_warning_is_a_sentence(members: dict[str, Any], sentence: str) -> None:
    assert only(**members)[1] == (sentence,)


def test_invalid_entry_is_reported_by_its_index() -> None:
    assert decode(document(EVENT, 7, {"EventId": ""})).warnings == (
        "Events[1] is a number, not an event",
        "Events[2] has no valid EventId",
    )


@pytest.mark.parametrize(
    ("length", "is_one"), [(1, True), (ID_MAX, True), (ID_MAX + 1, False)]
)
def test_event_id_length_is_limited(length: int, *, is_one: bool) -> None:
    read = decode(document({**EVENT, "EventId": "A" * length}))
    assert bool(read.notices) is is_one


def test_document_up_to_the_size_limit_is_read() -> None:
    room = DOCUMENT_BYTES_MAX - len(document(EVENT))
    assert decode(document(EVENT) + b" " * room).notices == (NOTICE,)
    with pytest.raises(UnreadableError, match="has more than"):
        decode(document(EVENT) + b" " * (room + 1))


def test_warnings_are_bounded() -> None:
    warnings = decode(document(*[None] * 500)).warnings
    assert len(warnings) == WARNINGS_MAX + 1
    assert warnings[-1] == "and 480 more"
    assert len(decode(document(*[None] * WARNINGS_MAX)).warnings) == WARNINGS_MAX


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(EVENT, JSON)), JSON)
def test_any_json_value_is_decoded(event: dict[str, Any], other: Any) -> None:
    event.setdefault("EventId", ID)
    reading = decode(document(event, other, EVENT, DocumentIncarnation=other))
    assert NOTICE in reading.notices
    for notice in reading.notices:
        assert -1 <= notice.duration_seconds <= 10**18
        "".join((notice.description, *notice.resources)).encode()


@given(st.binary(max_size=60), st.integers(0, 400), st.integers(0, 60))
def test_arbitrary_bytes_raise_only_unreadable_errors(
    junk: bytes, at: int, drop: int
) -> None:
    whole = document(EVENT)
    body = whole[:at] + junk + whole[at + drop :]
    for data in (junk, body):
        with contextlib.suppress(UnreadableError):
            reading = decode(data)
            assert all(notice.event_id for notice in reading.notices)


def test_known_values_match_the_service() -> None:
    for word in (*EventType, *EventSource):
        notice, _ = only(EventType=word.value.upper())
        assert notice.event_type == word.value
    assert NOT_BEFORE % SECOND == 0
