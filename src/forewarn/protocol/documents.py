"""The document: what the wire says of a list of events (clause 2).

Only here do events become bytes. Clients look for `"EventType":"Preempt"` with a
plain search, so the JSON is compact, and its members keep the order of 2.2.
"""

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
    shown = [
        _members(event, version=version)
        for event in events
        if event.event_type not in version.hidden
    ]
    return _compact({"DocumentIncarnation": incarnation, "Events": shown})


def digest(events: Sequence[Event]) -> str:
    """Return a short name for the content of the Events array (clause 2.10).

    It names what the newest version shows, without the incarnation: equal
    digests mean that the incarnation must stay, different ones that it rises.
    """
    shown = [_members(event, version=NEWEST) for event in events]
    return hashlib.sha256(_compact(shown)).hexdigest()[:_DIGEST_LENGTH]


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
