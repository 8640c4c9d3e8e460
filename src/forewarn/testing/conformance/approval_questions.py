"""Questions of section 3 that send approvals.

If a request names an event of the document, it needs the user's consent, even if the
endpoint must refuse it: a faulty endpoint could approve the event anyway.
"""

import json
from collections.abc import Callable, Iterator

from forewarn.protocol.versions import NEWEST, VERSIONS, ApiVersion
from forewarn.testing.client import METADATA
from forewarn.testing.conformance.check import Question, Witness, has_status, judged
from forewarn.testing.conformance.documents import (
    Members,
    describe,
    event_id,
    is_order,
    target,
    texts,
)
from forewarn.testing.conformance.inquiry import (
    Inquiry,
    UntriedError,
    start_requests,
)
from forewarn.testing.conformance.request_questions import FORWARDED

STRANGE_ID = "00000000-0000-4000-8000-000000000000"
"""A GUID that is not the ID of any event."""

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

OLDEST = VERSIONS[0]
_HIDDEN = frozenset(event_type.value for event_type in OLDEST.hidden)

CHUNKED = ("Transfer-Encoding", "chunked")

CONTENT_TYPES = ("application/x-www-form-urlencoded", "text/plain", "x")


def _malformed(inquiry: Inquiry) -> Iterator[Witness]:
    for body in MALFORMED:
        for version in (OLDEST, NEWEST):
            yield has_status(
                inquiry.post(body, version=version),
                400,
                f"POST {body!r} at {version.name}",
            )


def _unknown(inquiry: Inquiry) -> Iterator[Witness]:
    payloads: list[bytes] = []
    for strange in (STRANGE_ID, STRANGE_ID.replace("8000", "9000")):
        exchange = inquiry.post(start_requests(strange))
        request = f"POST of the unknown EventId {strange}"
        payloads.append(exchange.payload.replace(strange.encode(), b""))
        yield has_status(exchange, 400, request)
        yield judged(
            request,
            exchange,
            is_right=payloads[0] == payloads[-1],
            wrong=f"{request}: the answer differs from the first one: {exchange.outcome}",
        )


# Approvals that name an event.


def _is_free(inquiry: Inquiry, event: Members) -> bool:
    """Return whether an event is Scheduled and not yet approved by this client."""
    is_scheduled = event.get("EventStatus") == "Scheduled"
    return is_scheduled and event_id(event) not in inquiry.seen.approved


def _free_id(inquiry: Inquiry) -> str:
    for event in inquiry.events():
        if event_id(event) and _is_free(inquiry, event):
            return event_id(event)
    raise UntriedError("a Scheduled event that is not approved yet")


def _approved_id(inquiry: Inquiry) -> str:
    for event in inquiry.events():
        if event_id(event) and event_id(event) in inquiry.seen.approved:
            return event["EventId"]
    raise UntriedError("an event that this client has approved")


def _any_id(inquiry: Inquiry) -> str:
    """Return the ID of an event, preferably of one that is approved or Started."""
    approved = inquiry.seen.approved
    events_with_ids = [event for event in inquiry.events() if event_id(event)]
    if not events_with_ids:
        raise UntriedError("an event")
    return min(
        events_with_ids,
        key=lambda event: (
            event.get("EventStatus") != "Started" and event_id(event) not in approved
        ),
    )["EventId"]


def _bad_entry(inquiry: Inquiry) -> Iterator[Witness]:
    key = _free_id(inquiry)
    for where, headers in (
        (target(), ()),
        (target(), (("Metadata", "false"),)),
        (target(), (*METADATA, FORWARDED)),
        (target("latest"), METADATA),
    ):
        # Rules of 1.3, 1.6 and 1.7 judge these statuses. Here, no event may start.
        inquiry.ask("POST", where, headers=headers, body=start_requests(key))
    for ids in ((key, STRANGE_ID), (STRANGE_ID, key), (key, "x"), (key, None)):
        yield has_status(inquiry.post(start_requests(*ids)), 400, f"POST of {ids}")


def _bad_forms(inquiry: Inquiry) -> Iterator[Witness]:
    key = _free_id(inquiry)
    entry = {"EventId": key}
    good = start_requests(key)
    values: tuple[object, ...] = (
        *([entry], entry, {"StartRequests": entry}),
        *({"StartRequests": key}, {"StartRequests": [key]}),
        *({"StartRequests": [entry, None]}, {"StartRequests": [[entry]]}),
    )
    for body in (
        *(json.dumps(value).encode() for value in values),
        *(good[:-1], good + b"x", good + good, good.decode().encode("utf-16")),
    ):
        yield has_status(inquiry.post(body), 400, f"POST {body!r}")


def _approve(
    inquiry: Inquiry, event: Members, *, version: ApiVersion = NEWEST, by: str = ""
) -> Witness:
    exchange = inquiry.post(start_requests(event["EventId"]), version=version)
    names = ", ".join(texts(event.get("Resources")) or [])
    request = f"an approval of {describe(event)} of {names}{by} at {version.name}"
    return has_status(exchange, 200, request)


def _first(
    wanted: Callable[[Inquiry, Members], bool], *, version: ApiVersion = NEWEST
) -> Callable[[Inquiry], Iterator[Witness]]:
    """Return a question that approves the first event that `wanted` selects."""

    def ask(inquiry: Inquiry) -> Iterator[Witness]:
        for event in inquiry.events():
            if event_id(event) and wanted(inquiry, event):
                yield _approve(inquiry, event, version=version)
                return

    return ask


