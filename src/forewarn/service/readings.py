"""The store, read for who asks, off the event loop and off the plane's thread.

What a tenant asks waits for its turn, one question of each tenant at a time, and all
tenants together have some of the threads only. So whatever tenants ask, there is a
thread for operators, and no tenant waits for the whole list of another.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from forewarn.service import limits
from forewarn.store.port import Reader, Store
from forewarn.store.snapshot import SnapshotStore

T = TypeVar("T")


@dataclass(slots=True)
class _Lane:
    """The questions of one tenant."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Readings:
    """Reads the store in a few threads of its own, off the event loop."""

    def __init__(self, *, store: Store | SnapshotStore, threads: Executor) -> None:
        """Read `store` in `threads`."""
        self._store = store
        self._threads = threads
        self._lanes: dict[str, _Lane] = {}
        self._for_tenants = asyncio.Semaphore(limits.TENANT_READERS)

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Return what `ask` returns on a consistent view."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._store.read, ask)

    async def read_for(self, tenant: str, ask: Callable[[Reader], T]) -> T:
        """Return what `read` returns, when it is the tenant's turn."""
        async with self._lane_of(tenant) as lane, lane.turn, self._for_tenants:
            return await self.read(ask)

    @asynccontextmanager
    async def _lane_of(self, tenant: str) -> AsyncGenerator[_Lane]:
        lane = self._lanes.setdefault(tenant, _Lane())
        lane.users += 1
        try:
            yield lane
        finally:
            lane.users -= 1
            if not lane.users:
                del self._lanes[tenant]
