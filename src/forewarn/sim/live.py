"""News of a simulation for pages: a bounded list, which each viewer reads at its pace.

A viewer is a position in the numbers of the messages, so a slow one costs no memory.
"""

import asyncio
import contextlib
import json
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, Protocol

from forewarn.protocol.published import Publication
from forewarn.sim.journal import JournalEntry
from forewarn.sim.news import News, Reporter
from forewarn.sim.sim_server import SimServer

MESSAGES_MAX = 2_000
"""Maximum messages that are kept: some minutes of a busy simulation, at some 500 bytes
each. A viewer that is further behind reads the lists again."""

COMMENT_SECONDS = 5.0
"""Seconds between two comments, which show that the stream works."""


class Source(Protocol):
    """The part of a simulator that has news."""

    on_publish: list[Callable[[Publication], None]]
    on_stage: list[Callable[[SimServer], None]]
    on_stop: list[Callable[[], None]]

    @property
    def stage(self) -> SimServer:
        """Return the current simulated server."""
        ...


class _Message(NamedTuple):
    number: int
    text: str


class Live:
    """The news and requests of a simulator, as server-sent events."""

    def __init__(self, source: Source) -> None:
        """Follow the current world of a simulator, and each later one."""
        self._epoch = secrets.token_hex(8)
        self._messages: deque[_Message] = deque(maxlen=MESSAGES_MAX)
        self._last = 0
        self._more = asyncio.Event()
        self._is_over = False
        reporter = Reporter(self._tell, tells_deviations=True)

        def follow(stage: SimServer) -> None:
            reporter.follow(stage)
            stage.journal.on_seen.append(self._see)

        follow(source.stage)
        source.on_stage.append(follow)
        source.on_publish.append(reporter.publish)
        source.on_stop.append(self._end)

    async def texts(self, last_id: str = "") -> AsyncIterator[str]:
        """Yield messages after the one with an ID, or from now on.

        A viewer that has missed messages gets `reset` first: it reads the lists again.
        """
        position = self._position(last_id)
        if position is None:
            if last_id:
                yield _event("reset", {}, self._id(self._last))
            position = self._last
        yield _event("ready", {}, self._id(position))
        while not self._is_over:
            if self._messages and position < self._messages[0].number - 1:
                yield _event("reset", {}, self._id(self._last))
                position = self._last
            for sent in [
                message for message in self._messages if message.number > position
            ]:
                position = sent.number
                yield sent.text
            if position == self._last:
                more = self._more
                try:
                    async with asyncio.timeout(COMMENT_SECONDS):
                        await more.wait()
                except TimeoutError:
                    yield f": still here\nid: {self._id(position)}\n\n"

    def _end(self) -> None:
        """End all streams, because the simulator stops."""
        self._is_over = True
        self._more.set()

    def _position(self, last_id: str) -> int | None:
        """Return the number in an ID; None: it is not of this stream, or too old."""
        epoch, _, digits = last_id.partition("-")
        if epoch != self._epoch or not (digits.isascii() and digits.isdecimal()):
            return None
        with contextlib.suppress(ValueError):
            number = int(digits)
            first = self._messages[0].number if self._messages else self._last + 1
            return number if first - 1 <= number <= self._last else None
        return None

    def _tell(self, news: News) -> None:
        self._add("news", news.members())

    def _see(self, entry: JournalEntry) -> None:
        self._add("request", entry.members())

    def _add(self, name: str, body: dict[str, Any] | dict[str, object]) -> None:
        self._last += 1
        text = _event(name, body, self._id(self._last))
        self._messages.append(_Message(self._last, text))
        self._more.set()
        self._more = asyncio.Event()

    def _id(self, number: int) -> str:
        return f"{self._epoch}-{number}"


def _event(name: str, body: object, position: str) -> str:
    data = json.dumps(body, separators=(",", ":"))
    return f"id: {position}\nevent: {name}\ndata: {data}\n\n"
