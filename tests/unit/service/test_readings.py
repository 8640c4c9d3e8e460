"""Reads of tenants never block reads of operators."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import pytest

from forewarn.admin.errors import TooManyError
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
        results = await asyncio.gather(*asking)
    assert Counter(results) == {"shop": 3, "office": 2, "bank": 1}
    assert set(store.most.values()) == {1}, "one question of each at a time"
    assert store.most_of_all == limits.TENANT_READERS
    assert not readings._turns, "idle tenants are forgotten"


async def stays() -> bool:
    return False


@in_loop
async def test_read_of_a_client_that_has_left_does_not_start() -> None:
    store = Slow()
    has_left = False
    started: list[str] = []

    async def is_gone() -> bool:
        return has_left

    with ThreadPoolExecutor(limits.READERS) as threads:
        readings = Readings(store=cast("Any", store), threads=threads)
        running = asyncio.create_task(
            readings.read_for_request("shop", store.question("shop"), is_gone=stays)
        )
        await until(lambda: store.under_way["shop"] == 1)
        waiting = asyncio.create_task(
            readings.read_for_request(
                "shop", lambda _reader: started.append("left"), is_gone=is_gone
            )
        )
        await asyncio.sleep(0)
        has_left = True
        store.gate.set()
        assert await running == "shop"
        with pytest.raises(TooManyError):
            await waiting
    assert not started


@in_loop
async def test_requests_of_a_tenant_beyond_the_maximum_are_refused_at_once() -> None:
    store = Slow()
    with ThreadPoolExecutor(limits.READERS) as threads:
        readings = Readings(store=cast("Any", store), threads=threads)
        asking: list[asyncio.Task[Any]] = [
            asyncio.create_task(
                readings.read_for_request("shop", store.question("shop"), is_gone=stays)
            )
            for _ in range(limits.TENANT_READS_WAITING_MAX)
        ]
        await until(lambda: store.under_way["shop"] == 1)
        with pytest.raises(TooManyError) as refused:
            await readings.read_for_request(
                "shop", lambda _reader: "late", is_gone=stays
            )
        assert refused.value.retry_seconds == limits.ADMIN_RETRY_SECONDS
        # Neither another tenant nor the tenant's own streams are refused.
        store.gate.set()
        assert await readings.read_for_request(
            "bank", lambda _reader: "bank", is_gone=stays
        )
        assert await readings.read_for("shop", lambda _reader: "stream")
        await asyncio.gather(*asking)
    assert not readings._asked
