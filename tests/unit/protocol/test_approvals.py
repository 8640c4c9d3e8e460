"""The bodies of approvals, good and bad."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.protocol.approvals import (
    START_REQUESTS_MAX,
    VALUES_MAX,
    parse_start_requests,
)
from forewarn.protocol.errors import BadRequestError

FIRST = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
SECOND = "602D9444-D2CD-49C7-8624-8643E7171297"


def as_guid(number: int) -> str:
    return str(uuid.UUID(int=number))


def body(*event_ids: object) -> bytes:
    return json.dumps({"StartRequests": [{"EventId": i} for i in event_ids]}).encode()


@pytest.mark.clause("3.1")
def test_entries_are_returned_in_order() -> None:
    assert parse_start_requests(body(FIRST)) == (FIRST,)
    assert parse_start_requests(body(SECOND, FIRST)) == (SECOND, FIRST)


@pytest.mark.clause("2.3", "3.1")
def test_ids_are_case_insensitive_and_deduplicated() -> None:
    assert parse_start_requests(body(FIRST.lower(), SECOND, FIRST)) == (FIRST, SECOND)


@pytest.mark.clause("3.1")
@pytest.mark.parametrize(
    "text",
    [
        # PowerShell and C# of old send the incarnation, as a number or a string.
        '{"StartRequests":[{"EventId":"%s"}],"DocumentIncarnation":2}',
        '{"DocumentIncarnation":"2","StartRequests":[{"EventId":"%s","x":null}]}',
        '\r\n{\t"StartRequests" : [ { "EventId" : "%s" } ]\r\n}\n',
        '\ufeff{"StartRequests":[{"EventId":"%s"}]}',
    ],
)
def test_bodies_of_real_clients_are_parsed(text: str) -> None:
    assert parse_start_requests((text % FIRST).encode()) == (FIRST,)


@pytest.mark.clause("3.3")
@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"StartRequests":[{"EventId":"x"}]} x', "not valid JSON"),
        (b'{"StartRequests":NaN}', "not valid JSON"),
        (b'{"a":' + b"9" * 5000 + b"}", "not valid JSON"),
        (b"[" * 7_000, "not valid JSON"),
        (b'{"a":' * 7_000, "not valid JSON"),
        (b'{"a":"\xff"}', "not UTF-8"),
        ('{"StartRequests":[]}'.encode("utf-16"), "not UTF-8"),
        (b"[]", "must be an object"),
        (b"null", "must be an object"),
        (b'"StartRequests"', "must be an object"),
        (b"{}", "StartRequests is missing"),
        (b'{"startrequests":[]}', "StartRequests is missing"),
        (b'{"StartRequests":null}', "must be a list"),
        (b'{"StartRequests":{}}', "must be a list"),
        (b'{"StartRequests":[]}', "must not be empty"),
        (b'{"StartRequests":["%s"]}' % FIRST.encode(), "[0] must be an object"),
        (b'{"StartRequests":[{}]}', "[0] has no EventId"),
        (body(FIRST, 7), "[1] has no EventId"),
        (body(None), "[0] has no EventId"),
        (body(""), "[0].EventId is not a GUID"),
        (body(FIRST, FIRST[:-1]), "[1].EventId is not a GUID"),
        (body("{" + FIRST + "}"), "[0].EventId is not a GUID"),
        (body(FIRST.replace("-", "")), "[0].EventId is not a GUID"),
        (body(FIRST + "\n"), "[0].EventId is not a GUID"),
        (body("G" + FIRST[1:]), "[0].EventId is not a GUID"),
        (body("\uff11" + FIRST[1:]), "[0].EventId is not a GUID"),
    ],
)
def test_malformed_body_is_refused(sent: bytes, says: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        parse_start_requests(sent)
    assert says in refused.value.message
    assert refused.value.message.startswith("Bad request. ")


@pytest.mark.clause("3.3")
def test_very_many_values_are_refused_before_they_are_parsed() -> None:
    entries = [{"EventId": FIRST, "more": [1, 2, {}]} for _ in range(1_000)]
    usual = json.dumps({"StartRequests": entries}, indent=2).encode()
    assert parse_start_requests(usual) == (FIRST,)
    for value in (b"[],", b"{},", b"1,", b"["):
        noise = value * VALUES_MAX + b"1"
        with pytest.raises(BadRequestError, match="more than 8000 JSON values"):
            parse_start_requests(b'{"StartRequests":[' + noise + b"]}")


@pytest.mark.clause("3.3")
def test_number_of_entries_is_limited() -> None:
    assert parse_start_requests(body(*[FIRST] * START_REQUESTS_MAX)) == (FIRST,)
    with pytest.raises(BadRequestError, match="more than 1000"):
        parse_start_requests(body(*[FIRST] * (START_REQUESTS_MAX + 1)))


@pytest.mark.clause("3.3")
@given(st.binary())
def test_arbitrary_bytes_are_refused(noise: bytes) -> None:
    with pytest.raises(BadRequestError):
        parse_start_requests(noise)


@pytest.mark.clause("3.1")
@given(st.lists(st.integers(0, 2**128 - 1).map(as_guid), min_size=1))
def test_every_guid_is_parsed(ids: list[str]) -> None:
    wanted = tuple(dict.fromkeys(map(str.upper, ids)))
    assert parse_start_requests(body(*ids)) == wanted


@given(st.data())
def test_fast_path_agrees_with_the_json_parser(
    data: st.DataObject,
) -> None:
    """A byte order mark keeps it from the short way, and means nothing."""
    blanks = st.sampled_from(["", " ", "\r\n\t", "\n  ", "\xa0", "\x0b"])
    pieces = ["", "{", '"StartRequests"', ":", "[", "{", '"EventId"', ":"]
    pieces += [f'"{FIRST}"', "}", "]", "}", ""]
    if data.draw(st.integers(0, 3)) == 0:
        at = data.draw(st.integers(0, len(pieces) - 1))
        pieces[at] = data.draw(st.sampled_from(["", ",", "{", '""', FIRST.lower()]))
    sent = "".join(piece + data.draw(blanks) for piece in pieces).encode()
    assert _told(sent) == _told(b"\xef\xbb\xbf" + sent)


def _told(sent: bytes) -> object:
    try:
        return parse_start_requests(sent)
    except BadRequestError as error:
        return error.message
