"""The document: what the wire says of a list of events (clause 2).

Only here do events become bytes. Clients look for `"EventType":"Preempt"` with a
plain search, so the JSON is compact, and its members keep the order of 2.2.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Sequence

from forewarn.instants import format_http_date
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.versions import NEWEST, ApiVersion

_DIGEST_LENGTH = 32
"""Hexadecimal digits: 128 bits, so that two contents never share a digest."""


def render(incarnation: int, events: Sequence[Event], version: ApiVersion) -> bytes:
    """Return the document as `version` shows it; pure ASCII, hence valid UTF-8.

    `events` are live and in the order in which they are to be seen.
    """
    texts = [
        _text(event, version)
        for event in events
        if event.event_type not in version.hidden
    ]
    return b'{"DocumentIncarnation":%d,"Events":%b}' % (incarnation, _array(texts))


def digest(events: Sequence[Event]) -> str:
    """Return a short name for the content of the Events array (clause 2.10).

    It names what the newest version shows, without the incarnation: equal
    digests mean that the incarnation must stay, different ones that it rises.
    """
    array = _array([_text(event, NEWEST) for event in events])
    return hashlib.sha256(array).hexdigest()[:_DIGEST_LENGTH]


def look_alike(old: Event, new: Event) -> bool:
    """Tell whether an event shows no otherwise than before: then no digest changes."""
    return _shown(old) == _shown(new)


_shown = operator.attrgetter(
    "status",
    "event_type",
    "source",
    "resources",
    "not_before",
    "description",
    "duration_seconds",
)
"""All that a document says of an event but its id and scope, which never change."""


class _Remembered:
    """What was said of events before, found by the very objects.

    Of the hundreds of events of a large scope, one is new in each of its documents.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[int, int], tuple[Event, bytes]] = {}

    def of(self, event: Event, version: ApiVersion) -> bytes:
        """Return the JSON of an event; a found one is of this object, which is kept."""
        name = id(event), version.order
        found = self._texts.get(name)
        if found is None or found[0] is not event:
            if len(self._texts) >= _REMEMBERED_MAX:
                self._texts.clear()
            text = _compact(_members(event, version=version))
            self._texts[name] = found = event, text
        return found[1]


_REMEMBERED_MAX = 4_000
"""Texts of events, some 2 KiB each with the event. Larger documents are made anew."""

_text = _Remembered().of


def _array(texts: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(texts) + b"]"


def _members(event: Event, *, version: ApiVersion) -> dict[str, object]:
    assert event.is_live, "a document shows live events only"
    prefix = "_" if version.underscore else ""
    scheduled = event.status is EventStatus.SCHEDULED
    members: dict[str, object] = {
        "EventId": event.event_id,
        "EventStatus": event.status.value,
        "EventType": event.event_type.value,
        "ResourceType": "VirtualMachine",
        "Resources": [prefix + resource.name for resource in event.resources],
        "NotBefore": format_http_date(event.not_before) if scheduled else "",
    }
    if version.description:
        members["Description"] = event.description
    if version.source:
        members["EventSource"] = event.source.value
    if version.duration:
        members["DurationInSeconds"] = event.duration_seconds
    return members


def _compact(value: object) -> bytes:
    # The default escapes everything beyond ASCII, also a lone surrogate, which
    # UTF-8 could not carry.
    return json.dumps(value, separators=(",", ":")).encode("ascii")
