"""Convert a recording to answers of an endpoint.

Dates are moved to the present, and documents of older api-versions are made from recorded
ones. All other bytes stay as recorded. Recorded failures are played as faults.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, cast

from forewarn.instants import SECOND, Micros, format_http_date, round_up_to_second
from forewarn.metadata import answers
from forewarn.metadata.http import Request, Response
from forewarn.metadata.prepared import PreparedDocument
from forewarn.protocol.versions import VERSIONS, ApiVersion
from forewarn.sim.faults.fault import Fault, Where
from forewarn.sim.faults.player import FaultPlan, Player
from forewarn.sim.recording import Answer, Failed, Failure

NO_TAG = "\n"
"""The tag of an answer without a tag: no header can contain it, so nothing matches."""

_NOT_BEFORE = re.compile(rb'(?<!\\)("NotBefore"\s*:\s*")([^"\\]{1,64})(")')
"""The member in JSON. Inside a string, its quotes would be escaped."""

_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.\d+)?(Z|\+00:00|)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redating:
    """A conversion of recorded dates to the present.

    A date keeps its distance from the start, divided by the speed. So NotBefore in the
    clock of a client is the moment when the replay reaches it.
    """

    then: Micros
    """The start of the recording."""
    now: Micros
    """The start of the replay."""
    speed: float = 1.0

    def instant(self, instant: Micros) -> Micros:
        """Return the present instant of a recorded instant."""
        return self.now + round((instant - self.then) / self.speed)

    def answer(self, answer: Answer) -> Answer:
        """Return an answer with NotBefore in the present; other bytes do not change."""
        body = _NOT_BEFORE.sub(
            lambda match: match[1] + self._date(match[2]) + match[3], answer.body
        )
        return answer if body == answer.body else replace(answer, body=body)

    def _date(self, written: bytes) -> bytes:
        """Return a date in its original form; text that is not a date does not change."""
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
    """A recorded answer with 200, instead of a rendered document."""

    __slots__ = ("_recorded", "_version")

    def __init__(self, number: int, recorded: Answer, *, version: ApiVersion) -> None:
        """Create the document `number` of a recording with the api-version `version`."""
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
        """Return the recorded answer, or its form in an older version."""
        answer = self._answers[version.order]
        if answer is None:
            answer = self._answers[version.order] = self._render(version)
        return answer

    def _render(self, version: ApiVersion) -> Response:
        if version.order > self._version.order:
            known = [version_.name for version_ in VERSIONS[: self._version.order + 1]]
            return answers.error(
                HTTPStatus.BAD_REQUEST,
                f"Bad request. This was recorded with api-version {self._version.name}, "
                "which has less information than the requested one",
                newest=tuple(reversed(known[-3:])),
            )
        if version is self._version:
            return self._recorded.response()
        return replace(
            self._recorded, body=as_older(self._recorded.body, version)
        ).response()


def as_older(body: bytes, version: ApiVersion) -> bytes:
    """Return a document in an older version; another body does not change."""
    document = _object(body)
    events = document.get("Events")
    if not isinstance(events, list):
        return body
    hidden = {event_type.value for event_type in version.hidden}
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
            f"_{resource}" if isinstance(resource, str) else resource
            for resource in cast("list[object]", resources)
        ]
    return members


_GARBAGE = Response(
    status=HTTPStatus.OK,
    payload=b"this is no answer of HTTP\r\n\r\n",
    close=True,
    takes_date=False,
)

_DOCUMENT_STATUSES = frozenset({HTTPStatus.OK, HTTPStatus.NOT_MODIFIED})
"""Statuses of the endpoint for valid requests."""

_FAULTS: Mapping[Failure, Fault] = {
    Failure.REFUSED: Fault(kind="refuse", where=Where.ALL),
    Failure.UNREACHABLE: Fault(kind="refuse", where=Where.ALL),
    Failure.RESET: Fault(kind="reset", size=0, where=Where.ALL),
    Failure.TIMEOUT: Fault(kind="timeout", where=Where.ALL),
    Failure.STRANGE: Fault(kind="replace", where=Where.ALL),
}
_STATUS = Fault(kind="replace")


class RecordedFaults(Player):
    """A player of recorded failures. Faults that are set explicitly come first."""

    recorded: Answer | Failed | None = None
    """The current failure or error status; None: no failure."""
    on_first: Callable[[], None] | None = None
    """Called by the next request or connection, before it is handled."""

    @property
    def is_idle(self) -> bool:
        """Return whether there are no faults and no recorded failure."""
        return self.recorded is None and self.on_first is None and super().is_idle

    def connect(self, vm: str) -> Fault | None:
        """Return the fault of a new connection."""
        if self.on_first is not None:
            self.on_first()
        set_by_hand = super().connect(vm)
        if set_by_hand is None and isinstance(self.recorded, Failed):
            fault = _FAULTS[self.recorded.failure]
            return fault if fault.kind == "refuse" else None
        return set_by_hand

    def take(self, vm: str, request: Request) -> FaultPlan | None:
        """Return the plan for a request, or None."""
        if self.on_first is not None:
            self.on_first()
        set_by_hand = super().take(vm, request)
        recorded = self.recorded
        if set_by_hand is not None or recorded is None or not vm:
            return set_by_hand
        if isinstance(recorded, Failed):
            fault = _FAULTS[recorded.failure]
            cut_after = 0 if fault.kind in {"refuse", "reset"} else None
            return FaultPlan(fault=fault, arrives=False, cut_after=cut_after)
        if request.method == "GET" and Where.EVENTS.has(request.path):
            return FaultPlan(fault=_STATUS, in_full=True)
        if recorded.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # A service that is down does not take approvals either.
            return FaultPlan(fault=_STATUS, arrives=False)
        return None

    def answer(
        self,
        vm: str,
        request: Request,
        plan: FaultPlan | None,
        genuine: Response | None,
    ) -> Response | None:
        """Return the answer to send; see `Interceptor.answer`."""
        recorded = self.recorded
        if plan is not None and plan.fault is _FAULTS[Failure.STRANGE]:
            return _GARBAGE
        if (
            plan is None
            or plan.fault is not _STATUS
            or not isinstance(recorded, Answer)
        ):
            return super().answer(vm, request, plan, genuine)
        if genuine is not None and genuine.status not in _DOCUMENT_STATUSES:
            # An invalid request gets its refusal.
            return genuine
        return recorded.response()
