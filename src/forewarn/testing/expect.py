"""What a check is, and the words that checks are written in.

A check asks an endpoint and raises `CheckFailedError` with a sentence that says
what came and what clause 1.1 to 3.6 wants. It never looks at anything but answers.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from forewarn.protocol.versions import NEWEST
from forewarn.testing.client import EVENTS_PATH, METADATA, Answer, Client, Headers

TRIES = 5
"""How often two answers are asked for that must be of one moment."""

SHOWN_BYTES = 300
"""Of a body in a sentence: a document with an event or two."""


class CheckFailedError(Exception):
    """The endpoint does not do what the clause says."""


class NotCheckableError(Exception):
    """There is nothing to check it with now, such as an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A question to an endpoint that has a right answer."""

    clause: str
    title: str
    run: Callable[[Client], None]
    """Raises CheckFailedError, NotCheckableError or OSError."""
    approves: bool = False
    """It approves an event, or would at an endpoint with a fault: ask first."""
    needs_scheduled: bool = False
    """It must come before those that use the event up by approving it."""


def target(version: str = NEWEST.name) -> str:
    """Return the target of scheduledevents with a version."""
    return f"{EVENTS_PATH}?api-version={version}"


def expect(holds: bool, sentence: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise CheckFailedError with the sentence unless it holds."""
    if not holds:
        raise CheckFailedError(sentence)


def expect_status(answer: Answer, status: int, what: str) -> Answer:
    """Return the answer if it has this status."""
    expect(
        answer.status == status,
        f"{what}: expected {status}, got {answer.status} {answer.body[:SHOWN_BYTES]!r}",
    )
    return answer


def expect_refusal(answer: Answer, status: int, what: str) -> dict[str, Any]:
    """Return the members of an error with this status and a sentence (1.8)."""
    expect_status(answer, status, what)
    members = json_object(answer, what)
    expect(
        isinstance(members.get("error"), str) and bool(members["error"]),
        f"{what}: the body has no sentence in `error`: {answer.body[:SHOWN_BYTES]!r}",
    )
    return members


def json_object(answer: Answer, what: str) -> dict[str, Any]:
    """Return the answer's JSON object."""
    try:
        value = json.loads(answer.body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise CheckFailedError(
            f"{what}: the body is no JSON object: {answer.body[:SHOWN_BYTES]!r}"
        )
    return cast("dict[str, Any]", value)


def texts(value: object) -> list[str] | None:
    """Return the value if it is an array of texts, or None."""
    if not isinstance(value, list):
        return None
    found = [each for each in cast("list[object]", value) if isinstance(each, str)]
    return found if len(found) == len(cast("list[object]", value)) else None


def read(
    client: Client, version: str = NEWEST.name, *, headers: Headers = METADATA
) -> Answer:
    """Return a document as it came; it is a good one."""
    answer = client.ask("GET", target(version), headers=headers)
    return expect_status(answer, 200, f"GET at {version}")


def document(client: Client, version: str = NEWEST.name) -> dict[str, Any]:
    """Return a document's members."""
    return json_object(read(client, version), f"GET at {version}")


def events(client: Client) -> list[dict[str, Any]]:
    """Return the events of the newest version."""
    found = document(client).get("Events")
    if not isinstance(found, list):
        raise CheckFailedError(f"Events is {found!r}, which is no array")
    for event in cast("list[object]", found):
        expect(isinstance(event, dict), f"{event!r} in Events is no object")
    return cast("list[dict[str, Any]]", found)


def some_events(client: Client) -> list[dict[str, Any]]:
    """Return the events if there are any; otherwise it is not checkable."""
    found = events(client)
    if not found:
        raise NotCheckableError("the document has no events now")
    return found


def same_moment(
    client: Client, versions: Iterable[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return the events that each version shows of one incarnation."""
    names = tuple(versions)
    for _ in range(TRIES):
        shown = {name: document(client, name) for name in names}
        if len({each.get("DocumentIncarnation") for each in shown.values()}) == 1:
            return {name: each["Events"] for name, each in shown.items()}
    raise CheckFailedError(
        f"in {TRIES} tries the versions never showed one incarnation"
    )


def post(client: Client, body: bytes, *, version: str = NEWEST.name) -> Answer:
    """Return the answer to an approval."""
    return client.ask("POST", target(version), body=body)


def start_requests(*event_ids: object) -> bytes:
    """Return the body that approves events."""
    entries = [{"EventId": event_id} for event_id in event_ids]
    return json.dumps({"StartRequests": entries}).encode()
