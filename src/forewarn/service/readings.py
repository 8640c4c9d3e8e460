"""The store, read for who asks, off the event loop and off the plane's thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol, TypeVar

from forewarn.store.port import Reader

T = TypeVar("T")


class Readable(Protocol):
    """A store as far as it is read."""

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on a consistent view; may be called from any thread."""
        ...


class Readings:
    """Reads the store in a few threads of its own, off the event loop."""

    def __init__(self, *, store: Readable, threads: Executor) -> None:
        """Read `store` in `threads`."""
        self._store = store
        self._threads = threads

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Return what `ask` returns on a consistent view."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._store.read, ask)
