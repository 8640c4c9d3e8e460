"""Futures are cancelled after the timeout, in their order."""

import asyncio
from typing import Any

import pytest

from forewarn.metadata.timers import Deadlines
from tests.unit.metadata.support import Play


def test_only_late_futures_are_cancelled(play: Play) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        deadlines = Deadlines(0.01)
        futures: list[asyncio.Future[Any]] = [loop.create_future() for _ in range(3)]
        for future in futures:
            deadlines.watch(future)
        futures[1].set_result("in time")
        await asyncio.wait(futures)
        assert [future.cancelled() for future in futures] == [True, False, True]

    play(story)


@pytest.mark.system
def test_later_future_has_its_own_deadline(play: Play) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        deadlines = Deadlines(0.02)
        lasted: dict[str, float] = {}

        def watch(name: str) -> asyncio.Future[Any]:
            future: asyncio.Future[Any] = loop.create_future()
            begun = loop.time()
            future.add_done_callback(
                lambda _: lasted.setdefault(name, loop.time() - begun)
            )
            deadlines.watch(future)
            return future

        first = watch("first")
        await asyncio.sleep(0)
        second = watch("second")
        await asyncio.wait({first, second})
        assert first.cancelled()
        assert second.cancelled()
        # The clock of a loop is as coarse as a millisecond.
        assert list(lasted) == ["first", "second"]
        assert min(lasted.values()) >= 0.019

    play(story)


def test_finished_futures_are_not_kept(play: Play) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        deadlines = Deadlines(60)
        for _ in range(1000):
            future: asyncio.Future[Any] = loop.create_future()
            deadlines.watch(future)
            future.set_result(None)
        assert len(deadlines._waiting) == 1

    play(story)
