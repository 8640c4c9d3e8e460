"""Polls an endpoint and writes changes as lines of a recording.

An `Asker` sends one request and returns every outcome as a value: no answer, single bytes,
a stop in the middle, other protocols, endless data. It uses only the standard library.

It only reads and never approves an event. It records failures too, and continues to
poll. The caller waits between polls and stores the lines; the clock is an argument.
"""

import errno
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from forewarn.clock import Clock
from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.sim.recording import (
    STATUS_MAX,
    STATUS_MIN,
    Answer,
    Failed,
    Failure,
    Header,
    Moment,
    Outcome,
    Writer,
    is_value,
    usual_reason,
)
from forewarn.testing.answers import Answer as HttpAnswer
from forewarn.testing.answers import BrokenAnswerError, How, NotHttpError
from forewarn.testing.client import (
    CLOCK,
    EVENTS_PATH,
    Headers,
    Wire,
    connect,
    head,
    host_and_port,
    host_header,
)

NAME_TARGET = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
NAME_MAX = 100
"""Maximum length of a VM's name, in characters: Azure's have at most 64."""

HEADERS = frozenset(
    {
        "allow",
        "content-encoding",
        "content-length",
        "content-type",
        "etag",
        "retry-after",
        "server",
    }
)
"""Headers that a recording keeps: those that clients read, and the name of the server.
Other headers differ from answer to answer (Date) or belong to the connection."""

_UNREACHABLE = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}
)


class Asker:
    """Requests the document of the endpoint at a URL, each time on a new connection."""

    def __init__(self, url: str, *, api_version: str) -> None:
        """Use the host and port of `url`; raises ValueError."""
        self._host, self._port = host_and_port(url)
        self._target = f"{EVENTS_PATH}?api-version={api_version}"

    def name(self, *, timeout_seconds: float) -> str:
        """Return the VM's name from the instance endpoint; empty if it has none."""
        outcome = self._ask(NAME_TARGET, {}, timeout_seconds)
        if not isinstance(outcome, Answer) or outcome.status != HTTPStatus.OK:
            return ""
        name = outcome.body.decode("utf-8", "replace").strip()
        return name if name.isprintable() and len(name) <= NAME_MAX else ""

    def ask(self, *, etag: str | None, timeout_seconds: float) -> Outcome:
        """Send one request. With `etag`, the answer can be 304."""
        headers = {} if etag is None else {"If-None-Match": etag}
        return self._ask(self._target, headers, timeout_seconds)

    def _ask(
        self, target: str, headers: dict[str, str], timeout_seconds: float
    ) -> Outcome:
        sent = (("Accept-Encoding", "identity"), ("Metadata", "true"), *headers.items())
        try:
            answer = self._exchange(target, sent, timeout_seconds)
        except BrokenAnswerError as error:
            return Failed(failure=_BROKEN[error.how], detail=_detail(error))
        except NotHttpError:
            return Failed(failure=Failure.STRANGE, detail="no HTTP")
        except TimeoutError:
            return Failed(failure=Failure.TIMEOUT)
        except ConnectionRefusedError:
            return Failed(failure=Failure.REFUSED)
        except ConnectionError as error:
            return Failed(failure=Failure.RESET, detail=error.strerror or str(error))
        except OSError as error:
            return _unreachable(error)
        return _recorded(answer)

    def _exchange(
        self, target: str, headers: Headers, timeout_seconds: float
    ) -> HttpAnswer:
        ends = CLOCK.monotonic() + timeout_seconds
        host = host_header(self._host, self._port)
        request = head("GET", target, host, headers, None)
        wire = Wire(
            connect(self._host, self._port, timeout_seconds),
            answer_seconds=timeout_seconds,
            ends=ends,
        )
        try:
            wire.send(request, seconds=max(ends - CLOCK.monotonic(), 0.001))
            return wire.receive(wire.reader("GET"), seconds=timeout_seconds)
        finally:
            wire.close()


_BROKEN = {
    How.CUT: Failure.RESET,
    How.MALFORMED: Failure.STRANGE,
    How.TOO_LONG: Failure.STRANGE,
    How.TOO_SLOW: Failure.TIMEOUT,
}


def _detail(error: BrokenAnswerError) -> str:
    """Return a constant description of a defect: a recording shows changes only."""
    cause = error.__cause__
    if isinstance(cause, OSError):
        return cause.strerror or ""
    return "" if error.how is How.TOO_SLOW else error.what


def _recorded(answer: HttpAnswer) -> Outcome:
    """Return the parts of an answer that a recording keeps."""
    if not STATUS_MIN <= answer.status <= STATUS_MAX:
        return Failed(failure=Failure.STRANGE, detail=f"status {answer.status}")
    reason = answer.reason
    is_usual = reason == usual_reason(answer.status) or not is_value(reason)
    return Answer(
        status=answer.status,
        reason="" if is_usual else reason,
        headers=tuple(
            (name, value)
            for name, value in answer.headers
            if name.lower() in HEADERS and is_value(value)
        ),
        body=answer.body,
    )


def _unreachable(error: OSError) -> Failed:
    is_known = isinstance(error, socket.gaierror) or error.errno in _UNREACHABLE
    failure = Failure.UNREACHABLE if is_known else Failure.RESET
    return Failed(failure=failure, detail=error.strerror or str(error))


def is_unchanged(outcome: Outcome) -> bool:
    """Return whether an answer is 304 (Not Modified)."""
    return isinstance(outcome, Answer) and outcome.status == HTTPStatus.NOT_MODIFIED


HEARTBEAT: Micros = MINUTE
"""Maximum time between two lines if nothing changes. A longer gap means that the
recorder did not run."""

TIMEOUT: Micros = 10 * SECOND
"""Default timeout of an answer: the usual timeout of clients."""

