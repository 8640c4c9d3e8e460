"""Decode a document from any server: bytes in, a `Reading` out.

A client must survive every response (clause 8.1). The decoder therefore reads as much
as it can and returns warnings about the rest. It refuses only a response without a
list of events: treating it as "no events" would undo the preparation. Pure.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, cast

from forewarn.instants import Micros, parse_http_date, parse_instant
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.events import EventSource, EventStatus, EventType
from forewarn.protocol.notices import DURATION_UNKNOWN, SCHEDULED, Notice, Reading

DOCUMENT_BYTES_MAX = 1 << 20
"""Maximum size of a document, in bytes: sixteen times the largest useful one."""

ID_MAX = 200
"""Maximum length of an EventId, in characters. A GUID has 36."""

WORD_MAX = 200
"""Maximum length of a type, status, source or name, in characters. Azure's names have
up to 64."""

DESCRIPTION_MAX = 2_000
"""Maximum length of a stored description, in characters. Known ones have a hundred."""

WARNINGS_MAX = 20
"""Maximum warnings about one document: more would not help the reader."""

_DIGITS_MAX = 18
"""Maximum digits of a number: no count in a document needs more."""

_COUNT_MAX = 1e15
"""Limit for numbers with a fraction: larger ones are not exact."""

_SHOWN_MAX = 40
"""Maximum length of quoted input in a warning, in characters."""

_UNPRINTED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""Characters that a database, an environment variable or UTF-8 cannot hold."""

_INTEGER = re.compile(r"\s*([+-]?\d{1,18})(?:\.0+)?\s*", re.ASCII)

_WORDS: Final = {
    word.value.lower(): word.value
    for names in (EventType, EventStatus, EventSource)
    for word in names
}
"""Known words by their lower case: the case in a response has no meaning."""


class UnreadableError(ForewarnError):
    """The response is not a document, so nothing is known about the events."""


BLANK = b" \t\r\n\xef\xbb\xbf"
"""Bytes that an empty body can have: white space and the byte order mark of UTF-8."""


def is_empty(body: bytes) -> bool:
    """Return whether a body is empty. Endpoints have sent such bodies with status 200."""
    return not body.strip(BLANK)


def _number(text: str) -> object:
    # `int` refuses thousands of digits, which would make the whole document invalid.
    return int(text) if len(text) <= _DIGITS_MAX else text


_READER = json.JSONDecoder(strict=False, parse_int=_number)
"""Accepts raw line breaks inside strings, which endpoints have sent."""


def decode(body: bytes, *, underscored: bool = False) -> Reading:
    """Return the content of a document; raises UnreadableError.

    IDs are in upper case, because clause 2.3 ignores their case. `underscored` is for the
    preview version, which puts a `_` before each name (clause 1.4).
    """
    warnings: list[str] = []
    members = _members(body, warnings)
    if "Events" not in members:
        error = members.get("error")
        detail = f": {_shown(error)}" if isinstance(error, str) else ""
        raise UnreadableError(f"the response has no member Events{detail}")
    entries = members["Events"]
    if entries is None:
        # Only an empty list means that there is no event (clause 2.1).
        raise UnreadableError("Events is null, not a list")
    if not isinstance(entries, list):
        raise UnreadableError(f"Events is {_kind(entries)}, not a list")
    incarnation = _incarnation(members, warnings)
    notices: dict[str, Notice] = {}
    vague: set[str] = set()
    is_partial = False
    for at, entry in enumerate(cast("list[object]", entries)):
        came = _id_of(entry, at=at, warnings=warnings)
        if came is None:
            is_partial = True
            continue
        members = cast("dict[str, Any]", entry)
        notice = _notice(members, came, warnings, underscored=underscored)
        _keep(notices, notice, warnings)
        if not _tells_names(members.get("Resources")):
            vague.add(notice.event_id)
    return Reading(
        incarnation=incarnation,
        notices=tuple(notices.values()),
        warnings=_few(warnings),
        is_partial=is_partial,
        vague=frozenset(vague),
    )


def _members(body: bytes, warnings: list[str]) -> dict[str, Any]:
    if len(body) > DOCUMENT_BYTES_MAX:
        raise UnreadableError(f"the response has more than {DOCUMENT_BYTES_MAX} bytes")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Only names that are not ASCII are changed.
        text = body.decode("utf-8-sig", "replace")
        warnings.append("the document is not UTF-8")
    text = text.strip()
    if not text:
        raise UnreadableError("the response is empty")
    if text.startswith("<"):
        raise UnreadableError("the response is an HTML or XML page, not JSON")
    try:
        value = _READER.decode(text)
    except RecursionError:
        raise UnreadableError("the response is nested too deeply") from None
    except ValueError:
        # This includes JSON that is truncated.
        raise UnreadableError(f"the response is not JSON: {_shown(text)}") from None
    if not isinstance(value, dict):
        raise UnreadableError(f"the response is {_kind(value)}, not an object")
    return cast("dict[str, Any]", value)


def _incarnation(members: dict[str, Any], warnings: list[str]) -> int | None:
    value = members.get("DocumentIncarnation")
    number = _whole(value)
    if number is None:
        warnings.append("DocumentIncarnation is missing or not a number")
    elif not isinstance(value, int):
        warnings.append(f"DocumentIncarnation is {_kind(value)}")
    return number


def _keep(notices: dict[str, Notice], notice: Notice, warnings: list[str]) -> None:
    """Store a notice by its ID. Of two, the last one counts, but Started is kept."""
    before = notices.get(notice.event_id)
    if before is not None:
        warnings.append(f"event {notice.event_id} is listed twice")
        if before.has_started and not notice.has_started:
            return
    notices[notice.event_id] = notice


