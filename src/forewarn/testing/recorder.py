"""Polls an endpoint and writes changes as lines of a recording.

It only reads and never approves an event. It records failures too, and continues to
poll. The caller waits between polls and stores the lines; the clock is an argument.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from forewarn.clock import Clock
from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.sim.recording import Answer, Header, Moment, Outcome, Writer
from forewarn.testing.asking import is_unchanged

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
        self._tagged: Answer | None = None
        """The last answer with an ETag."""
        self._trusts_tags = True
        self._last: Outcome | None = None
        self._same = 0
        self._same_at: Micros = 0
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
            self._count(at)
        else:
            moment = self._take(outcome, at=at, took=at - begins)
        pause = max(self._poll - (at - begins), 0)
        return Polled(
            moment=moment,
            polls=self.polls,
            pause_seconds=max(pause, _asked_to_wait(outcome)) / SECOND,
        )

    def end(self, why: str) -> None:
        """Write the last lines."""
        self._write_same()
        self._write(self._writer.end(self._pass_time(), why))

    def _take(self, outcome: Outcome, *, at: Micros, took: Micros) -> Moment | None:
        if isinstance(outcome, Answer) and outcome.status == HTTPStatus.OK:
            self._etag = self._tag(outcome)
        if outcome == self._last:
            self._count(at)
            return None
        self._write_same()
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

    def _tag(self, answer: Answer) -> str | None:
        """Return the ETag for the next request, if ETags can be trusted.

        If an endpoint has used one ETag for two contents, its 304 has no clear meaning.
        """
        etag = answer.header("etag")
        before = self._tagged
        if before is not None and etag == before.header("etag"):
            self._trusts_tags = self._trusts_tags and answer.body == before.body
        if etag is not None:
            self._tagged = answer
        return etag if self._trusts_tags else None

    def _count(self, at: Micros) -> None:
        self._same += 1
        self._same_at = at
        if at - self._line_at >= HEARTBEAT:
            self._write_same()

    def _write_same(self) -> None:
        if self._same:
            self._write(self._writer.same(self._same_at, self._same))
            self._line_at = self._same_at
            self._same = 0

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


def _asked_to_wait(outcome: Outcome) -> Micros:
    """Return the wait that Retry-After demands."""
    if not isinstance(outcome, Answer):
        return 0
    found = _DELAY.fullmatch(outcome.header("retry-after") or "")
    return min(int(found[1]) * SECOND, RETRY_AFTER_MAX) if found else 0
