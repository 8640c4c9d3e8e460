"""Poll the endpoint in a separate thread, and send documents to the main loop.

Polling never stops: errors of the endpoint and bugs in the agent are counted, logged
once, and survived (clause 8.1). An unchanged document is not sent again, unless the
main loop needs repeated answers to decide that an event has ended. This module does not
know what is done about an event.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Protocol

from forewarn.agent.core import names, polling
from forewarn.agent.core.model import Polled
from forewarn.agent.core.polling import Course, Pace
from forewarn.agent.wire.answers import Trouble
from forewarn.agent.wire.endpoint import OUTCOMES, Outcome, PollResult, Result
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.notices import Reading

logger = logging.getLogger("forewarn.agent.watcher")

ALIVE_GRACE: Micros = 30 * SECOND
"""Time after the maximum duration of an iteration until the thread counts as stopped.
The machine may be busy, or may have been suspended."""

NAMES_KNOWN_MAX = 10_000
"""Maximum number of names of other VMs in the list. A full list is cleared."""

_GOOD = frozenset({Result.OK, Result.UNCHANGED, Result.EMPTY})


class Port(Protocol):
    """The endpoint: `wire.endpoint.Endpoint`, or a fake of it."""

    url: str
    """The URL that is polled now."""
    version: str
    """The api-version in use."""
    longest_wait: Micros
    """The longest wait for a change that it offers; 0: none."""

    def ask(
        self, *, timeout: Micros, wait: Micros = 0, full: bool = False
    ) -> PollResult:
        """Get the document once."""
        ...

    def instance_name(self, *, timeout: Micros = polling.NAME_TIMEOUT) -> str | None:
        """Return this VM's name; None: unknown."""
        ...

    def interrupt(self) -> None:
        """Stop for good, even if another thread is waiting."""
        ...


@frozen_dataclass
class Watched:
    """The state of polling, for status, metrics and health; replaced as a whole."""

    url: str = ""
    version: str = ""
    polls: Mapping[Outcome, int] = field(default_factory=dict[Outcome, int])
    """The number of polls with each result, including zeros."""
    failures: int = 0
    """Failures in a row."""
    last: Outcome | None = None
    detail: str = ""
    """The problem of the last poll; empty: none."""
    answered: Micros = 0
    """When the last good answer came; 0: never."""
    answered_seconds: float | None = None
    """When the last good answer came, in seconds of the monotonic clock; None:
    never."""
    incarnation: int | None = None
    events: int = 0
    """Events in the last good document, including those of other VMs."""
    name: str = ""
    """This VM's name by the endpoint or the settings; empty: unknown."""
    former: str = ""
    """This VM's name before the endpoint returned another one; empty: none."""
    waits: bool = False
    """The endpoint is asked to wait for a change."""
    warnings: tuple[str, ...] = ()
    """The warnings about the last document."""
    alive_until: float = 0.0
    """When the thread must have run again, in seconds of the monotonic clock."""


