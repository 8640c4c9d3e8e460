"""Questions of section 3 that are sent as approvals.

Those that name an event of the document need leave to approve, even where they must be
refused: an endpoint with a fault would approve the event because of them.
"""

import json
from collections.abc import Iterator

from forewarn.protocol.events import EventType
from forewarn.protocol.versions import NEWEST, VERSIONS
from forewarn.testing.client import METADATA
from forewarn.testing.conformance.check import Question
from forewarn.testing.conformance.documents import (
    Members,
    describe,
    event_id,
    is_order,
    texts,
)
from forewarn.testing.conformance.exchanges import target
from forewarn.testing.conformance.inquiry import (
    Inquiry,
    UntriedError,
    start_requests,
)
from forewarn.testing.conformance.request_questions import (
    FORWARDED,
    NOTHING,
    has_status,
)
from forewarn.testing.conformance.verdicts import Verdict, Witness, judge

STRANGE_ID = "00000000-0000-4000-8000-000000000000"
"""A GUID that no event has."""

MALFORMED = (
    b"",
    b"{",
    b"[]",
    b"null",
    b'"StartRequests"',
    b"{}",
    b'{"startrequests":[]}',
    b'{"StartRequests":null}',
    b'{"StartRequests":{}}',
    b'{"StartRequests":[]}',
    b'{"StartRequests":["x"]}',
    b'{"StartRequests":[{}]}',
    b'{"StartRequests":[{"EventId":null}]}',
    b'{"StartRequests":[{"EventId":7}]}',
    b'{"StartRequests":[{"EventId":""}]}',
    b'{"StartRequests":[{"EventId":"C7061BAC"}]}',
    b'{"StartRequests":[{"EventId":"C7061BACAFDC4513B24BAA5F13A16123"}]}',
    b'{"a":"\xff"}',
)

A_SCHEDULED_EVENT = "a Scheduled event that is not approved yet"

CONTENT_TYPES = ("application/x-www-form-urlencoded", "text/plain", "x")


def _malformed(inquiry: Inquiry) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for body in MALFORMED:
            for version in (VERSIONS[0], NEWEST):
                exchange = inquiry.post(body, version=version)
                yield has_status(exchange, 400, f"POST {body!r} at {version.name}")

    return judge(witnesses(), needs=NOTHING)


def _unknown(inquiry: Inquiry) -> Verdict:
    other = STRANGE_ID.replace("8000", "9000")

    def witnesses() -> Iterator[Witness]:
        told: list[bytes] = []
        for strange in (STRANGE_ID, other):
            exchange = inquiry.post(start_requests(strange))
            what = f"POST of the unknown EventId {strange}"
            told.append(exchange.payload.replace(strange.encode(), b""))
            wrong = f"{what}: not told as another unknown one: {exchange.outcome}"
            yield has_status(exchange, 400, what)
            yield Witness(
                saw=what,
                exchanges=(exchange,),
                complaint=wrong if told[0] != told[-1] else "",
            )

    return judge(witnesses(), needs=NOTHING)


# What names an event.


def _scheduled(inquiry: Inquiry) -> Members:
    """Return an event that is Scheduled, and that nobody approved from here."""
    for event in inquiry.events():
        key = event_id(event)
        is_free = key and key not in inquiry.seen.approved
        if is_free and event.get("EventStatus") == "Scheduled":
            return event
    raise UntriedError(A_SCHEDULED_EVENT)


def _any_event(inquiry: Inquiry) -> Members:
    """Return an event, rather one that an approval does not harm any more."""
    approved = inquiry.seen.approved
    found = sorted(
        (event for event in inquiry.events() if event_id(event)),
        key=lambda event: (
            event.get("EventStatus") != "Started" and event_id(event) not in approved
        ),
    )
    if not found:
        raise UntriedError("an event")
    return found[0]


