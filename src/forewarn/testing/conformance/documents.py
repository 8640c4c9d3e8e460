"""A request with its answer, and the document in it, as far as it can be parsed.

A faulty endpoint may send anything, so this module checks every type. It has no side
effects.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias, cast

from forewarn.instants import Micros, parse_http_date, parse_instant
from forewarn.protocol.events import EventSource, EventType
from forewarn.protocol.versions import NEWEST, ApiVersion
from forewarn.testing.answers import How
from forewarn.testing.client import EVENTS_PATH, Answer, Headers

SHOWN_BYTES = 300
"""Maximum length of a body in a message, in bytes: a document with two events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request with its answer, or with the reason for a missing answer."""

    number: int
    """Position in the examination, from 1."""
    at: Micros
    """Time of the request, by the client's clock."""
    took: Micros
    """Time from the request to the end of the answer."""
    method: str
    target: str
    headers: Headers
    body: bytes | None = None
    answer: Answer | None = None
    failure: str = ""
    """Reason for a missing answer."""
    broken: How | None = None
    """Kind of defect, if an answer began but was not complete."""
    received: bytes = b""
    """First bytes of an incomplete answer."""
    goes_on: bool = False
    """Whether the server sent 100 (Continue), so the body followed (clause 1.12)."""

    @property
    def status(self) -> int:
        """Return the status of the answer; 0 if there was none."""
        return 0 if self.answer is None else self.answer.status

    @property
    def payload(self) -> bytes:
        """Return the body of the answer; empty if there was no answer."""
        return b"" if self.answer is None else self.answer.body

    @property
    def outcome(self) -> str:
        """Return the answer, or the reason for its absence, for a message."""
        if self.answer is None:
            return f"no answer: {self.failure}"
        return f"{self.status} {shown(self.payload)}"

    def header(self, name: str) -> str | None:
        """Return the first value of a header of the answer, or None."""
        return None if self.answer is None else self.answer.header(name)


def shown(body: bytes) -> str:
    """Return a body for a message, truncated if it is long."""
    if len(body) <= SHOWN_BYTES:
        return repr(body)
    return f"{body[:SHOWN_BYTES]!r}… ({len(body)} bytes)"


def target(version: str = NEWEST.name) -> str:
    """Return the target of scheduledevents with a version."""
    return f"{EVENTS_PATH}?api-version={version}"


BRIEF_CHARACTERS = 60
"""Maximum length of a value in a message, in characters: an EventId has 36."""

ORDERED = (EventType.REBOOT.value, EventType.REDEPLOY.value)
"""Types that a user can request for one VM. They do not wait for the requests of other
users, unlike deletions (3.6)."""

Members: TypeAlias = dict[str, Any]