class Watcher:
    """Polls one endpoint."""

    def __init__(
        self,
        endpoint: Port,
        *,
        pace: Pace,
        clock: Clock,
        tell: Callable[[Polled], None],
        name: str = "",
        has_answered: bool = False,
        wanted: Callable[[], bool] = lambda: False,
        chance: Callable[[], float] | None = None,
        known: Watched | None = None,
        called: str = "",
    ) -> None:
        """Store the parameters; `tell` gets each document and must not block.

        `wanted` returns whether an unchanged document is needed too. `name` is the name
        in the settings; if it is set, the watcher does not use the instance endpoint.
        `has_answered` is true if the endpoint has answered an earlier agent, so the
        first request gets no long timeout. `known` is the state of the previous watcher
        of this endpoint in this process. `called` is this VM's name in the journal.
        """
        self._endpoint = endpoint
        self._pace = pace
        self._clock = clock
        self._tell = tell
        self._wanted = wanted
        self._is_named = bool(name)
        self._chance = chance or _chance
        self._called = called
        now = clock.monotonic()
        before = known or Watched(polls=dict.fromkeys(OUTCOMES, 0))
        has_answered = has_answered or before.answered_seconds is not None
        self._known = now if has_answered else None
        """When the endpoint last answered, or the start if it has not answered
        since."""
        self._heard: Micros = 0
        """How long the endpoint has answered since the start."""
        self._heard_at: float | None = None
        """When the last good answer came; None: never."""
        self._took: Micros = 0
        self._full_at = now
        self._name_at = now
        self._name_failures = 0
        self._others: set[str] = set()
        self._reading: Reading | None = None
        self._repeats = 0
        """How often the same document must be sent again."""
        self._is_stopped = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self.view = replace(
            before,
            url=endpoint.url,
            version=endpoint.version,
            name=name or before.name,
            waits=False,
            alive_until=now + ALIVE_GRACE / SECOND,
        )

    # The thread

    def start(self) -> None:
        """Start polling."""
        assert self._thread is None, "it runs already"
        thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        thread.start()
        # A thread that has not started would count as ended.
        self._thread = thread

    def stop(self, *, timeout_seconds: float = 2.0) -> None:
        """Stop, even during a poll."""
        self._is_stopped = True
        self._endpoint.interrupt()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def is_alive(self) -> bool:
        """Return whether the thread works, even if the endpoint is down (`/healthz`).

        A thread that was asked to stop counts as working.
        """
        thread = self._thread
        is_over = thread is not None and not thread.is_alive()
        return (
            not is_over or self._is_stopped
        ) and self._clock.monotonic() <= self.view.alive_until

    def age(self) -> Micros | None:
        """Return the age of the last good answer; None: there was none."""
        answered = self.view.answered_seconds
        return None if answered is None else self._since(answered)

    def _run(self) -> None:
        while not self._is_stopped:
            self._wake.wait(self.turn() / SECOND)
            self._wake.clear()

    # One iteration

    def turn(self) -> Micros:
        """Poll once and send the document if needed; return the pause until the next
        poll."""
        began = self._clock.monotonic()
        course = self._course()
        full = began >= self._full_at
        is_awaited = self._repeats > 0 or self._wanted()
        longest = min(self._pace.wait, self._endpoint.longest_wait)
        wait = 0 if full or is_awaited else longest
        timeout = polling.timeout(self._pace, course, wait=wait)
        # Two requests, in case of another version, and then those for the name.
        self._show_alive(2 * timeout + 2 * polling.NAME_TIMEOUT)
        try:
            response = self._endpoint.ask(timeout=timeout, wait=wait, full=full)
            took = self._since(began)
            self._count(response, waits=wait > 0)
            if response.reading is not None:
                self._good(
                    response, response.reading, took=0 if wait else took, full=full
                )
        except Exception:
            # Whatever happened, polling must continue.
            logger.exception("a poll failed because of a bug in the agent")
            # The main loop may not have the document, so the next one is sent in any
            # case.
            self._reading = None
            response = PollResult(
                result=Result.FAULT, detail="a bug in the agent; see its log"
            )
            self._count(response, waits=False)
        pause = polling.pause(
            self._pace,
            self._course(),
            took=self._since(began),
            jitter=self._chance(),
            retry_after=response.retry_after,
        )
        self._show_alive(pause)
        return pause

    def _good(
        self, response: PollResult, reading: Reading, *, took: Micros, full: bool
    ) -> None:
        now = self._clock.monotonic()
        if self._known is not None and self._since(self._known) > polling.TAG_LASTS:
            # After a gap this may be another VM: a copy, or a restored one.
            self._name_at = now
        # A partial document is not evidence that an event has ended.
        if self._heard_at is not None and not reading.is_partial:
            self._heard += polling.heard(self._pace, self._since(self._heard_at))
        self._known = self._heard_at = now
        self._took = took
        if full or response.result is Result.OK:
            self._full_at = now + polling.FULL_EVERY / SECOND
        is_new = response.is_changed or self._reading is None
        self._reading = reading
        if is_new:
            self._show_document(reading)
            has_new_names = self._has_new_names(reading)
            # Read this VM's name first, unless an event names the VM by its last known
            # name.
            name = self.view.name
            if not any(names.is_named(notice, name) for notice in reading.notices):
                self._read_name(at_once=has_new_names)
            self._report(reading)
            self._repeats = 1
        elif self._read_name() or self._repeats or self._wanted():
            self._repeats = 0
            self._report(reading)

    def _report(self, reading: Reading) -> None:
        self._tell(
            Polled(
                notices=reading.notices,
                name=self.view.name,
                incarnation=reading.incarnation,
                is_partial=reading.is_partial,
                vague=reading.vague,
                is_empty=reading.is_empty,
                heard=self._heard,
            )
        )

    def _course(self) -> Course:
        since = None if self._known is None else self._since(self._known)
        return Course(failures=self.view.failures, since_answer=since, took=self._took)

    # The name

    def _has_new_names(self, reading: Reading) -> bool:
        """Return whether a document names new VMs."""
        named = {name for notice in reading.notices for name in notice.resources}
        new = named - self._others
        if len(self._others) > NAMES_KNOWN_MAX:
            self._others.clear()
        self._others |= new
        return bool(new)

    def _read_name(self, *, at_once: bool = False) -> bool:
        """Read this VM's name if it is time; return whether it has changed."""
        now = self._clock.monotonic()
        if self._is_named or (now < self._name_at and not at_once):
            return False
        name = self._endpoint.instance_name()
        self._name_failures = 0 if name else self._name_failures + 1
        pause = polling.name_pause(failures=self._name_failures)
        self._name_at = self._clock.monotonic() + pause / SECOND
        if name is None:
            if self._name_failures == 1 and not self.view.name:
                logger.warning("the endpoint does not return this VM's name")
            return False
        if name == self.view.name:
            return False
        before = self.view.name or self._called
        if before and not names.is_same(before, name):
            logger.warning("%s", renamed(before, name))
            self._show(name=name, former=before)
            return True
        logger.info("this VM's name is %s", name)
        self._show(name=name)
        return True

    # The published state

    def _count(self, response: PollResult, *, waits: bool) -> None:
        polls = self.view.polls
        self._show(polls={**polls, response.result: polls[response.result] + 1})
        if response.result is Trouble.STOPPED:
            # This says nothing about the endpoint.
            return
        is_good = response.result in _GOOD
        failures = 0 if is_good else self.view.failures + 1
        self._tell_log(response, failures)
        before = self.view
        self._show(
            answered=self._clock.now() if is_good else before.answered,
            answered_seconds=(
                self._clock.monotonic() if is_good else before.answered_seconds
            ),
            url=self._endpoint.url,
            version=self._endpoint.version,
            failures=failures,
            last=response.result,
            detail="" if is_good else response.detail,
            waits=waits,
        )

    def _tell_log(self, response: PollResult, failures: int) -> None:
        before = self.view
        if failures == 0:
            if before.answered_seconds is None:
                logger.info(
                    "the endpoint at %s answers, version %s",
                    self._endpoint.url,
                    self._endpoint.version,
                )
            elif before.failures:
                logger.info(
                    "the endpoint at %s answers again after %s failed polls",
                    self._endpoint.url,
                    before.failures,
                )
        elif failures == 1 or (before.last, before.detail) != (
            response.result,
            response.detail,
        ):
            logger.warning(
                "the endpoint returned no document: %s",
                response.detail or response.result.value,
            )

    def _show_document(self, reading: Reading) -> None:
        if reading.is_empty:
            logger.info("the endpoint returns an empty body, so there are no events")
        for warning in reading.warnings:
            if warning not in self.view.warnings:
                logger.warning("a document has a problem: %s", warning)
        self._show(
            incarnation=reading.incarnation,
            events=len(reading.notices),
            warnings=reading.warnings,
        )

    def _show_alive(self, takes: Micros) -> None:
        self._show(alive_until=self._clock.monotonic() + (takes + ALIVE_GRACE) / SECOND)

    def _show(self, **changes: object) -> None:
        self.view = replace(self.view, **changes)

    def _since(self, seconds: float) -> Micros:
        return round((self._clock.monotonic() - seconds) * SECOND)


def renamed(before: str, name: str) -> str:
    """Return the warning about a VM whose name has changed."""
    return (
        f"the name of this VM was {before}, and the endpoint now returns {name}: is it a "
        f"copy of that VM, or does another endpoint answer? Events that name only "
        f"{before} are no longer approved. Handlers that prepared for them recover when "
        "they end. Set `name` if the name is wrong"
    )


def _chance() -> float:
    return int.from_bytes(os.urandom(2), "big") / 65_535