def _bad_entry(inquiry: Inquiry) -> Verdict:
    key = event_id(_scheduled(inquiry))
    wrong_ids = ((key, STRANGE_ID), (STRANGE_ID, key), (key, "x"), (key, None))

    def witnesses() -> Iterator[Witness]:
        for ids in wrong_ids:
            exchange = inquiry.post(start_requests(*ids))
            yield has_status(exchange, 400, f"POST of {ids}")

    verdict = judge(witnesses(), needs=NOTHING)
    for where, headers in (
        (target(), ()),
        (target(), (("Metadata", "false"),)),
        (target(), (*METADATA, FORWARDED)),
        (target("latest"), METADATA),
    ):
        # Rules of 1.3, 1.6 and 1.7 judge these statuses: here it counts that nothing starts.
        inquiry.ask("POST", where, headers=headers, body=start_requests(key))
    _wait(inquiry)
    return verdict


def _bad_forms(inquiry: Inquiry) -> Verdict:
    key = event_id(_scheduled(inquiry))
    entry = {"EventId": key}
    good = start_requests(key)
    bodies = (
        *map(_dump, ([entry], entry, {"StartRequests": entry})),
        *map(_dump, ({"StartRequests": key}, {"StartRequests": [key]})),
        *map(_dump, ({"StartRequests": [entry, None]}, {"StartRequests": [[entry]]})),
        *(good[:-1], good + b"x", good + good, good.decode().encode("utf-16")),
    )

    def witnesses() -> Iterator[Witness]:
        for body in bodies:
            yield has_status(inquiry.post(body), 400, f"POST {body!r}")

    verdict = judge(witnesses(), needs=NOTHING)
    _wait(inquiry)
    return verdict


def _dump(value: object) -> bytes:
    return json.dumps(value).encode()


def _wait(inquiry: Inquiry) -> None:
    """Let a refused approval show, if it was taken nevertheless: a rule judges it."""
    inquiry.wait()
    inquiry.read()


def _approval(inquiry: Inquiry) -> Verdict:
    event = _scheduled(inquiry)
    exchange = inquiry.post(start_requests(event["EventId"]))
    what = f"an approval of {describe(event)}"
    return judge((has_status(exchange, 200, what),), needs=NOTHING)


def _order(inquiry: Inquiry) -> Verdict:
    for event in inquiry.events():
        key = event_id(event)
        is_free = key and key not in inquiry.seen.approved
        is_waiting = is_free and event.get("EventStatus") == "Scheduled"
        if is_waiting and is_order(event):
            exchange = inquiry.post(start_requests(event["EventId"]))
            what = f"an approval of {describe(event)}"
            return judge((has_status(exchange, 200, what),), needs=NOTHING)
    raise UntriedError("a Reboot or Redeploy of one VM that a user ordered")


def _several(inquiry: Inquiry) -> Verdict:
    ids = [event["EventId"] for event in inquiry.events() if event_id(event)]
    if len(ids) <= 1:
        raise UntriedError("two events in one document")
    exchange = inquiry.post(start_requests(*ids))
    what = f"an approval of {len(ids)} events"
    return judge((has_status(exchange, 200, what),), needs=NOTHING)


def _forms(inquiry: Inquiry) -> Verdict:
    found = _any_event(inquiry)["EventId"]
    entry = {"EventId": found, "x": None}

    def witnesses() -> Iterator[Witness]:
        for extra in ({}, {"DocumentIncarnation": 2}, {"DocumentIncarnation": "2"}):
            for indent in (None, 4):
                members = {"StartRequests": [entry, entry], **extra}
                body = json.dumps(members, indent=indent).encode()
                yield has_status(inquiry.post(body), 200, f"POST {body!r}")

    return judge(witnesses(), needs=NOTHING)


def _lower_case(inquiry: Inquiry) -> Verdict:
    event = _any_event(inquiry)
    body = start_requests(event["EventId"].lower())
    what = f"an approval of {event['EventId'].lower()}"
    return judge((has_status(inquiry.post(body), 200, what),), needs=NOTHING)


def _repeats(inquiry: Inquiry) -> Verdict:
    approved = inquiry.seen.approved
    event = next(
        (each for each in inquiry.events() if event_id(each) in approved),
        None,
    )
    if event is None:
        raise UntriedError("an event that was approved from here")
    body = start_requests(event["EventId"])

    def witnesses() -> Iterator[Witness]:
        for version in reversed(VERSIONS):
            exchange = inquiry.post(body, version=version)
            what = f"another approval of {event['EventId']} at {version.name}"
            yield has_status(exchange, 200, what)

    return judge(witnesses(), needs=NOTHING)