FIRST_TIMEOUT: Micros = 130 * SECOND
"""Minimum timeout until the first answer, which may take two minutes (clause 7.1)."""

RETRY_AFTER_MAX: Micros = 5 * MINUTE
"""Maximum wait that an endpoint can demand: the recorder must not miss an event."""

STANDSTILL_MIN: Micros = SECOND // 2
STANDSTILL_MAX: Micros = 15 * MINUTE
"""Minimum and maximum by which the wall clock must be ahead of the monotonic clock to
be used. After a freeze of the VM it is ahead by that much. A clock that is set for the
first time is further ahead."""

_DELAY = re.compile(r"\s*(\d{1,9})\s*")


class Endpoint(Protocol):
    """An endpoint to record."""

    def ask(self, *, etag: str | None, timeout_seconds: float) -> Outcome:
        """Request the document once; every result is an outcome."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """The result of one poll."""

    moment: Moment | None
    """The moment that was written; None if nothing changed."""
    polls: int
    """Number of polls so far."""
    pause_seconds: float
    """Time until the next poll is due."""


class Recorder:
    """A recorder of one endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clock: Clock,
        write: Callable[[str], None],
        header: Header,
        timeout: Micros = TIMEOUT,
        hide: Callable[[Outcome], Outcome] | None = None,
    ) -> None:
        """Write the first line now; `hide` rewrites outcomes before they are recorded.

        `write` stores a line durably. An exception from it ends a poll.
        """
        self._endpoint = endpoint
        self._clock = clock
        self._write = write
        self._poll = header.poll
        self._timeout = timeout
        self._hide = hide
        self._writer = Writer()
        self._wall = clock.now()
        self._monotonic = clock.monotonic()
        self._at: Micros = 0
        self._etag: str | None = None
        self._last_with_etag: Answer | None = None
        """The last answer that had an ETag."""
        self._trusts_etags = True
        self._last: Outcome | None = None
        self._repeats = 0
        self._last_repeat_at: Micros = 0
        self._line_at: Micros = 0
        self.polls = 0
        self.different = 0
        """Number of lines whose outcome differs from the one before."""
        self.answers = 0
        """Number of polls that got an answer with any status."""
        write(self._writer.header(header))

    @property
    def at(self) -> Micros:
        """Return the length of the recording so far."""
        return self._at

    def poll(self) -> Polled:
        """Poll once and write a line if the outcome is new."""
        begins = self._pass_time()
        timeout = self._timeout if self.answers else max(self._timeout, FIRST_TIMEOUT)
        outcome = self._endpoint.ask(etag=self._etag, timeout_seconds=timeout / SECOND)
        at = self._pass_time()
        self.polls += 1
        self.answers += isinstance(outcome, Answer)
        moment = None
        if is_unchanged(outcome) and self._etag is not None:
            self._count_repeat(at)
        else:
            moment = self._record(outcome, at=at, took=at - begins)
        pause = max(self._poll - (at - begins), 0)
        return Polled(
            moment=moment,
            polls=self.polls,
            pause_seconds=max(pause, _retry_after(outcome)) / SECOND,
        )

    def end(self, why: str) -> None:
        """Write the last lines."""
        self._write_repeats()
        self._write(self._writer.end(self._pass_time(), why))

    def _record(self, outcome: Outcome, *, at: Micros, took: Micros) -> Moment | None:
        if isinstance(outcome, Answer) and outcome.status == HTTPStatus.OK:
            self._etag = self._etag_to_send(outcome)
        if outcome == self._last:
            self._count_repeat(at)
            return None
        self._write_repeats()
        self._last = outcome
        if not isinstance(outcome, Answer) or outcome.status != HTTPStatus.OK:
            # Request the full document next time, even if it has not changed.
            self._etag = None
        shown = outcome if self._hide is None else self._hide(outcome)
        moment = Moment(at=at, outcome=shown, took=took)
        self._write(self._writer.moment(moment))
        self.different += 1
        self._line_at = at
        return moment

    def _etag_to_send(self, answer: Answer) -> str | None:
        """Return the ETag for the next request, if ETags can be trusted.

        If an endpoint has used one ETag for two contents, its 304 has no clear meaning.
        """
        etag = answer.header("etag")
        last = self._last_with_etag
        if last is not None and etag == last.header("etag"):
            self._trusts_etags = self._trusts_etags and answer.body == last.body
        if etag is not None:
            self._last_with_etag = answer
        return etag if self._trusts_etags else None

    def _count_repeat(self, at: Micros) -> None:
        self._repeats += 1
        self._last_repeat_at = at
        if at - self._line_at >= HEARTBEAT:
            self._write_repeats()

    def _write_repeats(self) -> None:
        if self._repeats:
            self._write(self._writer.same(self._last_repeat_at, self._repeats))
            self._line_at = self._last_repeat_at
            self._repeats = 0

    def _pass_time(self) -> Micros:
        """Return the time since the start, which never goes back.

        While the VM is frozen, the monotonic clock may stop; then the wall clock is
        right. In all other cases the wall clock may have been set and is not used.
        """
        wall, monotonic = self._clock.now(), self._clock.monotonic()
        passed = round((monotonic - self._monotonic) * SECOND)
        by_wall = wall - self._wall
        if STANDSTILL_MIN <= by_wall - passed <= STANDSTILL_MAX:
            passed = by_wall
        self._wall, self._monotonic = wall, monotonic
        self._at += passed
        return self._at


def _retry_after(outcome: Outcome) -> Micros:
    """Return the wait that Retry-After demands."""
    if not isinstance(outcome, Answer):
        return 0
    delay = _DELAY.fullmatch(outcome.header("retry-after") or "")
    return min(int(delay[1]) * SECOND, RETRY_AFTER_MAX) if delay else 0
