"""A Scheduled Events endpoint by the protocol: requests in, responses out.

It shares no code with the service. Each decision is a method of its own, so that a
defect overrides one of them and leaves the others right.
"""

import json
import re
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, cast

from forewarn.instants import SECOND, Micros
from tests.support.planted.fleet import FLEET
from tests.support.planted.messages import Request, Response
from tests.support.planted.story import Event, Story

EVENTS: Final = "/metadata/scheduledevents"
INSTANCE: Final = "/metadata/instance"
VERSIONS_PATH: Final = "/metadata/versions"

PREVIEW: Final = "2017-03-01"
VERSIONS: Final = (
    PREVIEW,
    "2017-08-01",
    "2017-11-01",
    "2019-01-01",
    "2019-04-01",
    "2019-08-01",
    "2020-07-01",
)
NEWEST: Final = VERSIONS[-1]

INSTANCE_VERSIONS: Final = (
    "2017-08-01",
    "2018-10-01",
    "2019-06-01",
    "2019-08-01",
    "2021-02-01",
    "2021-12-13",
    "2025-04-07",
)

MEMBER_SINCE: Final = {
    "Description": "2019-04-01",
    "EventSource": "2019-08-01",
    "DurationInSeconds": "2020-07-01",
}
TYPE_SINCE: Final = {"Preempt": "2017-11-01", "Terminate": "2019-01-01"}

REQUESTS_PER_SECOND: Final = 50
"""Number of requests of one VM to all paths (clause 1.9)."""

GUID: Final = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

NO_HEADER: Final = (
    b'{ "error": "Bad request: . Required metadata header not specified" }'
)
BAD_VERSION: Final = (
    "Bad request. api-version is invalid or was not specified in the request."
    " For more information refer to aka.ms/azureimds"
)


