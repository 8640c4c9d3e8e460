"""The body of an approval: which events a VM wants to start (clause 3).

Bytes in, event ids out, or a `BadRequestError` with a sentence for whoever wrote
the client. Whether an id is known is not decided here.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn, cast

from forewarn.protocol.errors import BadRequestError

START_REQUESTS_MAX = 1_000
"""Entries of one request. A document has a handful of events; a thousand is
beyond any, and keeps the transaction that approves them short."""

VALUES_MAX = 8_000
"""JSON values of one request, counted by the commas and brackets before them. A
thousand entries have a comma and a brace each, and room for some extra members. To
parse eight thousand empty lists takes 0.5 ms, where a body full of them took 15 ms."""

_VALUE_MARKS = (b",", b"[", b"{")

_GUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

_USUAL = re.compile(
    rb'\s*\{\s*"StartRequests"\s*:\s*\[\s*'
    rb'\{\s*"EventId"\s*:\s*"(%b)"\s*\}\s*\]\s*\}\s*'.replace(rb"\s", rb"[ \t\r\n]")
    % _GUID.pattern.encode("ascii")
)
"""What nearly all bodies are: one event, and nothing else. To read it as JSON takes
three times as long, and gives the same."""

_EXAMPLE = '{"StartRequests":[{"EventId":"<GUID>"}]}'


def parse_start_requests(body: bytes) -> tuple[str, ...]:
    """Return the event ids that `body` asks to start, as documents write them.

    They are in upper case, each once, in the order of their first mention.
    Extra members are ignored (clause 3.1); anything else that is not as it
    should be raises `BadRequestError`, whatever the other entries are (3.3).
    """
    if usual := _USUAL.fullmatch(body):
        return (usual[1].decode("ascii").upper(),)
    if sum(map(body.count, _VALUE_MARKS)) > VALUES_MAX:
        raise BadRequestError(
            f"Bad request. The body has more than {VALUES_MAX} JSON values"
        )
    value = _load(body)
    if not isinstance(value, dict):
        raise BadRequestError(f"Bad request. The body must be an object: {_EXAMPLE}")
    members = cast("dict[str, Any]", value)
    if "StartRequests" not in members:
        raise BadRequestError("Bad request. StartRequests is missing")
    entries = members["StartRequests"]
    if not isinstance(entries, list):
        raise BadRequestError("Bad request. StartRequests must be a list")
    entries = cast("list[Any]", entries)
    if not entries:
        raise BadRequestError("Bad request. StartRequests must not be empty")
    if len(entries) > START_REQUESTS_MAX:
        raise BadRequestError(
            f"Bad request. StartRequests has more than {START_REQUESTS_MAX} entries"
        )
    return tuple(
        dict.fromkeys(_event_id(entry, at=at) for at, entry in enumerate(entries))
    )


def _load(body: bytes) -> object:
    try:
        # PowerShell and .NET may send a byte order mark; it says nothing.
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadRequestError("Bad request. The body is not UTF-8") from None
    try:
        return _READER.decode(text)
    except (ValueError, RecursionError):
        # ValueError is also a number of thousands of digits.
        raise BadRequestError("Bad request. The body is not valid JSON") from None


def _refuse_constant(name: str) -> NoReturn:
    # Python's reader would take NaN and Infinity, which JSON does not have.
    raise ValueError(name)


_READER = json.JSONDecoder(parse_constant=_refuse_constant)
"""Made once: `json.loads` makes a new one for every call that is not plain."""


def _event_id(entry: object, *, at: int) -> str:
    if not isinstance(entry, dict):
        raise BadRequestError(f"Bad request. StartRequests[{at}] must be an object")
    event_id = cast("dict[str, Any]", entry).get("EventId")
    if not isinstance(event_id, str):
        raise BadRequestError(
            f"Bad request. StartRequests[{at}] has no EventId that is a string"
        )
    if not _GUID.fullmatch(event_id):
        raise BadRequestError(f"Bad request. EventId of StartRequests[{at}] is no GUID")
    return event_id.upper()
