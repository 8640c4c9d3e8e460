"""Tests that run on an event loop of their own."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec

P = ParamSpec("P")


def in_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Return a test that runs `test` on a new loop."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def whole() -> None:
            await test(*args, **kwargs)

        asyncio.run(whole())

    return run
