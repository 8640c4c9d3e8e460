"""The responses that are the same for all callers: errors, and that to an approval.

Error bodies are JSON with a member `error` (clause 1.8). They describe the problem of
the request, and nothing about any VM.
"""

import json
from collections.abc import Iterable, Sequence

from forewarn.fleet import instance
from forewarn.metadata.http import Response, build
from forewarn.protocol import own_events, versions

RETRY_AFTER_SECONDS = 1
"""Retry-After of 429 and 503, in seconds: one interval of a poller."""

_RETRY = (("Retry-After", str(RETRY_AFTER_SECONDS)),)


def error(
    status: int,
    sentence: str,
    *,
    newest: Sequence[str] = (),
    headers: Iterable[tuple[str, str]] = (),
    close: bool = False,
) -> Response:
    """Return an error with `sentence`, and the `newest` versions if any."""
    members: dict[str, object] = {"error": sentence}
    if newest:
        members["newest-versions"] = list(newest)
    body = json.dumps(members, separators=(",", ":")).encode("ascii")
    return build(status, body, headers=headers, close=close)


def _version(newest: Sequence[str]) -> Response:
    return error(
        400,
        "Bad request. api-version is invalid or was not specified in the request. "
        "For more information refer to aka.ms/azureimds",
        newest=newest,
    )


def _verb(allowed: str) -> Response:
    return error(
        405,
        f"Method not allowed. Use {allowed.replace(', ', ' or ')}",
        headers=(("Allow", allowed),),
    )


def _last(status: int, sentence: str) -> Response:
    return error(status, sentence, close=True)


HEADER_MISSING = build(
    400, b'{ "error": "Bad request: . Required metadata header not specified" }'
)
"""The text has the same spaces and colon as Azure's response."""

FORWARDED = error(400, "Bad request. X-Forwarded-For is not accepted")
EVENTS_VERSION = _version(versions.NEWEST_NAMES)
INSTANCE_VERSION = _version(instance.NEWEST_NAMES)
OWN_EVENTS_VERSION = _version(own_events.VERSIONS)
LEAF_FORMAT = error(400, "Bad request. A single value is given with format=text only")
INSTANCE_FORMAT = error(400, "Bad request. format must be json or text")
NOT_FOUND = error(404, "Not found")
UNKNOWN_CALLER = _last(404, "Not found")
"""This response closes the connection: an unknown caller gets one response per
connection."""
READ_ONLY = _verb("GET")
READ_OR_APPROVE = _verb("GET, POST")
WAIT = error(400, "Bad request. wait must be given once, in whole seconds")
TOO_MANY = error(429, "Too many requests", headers=_RETRY)
TOO_MANY_CLOSE = error(429, "Too many requests", headers=_RETRY, close=True)
TOO_MANY_WAIT = error(429, "Too many requests wait for a change", headers=_RETRY)
BUSY = error(503, "Service unavailable. Try again", headers=_RETRY)
APPROVED = build(200, b"")
"""Empty, because one known client fails on a body that is not JSON (1.12)."""

# These responses close the connection, because the start of the next request is
# unknown.

MALFORMED = _last(400, "Bad request. This is not well-formed HTTP/1.1")
TIMED_OUT = _last(408, "Request timeout")
BODY_TOO_LARGE = _last(413, "Payload too large")
TARGET_TOO_LONG = _last(414, "URI too long")
EXPECTATION = _last(417, "Expectation failed. Only 100-continue is understood")
HEAD_TOO_LARGE = _last(431, "Request header fields too large")
FAULT = _last(500, "Internal server error")
CROWDED = error(503, "Too many connections", headers=_RETRY, close=True)
HTTP_VERSION = _last(505, "HTTP version not supported. Use HTTP/1.1")

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