def _several(inquiry: Inquiry) -> Iterator[Witness]:
    ids = [event["EventId"] for event in inquiry.events() if event_id(event)]
    if len(ids) > 1:
        yield has_status(
            inquiry.post(start_requests(*ids)), 200, f"an approval of {len(ids)} events"
        )


def _forms(inquiry: Inquiry) -> Iterator[Witness]:
    entry = {"EventId": _any_id(inquiry), "x": None}
    for extra in ({}, {"DocumentIncarnation": 2}, {"DocumentIncarnation": "2"}):
        for indent in (None, 4):
            members = {"StartRequests": [entry, entry], **extra}
            body = json.dumps(members, indent=indent).encode()
            yield has_status(inquiry.post(body), 200, f"POST {body!r}")


def _lower_case(inquiry: Inquiry) -> Iterator[Witness]:
    lower = _any_id(inquiry).lower()
    yield has_status(
        inquiry.post(start_requests(lower)), 200, f"an approval of {lower}"
    )


def _repeats(inquiry: Inquiry) -> Iterator[Witness]:
    known_id = _approved_id(inquiry)
    for version in reversed(VERSIONS):
        exchange = inquiry.post(start_requests(known_id), version=version)
        request = f"another approval of {known_id} at {version.name}"
        yield has_status(exchange, 200, request)


def _removed(inquiry: Inquiry) -> Iterator[Witness]:
    there = {event_id(event) for event in inquiry.events()}
    shown = [key for version in inquiry.seen.newest for key in version.document.by_id]
    if removed := [key for key in shown if key not in there]:
        exchange = inquiry.post(start_requests(removed[-1]))
        request = f"an approval of {removed[-1]}, which has been removed"
        yield has_status(exchange, 200, request)


def _content_types(inquiry: Inquiry) -> Iterator[Witness]:
    body = start_requests(_any_id(inquiry))
    for kind in CONTENT_TYPES:
        headers = (*METADATA, ("Content-Type", kind))
        exchange = inquiry.ask("POST", target(), headers=headers, body=body)
        yield has_status(exchange, 200, f"an approval as {kind}")


def _chunked(inquiry: Inquiry) -> Iterator[Witness]:
    known_id = _approved_id(inquiry)
    headers, body = (*METADATA, CHUNKED), start_requests(known_id)
    yield has_status(
        inquiry.ask("POST", target(), headers=headers, body=body),
        200,
        f"an approval of {known_id} in chunks",
    )


def _for_others(inquiry: Inquiry) -> Iterator[Witness]:
    name = inquiry.seen.name
    if not name:
        raise UntriedError("an endpoint that reports its VM's name")
    # The last event, since other questions approve the first ones together.
    for event in reversed(inquiry.events()):
        names = texts(event.get("Resources"))
        if names and name not in names and event_id(event):
            yield _approve(inquiry, event, by=f" by {name}")
            return


QUESTIONS = (
    Question("3.3", "malformed bodies are 400", _malformed),
    Question("3.3", "unknown ids are 400", _unknown),
    # These questions need an event that is not approved yet.
    Question("3.3", "one bad entry refuses all", _bad_entry, approves=True, waits=True),
    Question(
        "3.3", "an id in a malformed body is 400", _bad_forms, approves=True, waits=True
    ),
    Question(
        "3.2",
        "an approval is 200",
        _first(_is_free),
        needs="a Scheduled event that is not approved yet",
        approves=True,
    ),
    Question(
        "3.2",
        "an approval of a user's request is 200",
        _first(lambda inquiry, event: _is_free(inquiry, event) and is_order(event)),
        needs="a Reboot or Redeploy of one VM that a user requested",
        approves=True,
    ),
    Question(
        "3.1",
        "several events in one approval",
        _several,
        needs="two events in one document",
        approves=True,
    ),
    Question("3.1", "old clients' members are accepted", _forms, approves=True),
    Question("2.3", "an id is accepted in any case", _lower_case, approves=True),
    Question("3.2", "repeats are 200", _repeats, approves=True),
    Question(
        "3.2",
        "an approval of a Started event is 200",
        _first(lambda _, event: event.get("EventStatus") == "Started"),
        needs="a Started event",
        approves=True,
    ),
    Question(
        "3.2",
        "an approval of a removed event is 200",
        _removed,
        needs="an event that is removed while it is watched",
        approves=True,
    ),
    Question("1.12", "a POST may have any type", _content_types, approves=True),
    Question(
        "3.3",
        "a hidden event can be approved",
        _first(lambda _, event: event.get("EventType") in _HIDDEN, version=OLDEST),
        needs="a Preempt or Terminate event",
        approves=True,
    ),
    Question(
        "3.4",
        "an event of two VMs can be approved",
        _first(lambda _, event: len(texts(event.get("Resources")) or []) > 1),
        needs="an event that names two VMs",
        approves=True,
    ),
    Question(
        "3.4",
        "any VM that sees an event approves",
        _for_others,
        needs="an event that names other VMs only",
        approves=True,
    ),
    # The questions before have approved an event.
    Question("1.12", "an approval may come in chunks", _chunked, approves=True),
)
