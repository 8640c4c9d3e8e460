"""Waiting for something in a world, on its loop: woken by changes, never polling.

A wait is bounded in real time, since the program under test runs in real time,
whatever the clock of the world does.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

APPROVAL_SECONDS = 10.0
"""For an approval: a client that polls each second has had ten chances."""

STATUS_SECONDS = 10.0
"""For a status that comes by itself, such as Started after an approval."""

REQUEST_SECONDS = 10.0
"""For a request: the slowest start of a program under test."""

EVENT_SECONDS = 10.0
"""For an event that comes by itself, in a scenario or a recording."""

REPLAY_SECONDS = 10.0
"""For the first request of a replay, and for its end beside what it takes."""

CLIENT_SECONDS = 60.0
"""For a client to ask for its events, before a scenario begins without one: the same as
`forewarn simulate --wait`."""

SCENARIO_SECONDS = 600.0
"""For a whole scenario, beside what it takes where nobody approves anything: its own
expectations are bounded much sooner."""


class Bell:
    """Rings whenever something in the world has changed. Used on its loop."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self.listeners: list[asyncio.Future[None]] = []
        """Who waits for the next ring."""

    def ring(self) -> None:
        """Wake everybody who waits."""
        listeners, self.listeners = self.listeners, []
        for listener in listeners:
            if not listener.done():
                listener.set_result(None)

    async def rung(self) -> None:
        """Wait for the next ring."""
        listener = asyncio.get_running_loop().create_future()
        self.listeners.append(listener)
        await listener


async def until(bell: Bell, ask: Callable[[], T | None], *, seconds: float) -> T | None:
    """Return the first answer that is not None; None if none comes in time.

    `ask` is called now, after each ring, and once more at the end.
    """
    try:
        async with asyncio.timeout(seconds):
            while (answer := ask()) is None:
                await bell.rung()
            return answer
    except TimeoutError:
        return ask()
