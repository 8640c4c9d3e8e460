"""The document: the list of events on the wire (clause 2).

Only this module turns events into bytes. Some clients search for
`"EventType":"Preempt"` as text, so the JSON is compact, and its members have the order
of clause 2.2.
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
"""Length in hexadecimal digits: 128 bits, so that two contents never share a digest."""


def render(incarnation: int, events: Sequence[Event], version: ApiVersion) -> bytes:
    """Return the document for an api-version, as ASCII bytes.

    `events` must be live and in the order of the document.
    """
    texts = [
        _text(event, version)
        for event in events
        if event.event_type not in version.hidden
    ]
    return b'{"DocumentIncarnation":%d,"Events":%b}' % (incarnation, _array(texts))


def digest(events: Sequence[Event]) -> str:
    """Return a digest of the Events array (clause 2.10).

    It covers the array of the newest version, without the incarnation. If the digest
    is the same, the incarnation must stay. If it differs, the incarnation rises.
    """
    array = _array([_text(event, NEWEST) for event in events])
    return hashlib.sha256(array).hexdigest()[:_DIGEST_LENGTH]


def look_alike(old: Event, new: Event) -> bool:
    """Return whether documents show two versions of an event alike."""
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
"""Everything that a document shows of an event, except its ID, which never changes."""


_to_json = json.JSONEncoder(separators=(",", ":")).encode


class _Remembered:
    """A cache of the JSON of events, by object identity.

    Of the hundreds of events of a large scope, only one is new in each document.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[int, int], tuple[Event, bytes]] = {}

    def of(self, event: Event, version: ApiVersion) -> bytes:
        """Return the JSON of an event. The cache keeps the object, so its ID stays unique."""
        name = id(event), version.order
        remembered = self._texts.get(name)
        if remembered is None or remembered[0] is not event:
            if len(self._texts) >= _REMEMBERED_MAX:
                self._texts.clear()
            # The default escapes everything beyond ASCII, including lone surrogates,
            # which UTF-8 cannot encode.
            text = _to_json(_members(event, version=version))
            self._texts[name] = remembered = event, text.encode("ascii")
        return remembered[1]


_REMEMBERED_MAX = 4_000
"""Maximum cached events, about 2 KiB each. Beyond it, the cache is cleared."""

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
