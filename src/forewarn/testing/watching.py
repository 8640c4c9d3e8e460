"""A client that remembers every document it was given, in order.

What a life cycle promises shows only in a sequence of documents: that an event keeps
its id, that nothing goes backwards, that equal numbers mean equal content. So the
client keeps what the checks read on their way, and may go on reading for a while.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from forewarn.instants import Micros, parse_http_date
from forewarn.protocol.versions import NEWEST
from forewarn.testing.client import (
    EVENTS_PATH,
    INSTANCE_PATH,
    METADATA,
    Answer,
    Client,
    Headers,
)

OK = 200

DOCUMENTS_MAX = 100_000
"""Different documents of one watch: a day at one change a second."""

POSTED_MAX = 10_000
"""Different bodies: all checks together send less than a hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A document of the newest version, as it was shown."""

    incarnation: object
    events: tuple[dict[str, Any], ...]
    body: bytes
    at: Micros
    """When it was shown first: by the server's clock where it tells it."""


class WatchingClient:
    """Asks through another client, and remembers the documents."""

    def __init__(self, client: Client, *, now: Callable[[], Micros]) -> None:
        """Ask through `client`; nothing has been shown yet.

        `now` is the time of the world, for servers that send no `Date`.
        """
        self._client = client
        self._now = now
        self.shown: list[Shown] = []
        """Documents in order, without repeats of the one before."""
        self.approved: list[str] = []
        """Ids whose approval was answered with 200."""
        self.posted: set[str] = set()
        """Bodies of POSTs in upper case, whatever the answer: a server with a fault
        may have taken any of them for an approval."""
        self.name = ""
        """What the VM is called, as the endpoint told it; empty: it did not."""

    def ask(
        self,
        method: str,
        target: str,
        *,
        headers: Headers = METADATA,
        body: bytes | None = None,
        patient: bool = True,
    ) -> Answer:
        """Send a request and return its answer; raises OSError."""
        self._note_posted(body)
        answer = self._client.ask(
            method, target, headers=headers, body=body, patient=patient
        )
        if answer.status == OK and target.startswith(f"{INSTANCE_PATH}?"):
            self.name = _name(answer.body) or self.name
        if answer.status == OK and target == _TARGET:
            if method == "GET":
                self._remember(answer)
            elif method == "POST" and body is not None:
                self.approved += _ids(body)
        return answer

    def ask_first(self, target: str, body: bytes) -> tuple[bool, Answer]:
        """POST with `Expect: 100-continue`."""
        self._note_posted(body)
        return self._client.ask_first(target, body)

    def watch(self, polls: int, pause: Callable[[], object]) -> None:
        """Read the document so often, with a pause before each; raises OSError."""
        for _ in range(polls):
            pause()
            self.ask("GET", _TARGET)

    def _note_posted(self, body: bytes | None) -> None:
        if body and len(self.posted) < POSTED_MAX:
            self.posted.add(body.decode(errors="replace").upper())

    def _remember(self, answer: Answer) -> None:
        body = answer.body
        if self.shown and self.shown[-1].body == body:
            return
        try:
            members: object = json.loads(body)
        except ValueError:
            return
        if not isinstance(members, dict) or len(self.shown) >= DOCUMENTS_MAX:
            return
        document = cast("dict[str, Any]", members)
        events = document.get("Events")
        if isinstance(events, list):
            listed = cast("list[object]", events)
            self.shown.append(
                Shown(
                    incarnation=document.get("DocumentIncarnation"),
                    events=tuple(
                        cast("dict[str, Any]", event)
                        for event in listed
                        if isinstance(event, dict)
                    ),
                    body=body,
                    at=self._moment(answer),
                )
            )

    def _moment(self, answer: Answer) -> Micros:
        try:
            return parse_http_date(answer.header("Date") or "")
        except ValueError:
            return self._now()


_TARGET = f"{EVENTS_PATH}?api-version={NEWEST.name}"


def _ids(body: bytes) -> list[str]:
    """Return the ids of an approval; none of a body that is none.

    A check sends such bodies too, and there are servers that answer them with 200.
    """
    try:
        requests = json.loads(body)["StartRequests"]
        return [str(request["EventId"]).upper() for request in requests]
    except (ValueError, LookupError, TypeError):
        return []


def _name(body: bytes) -> str:
    """Return `compute.name` of what an instance endpoint said; empty if it is none."""
    try:
        name: object = json.loads(body)["compute"]["name"]
    except (ValueError, LookupError, TypeError):
        return ""
    return name if isinstance(name, str) else ""
