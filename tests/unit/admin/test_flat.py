"""The parser of flat JSON objects agrees with Python's parser, for pieces of any size."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.admin.flat import FlatError, FlatObject

PLAIN = st.one_of(
    st.text(max_size=60), st.integers(-(10**9), 10**9), st.booleans(), st.none()
)
OBJECTS = st.dictionaries(st.text(max_size=10), PLAIN, max_size=5)


def read(data: bytes, size: int) -> dict[str, Any]:
    flat = FlatObject()
    for start in range(0, len(data), size):
        flat.feed(data[start : start + size])
    return flat.finish()


@given(OBJECTS, st.booleans(), st.integers(1, 40))
def test_written_json_is_read_back(
    value: dict[str, Any], ascii_only: bool, size: int
) -> None:
    for indent in (None, 1):
        text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
        assert read(text.encode("utf-8"), size) == value


@given(st.text('{}[]",:\\u0d8e1 \n', max_size=30), st.integers(1, 8))
def test_invalid_json_is_refused(text: str, size: int) -> None:
    try:
        parsed = read(text.encode("utf-8"), size)
    except FlatError:
        return
    assert parsed == json.loads(text)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[", "expected '{'"),
        (b'{"a":[1]}', "must be a string"),
        (b'{"a":{}}', "must be a string"),
        (b'{"a":1,}', "expected '\"'"),
        (b'{"a":"\\q"}', "escape"),
        (b'{"a":"\n"}', "control character"),
        (b'{"a":"', "is incomplete"),
        (b"", "is incomplete"),
        (b'{"a":1}x', "is text after"),
        (b'{"a":nul}', "not JSON"),
        (b'{"' + b"a" * 70 + b'":1}', "too long"),
        (b'{"a":' + b"1" * 70 + b"}", "too long"),
        (b"{" + b'"a":1,' * 30 + b'"b":1}', ""),
        (b'{"a":"\xff"}', "UTF-8"),
        (b'{"a":"\xe2', "UTF-8"),
    ],
)
def test_parse_error_states_the_reason(data: bytes, why: str) -> None:
    if not why:
        assert read(data, 7) == {"a": 1, "b": 1}
        return
    with pytest.raises(FlatError, match=why):
        read(data, 3)


def test_member_count_is_limited() -> None:
    many = json.dumps({f"m{number}": 1 for number in range(21)}).encode()
    with pytest.raises(FlatError, match="more than 20 members"):
        read(many, 10)