def _started(inquiry: Inquiry) -> Verdict:
    for event in inquiry.events():
        if event.get("EventStatus") == "Started" and event_id(event):
            exchange = inquiry.post(start_requests(event["EventId"]))
            what = f"an approval of {describe(event)}"
            return judge((has_status(exchange, 200, what),), needs=NOTHING)
    raise UntriedError("a Started event")


def _removed(inquiry: Inquiry) -> Verdict:
    there = {event_id(event) for event in inquiry.events()}
    for shown in reversed(inquiry.seen.newest):
        for key in shown.document.by_id:
            if key not in there:
                exchange = inquiry.post(start_requests(key))
                what = f"an approval of {key}, which has been removed"
                return judge((has_status(exchange, 200, what),), needs=NOTHING)
    raise UntriedError("an event that is removed while it is watched")


def _content_types(inquiry: Inquiry) -> Verdict:
    body = start_requests(_any_event(inquiry)["EventId"])

    def witnesses() -> Iterator[Witness]:
        for kind in CONTENT_TYPES:
            headers = (*METADATA, ("Content-Type", kind))
            exchange = inquiry.ask("POST", target(), headers=headers, body=body)
            yield has_status(exchange, 200, f"an approval as {kind}")

    return judge(witnesses(), needs=NOTHING)


def _hidden(inquiry: Inquiry) -> Verdict:
    oldest = VERSIONS[0]
    hidden = [each.value for each in oldest.hidden]
    for event in inquiry.events():
        if event.get("EventType") in hidden and event_id(event):
            exchange = inquiry.post(start_requests(event["EventId"]), version=oldest)
            what = f"an approval of {describe(event)} at {oldest.name}"
            return judge((has_status(exchange, 200, what),), needs=NOTHING)
    raise UntriedError(f"a {EventType.PREEMPT.value} or Terminate event")


def _for_others(inquiry: Inquiry) -> Verdict:
    name = inquiry.seen.name
    if not name:
        raise UntriedError("an endpoint that says what its VM is called")
    # The last one, rather than one that other questions have approved together.
    for event in reversed(inquiry.events()):
        names = texts(event.get("Resources"))
        if names and name not in names and event_id(event):
            exchange = inquiry.post(start_requests(event["EventId"]))
            what = f"an approval of {describe(event)} of {', '.join(names)} by {name}"
            return judge((has_status(exchange, 200, what),), needs=NOTHING)
    raise UntriedError("an event that names other VMs only")


def _for_several(inquiry: Inquiry) -> Verdict:
    for event in inquiry.events():
        names = texts(event.get("Resources")) or []
        if len(names) > 1 and event_id(event):
            exchange = inquiry.post(start_requests(event["EventId"]))
            what = f"an approval of {describe(event)} of {', '.join(names)}"
            return judge((has_status(exchange, 200, what),), needs=NOTHING)
    raise UntriedError("an event that names two VMs")


QUESTIONS = (
    Question("3.3", "malformed bodies are 400", _malformed),
    Question("3.3", "unknown ids are 400", _unknown),
    # What is approved later must not be approved yet.
    Question("3.3", "one bad entry refuses all", _bad_entry, approves=True),
    Question("3.3", "an id in a malformed body is 400", _bad_forms, approves=True),
    Question("3.2", "an approval is 200", _approval, approves=True),
    Question("3.2", "an approval of a user's order is 200", _order, approves=True),
    Question("3.1", "several events at once", _several, approves=True),
    Question("3.1", "old clients' members are tolerated", _forms, approves=True),
    Question("2.3", "an id is read in any case", _lower_case, approves=True),
    Question("3.2", "repeats are 200", _repeats, approves=True),
    Question("3.2", "an approval of a Started event is 200", _started, approves=True),
    Question("3.2", "an approval of a removed event is 200", _removed, approves=True),
    Question("1.12", "a POST may be of any type", _content_types, approves=True),
    Question("3.3", "a hidden event can be approved", _hidden, approves=True),
    Question("3.4", "an event of two VMs can be approved", _for_several, approves=True),
    Question("3.4", "any VM that sees an event approves", _for_others, approves=True),
)
