"""Watches an endpoint and tells what changes, as lines of a recording.

It only reads: nothing is ever approved. It takes whatever comes, failures too, and
polls on. Who holds it waits between polls and keeps the lines; the clock is given.
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
"""How often a line says that nothing has changed: a longer gap is a gap."""

TIMEOUT: Micros = 10 * SECOND
"""For an answer, unless somebody says otherwise: what clients have."""

FIRST_TIMEOUT: Micros = 130 * SECOND
"""For answers until there was one: the first may take two minutes (clause 7.1)."""

RETRY_AFTER_MAX: Micros = 5 * MINUTE
"""Nobody waits longer because an endpoint says so: it would miss an event."""

STANDSTILL_MIN: Micros = SECOND // 2
STANDSTILL_MAX: Micros = 15 * MINUTE
"""How far the wall clock must and may be ahead of the monotonic one to be believed. A
VM that was frozen finds it so; a clock that is set for the first time is further."""

_DELAY = re.compile(r"\s*(\d{1,9})\s*")


class Endpoint(Protocol):
    """Who is asked."""

    def ask(self, *, etag: str | None, timeout_seconds: float) -> Outcome:
        """Ask once for the document; whatever happens is an outcome."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """What one poll gave."""

    moment: Moment | None
    """As it was written; None: nothing new."""
    polls: int
    """How often the endpoint was asked in all."""
    pause_seconds: float
    """Until the next poll is due."""


class Recorder:
    """Records one endpoint."""

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
        """Write the first line now; `hide` rewrites outcomes before they are kept.

        `write` makes a line lasting; what it raises ends a poll.
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
        """The last answer that had a tag."""
        self._trusts_tags = True
        self._last: Outcome | None = None
        self._same = 0
        self._same_at: Micros = 0
        self._line_at: Micros = 0
        self.polls = 0
        self.different = 0
        """Lines of an outcome that was not the one before."""
        self.answers = 0
        """Polls that were answered, in whatever way."""
        write(self._writer.header(header))

    @property
    def at(self) -> Micros:
        """Return how long it has been recording."""
        return self._at

    def poll(self) -> Polled:
        """Ask once, and write what is to be written."""
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
        self._tell_same()
        self._write(self._writer.end(self._pass_time(), why))

    def _take(self, outcome: Outcome, *, at: Micros, took: Micros) -> Moment | None:
        if isinstance(outcome, Answer) and outcome.status == HTTPStatus.OK:
            self._etag = self._tag(outcome)
        if outcome == self._last:
            self._count(at)
            return None
        self._tell_same()
        self._last = outcome
        if not isinstance(outcome, Answer) or outcome.status != HTTPStatus.OK:
            # What it says next is wanted in full, even if it is what was there.
            self._etag = None
        shown = outcome if self._hide is None else self._hide(outcome)
        moment = Moment(at=at, outcome=shown, took=took)
        self._write(self._writer.moment(moment))
        self.different += 1
        self._line_at = at
        return moment

    def _tag(self, answer: Answer) -> str | None:
        """Return the tag to ask with next, if tags can be trusted.

        An endpoint that has given two contents one tag may answer 304 for either.
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
            self._tell_same()

    def _tell_same(self) -> None:
        if self._same:
            self._write(self._writer.same(self._same_at, self._same))
            self._line_at = self._same_at
            self._same = 0

    def _pass_time(self) -> Micros:
        """Return the time since the start, which never goes back.

        The monotonic clock may stand still while the VM does, and then the wall
        clock is right. Otherwise the wall clock may be set by anybody.
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
    """Return how long the endpoint wants to be left alone."""
    if not isinstance(outcome, Answer):
        return 0
    found = _DELAY.fullmatch(outcome.header("retry-after") or "")
    return min(int(found[1]) * SECOND, RETRY_AFTER_MAX) if found else 0
