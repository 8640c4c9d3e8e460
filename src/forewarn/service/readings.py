"""Reads of the store outside the event loop and the control thread.

Each tenant has one running read at a time, and all tenants together use only some of the
threads. So a thread is always free for operators, and no tenant waits for the long
list of another tenant.
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
    """The queue of reads of one tenant."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Readings:
    """Reads the store in a few threads, outside the event loop."""

    def __init__(self, *, store: Store | SnapshotStore, threads: Executor) -> None:
        """Read `store` in `threads`."""
        self._store = store
        self._threads = threads
        self._lanes: dict[str, _Lane] = {}
        self._for_tenants = asyncio.Semaphore(limits.TENANT_READERS)

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Return the result of `ask` on a consistent view of the store."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._store.read, ask)

    async def read_for(self, tenant: str, ask: Callable[[Reader], T]) -> T:
        """Return the result of `read` when the tenant's earlier reads have ended."""
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
