"""One endpoint, as Azure's protocol has it: ask for the document, approve, ask a name.

Whatever happens is a value: nothing here raises for what an endpoint does. It keeps
what belongs to the conversation (version, tag, the last document) and no task. One
thread asks; `approve` and `interrupt` may be called from others.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Sequence

from forewarn.agent.core.model import Answered, Consent
from forewarn.agent.core.polling import NAME_TIMEOUT, TAG_LASTS
from forewarn.agent.foreign import json_members, members
from forewarn.agent.wire import refusals
from forewarn.agent.wire.http import Answer, Client, HttpError, Trouble, Url, parse_url
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.protocol import versions
from forewarn.protocol.decoder import UnreadableError, decode, is_empty
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.notices import Reading

EVENTS_PATH = "/metadata/scheduledevents"
INSTANCE_PATH = "/metadata/instance"

INSTANCE_VERSION = "2021-02-01"
"""Of the instance endpoint, whose list is its own; every version tells the name."""

NAME_MAX = 200
"""Characters of a VM's name; Azure's have 64 at most."""

SHORT_TIMEOUT: Micros = 2 * SECOND
"""What is left for an approval, at least, when its version was not the right one."""

_METADATA = ("Metadata", "true")
_OK = 200
_NOT_MODIFIED = 304
_BAD_REQUEST = 400
_TOO_MANY = 429

_SERVER = "forewarn"
"""Who offers to wait for a change; nobody else is asked to (docs/reference/extensions.md)."""

_EMPTY = Reading(incarnation=None, notices=(), is_empty=True)

_KNOWN = tuple(version.name for version in versions.VERSIONS)
_UNDERSCORED = frozenset(each.name for each in versions.VERSIONS if each.underscore)


class Result(enum.Enum):
    """How one poll ended; the value is a metric's label."""

    OK = "ok"
    """A document, in full."""
    UNCHANGED = "unchanged"
    """304: the document is the one before."""
    EMPTY = "empty"
    """200 with an empty body, as Azure has answered where there are no events."""
    UNREADABLE = "unreadable"
    """200, and no document."""
    REDIRECT = "http_3xx"
    """Refused: nobody else may answer for the endpoint."""
    CLIENT_ERROR = "http_4xx"
    TOO_MANY = "http_429"
    SERVER_ERROR = "http_5xx"
    STRANGE = "http_other"
    """Another success than 200, or a 304 that nobody asked for."""
    TIMEOUT = "timeout"
    REFUSED = "refused"
    RESET = "reset"
    UNREACHABLE = "unreachable"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    TLS = "tls"
    REQUEST = "request"
    STOPPED = "stopped"
    """The agent itself ended it, as it does when it stops."""
    FAULT = "fault"
    """A fault of the agent's own; the log has it."""


@frozen_dataclass
class Asked:
    """What one poll gave."""

    result: Result
    reading: Reading | None = None
    """The document, if it is known to be as it is now."""
    is_changed: bool = False
    """The document is another one than the last that was read."""
    detail: str = ""
    """What went wrong, for a person."""
    retry_after: Micros = 0


