"""One endpoint of Azure's protocol: get the document, approve, get the VM's name.

Every failure of an endpoint is a value, not an exception. The class keeps the state of
the conversation (version, tag, last document), but no tasks. One thread polls; other
threads may call `approve` and `interrupt`.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Union

from forewarn.agent.core.model import ApprovalResult, Consent
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
"""Version of the instance endpoint, which has its own list; every version works."""

NAME_MAX = 200
"""Maximum length of a VM's name; Azure's have at most 64 characters."""

SHORT_TIMEOUT: Micros = 2 * SECOND
"""Minimum time for sending an approval again with another version."""

_METADATA = ("Metadata", "true")
_OK = 200
_NOT_MODIFIED = 304
_BAD_REQUEST = 400
_TOO_MANY = 429

_SERVER = "forewarn"
"""Only a server of this name is asked to wait (see "Extensions of the protocol")."""

_EMPTY = Reading(incarnation=None, notices=(), is_empty=True)

_KNOWN = tuple(version.name for version in versions.VERSIONS)
_UNDERSCORED = frozenset(
    version.name for version in versions.VERSIONS if version.underscore
)


class Result(enum.Enum):
    """The result of a poll with an answer; the value is a metric label."""

    OK = "ok"
    """A complete document."""
    UNCHANGED = "unchanged"
    """304: the document has not changed."""
    EMPTY = "empty"
    """200 with an empty body, which Azure has returned when there are no events."""
    UNREADABLE = "unreadable"
    """200 without a readable document."""
    REDIRECT = "http_3xx"
    """Redirects are not followed: no other server may answer for the endpoint."""
    CLIENT_ERROR = "http_4xx"
    TOO_MANY = "http_429"
    SERVER_ERROR = "http_5xx"
    STRANGE = "http_other"
    """Any other success status, or an unexpected 304."""
    FAULT = "fault"
    """A bug in the agent; see its log."""


Outcome = Union[Result, Trouble]
"""The result of a poll, or why there is no answer at all."""

OUTCOMES: tuple[Outcome, ...] = (*Result, *Trouble)


@frozen_dataclass
class PollResult:
    """The result of one poll, with its document."""

    result: Outcome
    reading: Reading | None = None
    """The current document, if it is known."""
    is_changed: bool = False
    """The document differs from the last one."""
    detail: str = ""
    """The problem, for a person."""
    retry_after: Micros = 0


class Endpoint:
    """A conversation with the endpoint at any of its possible addresses."""

    def __init__(
        self,
        find: Callable[[], Sequence[str]],
        *,
        clock: Clock,
        ca_file: str = "",
    ) -> None:
        """Poll the URLs that `find` returns, one after another until one answers.

        `find` is called again when none has answered. It returns at least one URL, and
        `parse_url` accepts each of them.
        """
        self._find = find
        self._clock = clock
        self._ca_file = ca_file
        self._urls: Iterator[str] = iter(())
        """The URLs that are left to try."""
        self.url = ""
        """The URL that is polled now."""
        self._answered: float | None = None
        """When the endpoint last returned a document, in seconds of the monotonic
        clock."""
        self._is_stopped = False
        self._client = self._connect_next()
        self.version = versions.NEWEST.name
        """The api-version in use."""
        self.longest_wait: Micros = 0
        """The longest wait for a change that the endpoint offers; 0: none."""
        self._tag: str | None = None
        self._trusts_tags = True
        self._tagged: tuple[str, bytes] | None = None
        self._body: bytes | None = None
        self._reading: Reading | None = None
        self._spelled: dict[str, str] = {}
        self._knows_push = False
        self._instance_version = INSTANCE_VERSION

    def ask(
        self, *, timeout: Micros, wait: Micros = 0, full: bool = False
    ) -> PollResult:
        """Get the document once.

        If the endpoint offers a wait for changes, it waits up to `wait`, in whole
        seconds. With `full`, the document is returned even if it has not changed. If
        the endpoint does not know the version, the agent repeats the request at once
        with a common version.
        """
        now, answered = self._clock.monotonic(), self._answered
        if answered is not None and (now - answered) * SECOND > TAG_LASTS:
            # After this time, another endpoint may answer.
            self._restart(versions.NEWEST.name)
            self._answered = None
        try:
            answer = self._get(timeout=timeout, wait=wait, full=full)
            other = refusals.version_for(answer, refused=self.version, known=_KNOWN)
            if other is not None:
                self._restart(other)
                answer = self._get(timeout=timeout, wait=0, full=True)
        except HttpError as error:
            return self._failed(error.trouble, error.message)
        response = self._take(answer)
        if response.reading is None:
            return self._failed(response.result, response.detail, response.retry_after)
        self._answered = self._clock.monotonic()
        return response

    def approve(self, event_id: str, *, timeout: Micros) -> ApprovalResult:
        """Send the approval of one event (clause 3.1) over a separate connection.

        WANTED means that the result is unknown. The approval must then be sent again,
        which is harmless (clause 3.2). REFUSED has the endpoint's message.
        """
        spelled = self._spelled.get(event_id, event_id)
        body = json.dumps(
            {"StartRequests": [{"EventId": spelled}]}, separators=(",", ":")
        ).encode("ascii")
        url = parse_url(self.url)
        client = Client(url, clock=self._clock, ca_file=self._ca_file)
        version = self.version
        ends = self._clock.monotonic() + timeout / SECOND

        def post(version: str, timeout: Micros) -> Answer:
            headers = (_METADATA, ("Content-Type", "application/json"))
            return client.send(
                "POST",
                _target(url, EVENTS_PATH, version),
                body,
                headers=headers,
                timeout=timeout,
            )

        try:
            answer = post(version, timeout)
            other = refusals.version_for(answer, refused=version, known=_KNOWN)
            if other is not None:
                left = round((ends - self._clock.monotonic()) * SECOND)
                answer = post(other, max(left, SHORT_TIMEOUT))
        except HttpError as error:
            return ApprovalResult(
                event_id=event_id, consent=Consent.WANTED, detail=error.message
            )
        return refusals.judge(event_id, answer)

    def instance_name(self, *, timeout: Micros = NAME_TIMEOUT) -> str | None:
        """Return this VM's name at the instance endpoint; None: unknown."""
        try:
            answer = self._get_instance(timeout)
            offered = refusals.newest_versions(answer)
            if answer.status == _BAD_REQUEST and offered:
                if self._instance_version in offered:
                    return None
                # The name is in every version, so any that the endpoint knows will do.
                self._instance_version = offered[0]
                answer = self._get_instance(timeout)
        except HttpError:
            return None
        return _name_in(answer)

    def interrupt(self) -> None:
        """Stop for good, even if another thread is waiting for a poll."""
        self._is_stopped = True
        self._client.interrupt()

    def close(self) -> None:
        """Close the kept connection, after polling has ended."""
        self._client.close()

    # Requests

    def _get(self, *, timeout: Micros, wait: Micros, full: bool) -> Answer:
        # Even with a wait of 0, the endpoint reports the waits that it offers.
        query = f"&wait={0 if full else wait // SECOND}" if self._knows_push else ""
        headers: list[tuple[str, str]] = [_METADATA]
        if self._tag is not None and not full:
            headers.append(("If-None-Match", self._tag))
        target = _target(self._client.url, EVENTS_PATH, self.version) + query
        return self._client.get(target, headers=headers, timeout=timeout)

    def _get_instance(self, timeout: Micros) -> Answer:
        return self._client.get(
            _target(self._client.url, INSTANCE_PATH, self._instance_version),
            headers=(_METADATA,),
            timeout=timeout,
        )

    def _take(self, answer: Answer) -> PollResult:
        """Return the result of an answer, and keep its document, if any."""
        if answer.status == _NOT_MODIFIED and self._tag is not None:
            self._hear_offer(answer)
            return PollResult(result=Result.UNCHANGED, reading=self._reading)
        if answer.status != _OK:
            return PollResult(
                result=_result_of(answer.status),
                detail=refusals.sentence_of(answer),
                retry_after=refusals.retry_after(answer),
            )
        if is_empty(answer.body):
            return self._take_empty()
        is_changed = answer.body != self._body
        if is_changed:
            try:
                reading = decode(answer.body, underscored=self.version in _UNDERSCORED)
            except UnreadableError as error:
                return PollResult(result=Result.UNREADABLE, detail=error.message)
            self._body, self._reading = answer.body, reading
            self._spelled = {
                notice.event_id: notice.id_on_wire for notice in reading.notices
            }
        self._take_tag(answer)
        self._hear_offer(answer)
        return PollResult(
            result=Result.OK, reading=self._reading, is_changed=is_changed
        )

    def _take_empty(self) -> PollResult:
        """Return the result of an empty body: no events, and no tag for the next
        poll."""
        was_empty = self._reading is not None and self._reading.is_empty
        self._tag = self._tagged = self._body = None
        self.longest_wait = 0
        self._reading = _EMPTY
        return PollResult(result=Result.EMPTY, reading=_EMPTY, is_changed=not was_empty)

    def _take_tag(self, answer: Answer) -> None:
        """Store the tag for the next poll, if the endpoint's tags are reliable.

        If two different documents had the same tag, a later 304 could mean either of
        them. This also happens if a document was corrupted on its way and kept its tag.
        """
        has_warnings = self._reading is not None and bool(self._reading.warnings)
        tag = answer.header("etag")
        if self._tagged is not None and self._tagged[0] == tag:
            same = self._tagged[1] == answer.body
            self._trusts_tags = self._trusts_tags and same
        self._tagged = None if tag is None else (tag, answer.body)
        self._tag = tag if self._trusts_tags and not has_warnings else None

    def _hear_offer(self, answer: Answer) -> None:
        self._knows_push = answer.header("server") == _SERVER
        offered = answer.header("forewarn-wait")
        is_offered = self._knows_push and self._tag is not None
        self.longest_wait = refusals.seconds_in(offered) * SECOND if is_offered else 0

    # State

    def _failed(
        self, result: Outcome, detail: str, retry_after: Micros = 0
    ) -> PollResult:
        """Reset the state that depends on the last answer, and try the next address."""
        # The next document is needed in full, even if it has not changed.
        self._tag = None
        self.longest_wait = 0
        if self._answered is None and result is not Trouble.STOPPED:
            self._client.close()
            self._client = self._connect_next()
        return PollResult(result=result, detail=detail, retry_after=retry_after)

    def _restart(self, version: str) -> None:
        """Reset the state after a change of the version or a long silence."""
        self.version = version
        self._tag = self._tagged = self._body = None
        self._trusts_tags = True
        self.longest_wait = 0

    def _connect_next(self) -> Client:
        """Return a client for the next address, or for the first one of a new
        search."""
        url = next(self._urls, None)
        if url is None:
            self._urls = iter(self._find())
            url = next(self._urls)
        # Set at once, since other threads read it for approvals.
        self.url = url
        client = Client(parse_url(self.url), clock=self._clock, ca_file=self._ca_file)
        if self._is_stopped:
            client.interrupt()
        return client


def _target(url: Url, path: str, version: str) -> str:
    """Return the target of a request, relative to the path of the endpoint's URL."""
    prefix = url.target.partition("?")[0].rstrip("/")
    return f"{prefix}{path}?api-version={version}"


def _result_of(status: int) -> Result:
    exact = {_TOO_MANY: Result.TOO_MANY, _NOT_MODIFIED: Result.STRANGE}
    by_class = {3: Result.REDIRECT, 4: Result.CLIENT_ERROR, 5: Result.SERVER_ERROR}
    return exact.get(status) or by_class.get(status // 100, Result.STRANGE)


def _name_in(answer: Answer) -> str | None:
    """Return `compute.name` from an answer of the instance endpoint."""
    if answer.status != _OK:
        return None
    instance = json_members(answer.body) or {}
    name = members(instance.get("compute")).get("name")
    if not isinstance(name, str):
        return None
    name = name.strip()
    return name if 0 < len(name) <= NAME_MAX and name.isprintable() else None
