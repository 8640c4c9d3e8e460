"""Tests that run on an event loop of their own."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec

from tests.support.processes import PATIENCE_SECONDS

P = ParamSpec("P")

LOOK_SECONDS = 0.002
"""Time between two polls of a condition without an event."""


def in_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Return a test that runs `test` on a new loop."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def whole() -> None:
            await test(*args, **kwargs)

        asyncio.run(whole())

    return run


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until it is so; raises TimeoutError where it never is."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(LOOK_SECONDS)
