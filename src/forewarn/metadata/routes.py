"""The routes of requests: the checks of clause 1.6, in their order.

A route does not depend on the caller, so the route of a cached request can be reused.
Other modules decide about the caller, the rate limit and the response.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote

from forewarn.fleet import instance
from forewarn.metadata import answers
from forewarn.metadata.http import Request, Response
from forewarn.metadata.limits import WAIT_DIGITS_MAX
from forewarn.protocol import own_events, versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """GET of the document."""

    version: versions.ApiVersion
    tags: frozenset[str] = frozenset()
    """The tags of `If-None-Match`, without quotes."""
    wait: int | None = None
    """Maximum seconds to wait for a change; None: the request has no `wait`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """POST of an approval; its body is parsed later."""

    version: versions.ApiVersion


@dataclass(frozen=True, slots=True)
class VersionList:
    """GET of the instance endpoint's versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRead:
    """GET of the instance endpoint, whole or in part."""

    version: str
    path: tuple[str, ...]
    """Below `/metadata/instance`, in lower case."""
    text: bool


@dataclass(frozen=True, slots=True)
class OwnRead:
    """GET of the caller's event details; also the question to control for them."""


Route: TypeAlias = Read | Approval | VersionList | InstanceRead | OwnRead

_EVENTS = ("metadata", "scheduledevents")
_INSTANCE = ("metadata", "instance")
_VERSIONS = ("metadata", "versions")
_OWN_EVENTS = ("metadata", "forewarn", "events")
"""An extension: this path and its api-versions are not Azure's."""

_UNGUARDED = [
    version.name for version in versions.VERSIONS if not version.header_enforced
]

_NO_TAGS: frozenset[str] = frozenset()

_TARGETS_MAX = 256
"""Maximum number of cached targets: the clients of a fleet use about ten. Each has at
most 8 KiB, so a hostile client can use little memory."""

_SECONDS = re.compile(rf"[0-9]{{1,{WAIT_DIGITS_MAX}}}")
_TAG = re.compile(r'(?:W/)?"([^"]*)"|([^\s,"]+)')


def route(
    request: Request,
    *,
    signed: bool = False,
    longest_wait: int = 0,
    own: bool = False,
) -> Route | Response:
    """Return the route of `request`, or its error response.

    `signed` requests come from a metadata proxy with a valid signature, which adds
    X-Forwarded-For. That header is refused from other callers (clause 1.7). If
    `longest_wait` is 0 seconds, `wait` is ignored, as any unknown parameter is. Without
    `own`, the path of event details does not exist.
    """
    if not signed and request.values("x-forwarded-for"):
        return answers.FORWARDED
    target = _read_target(request.path, request.query)
    unguarded = target.path == _EVENTS and target.version in _UNGUARDED
    if not unguarded and not _has_metadata_header(request):
        return answers.HEADER_MISSING
    if target.path == _EVENTS:
        return _route_events(request, target, longest_wait)
    if target.path == _VERSIONS:
        return VersionList() if request.method == "GET" else answers.READ_ONLY
    if target.path[:2] == _INSTANCE:
        return _route_instance(request, target)
    if own and target.path == _OWN_EVENTS:
        return _route_own_events(request, target)
    return answers.NOT_FOUND


class _Target(NamedTuple):
    path: tuple[str, ...]
    version: str
    """The value; empty if it is missing or given more than once."""
    formats: tuple[str, ...]
    waits: tuple[str, ...]


@lru_cache(maxsize=_TARGETS_MAX)
def _read_target(path: str, query: str) -> _Target:
    pairs = parse_qsl(query, keep_blank_values=True)
    versions = [value for name, value in pairs if name == "api-version"]
    return _Target(
        path=_segments(path),
        version=versions[0] if len(versions) == 1 else "",
        formats=tuple(value.lower() for name, value in pairs if name == "format"),
        waits=tuple(value for name, value in pairs if name == "wait"),
    )


def _route_events(
    request: Request, target: _Target, longest_wait: int
) -> Route | Response:
    if request.method not in {"GET", "POST"}:
        return answers.READ_OR_APPROVE
    version = versions.parse(target.version)
    if version is None:
        return answers.EVENTS_VERSION
    if request.method == "POST":
        return Approval(version=version)
    match target.waits if longest_wait else ():
        case ():
            wait = None
        case (text,) if _SECONDS.fullmatch(text):
            wait = min(int(text), longest_wait)
        case _:
            return answers.WAIT
    return Read(version=version, tags=_tags(request), wait=wait)


def _route_instance(request: Request, target: _Target) -> Route | Response:
    if request.method != "GET":
        return answers.READ_ONLY
    if target.version not in instance.VERSIONS:
        return answers.INSTANCE_VERSION
    if target.formats not in {(), ("json",), ("text",)}:
        return answers.INSTANCE_FORMAT
    return InstanceRead(
        version=target.version,
        path=target.path[len(_INSTANCE) :],
        text=target.formats == ("text",),
    )


def _route_own_events(request: Request, target: _Target) -> Route | Response:
    if request.method != "GET":
        return answers.READ_ONLY
    if target.version not in own_events.VERSIONS:
        return answers.OWN_EVENTS_VERSION
    return OwnRead()


def _segments(path: str) -> tuple[str, ...]:
    # The form for proxies, `http://169.254.169.254/metadata/...`, is the same path.
    if path[:7].lower() == "http://":
        path = "/" + path[7:].partition("/")[2]
    # Decode after the split, so that an encoded slash is not a separator.
    root, *names = [unquote(part).lower() for part in path.split("/")]
    # Clients that join URLs by hand write one slash at the end, and so do Azure's
    # pages (`/metadata/instance/`). No other variant is accepted.
    if len(names) > 1 and not names[-1]:
        names.pop()
    return tuple(names) if not root else ()


def _has_metadata_header(request: Request) -> bool:
    values = request.values("metadata")
    return len(values) == 1 and values[0].lower() == "true"


def _tags(request: Request) -> frozenset[str]:
    # `*` stays in the set and equals no incarnation: a client without a document
    # must not get 304.
    values = request.values("if-none-match")
    if not values:
        return _NO_TAGS
    return frozenset(
        quoted or bare for value in values for quoted, bare in _TAG.findall(value)
    )
