"""One receiver and its messages, with a clock that only its pauses advance."""

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest

from forewarn.clock import VirtualClock
from forewarn.control.gateway import BusyError
from forewarn.ids import RandomIds
from forewarn.instants import SECOND, parse_instant
from forewarn.service.webhooks import limits
from forewarn.service.webhooks.decisions import Answer
from forewarn.service.webhooks.receiver import Mailbox, Receiver
from forewarn.store.records import EventChange, OutboxMessage
from forewarn.store.sequence import key_of
from tests.support.loops import in_loop

START = parse_instant("2030-01-01T00:00:00Z")
DATA = {"EventId": "E", "scope": "web", "tenant": "shop", "approved_by": None}
FINE = Answer(status=200)


def message(number: int, *, at: int = START) -> OutboxMessage:
    return OutboxMessage(
        message_id=key_of(1, number),
        receiver="shop",
        at=at,
        change=EventChange.SCHEDULED,
        public_id=f"id-{number}",
        body=json.dumps(DATA),
    )


async def until(has_come: Callable[[], bool]) -> None:
    """Let other tasks run until a condition holds."""
    async with asyncio.timeout(10):
        while not has_come():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)


class Box(Mailbox):
    """The outbox of one receiver, in memory."""

    def __init__(self, count: int) -> None:
        self.messages = [message(number) for number in range(count)]
        self.dropped: list[tuple[int, str]] = []
        self.is_busy = 0
        """The number of deletions to reject."""

    def waiting(self) -> int:
        return len(self.messages)

    async def read(self, limit: int) -> list[OutboxMessage]:
        return self.messages[:limit]

    async def figures(self, message: OutboxMessage) -> None:
        assert message.notice is None

    async def forget(self, messages: Sequence[OutboxMessage]) -> None:
        if self.is_busy:
            self.is_busy -= 1
            raise BusyError("too many requests are waiting")
        self.messages = [sent for sent in self.messages if sent not in messages]

    async def give_up(self, messages: Sequence[OutboxMessage], why: str) -> int:
        self.dropped.append((len(messages), why))
        await self.forget(messages)
        return len(messages)


class Told:
    """A receiver whose remote end gives the test's responses, then 200."""

    def __init__(self, box: Box, *answers: Answer) -> None:
        self.box = box
        self.answers = list(answers)
        self.posts: list[tuple[str, bytes]] = []
        self.pauses: list[float] = []
        self.headers: list[dict[str, str]] = []
        self.during_pause = lambda: None
        self.clock = VirtualClock(START)
        self.receiver = Receiver(
            name="shop",
            tenant="shop",
            keys=(bytes(32),),
            post=self.post,
            mailbox=box,
            clock=self.clock,
            ids=RandomIds(1),
            share=lambda: 1.0,
            wait=self.wait,
        )

    @property
    def ids(self) -> list[str]:
        return [public_id for public_id, _ in self.posts]

    async def post(self, body: bytes, headers: dict[str, str]) -> Answer:
        self.posts.append((headers["webhook-id"], body))
        return self.answers.pop(0) if self.answers else FINE

    async def post_headers(self, body: bytes, headers: dict[str, str]) -> Answer:
        """Remember the headers of a post, which may have no ID."""
        self.headers.append(headers)
        return FINE

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        self.pauses.append(seconds)
        self.during_pause()
        await asyncio.sleep(0)
        if not event.is_set():
            self.clock.advance_to(self.clock.now() + round(seconds * SECOND))

    async def run(self) -> None:
        """Run it until no message is pending."""
        task = asyncio.create_task(self.receiver.run())
        await until(lambda: not self.box.messages)
        task.cancel()
        await asyncio.wait([task])


@in_loop
async def test_messages_are_sent_once_and_in_order() -> None:
    box = Box(limits.PAGE_MESSAGES * 2 + 1)
    expected = [sent.public_id for sent in box.messages]
    delivery = Told(box)
    await delivery.run()
    assert delivery.ids == expected
    assert delivery.receiver.status.attempts == {"delivered": len(expected)}
    assert delivery.receiver.status.delivered_at == START
    assert delivery.pauses == []


