"""The HTTP server answers any bytes with a correct response, a 4xx or a close.

Each case is made from its own name, `seed-number`, and replays alone with
`pytest tests/fuzz --fuzz-case=NAME`. Clause 1.6 is the oracle's; the strict
reader judges where requests begin and end.
"""

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random

import pytest

from forewarn.clock import VirtualClock
from forewarn.metadata.connection import Connection
from forewarn.metadata.hub import Hub
from forewarn.metadata.limits import Limits
from forewarn.metadata.reader import Received, RequestReader
from forewarn.metadata.waiting import Waits
from tests.fuzz import grammar, oracle, strict
from tests.fuzz.talk import STATUSES, Answered, Talk, answers_of, talk
from tests.unit.metadata.support import (
    EVENT,
    GET,
    GUESTS,
    NOW,
    FakeGateway,
    make_endpoint,
    published,
    snapshot,
)

pytestmark = pytest.mark.slow

SHARDS = 4
"""So that several processes share the work."""

BLOCKS_MAX = 20_000
"""Blocks of memory that may be added between the middle and the end of a run:
caches that are still filling. A leak of one object a request is far above."""

REPEATED_ONE_IN = 400
"""The number of pollers for each poller that repeats some requests."""

LONG = 300
"""Bytes above which a stream is not cut at every position."""

Case = Callable[[Hub, Random], Iterable[object]]


def make_hub(*, rate_limit: float = 0, pushes: bool = False) -> Hub:
    waits = Waits(longest_seconds=60 if pushes else 0)
    endpoint = make_endpoint(rate_limit=rate_limit, waits=waits)
    return Hub(
        endpoint=endpoint,
        gateway=FakeGateway(endpoint),
        clock=VirtualClock(NOW),
        # Time does not pass here, and no request waits for it.
        bounds=Limits(throttle_seconds=0),
    )


def play(story: Callable[[], object]) -> None:
    async def main() -> None:
        result = story()
        assert asyncio.iscoroutine(result)
        await result

    asyncio.run(main())


