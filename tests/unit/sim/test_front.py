"""A poller gets cached answers, and the interceptor still sees all its requests."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence

import pytest

from forewarn.clock import VirtualClock
from forewarn.instants import SECOND
from forewarn.metadata.hub import Hub
from forewarn.metadata.limits import Limits
from forewarn.sim.deviations import Inspector
from forewarn.sim.faults.player import Player
from forewarn.sim.front import Front
from forewarn.sim.journal import Journal, JournalEntry
from forewarn.sim.recorded import RecordedFaults
from forewarn.sim.recording import Failed, Failure
from tests.fuzz.talk import Talk, answers_of
from tests.unit.metadata.support import (
    EVENT,
    GET,
    NEWEST,
    NOW,
    PATH,
    FakeGateway,
    make_endpoint,
    published,
    raw,
    snapshot,
)

WRONG_CASE = raw("GET", f"{PATH.upper()}?{NEWEST}")

OTHER = raw("GET", f"{PATH}?{NEWEST}", "User-Agent: another")

LIMIT = 5
"""Requests a second, and at once: one more than a poller's first four."""


class Bench:
    """An endpoint with an interceptor, on a virtual clock."""

    def __init__(self, *, rate_limit: float = 0) -> None:
        self.clock = VirtualClock(NOW)
        self.endpoint = make_endpoint(rate_limit=rate_limit)
        self.faults: Player = RecordedFaults(now=self.clock.now)
        self.journal = Journal()
        self.told: list[JournalEntry] = []
        self.journal.on_seen.append(self.told.append)
        self.front = Front(
            faults=self.faults,
            journal=self.journal,
            inspector=Inspector(
                route=lambda request: self.endpoint.route(request, signed=False),
                event=lambda _event_id: None,
            ),
            now=self.clock.now,
        )
        self.hub = Hub(
            endpoint=self.endpoint,
            gateway=FakeGateway(self.endpoint),
            clock=self.clock,
            bounds=Limits(throttle_seconds=0),
            interceptor=self.front,
        )

    def connect(self) -> Talk:
        return Talk(self.hub)

    def turn(self, seconds: float) -> None:
        self.clock.advance_to(self.clock.now() + round(seconds * SECOND))


async def ask(talk: Talk, *requests: bytes) -> list[int]:
    """Return the statuses of the immediate answers."""
    before = len(talk.transport.written)
    await talk.send(requests)
    written = b"".join(talk.transport.written[before:])
    return [answered.status for answered in answers_of(written)]


async def poll(bench: Bench, request: bytes = GET) -> Talk:
    """Return a connection with a cached answer."""
    talk = bench.connect()
    assert await ask(talk, *[request] * 4) == [200] * 4
    assert talk.connection._cached is not None
    return talk


