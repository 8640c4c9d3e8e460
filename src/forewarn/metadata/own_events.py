"""GET /metadata/forewarn/events: the details of a VM's own events, if enabled.

This is an extension: its path and its api-versions are not Azure's. It has the checks
and the errors of the other routes. Control gives the response to each request.
"""

from dataclasses import dataclass
from typing import TypeAlias

from forewarn.metadata import answers
from forewarn.metadata.http import Response, build
from forewarn.protocol import own_events
from forewarn.protocol.own_events import OwnEvents
from forewarn.wording import vms

PATH = ("metadata", "forewarn", "events")


@dataclass(frozen=True, slots=True)
class OwnRead:
    """GET of the caller's event details; also the question to control for them."""


OwnRoute: TypeAlias = OwnRead | Response


def route(method: str, version: str) -> OwnRoute:
    """Return the route of a request for the path, or its error response."""
    if method != "GET":
        return answers.READ_ONLY
    if version not in own_events.VERSIONS:
        return answers.OWN_EVENTS_VERSION
    return OwnRead()


def answer(told: OwnEvents | None) -> Response:
    """Return the response; None: the VM was deleted."""
    if told is None:
        return answers.NOT_FOUND
    return build(200, vms.render(told))
