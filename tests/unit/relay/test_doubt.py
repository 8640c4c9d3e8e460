"""A relay leaves a replica that does not answer, and no other one because of it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forewarn.agent.wire.urls import parse_url
from forewarn.forwarding import limits
from forewarn.forwarding.post import Post
from forewarn.forwarding.wire import UnreachableError, bearer
from forewarn.relay import knowledge
from forewarn.relay.knowledge import Knowledge, Line, Step
from forewarn.relay.upstream import Upstream, refused
from tests.unit.relay.service import Service
from tests.unit.relay.test_process import WHOLE, change, run, until


class Follower:
    """The stream of a relay, whose lines can take long to apply."""

    def __init__(self, *services: Service) -> None:
        self.upstream = Upstream(
            [parse_url(service.url) for service in services],
            token=lambda: "secret",
            tls=None,
            take=self._take,
            position=lambda: "",
            holds=lambda: "",
            draw=lambda: 0.0,
        )
        self.posts: list[Post] = []
        self.knowledge = Knowledge()
        self.is_taking = False
        self.may_take = asyncio.Event()
        self.may_take.set()

    def post(self) -> Post:
        post = Post(
            lambda: self.upstream.url,
            headers=lambda _path, _body: bearer("secret"),
            tls=None,
            refused=refused,
            unanswered=self.upstream.doubt,
        )
        self.posts.append(post)
        return post

    async def follow(self, service: Service) -> None:
        """Return when the stream of a service has sent everything."""
        self.knowledge = Knowledge()
        await service.stream()
        service.tell(WHOLE)
        await until(lambda: self.number == 7)

    @property
    def number(self) -> int:
        position = self.knowledge.position
        return 0 if position is None else position.number

    async def _take(self, line: Line) -> Step:
        self.is_taking = True
        await self.may_take.wait()
        step = knowledge.take(self.knowledge, line)
        self.knowledge, self.is_taking = step.knowledge, False
        return step


@asynccontextmanager
async def following(*services: Service) -> AsyncGenerator[Follower]:
    follower = Follower(*services)
    task = asyncio.create_task(follower.upstream.run())
    try:
        await follower.follow(services[0])
        yield follower
        assert not task.done()
    finally:
        task.cancel()
        for post in follower.posts:
            post.close()


def hang(_path: str, _body: Any) -> Any:
    return asyncio.get_running_loop().create_future()


def test_replica_that_does_not_answer_is_left_before_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with Service() as first, Service() as second:
            first.answer = hang
            async with following(first, second) as follower:
                late, post = follower.post(), follower.post()
                other = asyncio.create_task(late.send("/seen", {}))
                await until(lambda: ("POST", "/seen", {}) in first.asked)
                monkeypatch.setattr(limits, "POST_SECONDS", 0.02)
                with pytest.raises(UnreachableError, match=f"{first.url}: no answer"):
                    await post.send("/approve", {})
                monkeypatch.undo()
                # Nothing else has run yet.
                assert await post.send("/approve", {"again": True}) == {}
                assert ("POST", "/approve", {"again": True}) in second.asked
                await follower.follow(second)
                # An old request to the first one fails: the second one is well.
                first.drop()
                with pytest.raises(UnreachableError):
                    await other
                assert follower.upstream.url.base == second.url
                second.tell(change(6))
                await until(lambda: follower.number == 8)
                streams = [request for request in second.asked if request[0] == "GET"]
                assert len(streams) == 1

    run(story())


def test_request_that_waits_for_its_turn_doubts_no_replica(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with Service() as first, Service() as second:
            first.answer = hang
            async with following(first, second) as follower:
                post = follower.post()
                held = asyncio.create_task(post.send("/seen", {}))
                await until(lambda: ("POST", "/seen", {}) in first.asked)
                monkeypatch.setattr(limits, "POST_SECONDS", 0.02)
                with pytest.raises(UnreachableError, match="no answer in time"):
                    await post.send("/enable", {})
                assert follower.upstream.url.base == first.url
                held.cancel()

    run(story())


def test_replica_that_refuses_a_request_is_not_left() -> None:
    async def story() -> None:
        async with (
            Service() as first,
            Service() as second,
            following(first, second) as follower,
        ):
            first.status = 503
            with pytest.raises(UnreachableError, match="status 503"):
                await follower.post().send("/approve", {})
            assert follower.upstream.url.base == first.url

    run(story())


def test_only_service_is_never_left() -> None:
    async def story() -> None:
        async with Service() as only, following(only) as follower:
            follower.upstream.doubt(follower.upstream.url)
            only.tell(change(6))
            await until(lambda: follower.number == 8)

    run(story())


def test_doubt_while_a_line_is_applied_ends_only_the_stream() -> None:
    async def story() -> None:
        async with (
            Service() as first,
            Service() as second,
            following(first, second) as follower,
        ):
            follower.may_take.clear()
            first.tell(change(6))
            await until(lambda: follower.is_taking)
            doubted = follower.upstream.url
            follower.upstream.doubt(doubted)
            # A second request to the same replica turns no further.
            follower.upstream.doubt(doubted)
            assert follower.upstream.url.base == second.url
            follower.may_take.set()
            await until(lambda: follower.number == 8)
            await follower.follow(second)
            assert follower.upstream.url.base == second.url

    run(story())
