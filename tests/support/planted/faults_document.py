"""Defects in the form of the document and its members (2.1, 2.2)."""

import json
from dataclasses import replace

from forewarn.instants import Micros
from tests.support.planted.catalog import defect
from tests.support.planted.endpoint import MEMBER_SINCE, Endpoint, encoded
from tests.support.planted.messages import Request, Response
from tests.support.planted.story import Event


@defect(
    "events-null",
    "2.1",
    "Events is null where there are no events.",
    seen="read a document without events",
)
class EventsNull(Endpoint):
    def document(self, vm: str, version: str, now: Micros) -> dict[str, object]:
        document = super().document(vm, version, now)
        return {**document, "Events": document["Events"] or None}


@defect(
    "events-missing",
    "2.1",
    "The document has no Events where there are none.",
    seen="read a document without events",
)
class EventsMissing(Endpoint):
    def document(self, vm: str, version: str, now: Micros) -> dict[str, object]:
        document = super().document(vm, version, now)
        return {name: value for name, value in document.items() if value != []}


class _WhenEmpty(Endpoint):
    """Answers otherwise where there are no events."""

    instead = Response(200)

    def get(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        answer = super().get(vm, version, request, now)
        is_empty = answer.body.endswith(b'"Events":[]}')
        return replace(self.instead, headers=answer.headers) if is_empty else answer


@defect(
    "empty-body",
    "2.1",
    "Where there are no events, the answer is 200 with an empty body.",
    seen="read a document without events",
)
class EmptyBody(_WhenEmpty):
    instead = Response(200)


@defect(
    "empty-204",
    "2.1",
    "Where there are no events, the answer is 204.",
    seen="read a document without events",
)
class Empty204(_WhenEmpty):
    instead = Response(204)


@defect(
    "empty-404",
    "2.1",
    "Where there are no events, the answer is 404.",
    seen="read a document without events",
)
class Empty404(_WhenEmpty):
    instead = Response(404, encoded({"error": "Not found."}))


@defect(
    "bare-list",
    "2.1",
    "The document is the list of its events, with no object around it.",
    seen="read a document",
)
class BareList(Endpoint):
    def body(self, document: dict[str, object]) -> bytes:
        return encoded(document["Events"])


@defect(
    "indented",
    "2.1",
    "The document is indented for people.",
    seen="compare the bytes with compact JSON",
)
class Indented(Endpoint):
    def body(self, document: dict[str, object]) -> bytes:
        return json.dumps(document, indent=2).encode()


@defect(
    "blanks",
    "2.1",
    "There is a blank after each comma and colon.",
    seen="compare the bytes with compact JSON",
)
class Blanks(Endpoint):
    def body(self, document: dict[str, object]) -> bytes:
        return json.dumps(document).encode()


@defect(
    "line-end",
    "2.1",
    "A line break ends the document.",
    unseen="a line break after the last bracket is not part of the document",
)
class LineEnd(Endpoint):
    def body(self, document: dict[str, object]) -> bytes:
        return super().body(document) + b"\n"


@defect(
    "byte-order-mark",
    "2.1",
    "The document begins with a byte order mark.",
    seen="look at the first bytes",
)
class ByteOrderMark(Endpoint):
    def body(self, document: dict[str, object]) -> bytes:
        return b"\xef\xbb\xbf" + super().body(document)


@defect(
    "events-first",
    "2.1",
    "Events comes before DocumentIncarnation.",
    seen="look at the order of the document's members",
)
class EventsFirst(Endpoint):
    def document(self, vm: str, version: str, now: Micros) -> dict[str, object]:
        return dict(reversed(super().document(vm, version, now).items()))


@defect(
    "extra-document-member",
    "2.1",
    "The document has a third member.",
    seen="look at the document's members",
)
class ExtraDocumentMember(Endpoint):
    def document(self, vm: str, version: str, now: Micros) -> dict[str, object]:
        return {**super().document(vm, version, now), "Mock": True}


@defect(
    "sorted-members",
    "2.2",
    "The members of an event are in the order of the alphabet.",
    seen="look at the order of an event's members",
)
class SortedMembers(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        return dict(sorted(super().members(vm, event, version, now).items()))


@defect(
    "camel-case",
    "2.2",
    "The names of members begin with a small letter.",
    seen="look at an event's members",
)
class CamelCase(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        return {name[0].lower() + name[1:]: value for name, value in members.items()}


@defect(
    "members-null",
    "2.2",
    "Members that a version lacks are there, as null.",
    seen="ask with 2017-08-01 while there is an event",
)
class MembersNull(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        return {**members, **{member: members.get(member) for member in MEMBER_SINCE}}


class _Without(Endpoint):
    """Leaves a member out."""

    name = ""

    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        members.pop(self.name, None)
        return members


@defect(
    "no-description",
    "2.2",
    "Description is missing in the newest version.",
    seen="look at an event's members",
)
class NoDescription(_Without):
    name = "Description"


@defect(
    "no-resource-type",
    "2.2",
    "ResourceType is missing.",
    seen="look at an event's members",
)
class NoResourceType(_Without):
    name = "ResourceType"


@defect(
    "no-duration",
    "2.2",
    "DurationInSeconds is missing in the newest version.",
    seen="look at an event's members",
)
class NoDuration(_Without):
    name = "DurationInSeconds"


@defect(
    "no-empty-description",
    "2.2",
    "Description is left out where it is empty.",
    seen="look at the members of a Preempt or Terminate, which have no text",
)
class NoEmptyDescription(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        return {
            name: value
            for name, value in members.items()
            if (name, value) != ("Description", "")
        }


@defect(
    "extra-member",
    "2.2",
    "An event has a member of the mock's own.",
    seen="look at an event's members",
)
class ExtraMember(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        return {**members, "Approved": bool(event.approved_by)}


@defect(
    "not-before-time",
    "2.2",
    "NotBefore is called NotBeforeTime.",
    seen="look at an event's members",
)
class NotBeforeTime(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        return {
            name.replace("NotBefore", "NotBeforeTime"): value
            for name, value in members.items()
        }