class Watch(logging.Handler):
    """Fails on any error in the log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(self.format(record))


@pytest.fixture
def faults() -> Iterable[list[str]]:
    watch = Watch()
    loggers = [logging.getLogger(name) for name in ("forewarn", "asyncio")]
    for logger in loggers:
        logger.addHandler(watch)
    yield watch.records
    for logger in loggers:
        logger.removeHandler(watch)
    assert not watch.records, watch.records[0]


# The cases


async def well_formed(hub: Hub, rng: Random) -> int:
    """Several requests in a row: each gets one response, in order."""
    asks = [grammar.ask(rng) for _ in range(rng.choice((1, 1, 2, 3, 6, 24)))]
    stream = b"".join(grammar.wire(rng, ask) for ask in asks)
    promised = list[oracle.Promise]()
    for ask in asks:
        pushes = hub.endpoint.waits.longest_seconds > 0
        promised.append(oracle.promise(ask, tag="1", pushes=pushes))
        if promised[-1].closes:
            break
    whole = await talk(hub, [stream], chokes=rng.random() < 0.2)
    answers = [
        oracle.Promise(answer.status, answer.closes) for answer in answers_of(whole)
    ]
    # The last one may close because the client has stopped sending.
    if answers and not promised[-1].closes:
        answers[-1] = replace(answers[-1], closes=False)
    assert answers == promised, stream
    read = strict.read(stream)
    assert not read.is_refused, stream
    assert len(read.items) >= len(promised), stream
    await _same_in_pieces(hub, rng, stream, whole)
    return len(asks)


async def nearly(hub: Hub, rng: Random) -> int:
    """Requests with something wrong somewhere."""
    asks = [grammar.ask(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
    stream = b"".join(grammar.wire(rng, ask) for ask in asks)
    await _judge(hub, rng, grammar.mutated(rng, stream))
    return len(asks)


async def hostile(hub: Hub, rng: Random) -> int:
    """A request that hides another."""
    stream = grammar.hostile(rng)
    if rng.random() < 0.3:
        stream = grammar.wire(rng, _plain(rng)) + stream
    if rng.random() < 0.2:
        stream = grammar.mutated(rng, stream)
    await _judge(hub, rng, stream)
    return 2


async def noise(hub: Hub, rng: Random) -> int:
    """No requests at all, or far too large ones."""
    await _judge(hub, rng, grammar.noise(rng))
    return 1


def _plain(rng: Random) -> oracle.Ask:
    while True:
        ask = grammar.ask(rng)
        if not oracle.promise(ask, tag="1").closes:
            return ask


async def _judge(hub: Hub, rng: Random, stream: bytes) -> None:
    """See that a stream is read as the strict reader does, or refused."""
    read = strict.read(stream)
    reader = RequestReader(lambda _request: None)
    reader.feed(stream)
    taken = [
        message.request for message in reader.ready if isinstance(message, Received)
    ]
    assert [
        (request.method, request.path, request.query, request.body) for request in taken
    ] == [_asked(item) for item in read.items[: len(taken)]], stream
    if read.is_refused and not reader.is_done and not reader.is_between:
        # It may still wait for a byte more before it refuses: here it comes.
        reader.feed(b"\r\n\r\n\x00")
        assert reader.is_done, stream
    whole = await talk(hub, [stream], chokes=rng.random() < 0.2)
    answers = answers_of(whole)
    assert {answer.status for answer in answers} <= STATUSES, stream
    assert not any(answer.closes for answer in answers[:-1]), stream
    refused = len(answers) - len(taken)
    # An expected body's head may be refused before the rest of it is read.
    assert refused <= 1, stream
    if refused == 1 or (read.is_refused and len(answers) > len(read.items)):
        assert answers[-1].closes, stream
        assert answers[-1].status >= 400, stream
    await _same_in_pieces(hub, rng, stream, whole)


def _asked(item: strict.Item) -> tuple[str, str, str, bytes]:
    """Return what a request asks, as the server takes it apart."""
    path, _, query = item.target.decode("latin-1").partition("?")
    return item.method.decode("ascii"), path, query, item.body


async def _same_in_pieces(hub: Hub, rng: Random, stream: bytes, whole: bytes) -> None:
    wanted = _told(whole)
    responses = await talk(hub, grammar.cuts(rng, stream), chokes=rng.random() < 0.1)
    assert _told(responses) == wanted, stream


def _told(output: bytes) -> list[Answered]:
    """Return the answers, without what may depend on how the bytes came.

    The last answer may, or may not, know already that the client has stopped sending;
    and where several things are wrong, another of them may be found first.
    """
    answers = answers_of(output)
    if answers:
        last = answers[-1]
        headers = tuple(header for header in last.headers if header[0] != b"Connection")
        answers[-1] = (
            Answered(400, (), b"")
            if last.status >= 400
            else replace(last, headers=headers)
        )
    return answers


KINDS = (*(well_formed,) * 4, *(nearly,) * 3, *(hostile,) * 2, noise)


async def run_case(hub: Hub, name: str) -> int:
    """Play the case of this name; return how many requests it was about."""
    rng = Random(name)
    kind = rng.choice(KINDS)
    try:
        return await kind(hub, rng)
    except BaseException as error:
        error.add_note(f"replays with: pytest tests/fuzz --fuzz-case={name}")
        raise


async def warm_hub(*, pushes: bool = False) -> Hub:
    """Return a hub whose VM has had its first answer, which is never a 304."""
    hub = make_hub(pushes=pushes)
    await talk(hub, [GET])
    return hub


def is_pushing(case: str) -> bool:
    """Return whether a case is played where VMs may wait: every second shard's."""
    return int(case.rpartition("-")[2]) % 2 == 1


@pytest.mark.parametrize("shard", range(SHARDS))
def test_any_bytes_get_a_valid_answer_or_a_refusal(
    shard: int, fuzz_requests: int, fuzz_seed: int, fuzz_case: str, faults: list[str]
) -> None:
    async def story() -> None:
        hub = await warm_hub(pushes=is_pushing(fuzz_case or f"-{shard}"))
        if fuzz_case:
            await run_case(hub, fuzz_case)
            return
        requests, number, middle = 0, shard, 0
        while requests < fuzz_requests // SHARDS:
            requests += await run_case(hub, f"{fuzz_seed}-{number}")
            number += SHARDS
            assert not faults, f"{faults[0]} in case {fuzz_seed}-{number - SHARDS}"
            if not middle and requests >= fuzz_requests // SHARDS // 2:
                middle = _blocks()
        assert _blocks() - middle < BLOCKS_MAX, "memory grows"
        assert hub.open == 0
        assert len(hub.endpoint.waits) == 0
        assert not hub.connections
        assert not hub._by_source
        living = sum(isinstance(object_, Connection) for object_ in gc.get_objects())
        assert not living, f"{living} connections are still in memory"

    play(story)


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


