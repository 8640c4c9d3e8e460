"""Format events as JSON, as environment variables and in templates. Pure.

Handlers, notifications and the status use the same names: those of the wire (clause 2),
and short names for people.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from forewarn.instants import format_http_date, format_instant
from forewarn.protocol.notices import Notice

VALUE_BYTES_MAX = 32_768
"""Maximum size of a variable: Linux allows 128 KiB for one. Longer texts are cut. The
JSON has all of the text."""

_PLAIN = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)
_HEX = re.compile(r"%([0-9A-Fa-f]{2})", re.ASCII)
_PLACE = re.compile(r"\{([a-z_]+)\}", re.ASCII)


def event_json(notice: Notice | None) -> dict[str, Any]:
    """Return an event in its wire format; empty if there is none."""
    if notice is None:
        return {}
    not_before = notice.not_before
    return {
        "EventId": notice.id_on_wire,
        "EventStatus": notice.status,
        "EventType": notice.event_type,
        "ResourceType": notice.resource_type,
        "Resources": list(notice.resources),
        "NotBefore": "" if not_before is None else format_http_date(not_before),
        "Description": notice.description,
        "EventSource": notice.source,
        "DurationInSeconds": notice.duration_seconds,
    }


def event_words(notice: Notice | None) -> dict[str, str]:
    """Return all members of an event by their short names."""
    notice = notice or Notice(event_id="")
    not_before = notice.not_before
    return {
        "id": notice.id_on_wire,
        "type": notice.event_type,
        "status": notice.status,
        "source": notice.source,
        "not_before": "" if not_before is None else format_instant(not_before),
        "duration": str(notice.duration_seconds),
        "resources": ",".join(notice.resources),
        "description": notice.description,
    }


def variable(text: str) -> str:
    """Return a string for an environment variable: valid UTF-8 without NUL, cut if
    needed."""
    clean = text.replace("\0", "").encode("utf-8", "replace")
    return clean[:VALUE_BYTES_MAX].decode("utf-8", "ignore")


def fill(
    template: str, values: Mapping[str, str], quote: Callable[[str], str] = str
) -> str:
    """Return a template with its {placeholders} replaced by quoted values.

    Other text in braces is unchanged, such as that of JSON.
    """

    def one(match: re.Match[str]) -> str:
        name = match[1]
        return quote(values[name]) if name in values else match[0]

    return _PLACE.sub(one, template)


def unknown_places(template: str, known: Mapping[str, object]) -> list[str]:
    """Return the placeholders of a template that are unknown."""
    return [name for name in _PLACE.findall(template) if name not in known]


def json_quoted(text: str) -> str:
    """Return a string for use between the quotes of a JSON string."""
    return json.dumps(text)[1:-1]


def percent_quoted(text: str | bytes, *, keep: bytes = b"") -> str:
    """Return a string with percent encoding for a URL, except for the bytes in `keep`.

    The standard library's function would add half a megabyte to the agent.
    """
    content = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return "".join(
        chr(byte) if byte in _PLAIN or byte in keep else f"%{byte:02X}"
        for byte in content
    )


def percent_read(text: str) -> str:
    """Return a string without percent encoding; invalid encodings are unchanged."""
    content = _HEX.sub(lambda match: chr(int(match[1], 16)), text)
    if content == text:
        return text
    # Each character is one byte, apart from those that should have been encoded.
    return content.encode("latin-1", "replace").decode("utf-8", "replace")
