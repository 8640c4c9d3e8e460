"""Checks of section 3: approval.

Those that only send what must be refused are marked as approving too, where an
endpoint with a fault would approve an event because of them.
"""

import json
from typing import Any

from forewarn.protocol.versions import NEWEST, VERSIONS
from forewarn.testing.client import METADATA, Client
from forewarn.testing.expect import (
    Check,
    NotCheckableError,
    document,
    events,
    expect,
    expect_refusal,
    expect_status,
    post,
    start_requests,
    target,
)

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


def _malformed(client: Client) -> None:
    before = document(client)["DocumentIncarnation"]
    for body in MALFORMED:
        for version in (VERSIONS[0], NEWEST):
            answer = post(client, body, version=version.name)
            expect_refusal(answer, 400, f"POST {body!r} at {version.name}")
    after = document(client)["DocumentIncarnation"]
    expect(
        after >= before, f"the incarnation fell from {before} to {after} by refusals"
    )


def _unknown(client: Client) -> None:
    members = expect_refusal(
        post(client, start_requests(STRANGE_ID)), 400, "POST of an unknown EventId"
    )
    other = STRANGE_ID.replace("8000", "9000")
    again = expect_refusal(
        post(client, start_requests(other)), 400, "POST of an unknown EventId"
    )
    expect(
        members["error"].replace(STRANGE_ID, "") == again["error"].replace(other, ""),
        f"two unknown ids get different answers: {members} and {again}",
    )


def _one_scheduled(client: Client) -> dict[str, Any]:
    for event in events(client):
        if event["EventStatus"] == "Scheduled":
            return event
    raise NotCheckableError("the document has no Scheduled event now")


def _any_event(client: Client) -> dict[str, Any]:
    """Return a Started event, which no approval harms, else a Scheduled one."""
    found = sorted(events(client), key=lambda event: event["EventStatus"] != "Started")
    if not found:
        raise NotCheckableError("the document has no events now")
    return found[0]


def _all_or_nothing(client: Client) -> None:
    event_id = _one_scheduled(client)["EventId"]
    for ids in ((event_id, STRANGE_ID), (STRANGE_ID, event_id), (event_id, "x")):
        answer = post(client, start_requests(*ids))
        expect_refusal(answer, 400, f"POST of {ids}")
    still = [event for event in events(client) if event["EventId"] == event_id]
    expect(
        bool(still) and still[0]["EventStatus"] == "Scheduled",
        f"{event_id} was Scheduled, and after refused requests it is {still}",
    )


def _forms(client: Client) -> None:
    event_id = _any_event(client)["EventId"]
    entries = [{"EventId": event_id, "x": None}, {"EventId": event_id.lower()}]
    for extra in ({}, {"DocumentIncarnation": 2}, {"DocumentIncarnation": "2"}):
        for indent in (None, 4):
            body = json.dumps({"StartRequests": entries, **extra}, indent=indent)
            answer = post(client, body.encode())
            expect_status(answer, 200, f"POST {body!r}")


def _accepted(client: Client) -> None:
    event_id = _any_event(client)["EventId"]
    for version in reversed(VERSIONS):
        answer = post(client, start_requests(event_id), version=version.name)
        expect_status(answer, 200, f"POST of {event_id} at {version.name}")
        expect(not answer.body, f"a good POST is answered with {answer.body!r}")
    for name in ("application/x-www-form-urlencoded", "application/json"):
        headers = (*METADATA, ("Content-Type", name))
        body = start_requests(event_id)
        answer = client.ask("POST", target(), headers=headers, body=body)
        expect_status(answer, 200, f"a repeated POST as {name}")


def _counts_for_all(client: Client) -> None:
    event = _any_event(client)
    event_id = event["EventId"]
    expect_status(post(client, start_requests(event_id)), 200, f"POST of {event_id}")
    for each in events(client):
        if each["EventId"] == event_id:
            expect(
                each["Resources"] == event["Resources"],
                f"an approval changed Resources of {event} to {each['Resources']}",
            )


CHECKS = (
    Check(
        clause="3.1",
        title="old clients' members are tolerated",
        run=_forms,
        approves=True,
    ),
    Check(clause="3.2", title="repeats are 200", run=_accepted, approves=True),
    Check(clause="3.3", title="malformed bodies are 400", run=_malformed),
    Check(clause="3.3", title="unknown ids are 400", run=_unknown),
    Check(
        clause="3.3",
        title="one bad entry refuses all",
        run=_all_or_nothing,
        approves=True,
        needs_scheduled=True,
    ),
    Check(
        clause="3.4",
        title="an approval counts for all named",
        run=_counts_for_all,
        approves=True,
    ),
)
