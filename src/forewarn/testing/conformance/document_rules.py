"""Rules of section 2: the document, in every version.

They ask nothing: they judge every document of every version that was shown, whoever
asked for it, until the end of a watch.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from forewarn.instants import format_http_date, parse_http_date
from forewarn.protocol.events import EventSource, EventType
from forewarn.protocol.versions import NEWEST, ApiVersion
from forewarn.testing.conformance.check import Rule
from forewarn.testing.conformance.documents import (
    Document,
    Members,
    brief,
    describe,
    event_id,
    first_blank,
    is_integer,
    tail,
    texts,
)
from forewarn.testing.conformance.exchanges import shown
from forewarn.testing.conformance.transcript import Transcript
from forewarn.testing.conformance.verdicts import Verdict, Witness, judge

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
"""Those that not every version has."""

AN_EVENT = "an event"
A_SCHEDULED_EVENT = "a Scheduled event"
A_STARTED_EVENT = "a Started event"

NO_CONTENT = 204
NOT_FOUND = 404

BLANK_CONTEXT = 20
"""Bytes on each side of a blank that a complaint shows."""

_GUID = re.compile(r"[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}")
_HTTP_DATE = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-3]\d "
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} "
    r"[0-2]\d:[0-5]\d:[0-6]\d GMT",
    re.ASCII,
)


def members_of(version: ApiVersion) -> tuple[str, ...]:
    """Return the members of an event as a version shows it, in their order (2.2)."""
    lacks = {
        "Description": not version.description,
        "EventSource": not version.source,
        "DurationInSeconds": not version.duration,
    }
    return tuple(name for name in MEMBERS if not lacks.get(name))


# The document as a whole.


def of_document(document: Document, saw: str, complaint: str = "") -> Witness:
    """Return a witness of something in a document, with its version."""
    return Witness(
        saw=f"{saw} at {document.version.name}",
        exchanges=(document.exchange,),
        complaint=f"at {document.version.name}: {complaint}" if complaint else "",
    )


def _form(seen: Transcript) -> Verdict:
    def witness(document: Document) -> Witness:
        names = list(document.members)
        complaint = "" if document.members else document.fault
        if document.members and names != ["DocumentIncarnation", "Events"]:
            complaint = f"expected DocumentIncarnation and Events, got {brief(names)}"
        return of_document(document, "DocumentIncarnation and Events", complaint)

    return judge(map(witness, seen.documents), needs="an answer of 200 to a plain GET")


def _empty(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for document in seen.documents:
            if "Events" in document.members and document.fault:
                yield of_document(document, "Events", document.fault)
            elif not document.fault and not document.events:
                yield of_document(document, "Events is []")
        for exchange in seen.unread:
            # A 404 to each GET is an endpoint that there is not: see 1.1.
            is_odd = exchange.status == NO_CONTENT
            if is_odd or (exchange.status == NOT_FOUND and seen.newest):
                wrong = (
                    f"expected a document with an empty array, got {exchange.outcome}"
                )
                yield Witness(saw=wrong, exchanges=(exchange,), complaint=wrong)

    return judge(witnesses(), needs="a document without events")


def _compact(seen: Transcript) -> Verdict:
    def witness(document: Document) -> Witness:
        body = document.exchange.payload
        ending, complaint, remark = tail(body), "", ""
        at = first_blank(body)
        if at is None and ending not in {b"", b"\n", b"\r\n"}:
            at = len(body) - len(ending)
        if at is not None:
            around = body[max(at - BLANK_CONTEXT, 0) : at + BLANK_CONTEXT]
            complaint = f"byte {at} is a blank outside of strings: …{around!r}…"
        elif ending:
            remark = "it ends with a line break, which is no part of the document"
        judged = of_document(document, f"{len(body)} bytes without a blank", complaint)
        return Witness(
            saw=judged.saw,
            exchanges=judged.exchanges,
            complaint=judged.complaint,
            remark=remark,
        )

    return judge(
        (witness(each) for each in seen.documents if each.members),
        needs="a document that can be read",
    )


def _numbers(seen: Transcript) -> Verdict:
    def witness(document: Document) -> Witness:
        number: object = document.members.get("DocumentIncarnation")
        is_good = is_integer(number) and document.incarnation != 0
        if is_good and (document.incarnation or 0) >= 1:
            return of_document(document, f"DocumentIncarnation {brief(number)}")
        wrong = f"DocumentIncarnation is {brief(number)}, not an integer from 1 on"
        return of_document(document, "", wrong)

    return judge(
        (witness(each) for each in seen.documents if each.members),
        needs="a document that can be read",
    )


def _one_content(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for version, listed in seen.shown.items():
            first: dict[object, Document] = {}
            for each in listed:
                document = each.document
                if document.fault or document.incarnation is None:
                    continue
                one = first.setdefault(document.incarnation, document)
                same = one.events == document.events
                what = f"incarnation {document.incarnation} at {version}"
                if not same:
                    yield Witness(
                        saw=what,
                        exchanges=(one.exchange, document.exchange),
                        complaint=f"{what} has two contents: "
                        f"{shown(one.exchange.payload)} and "
                        f"{shown(document.exchange.payload)}",
                    )
                elif each.reads > 1:
                    yield Witness(
                        saw=f"{what} was read {each.reads} times",
                        exchanges=(document.exchange, each.last),
                    )

    return judge(witnesses(), needs="two reads of one document")


# Events.

Judged = Callable[[Members, Document], str]
"""Returns what is wrong with an event; empty: nothing."""


def _of_events(
    seen: Transcript,
    complain: Judged,
    *,
    where: Callable[[Members, Document], bool] = lambda _event, _document: True,
    needs: str = AN_EVENT,
) -> Verdict:
    """Judge each event of each document that is one of those."""

    def witnesses() -> Iterator[Witness]:
        for document in seen.documents:
            for event in document.events:
                if where(event, document):
                    wrong = complain(event, document)
                    yield of_document(document, describe(event), wrong)

    return judge(witnesses(), needs=needs)


def _members(seen: Transcript) -> Verdict:
    def complain(event: Members, document: Document) -> str:
        wanted, found = members_of(document.version), tuple(event)
        if document.version is not NEWEST:
            # What an older version shows too much, or lacks, is for 1.4 to say.
            wanted = tuple(name for name in wanted if name not in LATER_MEMBERS)
            found = tuple(name for name in found if name not in LATER_MEMBERS)
        return "" if found == wanted else f"expected the members {wanted}, got {found}"

    return _of_events(seen, complain)


def _ids(seen: Transcript) -> Verdict:
    def complain(event: Members, _document: Document) -> str:
        found: object = event.get("EventId")
        if isinstance(found, str) and _GUID.fullmatch(found):
            return ""
        return f"EventId {brief(found)} is not a GUID in upper case"

    return _of_events(seen, complain)


def _different_ids(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for document in seen.documents:
            found = [event_id(event) for event in document.events]
            if len(found) > 1:
                twice = {each for each in found if each and found.count(each) > 1}
                wrong = f"two events have the EventId {min(twice)}" if twice else ""
                yield of_document(document, f"{len(found)} events", wrong)

    return judge(witnesses(), needs="a document with two events")


def _one_of(member: str, wanted: tuple[str, ...]) -> Callable[[Transcript], Verdict]:
    def check(seen: Transcript) -> Verdict:
        def complain(event: Members, _document: Document) -> str:
            found: object = event.get(member)
            if found in wanted:
                return ""
            return f"{member} is {brief(found)}, not one of {', '.join(wanted)}"

        return _of_events(seen, complain, where=lambda event, _: member in event)

    return check


def _resources(seen: Transcript) -> Verdict:
    def complain(event: Members, _document: Document) -> str:
        found: object = event.get("Resources")
        names = texts(found)
        if not names or "" in names or len({*names}) < len(names):
            return f"Resources is {brief(found)}, not an array of different names"
        path = next((name for name in names if "/" in name), "")
        return f"Resources has {brief(path)}, which is no name of a VM" if path else ""

    return _of_events(seen, complain)


def _has_status(status: str) -> Callable[[Members, Document], bool]:
    return lambda event, _document: event.get("EventStatus") == status


def _scheduled_not_before(seen: Transcript) -> Verdict:
    def complain(event: Members, _document: Document) -> str:
        text: object = event.get("NotBefore")
        if not isinstance(text, str) or _HTTP_DATE.fullmatch(text) is None:
            return (
                f"NotBefore {brief(text)} is not like 'Mon, 11 Apr 2022 22:26:58 GMT'"
            )
        try:
            right = format_http_date(parse_http_date(text))
        except (ValueError, OverflowError):
            return f"NotBefore {text!r} is no date of the calendar"
        return "" if text == right else f"NotBefore is {text!r}, which is {right!r}"

    return _of_events(
        seen, complain, where=_has_status("Scheduled"), needs=A_SCHEDULED_EVENT
    )


def _started_not_before(seen: Transcript) -> Verdict:
    def complain(event: Members, _document: Document) -> str:
        text: object = event.get("NotBefore")
        return "" if text == "" else f"NotBefore is {brief(text)}, not ''"

    return _of_events(
        seen, complain, where=_has_status("Started"), needs=A_STARTED_EVENT
    )


def _descriptions(seen: Transcript) -> Verdict:
    def complain(event: Members, _document: Document) -> str:
        text: object = event.get("Description")
        return "" if isinstance(text, str) else f"Description is {brief(text)}, no text"

    return _of_events(seen, complain, where=lambda event, _: "Description" in event)


def _durations(seen: Transcript) -> Verdict:
    def complain(event: Members, _document: Document) -> str:
        seconds: Any = event.get("DurationInSeconds")
        if is_integer(seconds) and seconds >= -1:
            return ""
        return f"DurationInSeconds is {brief(seconds)}, not an integer from -1 on"

    return _of_events(
        seen, complain, where=lambda event, _: "DurationInSeconds" in event
    )


SOURCES = {
    EventType.FREEZE.value: EventSource.PLATFORM.value,
    EventType.PREEMPT.value: EventSource.PLATFORM.value,
    EventType.TERMINATE.value: EventSource.USER.value,
}
"""Types that only one of the two causes (5.9)."""


def _fitting_sources(seen: Transcript) -> Verdict:
    def complain(event: Members, _document: Document) -> str:
        kind, source = str(event["EventType"]), event["EventSource"]
        if source == SOURCES[kind]:
            return ""
        return f"EventSource of a {kind} is {brief(source)}, not {SOURCES[kind]}"

    return _of_events(
        seen,
        complain,
        where=lambda event, _: (
            str(event.get("EventType")) in SOURCES
            and event.get("EventSource") in tuple(SOURCES.values())
        ),
        needs="a Freeze, Preempt or Terminate event",
    )


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
"""Known texts that say what happens, and who wants it: the type and the source (5.9)."""

FAILURE = "Virtual machine has encountered a failure."
"""The known text of an event without notice (5.5)."""


def _fitting_texts(seen: Transcript) -> Verdict:
    def complain(event: Members, _document: Document) -> str:
        wanted = TEXTS[str(event["Description"])]
        found = (event.get("EventType"), event.get("EventSource", wanted[1]))
        if found == wanted:
            return ""
        return f"{event['Description']!r} is said of {brief(found)}, not of {wanted}"

    return _of_events(
        seen,
        complain,
        where=lambda event, _: str(event.get("Description")) in TEXTS,
        needs="an event of a live migration, or of a user's restart or redeploy, with "
        "its known text",
    )


def _failures(seen: Transcript) -> Verdict:
    def complain(event: Members, _document: Document) -> str:
        is_started = event.get("EventStatus") == "Started"
        return "" if is_started else f"it is announced: {describe(event)}, {FAILURE!r}"

    return _of_events(
        seen,
        complain,
        where=lambda event, _: event.get("Description") == FAILURE,
        needs="an event of a host that failed, with its known text",
    )


RULES = (
    Rule("2.1", "two members: DocumentIncarnation, Events", _form),
    Rule("2.1", "Events is an array, empty without events", _empty),
    Rule("2.1", "compact: no blanks outside of strings", _compact),
    Rule("2.2", "an event's members and their order", _members),
    Rule("2.3", "ids are GUIDs in upper case", _ids),
    Rule("2.3", "two events have two ids", _different_ids),
    Rule(
        "2.4",
        "the type is one of five",
        _one_of("EventType", tuple(each.value for each in EventType)),
    ),
    Rule(
        "2.5",
        "the resource type is VirtualMachine",
        _one_of("ResourceType", ("VirtualMachine",)),
    ),
    Rule("2.5", "resources are names of VMs", _resources),
    Rule(
        "2.6",
        "the status is one of two",
        _one_of("EventStatus", ("Scheduled", "Started")),
    ),
    Rule("2.7", "NotBefore of a Scheduled event is RFC 1123", _scheduled_not_before),
    Rule("2.7", "NotBefore of a Started event is empty", _started_not_before),
    Rule(
        "2.8",
        "the source is one of two",
        _one_of("EventSource", tuple(each.value for each in EventSource)),
    ),
    Rule("2.8", "the description is a text", _descriptions),
    Rule("2.9", "the duration is whole seconds", _durations),
    Rule("2.10", "the incarnation is an integer from 1 on", _numbers),
    Rule("2.10", "one incarnation has one content", _one_content),
    Rule("5.5", "a failure has no notice: it is Started at once", _failures),
    Rule("5.9", "the source fits the type", _fitting_sources),
    Rule("5.9", "the text fits the type and the source", _fitting_texts),
)