def _id_of(entry: object, *, at: int, warnings: list[str]) -> str | None:
    """Return the ID of an entry as received; None: the entry is not an event."""
    if not isinstance(entry, dict):
        warnings.append(f"Events[{at}] is {_kind(entry)}, not an event")
        return None
    event_id = cast("dict[str, Any]", entry).get("EventId")
    text = event_id.strip() if isinstance(event_id, str) else ""
    if not (0 < len(text) <= ID_MAX and text.isprintable()):
        warnings.append(f"Events[{at}] has no valid EventId")
        return None
    return text


def _notice(
    members: dict[str, Any],
    came: str,
    warnings: list[str],
    *,
    underscored: bool,
) -> Notice:
    event_id = came.upper()
    status = _word(members, "EventStatus", warnings, is_needed=True)
    names = _resources(members, event_id, warnings)
    if underscored:
        names = tuple(name.removeprefix("_") for name in names)
    return Notice(
        event_id=event_id,
        wire_id="" if came == event_id else came,
        event_type=_word(members, "EventType", warnings, is_needed=True),
        status=status,
        source=_word(members, "EventSource", warnings),
        resources=names,
        resource_type=_word(members, "ResourceType", warnings),
        not_before=_not_before(members, event_id, status, warnings),
        duration_seconds=_duration(members, event_id, warnings),
        description=_word(members, "Description", warnings),
    )


def _word(
    members: dict[str, Any], key: str, warnings: list[str], *, is_needed: bool = False
) -> str:
    """Return a string member of an event, or ""."""
    value = members.get(key)
    if isinstance(value, str):
        text = _clean(value, DESCRIPTION_MAX if key == "Description" else WORD_MAX)
        return _WORDS.get(text.lower(), text)
    if value is not None or is_needed:
        event_id = members["EventId"].strip().upper()
        warnings.append(f"{key} of event {event_id} is {_kind(value)}")
    return ""


def _resources(
    members: dict[str, Any], event_id: str, warnings: list[str]
) -> tuple[str, ...]:
    value = members.get("Resources")
    if not isinstance(value, list):
        warnings.append(f"Resources of event {event_id} is {_kind(value)}, not a list")
        value = [value] if isinstance(value, str) else []
    names: dict[str, None] = {}
    for name in cast("list[object]", value):
        if not isinstance(name, str) or not name.strip():
            warnings.append(f"Resources of event {event_id} contains {_kind(name)}")
            continue
        names[_clean(name, WORD_MAX)] = None
    return tuple(names)


def _tells_names(value: object) -> bool:
    """Return whether all names of an event can be read."""
    several = cast("list[object]", value if isinstance(value, list) else [value])
    named = [isinstance(name, str) and bool(name.strip()) for name in several]
    return bool(named) and all(named)


def _not_before(
    members: dict[str, Any], event_id: str, status: str, warnings: list[str]
) -> Micros | None:
    value = members.get("NotBefore")
    if isinstance(value, str) and value.strip():
        try:
            return parse_http_date(value)
        except ValueError:
            return _other_time(value.strip(), event_id, warnings)
    if value is None or isinstance(value, str):
        if status == SCHEDULED:
            warnings.append(f"event {event_id} is Scheduled and has no NotBefore")
        return None
    warnings.append(f"NotBefore of event {event_id} is {_kind(value)}")
    return None


def _other_time(text: str, event_id: str, warnings: list[str]) -> Micros | None:
    """Return the time of a string that does not follow clause 2.7; None: it has none."""
    for text_ in (text, f"{text}Z"):
        try:
            instant = parse_instant(text_)
        except (ValueError, OverflowError):
            continue
        warnings.append(
            f"NotBefore of event {event_id} is not in the format of RFC 1123"
        )
        return instant
    warnings.append(f"NotBefore of event {event_id} is not a time: {_shown(text)}")
    return None


def _duration(members: dict[str, Any], event_id: str, warnings: list[str]) -> int:
    if "DurationInSeconds" not in members:
        return DURATION_UNKNOWN
    value = members["DurationInSeconds"]
    # Fractions are rounded up, so that rounding makes no interruption look short.
    is_part = isinstance(value, float) and abs(value) < _COUNT_MAX
    seconds = math.ceil(cast("float", value)) if is_part else _whole(value)
    if seconds is None or not isinstance(value, int) or isinstance(value, bool):
        problem = "not a whole number" if isinstance(value, float) else _kind(value)
        warnings.append(f"DurationInSeconds of event {event_id} is {problem}")
    return DURATION_UNKNOWN if seconds is None or seconds < 0 else seconds


def _whole(value: object) -> int | None:
    """Return the integer value, even if it was written as a string."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        is_meant = value.is_integer() and abs(value) < _COUNT_MAX
        return int(value) if is_meant else None
    match = _INTEGER.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) if match else None


def _clean(text: str, longest: int) -> str:
    return _UNPRINTED.sub("\ufffd", text.strip()[:longest])


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "an object")


_KINDS: Final[dict[type, str]] = {
    type(None): "null or missing",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
}


def _shown(text: str) -> str:
    return ascii(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…")


def _few(warnings: list[str]) -> tuple[str, ...]:
    unique = list(dict.fromkeys(warnings))
    if len(unique) <= WARNINGS_MAX:
        return tuple(unique)
    return (*unique[:WARNINGS_MAX], f"and {len(unique) - WARNINGS_MAX} more")
