"""An endpoint that shows the documents of a story, one after the other.

It renders each version by itself, as an independent reading of section 2, and answers
every other request as an endpoint does that keeps the protocol as far as rules look.
"""

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

from forewarn.instants import SECOND, Micros, format_http_date
from forewarn.protocol.versions import NEWEST, VERSIONS
from forewarn.testing.client import EVENTS_PATH, METADATA, Answer, Headers, Sent
from forewarn.testing.conformance.documents import target
from forewarn.testing.conformance.inquiry import (
    INSTANCE_TARGET,
    Inquiry,
    start_requests,
)
from forewarn.testing.conformance.transcript import Transcript

START: Micros = 1_900_000_000 * SECOND

JSON_TYPE = ("Content-Type", "application/json; charset=utf-8")

Event = dict[str, Any]
Bend = Callable[[str, Answer], Answer]
"""Returns what a faulty endpoint makes of a good answer at a target."""


def key(number: int) -> str:
    """Return the id of an event of a story."""
    return f"A1B2C3D4-0000-4000-8000-{number:012}"


def event(
    number: int = 1,
    status: str = "Scheduled",
    kind: str = "Reboot",
    *,
    due: float = 900,
    **members: Any,
) -> Event:
    """Return an event; `due` is in seconds from the beginning."""
    not_before = format_http_date(START + round(due * SECOND))
    return {
        "EventId": key(number),
        "EventStatus": status,
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": ["vm_0"],
        "NotBefore": not_before if status == "Scheduled" else "",
        "Description": "",
        "EventSource": "User" if kind == "Terminate" else "Platform",
        "DurationInSeconds": -1,
        **members,
    }


class Story:
    """The documents that an endpoint serves over time, and those that were read."""

    def __init__(
        self,
        *,
        name: str = "vm_0",
        bend: Bend = lambda _target, answer: answer,
        tags_are_equal: bool = False,
        is_dated: bool = True,
        **options: Any,
    ) -> None:
        self.now = START
        self.bend = bend
        self.tags_are_equal = tags_are_equal
        """Whether any If-None-Match gets 304."""
        self.is_dated = is_dated
        self.own_events: list[Event] | None = None
        self.incarnation: object = 0
        self.events: list[Event] = []
        self.requests: list[tuple[str, str]] = []
        self._name = name
        self.inquiry = Inquiry(self, now=lambda: self.now, **options)
        self.inquiry.ask("GET", INSTANCE_TARGET)

    @property
    def seen(self) -> Transcript:
        return self.inquiry.seen

    def show(self, *events: Event, number: object = None, after: float = 1) -> "Story":
        """Show a document `after` seconds; its number is the next unless given."""
        self.now += round(after * SECOND)
        known = self.incarnation
        if number is None:
            number = known + 1 if isinstance(known, int) else 1
        self.incarnation = number
        self.events = copy.deepcopy(list(events))
        self.inquiry.watch_once()
        return self

    def wait(self, after: float = 1) -> "Story":
        """Read again what is shown."""
        self.now += round(after * SECOND)
        self.inquiry.watch_once()
        return self

    def approve(self, *numbers: int) -> "Story":
        self.inquiry.post(start_requests(*map(key, numbers)))
        return self

    @property
    def newest_body(self) -> bytes:
        """Return the document as the newest version shows it."""
        return self._json(200, self._document(NEWEST.order)).body

    # The interface of the inquiry.

    def ask(
        self,
        method: str,
        target: str,
        *,
        headers: Headers = METADATA,
        body: bytes | None = None,
        patient: bool = True,
    ) -> Answer:
        self.requests.append((method, target))
        if method == "POST" and (dict(headers) != dict(METADATA)):
            return self.bend(target, self._json(400, {"error": "Bad request"}))
        return self.bend(target, self._answer(method, target, headers, body or b""))

    def ask_first(self, target: str, body: bytes) -> tuple[bool, Answer]:
        return True, self.ask("POST", target, body=body)

    def ask_in_turn(
        self, requests: Sequence[Sent]
    ) -> tuple[tuple[Answer, ...], OSError | None]:
        answers = [
            self.ask(
                request.method,
                request.target,
                headers=request.headers,
                body=request.body,
            )
            for request in requests
        ]
        return tuple(answers), None

    def _answer(self, method: str, where: str, headers: Headers, body: bytes) -> Answer:
        if where == INSTANCE_TARGET:
            return self._json(200, {"compute": {"name": self._name}})
        if where.startswith("/metadata/forewarn/") and self.own_events is not None:
            return self._json(200, {"Events": self.own_events, "Ended": []})
        versions = {target(version.name): version for version in VERSIONS}
        if where not in versions:
            status = 400 if where.startswith(EVENTS_PATH) else 404
            return self._json(status, {"error": "There is nothing"})
        if method == "POST":
            return self._approve(body)
        tag = f'"{self.incarnation}"'
        sent = dict(headers).get("If-None-Match")
        if sent == tag or (sent and self.tags_are_equal):
            return Answer(status=304, headers=(("ETag", tag),), body=b"")
        return self._json(200, self._document(versions[where].order), ("ETag", tag))

    def _document(self, order: int) -> Event:
        version = VERSIONS[order]
        lacks = {
            "Description": order < 4,
            "EventSource": order < 5,
            "DurationInSeconds": order < 6,
        }
        hidden = {"Preempt": order < 2, "Terminate": order < 3}
        shown = [
            {name: value for name, value in shown_event.items() if not lacks.get(name)}
            for shown_event in self.events
            if not hidden.get(str(shown_event.get("EventType")))
        ]
        for row in shown if version is not NEWEST else []:
            if order == 0 and isinstance(row.get("Resources"), list):
                row["Resources"] = [f"_{name}" for name in row["Resources"]]
        return {"DocumentIncarnation": self.incarnation, "Events": shown}

    def _approve(self, body: bytes) -> Answer:
        try:
            ids = [start["EventId"] for start in json.loads(body)["StartRequests"]]
        except (ValueError, LookupError, TypeError):
            ids = []
        known = {
            event_id for shown in self.seen.newest for event_id in shown.document.by_id
        }
        if ids and all(str(event_id).upper() in known for event_id in ids):
            return Answer(status=200, headers=(), body=b"")
        return self._json(400, {"error": "Bad request"})

    def _json(self, status: int, value: object, *headers: tuple[str, str]) -> Answer:
        body = json.dumps(value, separators=(",", ":")).encode()
        dated = (("Date", format_http_date(self.now)),) if self.is_dated else ()
        return Answer(status=status, headers=(JSON_TYPE, *dated, *headers), body=body)
