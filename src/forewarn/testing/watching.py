"""A client that remembers every document it was given, in order.

What a life cycle promises shows only in a sequence of documents: that an event keeps
its id, that nothing goes backwards, that equal numbers mean equal content. So the
client keeps what the checks read on their way, and may go on reading for a while.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from forewarn.protocol.versions import NEWEST
from forewarn.testing.client import EVENTS_PATH, METADATA, Answer, Client, Headers

OK = 200

DOCUMENTS_MAX = 100_000
"""Different documents of one watch: a day at one change a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A document of the newest version, as it was shown."""

    incarnation: object
    events: tuple[dict[str, Any], ...]
    body: bytes


class WatchingClient:
    """Asks through another client, and remembers the documents."""

    def __init__(self, client: Client) -> None:
        """Ask through `client`; nothing has been shown yet."""
        self._client = client
        self.shown: list[Shown] = []
        """Documents in order, without repeats of the one before."""
        self.approved: list[str] = []
        """Ids whose approval was answered with 200."""

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
        answer = self._client.ask(
            method, target, headers=headers, body=body, patient=patient
        )
        if answer.status == OK and target == _TARGET:
            if method == "GET":
                self._remember(answer.body)
            elif method == "POST" and body is not None:
                self.approved += _ids(body)
        return answer

    def ask_first(self, target: str, body: bytes) -> tuple[bool, Answer]:
        """POST with `Expect: 100-continue`."""
        return self._client.ask_first(target, body)

    def watch(self, polls: int, pause: Callable[[], object]) -> None:
        """Read the document so often, with a pause before each; raises OSError."""
        for _ in range(polls):
            pause()
            self.ask("GET", _TARGET)

    def _remember(self, body: bytes) -> None:
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
                )
            )


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
