"""What a recording says, made into what an endpoint serves.

Bytes in, bytes out: dates that are brought to the present, and documents of older
api-versions made of a recorded one. Everything else stays as it was recorded.
"""

import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, cast

from forewarn.instants import SECOND, Micros, format_http_date, round_up_to_second
from forewarn.metadata import answers
from forewarn.metadata.http import Response
from forewarn.metadata.prepared import PreparedDocument
from forewarn.protocol.versions import VERSIONS, ApiVersion
from forewarn.sim.recording import Answer

NO_TAG = "\n"
"""The tag of an answer that had none: no header can name it, so none is matched."""

_NOT_BEFORE = re.compile(rb'(?<!\\)("NotBefore"\s*:\s*")([^"\\]{1,64})(")')
"""The member as JSON writes it; inside a string its quotes would be escaped."""

_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.\d+)?(Z|\+00:00|)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redating:
    """Brings dates of then to now.

    A date keeps its distance from the start, divided by the speed as everything
    else is: so NotBefore is, by a client's own clock, when the recording comes
    to it.
    """

    then: Micros
    """When the recording began."""
    now: Micros
    """When the replay began."""
    speed: float = 1.0

    def instant(self, instant: Micros) -> Micros:
        """Return when an instant of the recording is now."""
        return self.now + round((instant - self.then) / self.speed)

    def answer(self, answer: Answer) -> Answer:
        """Return an answer whose NotBefore are of now; other bytes stay."""
        body = _NOT_BEFORE.sub(
            lambda found: found[1] + self._date(found[2]) + found[3], answer.body
        )
        return answer if body == answer.body else replace(answer, body=body)

    def _date(self, written: bytes) -> bytes:
        """Return a date in the form in which it was written, or what is no date."""
        try:
            text = written.decode("ascii")
            iso = _ISO.fullmatch(text)
            if iso:
                moment = datetime.fromisoformat(iso[1]).replace(tzinfo=UTC)
            else:
                moment = parsedate_to_datetime(text)
            then = (moment - _EPOCH) // timedelta(microseconds=1)
            now = round_up_to_second(self.instant(then))
            if not iso:
                return format_http_date(now).encode("ascii")
            shown = (_EPOCH + timedelta(seconds=now // SECOND)).isoformat(iso[1][10])
            return shown.removesuffix("+00:00").encode("ascii") + iso[2].encode("ascii")
        except (ValueError, TypeError, OverflowError):
            return written


class RecordedDocument(PreparedDocument):
    """A recorded 200 in the place of a document that is rendered."""

    __slots__ = ("_recorded", "_version")

    def __init__(self, number: int, recorded: Answer, *, version: ApiVersion) -> None:
        """Be the `number`th document of a recording that was made with `version`."""
        super().__init__(number, ())
        self._recorded = recorded
        self._version = version
        etag = recorded.header("etag")
        self.tag = NO_TAG if etag is None else etag.removeprefix("W/").strip('"')
        self.not_modified = Answer(
            status=HTTPStatus.NOT_MODIFIED,
            headers=tuple(
                (name, value)
                for name, value in recorded.headers
                if name.lower() in {"server", "etag"}
            ),
            body=b"",
        ).response()

    def answer(self, version: ApiVersion) -> Response:
        """Return the answer as it was recorded, or as an older version has it."""
        answer = self._answers[version.order]
        if answer is None:
            answer = self._answers[version.order] = self._render(version)
        return answer

    def _render(self, version: ApiVersion) -> Response:
        if version.order > self._version.order:
            known = [each.name for each in VERSIONS[: self._version.order + 1]]
            return answers.error(
                HTTPStatus.BAD_REQUEST,
                f"Bad request. This was recorded with api-version {self._version.name}, "
                "which says less than the one asked for",
                newest=tuple(reversed(known[-3:])),
            )
        if version is self._version:
            return self._recorded.response()
        body = as_older(self._recorded.body, version)
        return replace(self._recorded, body=body).response()


def as_older(body: bytes, version: ApiVersion) -> bytes:
    """Return a document as an older version shows it; what is none stays."""
    document = _object(body)
    events = document.get("Events")
    if not isinstance(events, list):
        return body
    hidden = {each.value for each in version.hidden}
    document["Events"] = [
        _older_event(cast("dict[str, Any]", event), version)
        for event in cast("list[object]", events)
        if isinstance(event, dict)
        and cast("dict[str, Any]", event).get("EventType") not in hidden
    ]
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def _object(body: bytes) -> dict[str, Any]:
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _older_event(event: dict[str, Any], version: ApiVersion) -> dict[str, Any]:
    left_out = {
        name
        for name, is_shown in (
            ("Description", version.description),
            ("EventSource", version.source),
            ("DurationInSeconds", version.duration),
        )
        if not is_shown
    }
    members = {name: value for name, value in event.items() if name not in left_out}
    resources = members.get("Resources")
    if version.underscore and isinstance(resources, list):
        members["Resources"] = [
            f"_{each}" if isinstance(each, str) else each
            for each in cast("list[object]", resources)
        ]
    return members
