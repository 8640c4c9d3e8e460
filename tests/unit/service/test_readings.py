"""Reads of tenants never block reads of operators."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from forewarn.service import limits
from forewarn.service.readings import Readings
from forewarn.store.port import Reader
from tests.support.loops import in_loop, until

T = TypeVar("T")

NOTHING = cast("Reader", None)


class Slow:
    """A store whose tenants' reads wait for a gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.under_way: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.most_of_all = 0
        self._lock = threading.Lock()

    def read(self, work: Callable[[Reader], T]) -> T:
        return work(NOTHING)

    def question(self, tenant: str) -> Callable[[Reader], str]:
        def ask(_reader: Reader) -> str:
            with self._lock:
                self.under_way[tenant] += 1
                self.most[tenant] = max(self.most[tenant], self.under_way[tenant])
                self.most_of_all = max(self.most_of_all, self.under_way.total())
            assert self.gate.wait(60)
            with self._lock:
                self.under_way[tenant] -= 1
            return tenant

        return ask


@in_loop
async def test_operators_do_not_wait_for_tenants() -> None:
    store = Slow()
    with ThreadPoolExecutor(limits.READERS) as threads:
        readings = Readings(store=cast("Any", store), threads=threads)
        asking: list[asyncio.Task[Any]] = [
            asyncio.create_task(readings.read_for(tenant, store.question(tenant)))
            for tenant in ("shop", "shop", "shop", "office", "office", "bank")
        ]
        await until(lambda: store.under_way.total() == limits.TENANT_READERS)
        for _ in range(10):
            assert await readings.read(lambda _reader: "operator") == "operator"
        store.gate.set()
        told = await asyncio.gather(*asking)
    assert Counter(told) == {"shop": 3, "office": 2, "bank": 1}
    assert set(store.most.values()) == {1}, "one question of each at a time"
    assert store.most_of_all == limits.TENANT_READERS
    assert not readings._turns, "idle tenants are forgotten"