class Endpoint:
    """A conversation with the endpoint, wherever it is found."""

    def __init__(
        self,
        find: Callable[[], Sequence[str]],
        *,
        clock: Clock,
        ca_file: str = "",
    ) -> None:
        """Ask at the URLs that `find` returns, one after the other until one answers.

        `find` is called again when none did. It returns one URL at least, each of
        which `parse_url` takes.
        """
        self._find = find
        self._clock = clock
        self._ca_file = ca_file
        self._places: tuple[str, ...] = ()
        self._at = 0
        self._place = ""
        self._answered: float | None = None
        """When it last gave a document, in seconds of the monotonic clock."""
        self._is_stopped = False
        self._client = self._connect_next()
        self._version = versions.NEWEST.name
        self._tag: str | None = None
        self._trusts_tags = True
        self._tagged: tuple[str, bytes] | None = None
        self._body: bytes | None = None
        self._reading: Reading | None = None
        self._spelled: dict[str, str] = {}
        self._knows_push = False
        self._longest_wait: Micros = 0
        self._instance_version = INSTANCE_VERSION

    @property
    def url(self) -> str:
        """Return where it is asked now."""
        return self._place

    @property
    def version(self) -> str:
        """Return the api-version in use."""
        return self._version

    @property
    def longest_wait(self) -> Micros:
        """Return how long the endpoint offers to wait for a change; 0: it does not."""
        return self._longest_wait if self._tag is not None else 0

    def ask(self, *, timeout: Micros, wait: Micros = 0, full: bool = False) -> Asked:
        """Ask for the document once.

        `wait` is for an endpoint that offers it, in whole seconds; `full` asks for
        the document even where it has not changed. Where the endpoint does not know
        the version, it is asked again at once with one that it knows.
        """
        if self._answered is not None and self._silence() > TAG_LASTS:
            # Whoever answers after that may be another one.
            self._restart(versions.NEWEST.name)
            self._answered = None
        try:
            answer = self._get(timeout=timeout, wait=wait, full=full)
            other = refusals.version_for(answer, refused=self._version, known=_KNOWN)
            if other is not None:
                self._restart(other)
                answer = self._get(timeout=timeout, wait=0, full=True)
        except HttpError as error:
            return self._failed(Result[error.trouble.name], error.message)
        asked = self._take(answer)
        if asked.reading is None:
            return self._failed(asked.result, asked.detail, asked.retry_after)
        self._answered = self._clock.monotonic()
        return asked

    def approve(self, event_id: str, *, timeout: Micros) -> Answered:
        """Send the approval of one event (clause 3.1), over a connection of its own.

        WANTED means that nobody knows whether it was taken: to send it again is
        right and does no harm (3.2). REFUSED has the endpoint's own sentence.
        """
        spelled = self._spelled.get(event_id, event_id)
        body = json.dumps(
            {"StartRequests": [{"EventId": spelled}]}, separators=(",", ":")
        ).encode("ascii")
        url = parse_url(self.url)
        client = Client(url, clock=self._clock, ca_file=self._ca_file)
        version = self._version
        ends = self._clock.monotonic() + timeout / SECOND

        def post(version: str, timeout: Micros) -> Answer:
            headers = (_METADATA, ("Content-Type", "application/json"))
            target = _target(url, EVENTS_PATH, version)
            return client.send("POST", target, body, headers=headers, timeout=timeout)

        try:
            answer = post(version, timeout)
            other = refusals.version_for(answer, refused=version, known=_KNOWN)
            if other is not None:
                left = round((ends - self._clock.monotonic()) * SECOND)
                answer = post(other, max(left, SHORT_TIMEOUT))
        except HttpError as error:
            return Answered(
                event_id=event_id, consent=Consent.WANTED, detail=error.message
            )
        return refusals.judge(event_id, answer)

    def instance_name(self, *, timeout: Micros = NAME_TIMEOUT) -> str | None:
        """Return what the instance endpoint calls this VM; None: it does not tell."""
        try:
            answer = self._get_instance(timeout)
            offered = refusals.newest_versions(answer)
            if answer.status == _BAD_REQUEST and offered:
                if self._instance_version in offered:
                    return None
                # The member is in each of them, so any that it knows will do.
                self._instance_version = offered[0]
                answer = self._get_instance(timeout)
        except HttpError:
            return None
        return _name_in(answer)

    def interrupt(self) -> None:
        """End for good, also a poll that another thread waits for."""
        self._is_stopped = True
        self._client.interrupt()

    def close(self) -> None:
        """Let go of the connection that is kept, when nobody polls any more."""
        self._client.close()

    # Asking

    def _get(self, *, timeout: Micros, wait: Micros, full: bool) -> Answer:
        # Asked without a wait too, it tells whether it would.
        query = f"&wait={0 if full else wait // SECOND}" if self._knows_push else ""
        headers: list[tuple[str, str]] = [_METADATA]
        if self._tag is not None and not full:
            headers.append(("If-None-Match", self._tag))
        target = _target(self._client.url, EVENTS_PATH, self._version)
        return self._client.get(target + query, headers=headers, timeout=timeout)

    def _get_instance(self, timeout: Micros) -> Answer:
        target = _target(self._client.url, INSTANCE_PATH, self._instance_version)
        return self._client.get(target, headers=(_METADATA,), timeout=timeout)

    def _take(self, answer: Answer) -> Asked:
        """Return what an answer says, and keep it if it is a document."""
        if answer.status == _NOT_MODIFIED and self._tag is not None:
            self._hear_offer(answer)
            return Asked(result=Result.UNCHANGED, reading=self._reading)
        if answer.status != _OK:
            return Asked(
                result=_result_of(answer.status),
                detail=refusals.sentence_of(answer),
                retry_after=refusals.retry_after(answer),
            )
        if is_empty(answer.body):
            return self._take_empty()
        is_changed = answer.body != self._body
        if is_changed:
            try:
                reading = decode(answer.body, underscored=self._version in _UNDERSCORED)
            except UnreadableError as error:
                return Asked(result=Result.UNREADABLE, detail=error.message)
            self._body, self._reading = answer.body, reading
            self._spelled = {each.event_id: each.id_on_wire for each in reading.notices}
        self._take_tag(answer)
        self._hear_offer(answer)
        return Asked(result=Result.OK, reading=self._reading, is_changed=is_changed)

    def _take_empty(self) -> Asked:
        """Return what an empty body says: no events, and no tag to ask with next."""
        was_empty = self._reading is not None and self._reading.is_empty
        self._tag = self._tagged = self._body = None
        self._longest_wait = 0
        self._reading = _EMPTY
        return Asked(result=Result.EMPTY, reading=_EMPTY, is_changed=not was_empty)

    def _take_tag(self, answer: Answer) -> None:
        """Keep the tag to ask with next, if this endpoint's tags can be trusted.

        One that has given two contents one tag may answer 304 for either. So may
        whoever spoiled a document on its way, and left it its tag.
        """
        is_odd = self._reading is not None and bool(self._reading.oddities)
        tag = answer.header("etag")
        if self._tagged is not None and self._tagged[0] == tag:
            same = self._tagged[1] == answer.body
            self._trusts_tags = self._trusts_tags and same
        self._tagged = None if tag is None else (tag, answer.body)
        self._tag = tag if self._trusts_tags and not is_odd else None

    def _hear_offer(self, answer: Answer) -> None:
        self._knows_push = answer.header("server") == _SERVER
        offered = answer.header("forewarn-wait")
        seconds = refusals.seconds_in(offered) if self._knows_push else 0
        self._longest_wait = seconds * SECOND

    # Going on

    def _failed(self, result: Result, detail: str, retry_after: Micros = 0) -> Asked:
        """Forget what the next answer must not be taken with; try the next place."""
        # What it says next is wanted in full, even if it is what was there.
        self._tag = None
        self._longest_wait = 0
        if self._answered is None and result is not Result.STOPPED:
            self._client.close()
            self._client = self._connect_next()
        return Asked(result=result, detail=detail, retry_after=retry_after)

    def _restart(self, version: str) -> None:
        """Forget what was learned of an endpoint that spoke otherwise, or was away."""
        self._version = version
        self._tag = self._tagged = self._body = None
        self._trusts_tags = True
        self._longest_wait = 0

    def _silence(self) -> Micros:
        assert self._answered is not None, "it has answered"
        return round((self._clock.monotonic() - self._answered) * SECOND)

    def _connect_next(self) -> Client:
        """Return a client for the next place, or the first of those found anew."""
        self._at += 1
        if self._at >= len(self._places):
            self._places = tuple(self._find())
            self._at = 0
        # At once, since approvals look at it from other threads.
        self._place = self._places[self._at]
        client = Client(parse_url(self.url), clock=self._clock, ca_file=self._ca_file)
        if self._is_stopped:
            client.interrupt()
        return client


def _target(url: Url, path: str, version: str) -> str:
    """Return one of the endpoint's own paths, which come after that of its URL."""
    prefix = url.target.partition("?")[0].rstrip("/")
    return f"{prefix}{path}?api-version={version}"


def _result_of(status: int) -> Result:
    if status == _TOO_MANY:
        return Result.TOO_MANY
    if status == _NOT_MODIFIED:
        return Result.STRANGE
    by_class = {3: Result.REDIRECT, 4: Result.CLIENT_ERROR, 5: Result.SERVER_ERROR}
    return by_class.get(status // 100, Result.STRANGE)


def _name_in(answer: Answer) -> str | None:
    """Return `compute.name` of an answer of the instance endpoint."""
    if answer.status != _OK:
        return None
    instance = json_members(answer.body) or {}
    name = members(instance.get("compute")).get("name")
    if not isinstance(name, str):
        return None
    name = name.strip()
    return name if 0 < len(name) <= NAME_MAX and name.isprintable() else None


assert {trouble.name for trouble in Trouble} <= set(Result.__members__)