@in_loop
async def test_failed_message_blocks_later_ones_and_is_sent_again() -> None:
    delivery = Told(Box(3), FINE, *[Answer(status=500)] * 3)
    await delivery.run()
    assert delivery.ids == ["id-0", "id-1", "id-1", "id-1", "id-1", "id-2"]
    assert len({body for public_id, body in delivery.posts if public_id == "id-1"}) == 1
    assert delivery.pauses == [1, 2, 4]
    status = delivery.receiver.status
    assert (status.failures, status.error) == (0, "HTTP status 500")
    assert status.next_try_at == 0


@in_loop
async def test_pause_equals_retry_after() -> None:
    delivery = Told(Box(1), Answer(status=429, retry_after="90"))
    await delivery.run()
    assert delivery.pauses == [90]


@in_loop
async def test_receiver_with_status_410_gets_nothing_until_a_test_succeeds() -> None:
    box = Box(2)
    delivery = Told(box, Answer(status=410))
    await delivery.run()
    assert delivery.ids == ["id-0"]
    assert box.dropped == [(2, "gone")]
    assert delivery.receiver.status.dropped == {"gone": 2}
    box.messages = [message(7)]
    await delivery.run()
    assert delivery.ids == ["id-0"]
    assert (await delivery.receiver.test()).status == 200
    box.messages = [message(8)]
    await delivery.run()
    assert delivery.ids[-1] == "id-8"


@in_loop
async def test_expired_message_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    box = Box(0)
    old = START - limits.GIVE_UP_AFTER
    box.messages = [message(1, at=old), message(2, at=old + 1), message(3)]
    delivery = Told(box)
    await delivery.run()
    assert delivery.ids == ["id-2", "id-3"]
    assert box.dropped == [(1, "too old")]
    assert "webhook shop: dropped 1 messages: too old" in caplog.messages


@in_loop
async def test_oldest_messages_are_dropped_and_the_pause_continues() -> None:
    box = Box(limits.PENDING_MAX)
    delivery = Told(box, Answer(status=500), Answer(status=500))

    def write_more() -> None:
        if len(delivery.pauses) == 1:
            box.messages.append(message(limits.PENDING_MAX))
            delivery.receiver.wake()

    delivery.during_pause = write_more
    delivery.box.messages = box.messages
    task = asyncio.create_task(delivery.receiver.run())
    await until(lambda: len(delivery.pauses) == 3)
    task.cancel()
    await asyncio.wait([task])
    assert box.dropped == [(limits.TRIM_MESSAGES, "too many")]
    # Dropping messages interrupted the first pause, which then continued.
    assert delivery.pauses[:2] == [1, 1]
    assert delivery.ids[:2] == ["id-0", f"id-{limits.TRIM_MESSAGES}"]


@in_loop
async def test_successful_test_ends_the_pause() -> None:
    delivery = Told(Box(1), *[Answer(error="no connection")] * 9)
    tests: list[asyncio.Task[Answer]] = []

    def try_it() -> None:
        if len(delivery.pauses) == 9:
            tests.append(asyncio.create_task(delivery.receiver.test()))

    delivery.during_pause = try_it
    before = delivery.clock.now()
    await delivery.run()
    assert [test.result().status for test in tests] == [200]
    assert delivery.clock.now() - before == sum((1, 2, 4, 8, 16, 32, 64, 128)) * SECOND


@in_loop
async def test_delivered_message_is_not_sent_again_while_the_store_is_busy() -> None:
    box = Box(3)
    box.is_busy = 2
    delivery = Told(box)
    await delivery.run()
    assert delivery.ids == ["id-0", "id-1", "id-2"]
    assert delivery.pauses == [limits.RETRY_SECONDS_MIN] * 2


@in_loop
async def test_undeleted_message_is_sent_again_with_the_same_id() -> None:
    box = Box(1)
    box.is_busy = 1
    first = Told(box)
    task = asyncio.create_task(first.receiver.run())
    await until(lambda: bool(first.posts))
    task.cancel()
    await asyncio.wait([task])
    again = Told(box)
    again.box.is_busy = 0
    await again.run()
    assert again.posts == first.posts
