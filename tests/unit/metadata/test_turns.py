"""Limits on the work for one connection in one iteration of the event loop."""

import asyncio

from forewarn.clock import VirtualClock
from forewarn.metadata import limits
from forewarn.metadata.http import Response
from forewarn.metadata.hub import Hub
from forewarn.metadata.limits import Limits
from forewarn.metadata.reader import Received, RequestReader
from tests.fuzz.talk import Answered, Talk, answers_of
from tests.unit.metadata.support import (
    EVENT_ID,
    GET,
    NEWEST,
    NOW,
    PATH,
    WEST_0,
    FakeGateway,
    Play,
    approval,
    make_endpoint,
    raw,
)

VM = "192.0.2.4"
OTHER_VM = "192.0.2.5"
UNKNOWN = "203.0.113.9"
FLOOD = 500
"""Requests that are sent in one piece."""


def make_hub(*, rate_limit: float = 0, throttle_seconds: float = 0.0) -> Hub:
    endpoint = make_endpoint(rate_limit=rate_limit)
    return Hub(
        endpoint=endpoint,
        gateway=FakeGateway(endpoint),
        clock=VirtualClock(NOW),
        bounds=Limits(throttle_seconds=throttle_seconds),
    )


def answered(conversation: Talk) -> list[Answered]:
    return answers_of(b"".join(conversation.transport.written))


def test_flood_is_answered_over_many_turns(play: Play) -> None:
    async def story() -> None:
        hub = make_hub()
        flood, other = Talk(hub, source=VM), Talk(hub, source=OTHER_VM)
        flood.connection.data_received(GET * FLOOD)
        count = len(answered(flood))
        assert 0 < count <= limits.PIPELINE_MAX
        assert not flood.transport.reads
        other.connection.data_received(GET)
        assert len(answered(other)) == 1
        while count < FLOOD:
            await asyncio.sleep(0)
            before, count = count, len(answered(flood))
            assert before < count <= before + limits.PIPELINE_MAX
        assert {answer.status for answer in answered(flood)} == {200}
        await asyncio.sleep(0)
        assert flood.transport.reads
        assert flood.connection.is_free

    play(story)


def test_single_request_needs_no_further_turn(play: Play) -> None:
    async def story() -> None:
        conversation = Talk(make_hub(), source=VM)
        for count in range(1, 5):
            conversation.connection.data_received(GET)
            assert len(answered(conversation)) == count
            assert conversation.transport.reads

    play(story)


def test_client_that_stops_sending_gets_every_answer(play: Play) -> None:
    async def story() -> None:
        for rest in (b"", GET[:20]):
            conversation = Talk(make_hub(), source=VM)
            conversation.connection.data_received(GET * FLOOD + rest)
            assert conversation.connection.eof_received()
            for _ in range(FLOOD):
                await asyncio.sleep(0)
            assert len(answered(conversation)) == FLOOD
            assert conversation.transport.is_lost

    play(story)


def test_large_read_ends_the_turn(play: Play) -> None:
    async def story() -> None:
        conversation = Talk(make_hub(), source=VM)
        size = limits.TURN_BYTES_MAX
        conversation.connection.data_received(
            raw("POST", "/", f"Content-Length: {size + 1}") + b"x" * size
        )
        assert not conversation.transport.reads
        await asyncio.sleep(0)
        assert conversation.transport.reads
        conversation.connection.data_received(b"x")
        assert [answer.status for answer in answered(conversation)] == [404]

    play(story)


def test_unknown_caller_gets_one_answer_per_connection(play: Play) -> None:
    async def story() -> None:
        for source in (UNKNOWN, ""):
            conversation = Talk(make_hub(), source=source)
            conversation.connection.data_received(GET * FLOOD)
            for _ in range(FLOOD):
                await asyncio.sleep(0)
            (answer,) = answered(conversation)
            assert (answer.status, answer.closes) == (404, True)
            # Its further data is discarded, one read in each iteration of the loop.
            assert conversation.transport.reads
            conversation.connection.data_received(GET * FLOOD)
            assert not conversation.transport.reads
            await asyncio.sleep(0)
            assert conversation.transport.reads
            assert len(answered(conversation)) == 1
            conversation.transport.abort()
            await asyncio.sleep(0)

    play(story)


def test_rate_limited_connection_pauses_reading(play: Play) -> None:
    async def story() -> None:
        hub = make_hub(rate_limit=2, throttle_seconds=1000)
        conversation = Talk(hub, source=VM)
        conversation.connection.data_received(GET * FLOOD)
        for _ in range(FLOOD):
            await asyncio.sleep(0)
        statuses = [answer.status for answer in answered(conversation)]
        assert statuses == [200, 200, 429]
        assert not conversation.transport.reads
        alone = Talk(hub, source=VM)
        alone.connection.data_received(GET)
        assert [answer.status for answer in answered(alone)] == [429]
        assert not alone.transport.reads
        for connection in (conversation, alone):
            connection.transport.abort()
        await asyncio.sleep(0)

    play(story)


