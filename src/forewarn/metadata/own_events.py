"""GET /metadata/forewarn/events: what a VM may read of its own events, opt-in.

An extension: its path and its api-versions are not Azure's. The checks and the
errors are those of the other routes; the answer is control's, asked each time.
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
    """GET of the caller's own events; as a question: have control tell them."""


OwnRoute: TypeAlias = OwnRead | Response


def route(method: str, version: str) -> OwnRoute:
    """Return what a request for the path asks for, or the error that it deserves."""
    if method != "GET":
        return answers.READ_ONLY
    if version not in own_events.VERSIONS:
        return answers.OWN_EVENTS_VERSION
    return OwnRead()


def answer(told: OwnEvents | None) -> Response:
    """Return the answer; None: the VM is gone."""
    if told is None:
        return answers.NOT_FOUND
    return build(200, vms.render(told))