def run(story: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(story())


def names(seen: Sequence[JournalEntry]) -> list[list[str]]:
    return [[deviation.name for deviation in one.deviations] for one in seen]


def test_journal_records_each_request_with_number_and_time() -> None:
    async def story() -> None:
        bench = Bench()
        talk = await poll(bench)
        for _ in range(3):
            bench.turn(0.25)
            await ask(talk, GET)
        entries = [*bench.journal]
        assert [seen.number for seen in entries] == [1, 2, 3, 4, 5, 6, 7]
        passed = [(seen.at - NOW) / SECOND for seen in entries]
        assert passed == [0, 0, 0, 0, 0.25, 0.5, 0.75]
        first, last = entries[0], entries[4]
        assert last == first._replace(number=5, at=last.at)
        assert bench.journal.latest("w0") == entries[6]

    run(story)


def test_unchanged_repeated_requests_are_not_reported() -> None:
    async def story() -> None:
        bench = Bench()
        talk = await poll(bench)
        assert [seen.number for seen in bench.told] == [1, 2, 3, 4]
        await ask(talk, GET)
        assert [seen.number for seen in bench.told] == [1, 2, 3, 4]
        bench.endpoint.publish(published(snapshot(2, EVENT)))
        await ask(talk, GET)
        assert [seen.number for seen in bench.told] == [1, 2, 3, 4, 6]

    run(story)


def test_too_frequent_polling_is_reported_once_per_second() -> None:
    async def story() -> None:
        bench = Bench()
        talk = await poll(bench)
        # The time of the event loop counts, not the virtual clock.
        bench.turn(60)
        await ask(talk, *[GET] * 6)
        assert names(bench.journal.find(deviating=True)) == [["too-often"]]
        (hasty,) = bench.journal.find(deviating=True)
        assert (hasty.number, hasty.at) == (6, NOW + 60 * SECOND)
        assert bench.told[-1] == hasty
        assert bench.journal.last == 10

    run(story)


def test_deviation_is_reported_for_each_request() -> None:
    async def story() -> None:
        bench = Bench()
        await ask(await poll(bench, WRONG_CASE), WRONG_CASE)
        assert names(bench.told) == [["path-case"]] * 5
        assert [seen.number for seen in bench.told] == [1, 2, 3, 4, 5]

    run(story)


FAULTS: dict[str, Callable[[Bench], object]] = {
    "for all": lambda bench: bench.faults.set("", "500"),
    "for the VM": lambda bench: bench.faults.set("w0", "500"),
    "a playbook": lambda bench: bench.faults.play(["500 x9"]),
}


@pytest.mark.parametrize("how", FAULTS)
def test_fault_affects_the_next_request(how: str) -> None:
    async def story() -> None:
        bench = Bench()
        talk = await poll(bench)
        FAULTS[how](bench)
        assert await ask(talk, GET) == [500]
        bench.faults.clear()
        assert await ask(talk, GET, GET, GET) == [200] * 3
        assert talk.connection._cached is not None
        (hit,) = [seen for seen in bench.journal if seen.fault]
        assert (hit.number, hit.status) == (5, 500)

    run(story)


def test_recorded_fault_affects_the_next_request() -> None:
    async def story() -> None:
        bench = Bench()
        talk = await poll(bench)
        faults = bench.faults
        assert isinstance(faults, RecordedFaults)
        called: list[int] = []
        faults.on_first = lambda: called.append(bench.journal.last)
        assert not faults.is_idle
        await ask(talk, GET)
        assert called == [4]
        faults.on_first = None
        assert faults.is_idle
        await poll(bench)
        faults.recorded = Failed(failure=Failure.TIMEOUT)
        assert not faults.is_idle
        assert await ask(talk, GET) == []
        faults.recorded = None
        assert faults.is_idle
        faults.set("", "500")
        faults.recorded = None
        assert not faults.is_idle

    run(story)


def test_a_request_counts_once_against_the_limit_of_a_vm() -> None:
    async def story() -> None:
        bench = Bench(rate_limit=LIMIT)
        talk = await poll(bench)
        assert await ask(talk, GET, GET) == [200, 429]
        bench.turn(1)
        # The first of these ends the cached answer, and still counts once.
        assert await ask(talk, GET) == [200]
        bench.faults.set("", "500 after 1h")
        assert await ask(talk, *[GET] * 5) == [200] * 4 + [429]
        assert [seen.status for seen in bench.journal].count(429) == 2
        assert bench.journal.last == 12

    run(story)


def test_requests_on_all_connections_of_a_vm_keep_their_order() -> None:
    async def story() -> None:
        bench = Bench()
        one, two = await poll(bench), await poll(bench)
        other = await poll(bench, OTHER)
        for talk, request in ((one, GET), (other, OTHER), (two, GET), (one, GET)):
            bench.turn(0.1)
            assert await ask(talk, request) == [200]
        entries = bench.journal.find(since=12)
        assert [seen.number for seen in entries] == [13, 14, 15, 16]
        assert [seen.at - NOW for seen in entries] == [
            tenths * SECOND // 10 for tenths in (1, 2, 3, 4)
        ]
        agents = [seen.headers.get("user-agent") for seen in entries]
        assert agents == [None, ("another",), None, None]

    run(story)
