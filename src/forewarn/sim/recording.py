"""A recording: what an endpoint answered to one VM over a time, as JSON Lines.

The first line says what the file is. Each other line is a moment: a *different*
answer or failure than before, a sign that it is still the same, or the end. Lines
are independent, so a file that breaks off lacks only its last one.

Values and their lines; `recording_reader` reads them back. Nothing here knows a
file, a socket or what time it is.
"""

import base64
import enum
import json
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeAlias, cast

from forewarn.instants import Micros, format_duration, format_instant
from forewarn.metadata.http import Response

FORMAT = "forewarn recording"
FORMAT_VERSION = 1
"""Rises when an older reader would understand a line wrongly."""

ANSWERS_REMEMBERED_MAX = 1_000
"""Answers that a later line may refer to: an endpoint that flaps between a few is
recorded in short lines. A document has some kilobytes."""

BODY_REMEMBERED_MAX = 64 * 1024
"""Bytes of such an answer's body, so that a hostile endpoint fills no memory."""

STATUS_MIN = 200
STATUS_MAX = 599
"""Final statuses of HTTP: what is beyond them is no answer."""

BODILESS = frozenset({204, 304})
"""Statuses whose answers have no body, and no Content-Length."""


_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class Failure(enum.Enum):
    """How a poll can fail without an answer."""

    REFUSED = "refused"
    """Nobody listens there."""
    UNREACHABLE = "unreachable"
    """No way leads there, or the name is not known."""
    RESET = "reset"
    """The connection ended before the answer did."""
    TIMEOUT = "timeout"
    """No whole answer came in time."""
    STRANGE = "strange"
    """What came is no answer of HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer, as far as it is recorded."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """Those of interest, in the order and the case in which they came."""
    body: bytes
    reason: str = ""
    """The words after the status; empty: the usual ones."""

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or None."""
        for each, value in self.headers:
            if each.lower() == name.lower():
                return value
        return None

    def response(self) -> Response:
        """Return it as it is served: equal in every byte to one of our own.

        Content-Length tells the length of the body that is there, wherever it
        stood; it is added where there was none.
        """
        lines = [f"HTTP/1.1 {self.status} {self.reason or usual_reason(self.status)}"]
        has_length = self.status in BODILESS
        for name, value in self.headers:
            if name.lower() == "content-length":
                has_length = True
                lines.append(f"{name}: {len(self.body)}")
            else:
                lines.append(f"{name}: {value}")
        if not has_length:
            lines.append(f"Content-Length: {len(self.body)}")
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        return Response(
            status=self.status,
            payload=head + self.body,
            takes_date=self.header("date") is None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A poll that got no answer."""

    failure: Failure
    detail: str = ""
    """What the system said of it."""


Outcome: TypeAlias = Answer | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When an outcome was seen that differs from the one before."""

    at: Micros
    """Since the recording began, when the outcome was there."""
    outcome: Outcome
    took: Micros = 0
    """From asking until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a recording is of."""

    api_version: str
    """With which the endpoint was asked."""
    started: Micros
    """The instant from which moments are counted."""
    poll: Micros
    """Between two polls: how exact the moments are."""
    endpoint: str = ""
    """Empty where pseudonyms hide it."""
    vm: str = ""
    """What the instance endpoint called the VM; empty: it did not say."""
    tool: str = ""
    pseudonyms: bool = False
    """Names and ids are not the original ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A whole recording."""

    header: Header
    moments: tuple[Moment, ...]
    length: Micros
    """From the start until the last line."""
    polls: int
    """How often the endpoint was asked."""
    ended: str = ""
    """Why it ended; empty: it broke off."""
    is_torn: bool = False
    """Its last line is not whole, and was left out."""


def usual_reason(status: int) -> str:
    """Return the words that HTTP has for a status, or none."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def told(outcome: Outcome) -> str:
    """Return in a line, for a person, what came."""
    if isinstance(outcome, Failed):
        return ": ".join(filter(None, (outcome.failure.value, outcome.detail)))
    if outcome.status != HTTPStatus.OK:
        return " ".join((str(outcome.status), usual_reason(outcome.status))).rstrip()
    try:
        document: Any = json.loads(outcome.body)
        incarnation = document["DocumentIncarnation"]
        events = [
            f"{event['EventType']} {event['EventStatus']} {','.join(event['Resources'])}"
            for event in cast("list[dict[str, Any]]", document["Events"])
        ]
    except (ValueError, LookupError, TypeError, RecursionError):
        return f"200, which is no document: {len(outcome.body)} bytes"
    return f"incarnation {incarnation}: {'; '.join(events) or 'no events'}"


def is_value(text: str) -> bool:
    """Tell whether HTTP allows a text as a header's value, or after a status."""
    return _VALUE.fullmatch(text) is not None


@dataclass(slots=True)
class Writer:
    """Makes the lines of one recording, each with its line feed."""

    _numbers: dict[Answer, int] = field(default_factory=dict[Answer, int])
    _last: int = 0

    def header(self, header: Header) -> str:
        """Return the first line."""
        return _line(
            {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "tool": header.tool,
                "api_version": header.api_version,
                "started": format_instant(header.started),
                "poll": format_duration(header.poll),
                "endpoint": header.endpoint,
                "vm": header.vm,
                "pseudonyms": header.pseudonyms,
            }
        )

    def moment(self, moment: Moment) -> str:
        """Return the line of an outcome; one that was there before is referred to."""
        members: dict[str, Any] = {"at": moment.at}
        if moment.took:
            members["took"] = moment.took
        outcome = moment.outcome
        if isinstance(outcome, Failed):
            members["failure"] = outcome.failure.value
            if outcome.detail:
                members["detail"] = outcome.detail
            return _line(members)
        known = self._numbers.get(outcome)
        if known is not None:
            return _line({**members, "again": known})
        self._last += 1
        if len(outcome.body) <= BODY_REMEMBERED_MAX:
            if len(self._numbers) >= ANSWERS_REMEMBERED_MAX:
                del self._numbers[next(iter(self._numbers))]
            self._numbers[outcome] = self._last
        return _line({**members, "answer": self._last, **_content(outcome)})

    def same(self, at: Micros, polls: int) -> str:
        """Return the line that says: `polls` more, and all had the same outcome."""
        return _line({"at": at, "same": polls})

    def end(self, at: Micros, why: str) -> str:
        """Return the last line."""
        return _line({"at": at, "end": why})


def _content(answer: Answer) -> dict[str, Any]:
    members: dict[str, Any] = {"status": answer.status}
    if answer.reason:
        members["reason"] = answer.reason
    members["headers"] = [[name, value] for name, value in answer.headers]
    try:
        members["text"] = answer.body.decode("utf-8")
    except UnicodeDecodeError:
        members["base64"] = base64.b64encode(answer.body).decode("ascii")
    return members


def _line(members: dict[str, Any]) -> str:
    return json.dumps(members, separators=(",", ":")) + "\n"
