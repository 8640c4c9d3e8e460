"""A document as an endpoint gave it: what can be read of it, and what cannot.

Endpoints with faults send anything, so nothing here trusts a type. Values in, values
out.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias, cast

from forewarn.instants import Micros, parse_http_date, parse_instant
from forewarn.protocol.events import EventSource, EventType
from forewarn.protocol.versions import ApiVersion
from forewarn.testing.conformance.exchanges import Exchange, shown

BRIEF_CHARACTERS = 60
"""Maximum length of a member in a sentence about its event: an EventId has 36."""

ORDERED = (EventType.REBOOT.value, EventType.REDEPLOY.value)
"""What a user may order for one VM, which waits for no other order (unlike 3.6)."""

Members: TypeAlias = dict[str, Any]

_STRING_OR_BLANK = re.compile(rb'"(?:[^"\\]|\\.)*"|([ \t\r\n])', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The answer to a plain GET of scheduledevents, which had the status 200."""

    version: ApiVersion
    exchange: Exchange
    """The first read that gave it."""
    at: Micros
    """When that was: by the server's clock where it tells it."""
    is_dated: bool
    """The server told it."""
    members: Members = field(default_factory=dict[str, Any])
    events: tuple[Members, ...] = ()
    """Those that are objects."""
    fault: str = ""
    """Why it is no document, or not all of it could be read; empty: it is one."""

    @property
    def incarnation(self) -> int | None:
        """Return its number; None where it is none."""
        number: Any = self.members.get("DocumentIncarnation")
        return number if is_integer(number) else None

    @property
    def by_id(self) -> dict[str, Members]:
        """Return the events that have an id, by that id in upper case."""
        return {found: event for event in self.events if (found := event_id(event))}


def read_document(exchange: Exchange, version: ApiVersion) -> Document:
    """Return what can be read of an answer."""
    at, is_dated = told_time(exchange)
    members: Members = {}
    fault = ""
    try:
        members = decode(exchange.payload)
    except ValueError as error:
        fault = f"{error}: {shown(exchange.payload)}"
    listed: object = members.get("Events")
    elements: list[object] = []
    if isinstance(listed, list):
        elements = cast("list[object]", listed)
    elif not fault:
        fault = f"Events is {brief(listed)}, not an array"
    events = [cast("Members", each) for each in elements if isinstance(each, dict)]
    if len(events) < len(elements):
        stray = next(each for each in elements if not isinstance(each, dict))
        fault = f"Events has {brief(stray)}, which is not an object"
    return Document(
        version=version,
        exchange=exchange,
        at=at,
        is_dated=is_dated,
        members=members,
        events=tuple(events),
        fault=fault,
    )


def told_time(exchange: Exchange) -> tuple[Micros, bool]:
    """Return when an answer came, and whether that is by its server's clock."""
    try:
        return parse_http_date(exchange.header("Date") or ""), True
    except (ValueError, OverflowError):
        return exchange.at, False


def decode(body: bytes) -> Members:
    """Return the JSON object of a body in UTF-8; raises ValueError with a sentence.

    The library would take UTF-16, a byte order mark, NaN and a member that is there
    twice.
    """
    try:
        value: object = json.loads(
            body.decode("utf-8"), object_pairs_hook=_object, parse_constant=_refuse
        )
    except _OddJsonError as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    except UnicodeDecodeError:
        raise ValueError("the body is not UTF-8") from None
    except (ValueError, RecursionError):
        raise ValueError("the body is not JSON") from None
    if not isinstance(value, dict):
        # Nothing is wrong with a type of ours: bytes came that say something else.
        raise ValueError("the body is not a JSON object")  # noqa: TRY004
    return cast("Members", value)


class _OddJsonError(ValueError):
    """It can be read, and readers differ in what they make of it."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise _OddJsonError(f"the member {brief(name)} is there twice")
        members[name] = value
    return members


def _refuse(constant: str) -> NoReturn:
    raise _OddJsonError(f"{constant} is not a JSON number")


def first_blank(body: bytes) -> int | None:
    """Return the offset of the first blank outside of strings, or None.

    Blanks after the last bracket do not count: see `tail`.
    """
    for found in _STRING_OR_BLANK.finditer(body.rstrip(b" \t\r\n")):
        if found[1] is not None:
            return found.start()
    return None


def tail(body: bytes) -> bytes:
    """Return the blanks after the last bracket."""
    return body[len(body.rstrip(b" \t\r\n")) :]


def is_integer(value: object) -> bool:
    """Tell whether a value is a JSON integer, as neither true nor 1.0 is."""
    return isinstance(value, int) and not isinstance(value, bool)


def texts(value: object) -> list[str] | None:
    """Return the value if it is an array of texts, or None."""
    if not isinstance(value, list):
        return None
    listed = cast("list[object]", value)
    found = [each for each in listed if isinstance(each, str)]
    return found if len(found) == len(listed) else None


def brief(value: object) -> str:
    """Return a value for a sentence, cut where it is long."""
    text = repr(value)
    if len(text) <= BRIEF_CHARACTERS:
        return text
    return f"{text[:BRIEF_CHARACTERS]}…"


def event_id(event: Mapping[str, object]) -> str:
    """Return an event's id in upper case; empty where it has none."""
    value = event.get("EventId")
    return value.upper() if isinstance(value, str) else ""


def approved_ids(body: bytes | None) -> list[str]:
    """Return the ids of an approval, once each; none of a body that is none.

    Such bodies are sent too, and there are servers that answer them with 200.
    """
    try:
        requests: Any = json.loads(body or b"")["StartRequests"]
        return list(dict.fromkeys(str(each["EventId"]).upper() for each in requests))
    except (ValueError, LookupError, TypeError):
        return []


def is_order(event: Members) -> bool:
    """Tell whether a user ordered it for one VM, so that no other approval is needed.

    Nor is it held: the guard and the windows are for routine work (6.3, 4.8).
    """
    return (
        event.get("EventSource") == EventSource.USER.value
        and event.get("EventType") in ORDERED
        and len(texts(event.get("Resources")) or []) == 1
    )


def is_busy(document: Document, event: Members) -> bool:
    """Tell whether another event of a VM that it names is Started: it waits for that."""
    names = set(texts(event.get("Resources")) or [])
    return any(
        other.get("EventStatus") == "Started"
        and event_id(other) != event_id(event)
        and not names.isdisjoint(texts(other.get("Resources")) or [])
        for other in document.events
    )


def describe(event: Mapping[str, object]) -> str:
    """Return which event it is and how it stands, for a sentence."""
    names = ("EventType", "EventId", "EventStatus")
    return " ".join(_plain(event.get(name)) for name in names)


def _plain(value: object) -> str:
    if isinstance(value, str) and len(value) <= BRIEF_CHARACTERS:
        return value
    return brief(value)


def not_before(event: Mapping[str, object]) -> Micros | None:
    """Return NotBefore of a Scheduled event, even if it is not written as in 2.7."""
    text = event.get("NotBefore")
    if event.get("EventStatus") != "Scheduled" or not isinstance(text, str):
        return None
    for parse in (parse_http_date, parse_instant):
        try:
            return parse(text)
        except (ValueError, OverflowError):
            continue
    return None
