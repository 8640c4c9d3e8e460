"""Reads of the store outside the event loop and the control thread.

Each tenant has one running read at a time, and all tenants together use only some of the
threads. So a thread is always free for operators, and no tenant waits for the long
list of another tenant.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar
from weakref import WeakValueDictionary

from forewarn.service import limits
from forewarn.store.port import Reader, Store
from forewarn.store.snapshot import SnapshotStore

T = TypeVar("T")


class Readings:
    """Reads the store in a few threads, outside the event loop."""

    def __init__(self, *, store: Store | SnapshotStore, threads: Executor) -> None:
        """Read `store` in `threads`."""
        self._store = store
        self._threads = threads
        self._turns = WeakValueDictionary[str, asyncio.Lock]()
        """The lock of each tenant, kept while a read of the tenant runs or waits."""
        self._for_tenants = asyncio.Semaphore(limits.TENANT_READERS)

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Return the result of `ask` on a consistent view of the store."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._store.read, ask)

    async def read_for(self, tenant: str, ask: Callable[[Reader], T]) -> T:
        """Return the result of `read` when the tenant's earlier reads have ended."""
        turn = self._turns.setdefault(tenant, asyncio.Lock())
        async with turn, self._for_tenants:
            return await self.read(ask)