# The same bytes again


async def _repeats(
    seed: str, pieces_of: Callable[[bytes], Sequence[bytes]], *, rate_limit: float
) -> list[object]:
    """Play a poller's life; return everything that can be seen of it.

    What happens in between is the same for the same seed, however the bytes of
    one request are cut.
    """
    rng, hub = Random(seed), make_hub(rate_limit=rate_limit, pushes=is_pushing(seed))
    clock = hub.clock
    assert isinstance(clock, VirtualClock)
    conversation = Talk(hub)
    requests = [grammar.wire(rng, _plain(rng)) for _ in range(2)]
    requests += [GET, b"".join(requests), GET + GET]
    incarnation, seen = 1, list[object]()
    for _ in range(12):
        request = rng.choice(requests)
        for _ in range(rng.choice((1, 2, 5))):
            if not conversation.transport.is_closing():
                await conversation.send(pieces_of(request))
                await conversation.settle()
        match rng.randrange(7):
            case 0:
                incarnation += 1
                event = [replace(EVENT, description=str(incarnation))]
                hub.endpoint.publish(published(snapshot(incarnation, *event)))
            case 1:
                hub.endpoint.directory.drop("w0")
            case 2:
                hub.endpoint.directory.put(GUESTS)
            case 3:
                hub.endpoint.directory.put((replace(GUESTS[0], view_id="alone"),))
            case 4:
                hub.endpoint.publish(published(snapshot(1, epoch=incarnation + 1)))
            case _:
                pass
        if rng.random() < 0.3:
            # The time may be a little late: taking the times ends a cached response.
            seen.append(sorted(hub.endpoint.take_last_seen()))
        clock.advance_to(clock.now() + rng.choice((0, 1_000, 100_000)))
    # Without 100s: whether one is sent depends on whether the body has come.
    seen.append(answers_of(b"".join(conversation.transport.written)))
    seen.append(dict(hub.endpoint.counters.responses))
    seen.append(hub.endpoint.counters.unknown_callers)
    await conversation.end()
    return seen


def _split(request: bytes) -> Sequence[bytes]:
    middle = len(request) // 2
    return request[:middle], request[middle:]


def test_repeated_request_gets_the_same_response_as_a_parsed_one(
    fuzz_requests: int, fuzz_seed: int
) -> None:
    """The shortcut of a connection's last bytes changes nothing that can be seen."""

    async def story() -> None:
        for number in range(max(1, fuzz_requests // REPEATED_ONE_IN)):
            seed = f"{fuzz_seed}-{number}"
            rate_limit = (0, 0, 4)[number % 3]
            whole = await _repeats(
                seed, lambda request: [request], rate_limit=rate_limit
            )
            split = await _repeats(seed, _split, rate_limit=rate_limit)
            assert whole == split, f"seed {seed}"

    play(story)


def test_request_can_be_split_at_any_byte(fuzz_seed: int) -> None:
    """At every position, for some of each kind."""

    async def story() -> None:
        hub = await warm_hub(pushes=True)
        for number in range(12):
            rng = Random(f"cut-{fuzz_seed}-{number}")
            streams = [
                grammar.wire(rng, grammar.ask(rng)) + GET,
                grammar.hostile(rng),
                grammar.mutated(rng, grammar.wire(rng, grammar.ask(rng))),
            ]
            for stream in streams:
                wanted = _told(await talk(hub, [stream]))
                for at in range(1, min(len(stream), LONG)):
                    pieces = [stream[:at], stream[at:]]
                    assert _told(await talk(hub, pieces)) == wanted, (at, stream)
                single = [stream[at : at + 1] for at in range(len(stream))]
                assert _told(await talk(hub, single)) == wanted, stream

    play(story)
