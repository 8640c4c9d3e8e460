"""Watchers: they get changes in order, have a limit, and can stop waiting."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from forewarn.service import limits
from forewarn.service.readings import Watchers
from tests.support.loops import in_loop


@in_loop
async def test_watchers_get_changes_in_order() -> None:
    watchers = Watchers()
    watchers.queue(["op-0"])
    one, other = watchers.watch(), watchers.watch()
    watchers.queue(["op-1"])
    watchers.queue(["op-2", "op-3"])
    for watcher in (one, other):
        assert await anext(watcher) == ("op-1", "op-2", "op-3")
    watchers.queue(["op-1"])
    assert await anext(other) == ("op-1",)


@in_loop
async def test_slow_watcher_gets_a_reset() -> None:
    watchers = Watchers()
    slow = watchers.watch()
    for number in range(limits.CHANGES_KEPT + 2):
        watchers.queue([f"op-{number}"])
    assert await anext(slow) == ()
    watchers.queue(["op-0"])
    assert await anext(slow) == ("op-0",)


@in_loop
async def test_cancelled_wait_does_not_end_the_watcher() -> None:
    watchers = Watchers()
    watcher = watchers.watch()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await anext(watcher)
    watchers.queue(["op-1"])
    assert await anext(watcher) == ("op-1",)


@in_loop
async def test_dropped_watcher_is_removed() -> None:
    watchers = Watchers()
    watcher = watchers.watch()
    assert len(watchers) == 1
    del watcher
    gc.collect()
    assert len(watchers) == 0


@in_loop
async def test_closing_ends_all_watchers() -> None:
    watchers = Watchers()
    watcher = watchers.watch()
    waiting = asyncio.ensure_future(_rest(watcher))
    await asyncio.sleep(0)
    watchers.queue(["op-1"])
    watchers.close()
    assert await waiting == [("op-1",)]
    assert await _rest(watchers.watch()) == []


async def _rest(watcher: AsyncIterator[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [change async for change in watcher]
