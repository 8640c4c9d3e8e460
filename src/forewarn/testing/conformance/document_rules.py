"""Rules of section 2: the document, in every version.

These rules send no requests. They judge every document of every version, whichever
check requested it, until the end of a watch.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any

from forewarn.instants import format_http_date, parse_http_date
from forewarn.protocol.events import EventSource, EventType
from forewarn.protocol.versions import NEWEST, ApiVersion
from forewarn.testing.conformance.check import Rule, Witness, against
from forewarn.testing.conformance.documents import (
    Document,
    Members,
    brief,
    describe,
    event_id,
    first_blank,
    is_integer,
    shown,
    tail,
    texts,
)
from forewarn.testing.conformance.transcript import Transcript

MEMBERS = (
    "EventId",
    "EventStatus",
    "EventType",
    "ResourceType",
    "Resources",
    "NotBefore",
    "Description",
    "EventSource",
    "DurationInSeconds",
)

LATER_MEMBERS = ("Description", "EventSource", "DurationInSeconds")
"""Members that some versions do not have."""


BLANK_CONTEXT = 20
"""Number of bytes on each side of a blank that a complaint shows."""

_GUID = re.compile(r"[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}")
_HTTP_DATE = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-3]\d "
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} "
    r"[0-2]\d:[0-5]\d:[0-6]\d GMT",
    re.ASCII,
)


def members_of(version: ApiVersion) -> tuple[str, ...]:
    """Return the members of an event in a version, in their order (2.2)."""
    lacks = {
        "Description": not version.description,
        "EventSource": not version.source,
        "DurationInSeconds": not version.duration,
    }
    return tuple(name for name in MEMBERS if not lacks.get(name))


# The document as a whole.


def of_document(
    document: Document, saw: str, complaint: str = "", *, remark: str = ""
) -> Witness:
    """Return a witness about a document, with its version."""
    return Witness(
        saw=f"{saw} at {document.version.name}",
        exchanges=(document.exchange,),
        complaint=f"at {document.version.name}: {complaint}" if complaint else "",
        remark=remark,
    )


def _form(transcript: Transcript) -> Iterator[Witness]:
    for document in transcript.documents:
        names = list(document.members)
        wrong = "" if document.members else document.fault
        if document.members and names != ["DocumentIncarnation", "Events"]:
            wrong = f"expected DocumentIncarnation and Events, got {brief(names)}"
        yield of_document(document, "DocumentIncarnation and Events", wrong)


def _empty(transcript: Transcript) -> Iterator[Witness]:
    for document in transcript.documents:
        if "Events" in document.members and document.fault:
            yield of_document(document, "Events", document.fault)
        elif not document.fault and not document.events:
            yield of_document(document, "Events is []")
    for exchange in transcript.unread:
        # If every GET gets 404, there is no endpoint: see 1.1.
        is_odd = exchange.status == HTTPStatus.NO_CONTENT
        if is_odd or (exchange.status == HTTPStatus.NOT_FOUND and transcript.newest):
            wrong = f"expected a document with an empty array, got {exchange.outcome}"
            yield against(wrong, exchange)


def _compact(transcript: Transcript) -> Iterator[Witness]:
    for document in filter(_can_be_read, transcript.documents):
        body = document.exchange.payload
        ending, wrong, remark = tail(body), "", ""
        at = first_blank(body)
        if at is None and ending not in {b"", b"\n", b"\r\n"}:
            at = len(body) - len(ending)
        if at is not None:
            around = body[max(at - BLANK_CONTEXT, 0) : at + BLANK_CONTEXT]
            wrong = f"byte {at} is a blank outside strings: …{around!r}…"
        elif ending:
            remark = "it ends with a line break, which is not part of the document"
        saw = f"{len(body)} bytes without a blank"
        yield of_document(document, saw, wrong, remark=remark)


def _numbers(transcript: Transcript) -> Iterator[Witness]:
    for document in filter(_can_be_read, transcript.documents):
        number = brief(document.members.get("DocumentIncarnation"))
        is_good = document.incarnation is not None and document.incarnation >= 1
        wrong = f"DocumentIncarnation is {number}, not an integer from 1 on"
        saw = f"DocumentIncarnation {number}"
        yield of_document(document, saw, "" if is_good else wrong)


def _can_be_read(document: Document) -> bool:
    return bool(document.members)


def _one_content(transcript: Transcript) -> Iterator[Witness]:
    for version, listed in transcript.shown.items():
        first: dict[object, Document] = {}
        for exchange in listed:
            document = exchange.document
            if document.fault or document.incarnation is None:
                continue
            one = first.setdefault(document.incarnation, document)
            subject = f"incarnation {document.incarnation} at {version}"
            if one.events != document.events:
                contents = map(shown, (one.exchange.payload, document.exchange.payload))
                wrong = f"{subject} has two contents: {' and '.join(contents)}"
                yield against(wrong, one.exchange, document.exchange)
            elif exchange.reads > 1:
                yield Witness(
                    saw=f"{subject} was read {exchange.reads} times",
                    exchanges=(document.exchange, exchange.last),
                )


# Events.


def _members(transcript: Transcript) -> Iterator[Witness]:
    for document in transcript.documents:
        wanted = members_of(document.version)
        # Rules of 1.4 judge which members an older version must have.
        passed = () if document.version is NEWEST else LATER_MEMBERS
        wanted = tuple(name for name in wanted if name not in passed)
        for event in document.events:
            members = tuple(name for name in event if name not in passed)
            wrong = f"expected the members {wanted}, got {members}"
            yield of_document(
                document, describe(event), "" if members == wanted else wrong
            )


def _different_ids(transcript: Transcript) -> Iterator[Witness]:
    for document in transcript.documents:
        ids = [event_id(event) for event in document.events]
        if len(ids) > 1:
            twice = {id_ for id_ in ids if id_ and ids.count(id_) > 1}
            wrong = f"two events have the EventId {min(twice)}" if twice else ""
            yield of_document(document, f"{len(ids)} events", wrong)


def _each(
    complain: Callable[[Members], str],
    *,
    where: Callable[[Members], bool] = lambda _event: True,
) -> Callable[[Transcript], Iterator[Witness]]:
    """Return a rule for the events of all documents that `where` selects.

    `complain` returns a description of the violation, or an empty string.
    """

    def witnesses(transcript: Transcript) -> Iterator[Witness]:
        for document in transcript.documents:
            for event in filter(where, document.events):
                yield of_document(document, describe(event), complain(event))

    return witnesses


def _id(event: Members) -> str:
    value: object = event.get("EventId")
    is_guid = isinstance(value, str) and _GUID.fullmatch(value)
    return "" if is_guid else f"EventId {brief(value)} is not a GUID in upper case"


def _one_of(
    member: str, wanted: Sequence[str]
) -> Callable[[Transcript], Iterator[Witness]]:
    def complain(event: Members) -> str:
        wrong = f"{member} is {brief(event[member])}, not one of {', '.join(wanted)}"
        return "" if event[member] in wanted else wrong

    return _each(complain, where=lambda event: member in event)


def _resources(event: Members) -> str:
    value: object = event.get("Resources")
    names = texts(value)
    if not names or "" in names or len({*names}) < len(names):
        return f"Resources is {brief(value)}, not an array of distinct names"
    path = next((name for name in names if "/" in name), "")
    return f"Resources has {brief(path)}, which is not the name of a VM" if path else ""


def _has(status: str) -> Callable[[Members], bool]:
    return lambda event: event.get("EventStatus") == status


def _scheduled_not_before(event: Members) -> str:
    text: object = event.get("NotBefore")
    if not isinstance(text, str) or _HTTP_DATE.fullmatch(text) is None:
        return f"NotBefore {brief(text)} is not like 'Mon, 11 Apr 2022 22:26:58 GMT'"
    try:
        right = format_http_date(parse_http_date(text))
    except (ValueError, OverflowError):
        return f"NotBefore {text!r} is not a valid date"
    return "" if text == right else f"NotBefore is {text!r}; expected {right!r}"


def _started_not_before(event: Members) -> str:
    text: object = event.get("NotBefore")
    return "" if text == "" else f"NotBefore is {brief(text)}, not ''"


def _description(event: Members) -> str:
    text: object = event["Description"]
    return (
        "" if isinstance(text, str) else f"Description is {brief(text)}, not a string"
    )


def _duration(event: Members) -> str:
    seconds: Any = event["DurationInSeconds"]
    wrong = f"DurationInSeconds is {brief(seconds)}, not an integer from -1 on"
    return "" if is_integer(seconds) and seconds >= -1 else wrong


SOURCES = {
    EventType.FREEZE.value: EventSource.PLATFORM.value,
    EventType.PREEMPT.value: EventSource.PLATFORM.value,
    EventType.TERMINATE.value: EventSource.USER.value,
}
"""The only possible EventSource of some types (5.9)."""


def _fitting_source(event: Members) -> str:
    kind, source = str(event["EventType"]), event["EventSource"]
    wrong = f"EventSource of a {kind} is {brief(source)}, not {SOURCES[kind]}"
    return "" if source == SOURCES[kind] else wrong


TEXTS = {
    "Virtual machine is being paused because of a memory-preserving Live Migration "
    "operation.": (EventType.FREEZE.value, EventSource.PLATFORM.value),
    "Virtual machine is going to be restarted as requested by authorized user.": (
        EventType.REBOOT.value,
        EventSource.USER.value,
    ),
    "Virtual machine is going to be redeployed as requested by authorized user.": (
        EventType.REDEPLOY.value,
        EventSource.USER.value,
    ),
}
"""Known descriptions, with the only type and source that fit each of them (5.9)."""

FAILURE = "Virtual machine has encountered a failure."
"""The known description of an event without notice (5.5)."""


def _fitting_text(event: Members) -> str:
    wanted = TEXTS[event["Description"]]
    kind = (event.get("EventType"), event.get("EventSource", wanted[1]))
    wrong = f"{event['Description']!r} describes {brief(kind)}; expected {wanted}"
    return "" if kind == wanted else wrong


def _failure(event: Members) -> str:
    is_started = event.get("EventStatus") == "Started"
    return "" if is_started else f"it was announced: {describe(event)}, {FAILURE!r}"


A_DOCUMENT = "a document that can be read"
AN_EVENT = "an event"

RULES = (
    Rule(
        "2.1",
        "two members: DocumentIncarnation, Events",
        _form,
        needs="an answer of 200 to a plain GET",
    ),
    Rule(
        "2.1",
        "Events is an array, empty without events",
        _empty,
        needs="a document without events",
    ),
    Rule("2.1", "compact: no blanks outside strings", _compact, needs=A_DOCUMENT),
    Rule("2.2", "an event's members and their order", _members, needs=AN_EVENT),
    Rule("2.3", "ids are GUIDs in upper case", _each(_id), needs=AN_EVENT),
    Rule(
        "2.3",
        "two events have two ids",
        _different_ids,
        needs="a document with two events",
    ),
    Rule(
        "2.4",
        "the type is one of five",
        _one_of("EventType", [event_type.value for event_type in EventType]),
        needs=AN_EVENT,
    ),
    Rule(
        "2.5",
        "the resource type is VirtualMachine",
        _one_of("ResourceType", ["VirtualMachine"]),
        needs=AN_EVENT,
    ),
    Rule("2.5", "resources are names of VMs", _each(_resources), needs=AN_EVENT),
    Rule(
        "2.6",
        "EventStatus is Scheduled or Started",
        _one_of("EventStatus", ["Scheduled", "Started"]),
        needs=AN_EVENT,
    ),
    Rule(
        "2.7",
        "NotBefore of a Scheduled event is RFC 1123",
        _each(_scheduled_not_before, where=_has("Scheduled")),
        needs="a Scheduled event",
    ),
    Rule(
        "2.7",
        "NotBefore of a Started event is empty",
        _each(_started_not_before, where=_has("Started")),
        needs="a Started event",
    ),
    Rule(
        "2.8",
        "EventSource is Platform or User",
        _one_of("EventSource", [source.value for source in EventSource]),
        needs=AN_EVENT,
    ),
    Rule(
        "2.8",
        "the description is a string",
        _each(_description, where=lambda event: "Description" in event),
        needs=AN_EVENT,
    ),
    Rule(
        "2.9",
        "the duration is whole seconds",
        _each(_duration, where=lambda event: "DurationInSeconds" in event),
        needs=AN_EVENT,
    ),
    Rule(
        "2.10",
        "the incarnation is an integer from 1 on",
        _numbers,
        needs=A_DOCUMENT,
    ),
    Rule(
        "2.10",
        "one incarnation has one content",
        _one_content,
        needs="two reads of one document",
    ),
    Rule(
        "5.5",
        "a failure has no notice: it is Started at once",
        _each(_failure, where=lambda event: event.get("Description") == FAILURE),
        needs="an event of a failed host, with its known description",
    ),
    Rule(
        "5.9",
        "the source fits the type",
        _each(
            _fitting_source,
            where=lambda event: (
                str(event.get("EventType")) in SOURCES
                and event.get("EventSource") in tuple(SOURCES.values())
            ),
        ),
        needs="a Freeze, Preempt or Terminate event",
    ),
    Rule(
        "5.9",
        "the text fits the type and the source",
        _each(
            _fitting_text, where=lambda event: str(event.get("Description")) in TEXTS
        ),
        needs="an event of a live migration, or of a user's restart or redeploy, with "
        "its known description",
    ),
)
