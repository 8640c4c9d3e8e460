"""Tests of the parser for documents from faulty endpoints."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.protocol.versions import NEWEST
from forewarn.testing.client import Answer
from forewarn.testing.conformance.checks import RULES
from forewarn.testing.conformance.documents import (
    Exchange,
    decode,
    first_blank,
    not_before,
    read_document,
    tail,
)
from tests.support.shown_documents import Story, event


def exchange(body: bytes, *headers: tuple[str, str]) -> Exchange:
    return Exchange(
        number=1,
        at=5,
        took=0,
        method="GET",
        target="/",
        headers=(),
        answer=Answer(status=200, headers=headers, body=body),
    )


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b"{", "is not JSON"),
        (b'{"a":"\xff"}', "is not UTF-8"),
        ('{"a":1}'.encode("utf-16"), "is not UTF-8"),
        (b'\xef\xbb\xbf{"a":1}', "is not JSON"),
        (b'{"a":NaN}', "NaN is not a JSON number"),
        (b'{"a":1,"a":2}', "the member 'a' occurs twice"),
        (b'{"a":' + b"[" * 100_000, "is not JSON"),
        (b'{"a":' + b"1" * 100_000 + b"}", "is not JSON"),
    ],
)
def test_body_that_is_not_an_object_is_refused(body: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        decode(body)


@pytest.mark.parametrize(
    ("body", "at"),
    [
        (b'{"a":1}', None),
        (b'{"a": 1}', 5),
        (b'{"a":1 }', 6),
        (b' {"a":1}', 0),
        (b'{"a":1,\n"b":2}', 7),
        (b'{"a":"x y\\" z"}', None),
        (b'{"a":"\\u0027 \\\\","b":[ ]}', 22),
        (b'{"a":1}\n', None),
    ],
)
def test_blank_is_found_only_outside_strings(body: bytes, at: int | None) -> None:
    assert first_blank(body) == at


TEXTS = st.text(alphabet='a "\\,:é\n', max_size=6)


@given(value=st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=3), max_size=3))
def test_compact_json_has_no_whitespace(value: dict[str, Any]) -> None:
    compact = json.dumps(value, separators=(",", ":")).encode()
    assert first_blank(compact) is None
    loose = json.dumps({"": 0, **value}, separators=(",", ": ")).encode()
    assert first_blank(loose) == loose.index(b": ") + 1
    assert tail(compact + b"\r\n") == b"\r\n"


def test_date_header_sets_the_time_of_a_document() -> None:
    dated = exchange(b"{}", ("Date", "Thu, 01 Jan 1970 00:01:00 GMT"))
    assert read_document(dated, NEWEST).at == 60_000_000
    for headers in ((), (("Date", "soon"),)):
        undated = read_document(exchange(b"{}", *headers), NEWEST)
        assert (undated.at, undated.is_dated) == (5, False)


def test_not_before_is_read_in_other_formats() -> None:
    wanted = not_before(event(due=0))
    assert wanted is not None
    assert not_before(event(NotBefore="2030-03-17T17:46:40Z")) == wanted
    assert not_before(event(NotBefore="soon")) is None
    assert not_before(event(status="Started")) is None


NAMES = st.sampled_from([*event(), "DocumentIncarnation", "Events", "x"])
VALUES = st.sampled_from(
    [*map(str, event().values()), "Started", "Preempt", None, True, -1, 1.5, "", 7, []]
)
EVENTS = st.dictionaries(NAMES, VALUES | st.lists(VALUES, max_size=2)).map(
    lambda members: {**event(), **members}
)
DOCUMENTS = st.lists(EVENTS | VALUES, max_size=3)


@given(st.lists(st.tuples(VALUES, DOCUMENTS), max_size=4))
def test_no_document_makes_a_rule_raise(shown: list[tuple[Any, Any]]) -> None:
    """A document with members of any type gets a verdict and raises no error."""
    story = Story()
    for number, events in shown:
        listed = [member for member in events if isinstance(member, dict)]
        story.show(*listed, number=number)
        story.approve(1)
    for rule in RULES:
        rule.judge(story.seen)
