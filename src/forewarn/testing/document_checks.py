"""Checks of section 2: the document. None of them approves.

What they can see depends on the events that there are; without any, most say
that there is nothing to check.
"""

import json
import re
from typing import Any

from forewarn.protocol.events import EventSource, EventType
from forewarn.testing.client import Client
from forewarn.testing.expect import (
    TRIES,
    Check,
    NotCheckableError,
    document,
    expect,
    json_object,
    read,
    some_events,
    texts,
)

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

_GUID = re.compile(r"[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}")
_HTTP_DATE = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-3]\d "
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} "
    r"[0-2]\d:[0-5]\d:[0-6]\d GMT",
    re.ASCII,
)


def _form(client: Client) -> None:
    answer = read(client)
    members = json_object(answer, "the document")
    expect(
        list(members) == ["DocumentIncarnation", "Events"],
        f"expected DocumentIncarnation and Events, got {list(members)}",
    )
    expect(isinstance(members["Events"], list), "Events is no array")
    compact = json.dumps(members, separators=(",", ":"))
    loose = json.dumps(members, separators=(",", ":"), ensure_ascii=False)
    expect(
        answer.body in {compact.encode(), loose.encode("utf-8", "surrogatepass")},
        f"the document is not compact: {answer.body!r}",
    )


def _members(client: Client) -> None:
    for event in some_events(client):
        expect(
            tuple(event) == MEMBERS,
            f"expected the members {MEMBERS}, got {tuple(event)}",
        )


def _ids(client: Client) -> None:
    found = [event["EventId"] for event in some_events(client)]
    for event_id in found:
        expect(
            isinstance(event_id, str) and _GUID.fullmatch(event_id) is not None,
            f"EventId {event_id!r} is no GUID in upper case",
        )
    expect(len(set(found)) == len(found), f"two events have one EventId: {found}")


def _is_one_of(client: Client, member: str, wanted: tuple[str, ...]) -> None:
    for event in some_events(client):
        expect(
            event[member] in wanted,
            f"{member} is {event[member]!r}, which is none of {wanted}",
        )


def _types(client: Client) -> None:
    _is_one_of(client, "EventType", tuple(each.value for each in EventType))


def _resources(client: Client) -> None:
    _is_one_of(client, "ResourceType", ("VirtualMachine",))
    for event in some_events(client):
        names = texts(event["Resources"])
        expect(
            names is not None and "" not in names and len({*names}) == len(names) > 0,
            f"Resources is no array of different names: {event}",
        )


def _statuses(client: Client) -> None:
    _is_one_of(client, "EventStatus", ("Scheduled", "Started"))


def _not_before(client: Client) -> None:
    for event in some_events(client):
        text = event["NotBefore"]
        if event["EventStatus"] == "Started":
            expect(text == "", f"NotBefore of a Started event is {text!r}")
        else:
            expect(
                isinstance(text, str) and _HTTP_DATE.fullmatch(text) is not None,
                f"NotBefore {text!r} is not like 'Mon, 11 Apr 2022 22:26:58 GMT'",
            )


def _sources(client: Client) -> None:
    _is_one_of(client, "EventSource", tuple(each.value for each in EventSource))
    for event in some_events(client):
        text = event["Description"]
        expect(isinstance(text, str), f"Description is {text!r}, which is no text")


def _durations(client: Client) -> None:
    for event in some_events(client):
        seconds: Any = event["DurationInSeconds"]
        expect(
            isinstance(seconds, int)
            and not isinstance(seconds, bool)
            and seconds >= -1,
            f"DurationInSeconds is {seconds!r}, which is no number of seconds",
        )


def _incarnations(client: Client) -> None:
    number: Any = document(client)["DocumentIncarnation"]
    expect(
        isinstance(number, int) and not isinstance(number, bool) and number >= 1,
        f"DocumentIncarnation is {number!r}, which is no number from 1 on",
    )
    for _ in range(TRIES):
        one, other = read(client), read(client)
        numbers = [
            json_object(each, "GET")["DocumentIncarnation"] for each in (one, other)
        ]
        if numbers[0] == numbers[1]:
            expect(
                one.body == other.body,
                f"incarnation {numbers[0]} has two contents: {one.body!r} and "
                f"{other.body!r}",
            )
            return
    raise NotCheckableError("the document changes faster than it can be read")


CHECKS = (
    Check(clause="2.1", title="two members, compact", run=_form),
    Check(clause="2.2", title="an event's members and their order", run=_members),
    Check(clause="2.3", title="ids are GUIDs in upper case", run=_ids),
    Check(clause="2.4", title="the type is one of five", run=_types),
    Check(clause="2.5", title="resources are names of VMs", run=_resources),
    Check(clause="2.6", title="the status is one of two", run=_statuses),
    Check(clause="2.7", title="NotBefore is RFC 1123, then empty", run=_not_before),
    Check(clause="2.8", title="source and description", run=_sources),
    Check(clause="2.9", title="the duration is whole seconds", run=_durations),
    Check(clause="2.10", title="one incarnation, one content", run=_incarnations),
)