_STRING_OR_BLANK = re.compile(rb'"(?:[^"\\]|\\.)*"|([ \t\r\n])', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The answer with status 200 to a plain GET of scheduledevents."""

    version: ApiVersion
    exchange: Exchange
    """The first read that returned the document."""
    at: Micros
    """Time of that read: from the Date header if there is one, else the client's."""
    is_dated: bool
    """Whether the time comes from the Date header."""
    members: Members = field(default_factory=dict[str, Any])
    events: tuple[Members, ...] = ()
    """The elements of Events that are objects."""
    fault: str = ""
    """Reason why it is not a document, or why a part was not parsed; empty if it was."""

    @property
    def incarnation(self) -> int | None:
        """Return DocumentIncarnation; None if it is not an integer."""
        number: Any = self.members.get("DocumentIncarnation")
        return number if is_integer(number) else None

    @property
    def by_id(self) -> dict[str, Members]:
        """Return the events that have an ID, by this ID in upper case."""
        return {id_: event for event in self.events if (id_ := event_id(event))}


def read_document(exchange: Exchange, version: ApiVersion) -> Document:
    """Return the document of an answer, as far as it can be parsed."""
    at, is_dated = time_of(exchange)
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
    events = [
        cast("Members", element) for element in elements if isinstance(element, dict)
    ]
    if len(events) < len(elements):
        stray = next(element for element in elements if not isinstance(element, dict))
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


def time_of(exchange: Exchange) -> tuple[Micros, bool]:
    """Return the time of an answer, and whether it comes from the Date header."""
    try:
        return parse_http_date(exchange.header("Date") or ""), True
    except (ValueError, OverflowError):
        return exchange.at, False


def decode(body: bytes) -> Members:
    """Return the JSON object of a body in UTF-8; raises ValueError with a message.

    The library alone would accept UTF-16, a byte order mark, NaN and duplicate members.
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
        # Not a TypeError: the bytes from the endpoint are wrong, not an argument.
        raise ValueError("the body is not a JSON object")  # noqa: TRY004
    return cast("Members", value)


class _OddJsonError(ValueError):
    """JSON that different parsers read differently."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise _OddJsonError(f"the member {brief(name)} occurs twice")
        members[name] = value
    return members


def _refuse(constant: str) -> NoReturn:
    raise _OddJsonError(f"{constant} is not a JSON number")


def first_blank(body: bytes) -> int | None:
    """Return the offset of the first blank outside strings, or None.

    Blanks after the last bracket do not count; see `tail`.
    """
    for match in _STRING_OR_BLANK.finditer(body.rstrip(b" \t\r\n")):
        if match[1] is not None:
            return match.start()
    return None


def tail(body: bytes) -> bytes:
    """Return the blanks after the last bracket."""
    return body[len(body.rstrip(b" \t\r\n")) :]


def is_integer(value: object) -> bool:
    """Return whether a value is a JSON integer; true and 1.0 are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def texts(value: object) -> list[str] | None:
    """Return the value if it is an array of strings, else None."""
    if not isinstance(value, list):
        return None
    listed = cast("list[object]", value)
    strings = [text for text in listed if isinstance(text, str)]
    return strings if len(strings) == len(listed) else None


def brief(value: object) -> str:
    """Return a value for a message, truncated if it is long."""
    text = repr(value)
    if len(text) <= BRIEF_CHARACTERS:
        return text
    return f"{text[:BRIEF_CHARACTERS]}…"


def event_id(event: Mapping[str, object]) -> str:
    """Return an event's ID in upper case; empty if it has none."""
    value = event.get("EventId")
    return value.upper() if isinstance(value, str) else ""


def approved_ids(body: bytes | None) -> list[str]:
    """Return the IDs of an approval, each once; an empty list for a malformed body.

    The checks send malformed bodies too, and some servers answer them with 200.
    """
    try:
        requests: Any = json.loads(body or b"")["StartRequests"]
        return list(
            dict.fromkeys(str(request["EventId"]).upper() for request in requests)
        )
    except (ValueError, LookupError, TypeError):
        return []


def is_order(event: Members) -> bool:
    """Return whether a user requested the event for one VM.

    Such an event needs no other approval. Neither the guard nor a maintenance window
    delays it: they apply to routine work only (6.3, 4.8).
    """
    return (
        event.get("EventSource") == EventSource.USER.value
        and event.get("EventType") in ORDERED
        and len(texts(event.get("Resources")) or []) == 1
    )


def is_busy(document: Document, event: Members) -> bool:
    """Return whether an event must wait: another event of one of its VMs is Started."""
    names = set(texts(event.get("Resources")) or [])
    return any(
        other.get("EventStatus") == "Started"
        and event_id(other) != event_id(event)
        and not names.isdisjoint(texts(other.get("Resources")) or [])
        for other in document.events
    )


def describe(event: Mapping[str, object]) -> str:
    """Return an event's type, ID and status, for a message."""
    names = ("EventType", "EventId", "EventStatus")
    return " ".join(_plain(event.get(name)) for name in names)


def _plain(value: object) -> str:
    if isinstance(value, str) and len(value) <= BRIEF_CHARACTERS:
        return value
    return brief(value)


def not_before(event: Mapping[str, object]) -> Micros | None:
    """Return NotBefore of a Scheduled event, even if its format violates 2.7."""
    text = event.get("NotBefore")
    if event.get("EventStatus") != "Scheduled" or not isinstance(text, str):
        return None
    for parse in (parse_http_date, parse_instant):
        try:
            return parse(text)
        except (ValueError, OverflowError):
            continue
    return None
