"""Reads of the store outside the event loop and the control thread.

Each tenant has one running read at a time, and all tenants together use only some of the
threads. So a thread is always free for operators, and no tenant waits for the long
list of another tenant. A tenant's read does not start if its client has left, and only
some of them wait at once.

The watchers of operations follow changes: each has a bounded queue, filled in commit
order.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor
from itertools import chain
from typing import TypeVar
from weakref import WeakSet, WeakValueDictionary

from forewarn.admin.errors import TooManyError
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
        self._asked: Counter[str] = Counter()
        """Number of reads of each tenant that wait or run, for requests."""
        self._for_tenants = asyncio.Semaphore(limits.TENANT_READERS)

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Return the result of `ask` on a consistent view of the store."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._store.read, ask
        )

    async def read_for(self, tenant: str, ask: Callable[[Reader], T]) -> T:
        """Return the result of `read` when the tenant's earlier reads have ended."""
        turn = self._turns.setdefault(tenant, asyncio.Lock())
        async with turn, self._for_tenants:
            return await self.read(ask)

    async def read_for_request(
        self,
        tenant: str,
        ask: Callable[[Reader], T],
        *,
        is_gone: Callable[[], Awaitable[bool]],
    ) -> T:
        """Return the result of `read_for`; raises TooManyError if many reads wait.

        It also raises TooManyError, without a read, if `is_gone` finds that the client
        has left.
        """
        if self._asked[tenant] >= limits.TENANT_READS_WAITING_MAX:
            raise TooManyError(
                f"{limits.TENANT_READS_WAITING_MAX} requests of tenant {tenant} wait "
                "already, which is the maximum",
                hint="Wait for their responses before you send more requests.",
                retry_seconds=limits.ADMIN_RETRY_SECONDS,
            )
        self._asked[tenant] += 1
        try:
            # This call makes the server look for the client's end, which the second
            # call then finds.
            await is_gone()
            turn = self._turns.setdefault(tenant, asyncio.Lock())
            async with turn, self._for_tenants:
                if await is_gone():
                    raise TooManyError(
                        "the client has left", retry_seconds=limits.ADMIN_RETRY_SECONDS
                    )
                return await self.read(ask)
        finally:
            self._asked[tenant] -= 1
            self._asked += Counter()


class Watchers:
    """All watchers; used on one event loop."""

    def __init__(self) -> None:
        """Start without watchers."""
        # The caller holds its watcher; a watcher that is dropped leaves this set.
        self._watchers: WeakSet[_Watcher] = WeakSet()
        self._is_closed = False

    def __len__(self) -> int:
        """Return the number of watchers."""
        return len(self._watchers)

    def queue(self, operations: Sequence[str]) -> None:
        """Queue the IDs of changed operations for all watchers."""
        for watcher in self._watchers:
            watcher.queue(tuple(operations))

    def watch(self) -> AsyncIterator[tuple[str, ...]]:
        """Return an iterator over changes from now until `close`.

        Each item has all new IDs. A watcher that falls behind gets an empty tuple, which
        means that it must read everything again.
        """
        watcher = _Watcher()
        self._watchers.add(watcher)
        if self._is_closed:
            watcher.close()
        return watcher

    def close(self) -> None:
        """End all watchers."""
        self._is_closed = True
        for watcher in list(self._watchers):
            watcher.close()


class _Watcher:
    """The queue of one watcher. Cancelling `__anext__` does not end the watcher."""

    def __init__(self) -> None:
        self._changes: deque[tuple[str, ...]] = deque()
        self._news = asyncio.Event()
        self._is_closed = False

    def __aiter__(self) -> AsyncIterator[tuple[str, ...]]:
        return self

    async def __anext__(self) -> tuple[str, ...]:
        while not self._changes:
            if self._is_closed:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        changes = [*self._changes]
        self._changes.clear()
        return () if () in changes else tuple(dict.fromkeys(chain(*changes)))

    def queue(self, operations: tuple[str, ...]) -> None:
        if len(self._changes) >= limits.CHANGES_KEPT:
            self._changes.clear()
            operations = ()
        self._changes.append(operations)
        self._news.set()

    def close(self) -> None:
        self._is_closed = True
        self._news.set()
