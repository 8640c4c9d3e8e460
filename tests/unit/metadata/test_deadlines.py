"""What takes too long is given up, in the order in which it came."""

import asyncio
from typing import Any

import pytest

from forewarn.metadata.deadlines import Deadlines
from tests.unit.metadata.support import Play


def test_only_what_is_late_is_cancelled(play: Play) -> None:
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
def test_what_comes_later_is_given_its_own_time(play: Play) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        deadlines = Deadlines(0.02)
        first: asyncio.Future[Any] = loop.create_future()
        deadlines.watch(first)
        await asyncio.sleep(0.01)
        second: asyncio.Future[Any] = loop.create_future()
        deadlines.watch(second)
        await asyncio.wait({first})
        assert first.cancelled()
        assert not second.done()
        await asyncio.wait({second})
        assert second.cancelled()

    play(story)


def test_what_is_done_is_not_kept(play: Play) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        deadlines = Deadlines(60)
        for _ in range(1000):
            future: asyncio.Future[Any] = loop.create_future()
            deadlines.watch(future)
            future.set_result(None)
        assert len(deadlines._waiting) == 1

    play(story)
