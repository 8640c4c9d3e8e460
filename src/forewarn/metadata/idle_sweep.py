"""One timer that looks at all connections, for those that have gone quiet.

A timer for each would cost a connection that asks once and goes as much as its
answer does: 3 µs to set it and to cancel it. What is in a hurry, a request that
has begun to come in, has a watchdog of its own.
"""

import asyncio
import itertools
from collections.abc import Collection, Iterator
from typing import Protocol

TOGETHER_MAX = 1_000
"""Connections that are looked at before others have their turn: a fraction of a
millisecond's worth."""


class Quiet(Protocol):
    """Who may have gone quiet."""

    def look(self) -> None:
        """Be looked at, once in each round."""
        ...


class Rounds:
    """Looks at everybody again and again, as long as there is anybody."""

    def __init__(self, everybody: Collection[Quiet], *, seconds: float) -> None:
        """Look at nobody yet; a round begins every so many seconds."""
        self._everybody = everybody
        self._seconds = seconds
        self._timer: asyncio.Handle | None = None

    def begin(self) -> None:
        """Go round from now on, unless that is so already."""
        if self._timer is None:
            self._pause()

    def end(self) -> None:
        """Go round no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._go_round)

    def _go_round(self) -> None:
        self._timer = None
        if self._everybody:
            self._look(iter([*self._everybody]))

    def _look(self, left: Iterator[Quiet]) -> None:
        together = [*itertools.islice(left, TOGETHER_MAX)]
        for each in together:
            each.look()
        if together:
            self._timer = asyncio.get_running_loop().call_soon(self._look, left)
        else:
            self._pause()