class RefusedError(Exception):
    """A request is not carried out: its status and a sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Endpoint:
    """The answers to all VMs of the story."""

    def __init__(self, story: Story, *, per_second: int = REQUESTS_PER_SECOND) -> None:
        self.story = story
        self.per_second = per_second
        self._allowance: dict[str, tuple[Micros, float]] = {}

    def answer(self, vm: str, request: Request, now: Micros) -> Response:
        """Return the response to one request of a VM."""
        self.story.advance(now)
        if not self.is_allowed(vm, now):
            return self.throttled()
        if self.is_forwarded(request):
            return self.error(HTTPStatus.BAD_REQUEST, "Bad request. Forwarded.")
        if self.lacks_header(request):
            return self.headerless()
        path = self.resource(request)
        if path is None:
            return self.error(HTTPStatus.NOT_FOUND, "Not found.")
        if request.method not in self.methods(path):
            return self.wrong_method(path, request)
        if path == VERSIONS_PATH:
            return Response(200, encoded({"apiVersions": [*self.instance_versions()]}))
        if path != EVENTS:
            return self.instance(vm, request)
        version = self.version(request)
        if version is None:
            return self.wrong_version(self.newest_versions())
        if request.method == "POST":
            return self.post(vm, version, request, now)
        return self.get(vm, version, request, now)

    # -- whether it may ask (section 1) ----------------------------------------------

    def is_allowed(self, vm: str, now: Micros) -> bool:
        """Take a request out of the VM's allowance, which refills with time."""
        since, left = self._allowance.get(vm, (now, float(self.per_second)))
        left += max(0, now - since) / SECOND * self.per_second
        left = min(left, float(self.per_second))
        self._allowance[vm] = (now, left - 1 if left >= 1 else left)
        return left >= 1

    def throttled(self) -> Response:
        """Answer a request too many (1.9)."""
        body = encoded({"error": "Too many requests."})
        return Response(429, body, (("Retry-After", "1"),))

    def is_forwarded(self, request: Request) -> bool:
        """Whether a proxy stands between (1.7)."""
        return bool(request.all("x-forwarded-for"))

    def lacks_header(self, request: Request) -> bool:
        """Whether the header that a browser cannot be made to send is missing (1.6)."""
        is_preview = request.query("api-version") == [PREVIEW]
        if is_preview and self.resource(request) == EVENTS:
            return False
        return not self.is_metadata(request.all("metadata"))

    def is_metadata(self, values: list[str]) -> bool:
        """Whether the values of the header are those that are asked for."""
        return [value.lower() for value in values] == ["true"]

    def headerless(self) -> Response:
        """Answer a request without the header."""
        return Response(400, NO_HEADER)

    def resource(self, request: Request) -> str | None:
        """Return what a path names, in lower case (1.2)."""
        path = request.path.lower()
        if path in {EVENTS, INSTANCE, VERSIONS_PATH}:
            return path
        return path if path.startswith(f"{INSTANCE}/") else None

    def methods(self, path: str) -> frozenset[str]:
        """Return the methods of a path."""
        return frozenset({"GET", "POST"} if path == EVENTS else {"GET"})

    def wrong_method(self, path: str, request: Request) -> Response:
        """Answer a method that the path does not have."""
        allowed = ", ".join(sorted(self.methods(path)))
        body = encoded({"error": "Method not allowed."})
        return Response(405, body, (("Allow", allowed),))

    def version(self, request: Request) -> str | None:
        """Return the version that is asked for; None: there is none such (1.3)."""
        values = request.query("api-version")
        return values[0] if len(values) == 1 and values[0] in VERSIONS else None

    def newest_versions(self) -> tuple[str, ...]:
        """Return what is offered to who asks with a wrong version."""
        return VERSIONS[:-4:-1]

    def wrong_version(self, newest: tuple[str, ...]) -> Response:
        """Answer a request without a version that exists."""
        return Response(
            400, encoded({"error": BAD_VERSION, "newest-versions": [*newest]})
        )

    def error(self, status: int, text: str) -> Response:
        """Answer with an error (1.8)."""
        return Response(status, encoded({"error": text}))

    # -- the document (section 2) ----------------------------------------------------

    def get(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        """Answer a GET; the first one enables the scope."""
        self.story.enable(vm, now)
        view = self.story.views[vm]
        is_first, view.is_answered = not view.is_answered, True
        tag = self.tag(vm)
        if not is_first and self.is_unchanged(vm, request):
            return self.unchanged(vm, version, now)
        body = self.body(self.document(vm, version, now))
        return Response(200, body, (("ETag", tag),))

    def tag(self, vm: str) -> str:
        """Return the ETag of a document."""
        return f'"{self.story.views[vm].incarnation}"'

    def is_unchanged(self, vm: str, request: Request) -> bool:
        """Whether the client has said that it has this document (1.10)."""
        tag = self.tag(vm)
        return any(
            part.strip() in {tag, tag.strip('"'), f"W/{tag}"}
            for value in request.all("if-none-match")
            for part in value.split(",")
        )

    def unchanged(self, vm: str, version: str, now: Micros) -> Response:
        """Answer a client that has the document."""
        return Response(304, b"", (("ETag", self.tag(vm)),))

    def document(self, vm: str, version: str, now: Micros) -> dict[str, object]:
        """Return a VM's document."""
        return {
            "DocumentIncarnation": self.incarnation(vm, version, now),
            "Events": [
                self.members(vm, event, version, now)
                for event in self.events(vm, now)
                if self.is_shown(event, version)
            ],
        }

    def body(self, document: dict[str, object]) -> bytes:
        """Return a document's bytes."""
        return encoded(document)

    def incarnation(self, vm: str, version: str, now: Micros) -> object:
        """Return the number of the document (2.10)."""
        return self.story.views[vm].incarnation

    def events(self, vm: str, now: Micros) -> list[Event]:
        """Return what is in the document, whatever the version."""
        return self.story.visible(vm)

    def is_shown(self, event: Event, version: str) -> bool:
        """Whether a version knows the type of an event (1.5)."""
        return version >= TYPE_SINCE.get(event.plan.event_type, PREVIEW)

    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        """Return an event's members in their order (2.2)."""
        plan = event.plan
        mark = "_" if version == PREVIEW else ""
        members: dict[str, object] = {
            "EventId": event.event_id,
            "EventStatus": event.status,
            "EventType": plan.event_type,
            "ResourceType": "VirtualMachine",
            "Resources": [f"{mark}{name}" for name in plan.resources],
            "NotBefore": self.not_before(event, now),
            "Description": plan.description,
            "EventSource": plan.source,
            "DurationInSeconds": plan.duration,
        }
        return {
            name: value
            for name, value in members.items()
            if version >= MEMBER_SINCE.get(name, PREVIEW)
        }

    def not_before(self, event: Event, now: Micros) -> object:
        """Return the earliest time of an impact that has not begun (2.7)."""
        if event.has_started:
            return ""
        return formatdate(event.not_before // SECOND, usegmt=True)

    # -- approvals (section 3) -------------------------------------------------------

    def post(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        """Answer a POST."""
        try:
            approved = self.approvals(vm, self.requested(request.body))
        except RefusedError as error:
            return self.error(error.status, error.text)
        self.story.keep(vm, now)
        self.story.approve(vm, approved, now)
        return self.approved(vm, version, approved, now)

    def approved(
        self, vm: str, version: str, events: list[Event], now: Micros
    ) -> Response:
        """Answer a good approval (1.12)."""
        return Response(200)

    def requested(self, body: bytes) -> list[object]:
        """Return the entries of StartRequests; raises RefusedError (3.3)."""
        try:
            value = json.loads(body.decode())
        except ValueError:
            raise self.refusal("the body is not JSON") from None
        if not isinstance(value, dict):
            raise self.refusal("the body is not an object")
        entries = cast("dict[str, Any]", value).get("StartRequests")
        if not isinstance(entries, list) or not entries:
            raise self.refusal("StartRequests is not a list with entries")
        return cast("list[object]", entries)

    def approvals(self, vm: str, entries: list[object]) -> list[Event]:
        """Return the events that entries name; raises RefusedError for any bad one."""
        return [self.approval(vm, entry) for entry in entries]

    def approval(self, vm: str, entry: object) -> Event:
        """Return the event that one entry names; raises RefusedError."""
        event_id = (
            cast("dict[str, Any]", entry).get("EventId")
            if isinstance(entry, dict)
            else None
        )
        if not isinstance(event_id, str):
            raise self.refusal("an entry has no EventId")
        if not GUID.fullmatch(event_id):
            raise self.refusal("an EventId is not a GUID")
        event = self.found(vm, event_id)
        if event is None:
            raise self.refusal("an EventId is not in this VM's document")
        return event

    def found(self, vm: str, event_id: str) -> Event | None:
        """Return what is or was in a VM's document, whatever the case of its id."""
        return self.story.known(vm).get(event_id.upper())

    def refusal(self, text: str) -> RefusedError:
        """Return the error of a body that asks for nothing that can be done."""
        return RefusedError(HTTPStatus.BAD_REQUEST, f"Bad request: {text}.")

    # -- the instance (1.11) ---------------------------------------------------------

    def instance(self, vm: str, request: Request) -> Response:
        """Answer what a VM may know about itself."""
        versions = request.query("api-version")
        if len(versions) != 1 or versions[0] not in self.instance_versions():
            return self.wrong_version(self.instance_versions()[:-4:-1])
        members: object = self.identity(vm)
        for name in filter(None, request.path.split("/")[3:]):
            if not isinstance(members, dict):
                return self.error(HTTPStatus.NOT_FOUND, "Not found.")
            named = {key.lower(): value for key, value in members.items()}
            if name.lower() not in named:
                return self.error(HTTPStatus.NOT_FOUND, "Not found.")
            members = named[name.lower()]
        is_leaf = isinstance(members, str)
        form = request.query("format") or ["text" if is_leaf else "json"]
        if form != ["text" if is_leaf else "json"]:
            return self.error(HTTPStatus.BAD_REQUEST, "Bad request. Wrong format.")
        return self.leaf(str(members)) if is_leaf else Response(200, encoded(members))

    def instance_versions(self) -> tuple[str, ...]:
        """Return the instance endpoint's own list, oldest first."""
        return INSTANCE_VERSIONS

    def leaf(self, text: str) -> Response:
        """Answer a single value: bare text."""
        return Response(200, text.encode(), content_type="text/plain; charset=utf-8")

    def identity(self, vm: str) -> dict[str, object]:
        """Return the whole of what a VM may know about itself."""
        known = FLEET[vm]
        number = list(FLEET).index(vm) + 1
        return {
            "compute": {
                "name": vm,
                "vmId": f"00000000-0000-4000-8000-{number:012d}",
                "vmScaleSetName": known.scope,
                "resourceGroupName": "planted",
                "subscriptionId": "00000000-0000-4000-8000-000000000000",
                "location": "testland",
                "zone": "",
                "platformFaultDomain": str(known.fault_domain),
                "platformUpdateDomain": str(known.fault_domain),
                "placementGroupId": known.scope,
                "tags": "",
            },
            "network": {"interface": []},
        }


def encoded(value: object) -> bytes:
    """Return compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
