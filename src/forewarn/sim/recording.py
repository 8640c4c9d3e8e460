"""A recording: the answers of an endpoint to one VM over time, as JSON Lines.

The first line describes the recording. Each other line is a moment: an answer or failure
that *differs* from the previous one, a note that it is still the same, or the end. Lines
are independent, so an interrupted file lacks only its last line.

This module has the values and writes their lines. `recording_reader` reads them. It uses
no file, socket or clock.
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
"""Version of the format. Increase it if an older reader would misunderstand a line."""

ANSWERS_REMEMBERED_MAX = 1_000
"""Maximum number of answers that a later line can refer to, some kilobytes each. So an
endpoint that alternates between a few answers is recorded in short lines."""

BODY_REMEMBERED_MAX = 64 * 1024
"""Maximum body bytes of such an answer, so that a hostile endpoint cannot fill memory."""

STATUS_MIN = 200
STATUS_MAX = 599
"""Maximum final status in HTTP."""

BODILESS = frozenset({204, 304})
"""Statuses of answers without a body and without Content-Length."""


_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class Failure(enum.Enum):
    """The ways in which a poll can fail without an answer."""

    REFUSED = "refused"
    """The connection was refused."""
    UNREACHABLE = "unreachable"
    """The host is unreachable, or its name is unknown."""
    RESET = "reset"
    """The connection ended before the answer did."""
    TIMEOUT = "timeout"
    """No complete answer was received in time."""
    STRANGE = "strange"
    """The received bytes are not an HTTP answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The recorded part of an answer."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """The recorded headers, in their original order and case."""
    body: bytes
    reason: str = ""
    """The text after the status; empty: the standard one."""

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or None."""
        for each, value in self.headers:
            if each.lower() == name.lower():
                return value
        return None

    def response(self) -> Response:
        """Return the response to serve. For a recording of forewarn, all bytes are equal.

        Content-Length keeps its place and gets the length of the recorded body. If it is
        missing, it is added.
        """
        lines = [f"HTTP/1.1 {self.status} {self.reason or usual_reason(self.status)}"]
        length = f"{len(self.body)}"
        for name, value in self.headers:
            is_length = name.lower() == "content-length"
            lines.append(f"{name}: {length if is_length else value}")
        if self.status not in BODILESS and self.header("content-length") is None:
            lines.append(f"Content-Length: {length}")
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        return Response(
            status=self.status,
            payload=head + self.body,
            takes_date=self.header("date") is None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A poll without an answer."""

    failure: Failure
    detail: str = ""
    """The error of the system."""


Outcome: TypeAlias = Answer | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An outcome that differs from the previous one, with its time."""

    at: Micros
    """Time from the start of the recording until the outcome."""
    outcome: Outcome
    took: Micros = 0
    """Time from the request until the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The description of a recording."""

    api_version: str
    """The api-version of the requests."""
    started: Micros
    """The start, from which moments are counted."""
    poll: Micros
    """The polling interval, which is the accuracy of moments."""
    endpoint: str = ""
    """The URL; empty if pseudonyms hide it."""
    vm: str = ""
    """The name of the VM from the instance endpoint; empty: unknown."""
    tool: str = ""
    pseudonyms: bool = False
    """Whether names and IDs are pseudonyms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A complete recording."""

    header: Header
    moments: tuple[Moment, ...]
    length: Micros
    """Time from the start until the last line."""
    polls: int
    """Number of polls."""
    ended: str = ""
    """Why the recording ended; empty: it was interrupted."""
    is_torn: bool = False
    """Whether the recording's last line is incomplete and was ignored."""


def usual_reason(status: int) -> str:
    """Return the standard text of a status, or an empty text."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def describe(outcome: Outcome) -> str:
    """Return an outcome as a line of text."""
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
        return f"200, but not a document: {len(outcome.body)} bytes"
    return f"incarnation {incarnation}: {'; '.join(events) or 'no events'}"


def is_value(text: str) -> bool:
    """Return whether HTTP allows a text as a header value, or after a status."""
    return _VALUE.fullmatch(text) is not None


@dataclass(slots=True)
class Writer:
    """A writer of the lines of one recording, each with a line feed."""

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
        """Return the line of an outcome; a known answer is only referred to."""
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
        """Return the line for `polls` more polls with the same outcome."""
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
