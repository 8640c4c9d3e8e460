"""A recording: the answers of an endpoint to one VM over time, as JSON Lines.

The first line describes the recording. Each other line is a moment: an answer or failure
that *differs* from the previous one, a note that it is still the same, or the end. Lines
are independent, so an interrupted file lacks only its last line.

This module has the values, and writes and reads their lines. A reader raises an error
with file and line. It ignores an incomplete last line, which a killed recorder may leave,
and unknown members. The module uses no file, socket or clock.
"""

import base64
import binascii
import enum
import json
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeAlias, cast

from forewarn.instants import (
    DURATION_MAX,
    Micros,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)
from forewarn.metadata.http import Response
from forewarn.problems import quoted
from forewarn.protocol import versions
from forewarn.protocol.errors import ForewarnError

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
        for header_name, value in self.headers:
            if header_name.lower() == name.lower():
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
    """Return whether HTTP allows a string as a header value, or after a status."""
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


DETAIL_MAX = 1_000
"""Maximum characters of a system error in a failure."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FAILURES = {failure.value: failure for failure in Failure}


class RecordingError(ForewarnError):
    """A file is not a recording, or has an invalid line."""


class _LineError(Exception):
    """A problem in one line, without its number."""


def read_recording(data: bytes, *, name: str) -> Recording:
    """Return the recording in the data of the file `name`; raises RecordingError."""
    lines = data.split(b"\n")
    while lines and not lines[-1].strip():
        del lines[-1]
    reader = _Reader()
    for number, line in enumerate(lines, start=1):
        try:
            reader.take(line)
        except _UnreadableError as error:
            if number == len(lines) > 1:
                reader.is_torn = True
                break
            raise _wrong(name, number, str(error)) from None
        except _LineError as error:
            raise _wrong(name, number, str(error)) from None
    if reader.header is None:
        raise _wrong(name, 1, "the file is empty")
    if not reader.moments:
        raise _wrong(name, len(lines), "no answer and no failure was recorded")
    return Recording(
        header=reader.header,
        moments=tuple(reader.moments),
        length=reader.at,
        polls=reader.polls,
        ended=reader.ended,
        is_torn=reader.is_torn,
    )


class _UnreadableError(_LineError):
    """The line is not a JSON object: it may be incomplete."""


def _wrong(name: str, line: int, sentence: str) -> RecordingError:
    return RecordingError(
        f"{name}:{line}: {sentence}",
        hint="See the page 'Recording format'.",
    )


class _Reader:
    """The values of the lines so far."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.moments: list[Moment] = []
        self.at: Micros = 0
        self.polls = 0
        self.ended = ""
        self.is_torn = False
        self._answers: dict[int, Answer] = {}

    def take(self, line: bytes) -> None:
        """Read the next line; raises _LineError."""
        members = _Members(line)
        if self.header is None:
            self.header = _header(members)
            return
        if self.ended:
            raise _LineError("there is a line after the end")
        at = members.whole("at", value_max=DURATION_MAX)
        if at < self.at:
            raise _LineError(f"at: {at} is before the line above, which has {self.at}")
        self.at = at
        if "same" in members:
            if not self.moments:
                raise _LineError("same: there is no earlier outcome")
            self.polls += members.whole("same")
        elif "end" in members:
            self.ended = members.text("end") or "ended"
        else:
            self.polls += 1
            took = members.whole("took", default=0, value_max=DURATION_MAX)
            self.moments.append(
                Moment(at=at, outcome=self._outcome(members), took=took)
            )

    def _outcome(self, members: "_Members") -> Outcome:
        if "failure" in members:
            written = members.text("failure")
            failure = _FAILURES.get(written)
            if failure is None:
                known = ", ".join(_FAILURES)
                raise _LineError(f"failure: {quoted(written)} is not one of {known}")
            return Failed(
                failure=failure, detail=members.text("detail", default="")[:DETAIL_MAX]
            )
        if "again" in members:
            number = members.whole("again")
            answer = self._answers.get(number)
            if answer is None:
                raise _LineError(f"again: there is no answer {number} above")
            return answer
        if "status" not in members:
            raise _LineError("status, again, failure, same or end is missing")
        answer = _answer(members)
        self._answers[members.whole("answer")] = answer
        return answer


def _header(members: "_Members") -> Header:
    if members.raw("format") != FORMAT:
        raise _LineError(f"this is not a recording: format is not {FORMAT!r}")
    version = members.whole("format_version")
    if version != FORMAT_VERSION:
        raise _LineError(
            f"format_version: {version} is not supported, only {FORMAT_VERSION}"
        )
    api_version = members.text("api_version")
    if versions.parse(api_version) is None:
        raise _LineError(f"api_version: {quoted(api_version)} is unknown")
    try:
        started = parse_instant(members.text("started"))
        poll = parse_duration(members.text("poll"))
    except ValueError as error:
        raise _LineError(f"started, poll: {error}") from None
    return Header(
        api_version=api_version,
        started=started,
        poll=poll,
        endpoint=members.text("endpoint", default=""),
        vm=members.text("vm", default=""),
        tool=members.text("tool", default=""),
        pseudonyms=members.raw("pseudonyms") is True,
    )


def _answer(members: "_Members") -> Answer:
    status = members.whole("status")
    if not STATUS_MIN <= status <= STATUS_MAX:
        raise _LineError(f"status: {status} is not from {STATUS_MIN} to {STATUS_MAX}")
    headers: list[tuple[str, str]] = []
    listed = members.raw("headers")
    if not isinstance(listed, list):
        raise _LineError("headers: it must be a list")
    for header in cast("list[object]", listed):
        match header:
            case [str() as name, str() as value] if _NAME.fullmatch(name) and is_value(
                value
            ):
                headers.append((name, value))
            case _:
                raise _LineError(
                    "headers: an entry is not a valid header name and value"
                )
    reason = members.text("reason", default="")
    if not is_value(reason):
        raise _LineError("reason: it has characters that a status line must not have")
    return Answer(
        status=status, headers=tuple(headers), body=_body(members), reason=reason
    )


def _body(members: "_Members") -> bytes:
    if "base64" in members:
        try:
            return base64.b64decode(members.text("base64"), validate=True)
        except (binascii.Error, ValueError):
            raise _LineError("base64: it cannot be decoded") from None
    try:
        return members.text("text").encode("utf-8")
    except UnicodeEncodeError:
        raise _LineError("text: it has half of a surrogate pair; use base64") from None


class _Members:
    """The members of one line, with checks."""

    def __init__(self, line: bytes) -> None:
        try:
            value = json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            raise _UnreadableError("it is not JSON") from None
        if not isinstance(value, dict):
            raise _UnreadableError("it is not a JSON object")
        self._members = cast("dict[str, Any]", value)

    def __contains__(self, key: str) -> bool:
        return key in self._members

    def raw(self, key: str) -> object:
        return self._members.get(key)

    def text(self, key: str, *, default: str | None = None) -> str:
        value = self._members.get(key, default)
        if not isinstance(value, str):
            raise _LineError(f"{key}: {_missing(key in self._members)} a string")
        return value

    def whole(
        self, key: str, *, default: int | None = None, value_max: int | None = None
    ) -> int:
        value = self._members.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise _LineError(f"{key}: {_missing(key in self._members)} a whole number")
        if value_max is not None and value > value_max:
            raise _LineError(f"{key}: it must be at most ten years")
        return value


def _missing(is_there: bool) -> str:  # noqa: FBT001
    return "it must be" if is_there else "it is missing, and must be"
