"""The body of an approval: the events that a VM wants to start (clause 3).

Bytes in, event IDs out, or a `BadRequestError` with a message for the author of the
client. This module does not decide whether an ID exists.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn, cast

from forewarn.protocol.errors import BadRequestError

START_REQUESTS_MAX = 1_000
"""Maximum entries of one request. A document has a few events. This is more than any
document has, and keeps the transaction that approves them short."""

VALUES_MAX = 8_000
"""Maximum JSON values of one request, counted by the commas and brackets before them. A
thousand entries have a comma and a brace each, plus some extra members. Parsing eight
thousand empty lists takes 0.5 ms; a body full of them took 15 ms."""

_VALUE_MARKS = (b",", b"[", b"{")

_GUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

_USUAL = re.compile(
    rb'\s*\{\s*"StartRequests"\s*:\s*\[\s*'
    rb'\{\s*"EventId"\s*:\s*"(%b)"\s*\}\s*\]\s*\}\s*'.replace(rb"\s", rb"[ \t\r\n]")
    % _GUID.pattern.encode("ascii")
)
"""The form of nearly all bodies: one event and nothing else. Parsing it as JSON gives
the same result and takes three times as long."""

_EXAMPLE = '{"StartRequests":[{"EventId":"<GUID>"}]}'


def parse_start_requests(body: bytes) -> tuple[str, ...]:
    """Return the event IDs that `body` approves, as documents write them.

    They are in upper case, without duplicates, in the order of their first mention.
    Extra members are ignored (clause 3.1). Any other error raises `BadRequestError`,
    even if the other entries are valid (3.3).
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
        # PowerShell and .NET may send a byte order mark. It has no meaning.
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadRequestError("Bad request. The body is not UTF-8") from None
    try:
        return _READER.decode(text)
    except (ValueError, RecursionError):
        # A number with thousands of digits raises ValueError, too.
        raise BadRequestError("Bad request. The body is not valid JSON") from None


def _refuse_constant(name: str) -> NoReturn:
    # Python's decoder accepts NaN and Infinity, which are not JSON.
    raise ValueError(name)


_READER = json.JSONDecoder(parse_constant=_refuse_constant)
"""Created once: `json.loads` creates a new decoder for each call with options."""


def _event_id(entry: object, *, at: int) -> str:
    if not isinstance(entry, dict):
        raise BadRequestError(f"Bad request. StartRequests[{at}] must be an object")
    event_id = cast("dict[str, Any]", entry).get("EventId")
    if not isinstance(event_id, str):
        raise BadRequestError(f"Bad request. StartRequests[{at}] has no EventId string")
    if not _GUID.fullmatch(event_id):
        raise BadRequestError(f"Bad request. StartRequests[{at}].EventId is not a GUID")
    return event_id.upper()
