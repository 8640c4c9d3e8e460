"""A cached response is sent again exactly as long as it is valid."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from forewarn.instants import MINUTE, SECOND
from forewarn.metadata import limits
from forewarn.metadata.cached_response import VALID_SECONDS
from forewarn.metadata.connection import Connection
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.ratelimit import Bucket, RateLimit
from forewarn.protocol.published import Publication
from tests.unit.metadata.support import (
    EVENT,
    GET,
    GUESTS,
    NEWEST,
    NOW,
    PATH,
    Play,
    Wire,
    World,
    published,
    raw,
    running,
    snapshot,
)

pytestmark = pytest.mark.system

TAGGED = raw("GET", f"{PATH}?{NEWEST}", 'If-None-Match: "1"')


async def polling(world: World) -> Wire:
    """Return a connection whose last answer stands."""
    wire = await world.connect()
    for _ in range(4):
        wire.send(GET)
        assert (await wire.answer()).status == 200
    assert stands(world)
    return wire


def stands(world: World) -> bool:
    (party,) = world.server._hub.connections
    assert isinstance(party, Connection)
    return party._cached is not None


def moved(endpoint: Endpoint) -> None:
    """Another VM, with a view of its own, gets the address."""
    one, two, alone = GUESTS
    endpoint.publish(
        Publication(
            views=(snapshot(7, EVENT, view="alone"),),
            guests=(
                replace(two, addresses=("192.0.2.5",)),
                replace(alone, addresses=("127.0.0.1",)),
                one,
            ),
        )
    )


CHANGES: dict[str, Callable[[Endpoint], object]] = {
    "a new document": lambda one: one.publish(published(snapshot(2, EVENT))),
    "disabled": lambda one: one.publish(published(snapshot(1, enabled=False))),
    "enabled again": lambda one: one.publish(published(snapshot(1, epoch=2))),
    "held": lambda one: one.publish(
        published(snapshot(1, epoch=2, ready_at=NOW + MINUTE))
    ),
    "the VM has gone": lambda one: one.publish(Publication(guests_gone=("w1",))),
    "its view has gone": lambda one: one.publish(Publication(views_gone=("west",))),
    "the VM has moved to a view": lambda one: one.publish(
        Publication(
            views=(snapshot(7, EVENT, view="alone"),),
            guests=(replace(GUESTS[1], view_id="alone"),),
        )
    ),
    "the address has moved": moved,
    "nothing": lambda one: one.publish(Publication()),
}


@pytest.mark.clause("1.7", "1.10", "7.1")
@pytest.mark.parametrize("data", [GET, TAGGED], ids=["GET", "with a tag"])
@pytest.mark.parametrize("change", CHANGES)
def test_any_change_is_visible_to_the_next_request(
    change: str, data: bytes, play: Play
) -> None:
    """Compare with a connection that reads and looks up every request."""

    async def exchange(*, is_cached: bool) -> object:
        async with running() as world:
            hub = world.server._hub
            if not is_cached:
                hub.request_cache.find = {}.get
            wire = await world.connect()
            for _ in range(4):
                wire.send(data)
                await wire.answer()
            assert stands(world) is is_cached
            CHANGES[change](world.endpoint)
            wire.send(data)
            if change == "held":
                for _ in range(100):
                    await asyncio.sleep(0)
                    if hub.delayed_responses._heap:
                        break
                world.clock.advance_to(NOW + MINUTE)
                world.server.wake()
            responses = [await wire.answer()]
            for _ in range(4):
                if responses[-1].headers.get("Connection") == "close":
                    wire = await world.connect()
                wire.send(data)
                responses.append(await wire.answer())
            counted = world.endpoint.counters.responses
            last_seen = world.endpoint.take_last_seen()
            return responses, counted, world.gateway.enabled, last_seen

    async def story() -> None:
        assert await exchange(is_cached=True) == await exchange(is_cached=False)

    play(story)


@pytest.mark.parametrize("data", [GET, TAGGED], ids=["GET", "with a tag"])
def test_no_document_is_served_after_the_time_until_which_it_may_be(
    data: bytes, play: Play
) -> None:
    """The clock jumps: the process was stopped, so the endpoint could not be closed."""

    async def story() -> None:
        async with running() as world:
            began = world.clock.monotonic()
            world.endpoint.open(until=began + 5)
            wire = await world.connect()
            for _ in range(4):
                wire.send(data)
                assert (await wire.answer()).status in {200, 304}
            assert stands(world)
            world.clock.advance_to(NOW + 5 * SECOND)
            wire.send(data)
            assert (await wire.answer()).status == 503
            strange = await world.connect()
            strange.send(raw("POST", f"{PATH}?{NEWEST}"))
            assert (await strange.answer()).status == 503
            world.endpoint.open(until=world.clock.monotonic() + 5)
            wire.send(data)
            assert (await wire.answer()).status in {200, 304}

    play(story)


def test_requests_with_unique_ids_evict_no_cached_request(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            await polling(world)
            other = await world.connect()
            for number in range(limits.CACHED_REQUESTS_MAX + 1):
                other.send(raw("GET", f"{PATH}?{NEWEST}", f"x-request-id: {number}"))
                assert (await other.answer()).status == 200
            assert world.server._hub.request_cache.find(GET) is not None

    play(story)


@pytest.mark.clause("1.9")
def test_cached_response_counts_against_the_rate_limit(play: Play) -> None:
    async def story() -> None:
        async with running(rate_limit=6) as world:
            wire = await polling(world)
            statuses: list[int] = []
            for _ in range(4):
                wire.send(GET)
                statuses.append((await wire.answer()).status)
            assert statuses == [200, 200, 429, 429]
            assert world.endpoint.counters.responses == {200: 6, 429: 2}
            world.endpoint.take_last_seen()
            wire.send(GET)
            assert (await wire.answer()).status == 429
            assert world.endpoint.take_last_seen() == {}
            world.clock.advance_to(NOW + SECOND)
            wire.send(GET)
            assert (await wire.answer()).status == 200

    play(story)


@pytest.mark.clause("7.1")
def test_last_seen_time_of_a_poller_is_updated_regularly(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            wire = await polling(world)
            last_seen = NOW
            for seconds in range(1, 40):
                world.clock.advance_to(NOW + seconds * SECOND)
                wire.send(GET)
                assert (await wire.answer()).status == 200
                last_seen = world.endpoint._seen["west"]
                assert world.clock.now() - last_seen <= VALID_SECONDS * SECOND
            assert world.endpoint.take_last_seen() == {"west": last_seen}
            # After the last-seen times were taken, the next request updates them at once.
            wire.send(GET)
            assert (await wire.answer()).status == 200
            assert world.endpoint.take_last_seen() == {"west": world.clock.now()}

    play(story)


def test_busy_connection_has_no_cached_response(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            wire = await polling(world)
            wire.send(GET[:20])
            wire.send(GET[20:] + GET)
            assert [(await wire.answer()).status for _ in range(2)] == [200, 200]
            assert not stands(world)
            for _ in range(2):
                wire.send(GET)
                assert (await wire.answer()).status == 200
            assert stands(world)
            await world.server.stop(grace_seconds=1)
            assert await wire.is_closed()

    play(story)


@pytest.mark.clause("1.9")
@pytest.mark.parametrize("rate", [0.3, 1, 3, 3.7, 7, 50, 1000])
def test_full_bucket_allows_the_requests_of_one_second(rate: float) -> None:
    limit, bucket = RateLimit(rate), Bucket()
    burst = max(1, int(rate))
    for began in (0.0, 86_400.0):
        allowed = [limit.allows(bucket, began) for _ in range(burst + 2)]
        assert allowed == [True] * burst + [False] * 2
    # Refused requests use no tokens: the next token arrives after the time of one.
    assert limit.allows(bucket, 86_400.0 + 1 / rate)
    assert not limit.allows(bucket, 86_400.0 + 1 / rate)