def test_rate_limited_connection_continues_after_its_pause(play: Play) -> None:
    async def story() -> None:
        conversation = Talk(make_hub(rate_limit=2), source=VM)
        conversation.connection.data_received(GET * 10)
        await conversation.settle()
        assert [answer.status for answer in answered(conversation)] == [200] * 2 + [
            429
        ] * 8

    play(story)


# -- chunks


def chunked(count: int) -> bytes:
    """Return an approval in `count` chunks of a single byte, and the last of none."""
    head = raw("POST", f"{PATH}?{NEWEST}", "Transfer-Encoding: chunked")
    return head + b"1\r\n \r\n" * count + b"0\r\n\r\n"


def test_chunks_are_parsed_over_many_turns(play: Play) -> None:
    async def story() -> None:
        conversation = Talk(make_hub(), source=VM)
        conversation.connection.data_received(chunked(limits.CHUNKS_MAX - 1))
        turns = 0
        while not answered(conversation):
            assert not conversation.transport.reads
            await asyncio.sleep(0)
            turns += 1
        # A chunk is two steps, the line before it and its bytes.
        assert turns >= 2 * (limits.CHUNKS_MAX - 1) // limits.READ_STEPS_MAX
        (answer,) = answered(conversation)
        assert (answer.status, answer.closes) == (400, False)

    play(story)


def test_body_in_too_many_chunks_is_refused(play: Play) -> None:
    async def story() -> None:
        conversation = Talk(make_hub(), source=VM)
        conversation.connection.data_received(chunked(limits.CHUNKS_MAX))
        await conversation.settle()
        (answer,) = answered(conversation)
        assert (answer.status, answer.closes) == (400, True)
        conversation.transport.abort()
        await asyncio.sleep(0)

    play(story)


def test_chunk_lines_are_charged_like_the_body() -> None:
    extension = b";" + b"x" * (limits.LINE_BYTES_MAX - 100)
    reader = RequestReader(lambda _request: None)
    body = approval(EVENT_ID).encode()
    head = raw("POST", f"{PATH}?{NEWEST}", "Transfer-Encoding: chunked")
    chunks = b"".join(b"1%b\r\n%c\r\n" % (extension, byte) for byte in body)
    reader.feed(head + chunks + b"0\r\n\r\n")
    (received,) = reader.ready
    assert isinstance(received, Received)
    assert received.request.body == body
    assert received.request.overhead == len(chunks) + len(b"0\r\n\r\n") - len(body)
    endpoint = make_endpoint(rate_limit=50)
    for status in (None, 429):
        answer = endpoint.handle(received.request, WEST_0, now=NOW, monotonic=0)
        assert (answer.status if isinstance(answer, Response) else None) == status


# -- bodies that are not read


def half_post(*lines: str) -> bytes:
    """Return an approval of which half of the body has come."""
    return raw("POST", f"{PATH}?{NEWEST}", *lines, "Content-Length: 2000") + b"x" * 1000


def test_body_of_unknown_caller_is_not_read(play: Play) -> None:
    async def story() -> None:
        for data in (half_post(), chunked(5)[:-5]):
            conversation = Talk(make_hub(), source=UNKNOWN)
            conversation.connection.data_received(data)
            (answer,) = answered(conversation)
            assert (answer.status, answer.closes) == (404, True)
            reader = conversation.connection._reader
            assert not reader._body
            assert not reader.has_unread
            conversation.transport.abort()
            await asyncio.sleep(0)

    play(story)


def test_body_of_rate_limited_vm_is_not_read(play: Play) -> None:
    async def story() -> None:
        for bad in ("", "X-Forwarded-For: a"):
            lines = [bad] if bad else []
            hub = make_hub(rate_limit=1)
            whole = raw("POST", f"{PATH}?{NEWEST}", *lines, body=approval(EVENT_ID))
            for status, data in (
                (400 if bad else 200, whole),
                (429, half_post(*lines)),
            ):
                conversation = Talk(hub, source=VM)
                conversation.connection.data_received(data)
                await conversation.settle()
                (answer,) = answered(conversation)
                assert answer.status == status
            assert answer.closes
            assert not conversation.connection._reader._body
            # A body that has come is refused in the same way.
            conversation = Talk(hub, source=VM)
            conversation.connection.data_received(whole)
            (answer,) = answered(conversation)
            assert (answer.status, answer.closes) == (429, True)
            await asyncio.sleep(0)

    play(story)
