"""Read a recording: return a `Recording`, or raise an error with file and line.

An incomplete last line is ignored, because a killed recorder may leave one. Unknown
members are ignored.
"""

import base64
import binascii
import json
import re
from typing import Any, cast

from forewarn.instants import DURATION_MAX, Micros, parse_duration, parse_instant
from forewarn.problems import quoted
from forewarn.protocol import versions
from forewarn.protocol.errors import ForewarnError
from forewarn.sim.recording import (
    FORMAT,
    FORMAT_VERSION,
    STATUS_MAX,
    STATUS_MIN,
    Answer,
    Failed,
    Failure,
    Header,
    Moment,
    Outcome,
    Recording,
    is_value,
)

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
        at = members.whole("at", most=DURATION_MAX)
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
            took = members.whole("took", default=0, most=DURATION_MAX)
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
            detail = members.text("detail", default="")[:DETAIL_MAX]
            return Failed(failure=failure, detail=detail)
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
    for each in cast("list[object]", listed):
        match each:
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
            raise _LineError(f"{key}: {_missing(key in self._members)} a text")
        return value

    def whole(
        self, key: str, *, default: int | None = None, most: int | None = None
    ) -> int:
        value = self._members.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise _LineError(f"{key}: {_missing(key in self._members)} a whole number")
        if most is not None and value > most:
            raise _LineError(f"{key}: it must be at most ten years")
        return value


def _missing(is_there: bool) -> str:  # noqa: FBT001
    return "it must be" if is_there else "it is missing, and must be"
