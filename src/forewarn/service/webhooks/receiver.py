"""One receiver: its messages in order, one at a time, until each is taken.

What a crash leaves: a message that was posted and not deleted is posted again,
with the same id and the same body.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from forewarn.clock import Clock
from forewarn.control import outbox
from forewarn.control.gateway import OperatorGateway
from forewarn.control.transactions.work import Who
from forewarn.ids import RandomIds
from forewarn.instants import SECOND, Micros
from forewarn.protocol.actors import service_part
from forewarn.protocol.errors import ForewarnError
from forewarn.service import metric_definitions
from forewarn.service.inbox import StoppedError
from forewarn.service.webhooks import decisions, limits, payload
from forewarn.service.webhooks.commits import Pending
from forewarn.service.webhooks.decisions import Answer, Verdict
from forewarn.service.webhooks.signing import signed_headers
from forewarn.store.outbox import OutboxMessage

logger = logging.getLogger("forewarn.webhooks")


WHO = Who(actor=service_part("webhooks"))

Post: TypeAlias = Callable[[bytes, dict[str, str]], Awaitable[Answer]]
"""Posts a body with headers; whatever goes wrong is an answer too."""


@dataclass(frozen=True, kw_only=True)
class Mailbox:
    """One receiver's part of the outbox."""

    receiver: str
    tenant: str
    gateway: OperatorGateway
    pending: Pending

    def waiting(self) -> int:
        """Return how many messages wait."""
        return self.pending.of(self.receiver)

    async def read(self, limit: int) -> list[OutboxMessage]:
        """Return the oldest messages."""
        return await self.gateway.read(
            lambda reader: outbox.waiting(
                reader, self.receiver, tenant=self.tenant, limit=limit
            )
        )

    async def forget(self, messages: Sequence[OutboxMessage]) -> None:
        """Delete messages that were told."""
        await self.gateway.order(WHO, lambda work: outbox.forget(work, messages))

    async def give_up(self, messages: Sequence[OutboxMessage], why: str) -> int:
        """Delete messages that will not be told; return how many were there."""
        return await self.gateway.order(
            WHO,
            lambda work: outbox.give_up(
                work, messages, receiver=self.receiver, tenant=self.tenant, why=why
            ),
        )


@dataclass(slots=True, kw_only=True)
class Standing:
    """How a receiver does."""

    attempts: Counter[str] = field(default_factory=Counter[str])
    """Posts by what came of them: delivered, failed."""
    dropped: Counter[str] = field(default_factory=Counter[str])
    """Messages by why: too old, gone, too many."""
    failures: int = 0
    """In a row."""
    is_gone: bool = False
    oldest_at: Micros = 0
    """Of the message that is next; 0: none is known to wait."""
    delivered_at: Micros = 0
    failed_at: Micros = 0
    error: str = ""
    """Of the last failure."""
    next_try_at: Micros = 0
    """0: at once, or nothing waits."""


TOO_OLD, TOO_MANY, GONE = metric_definitions.WEBHOOK_REASONS


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set, or then."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


class Receiver:
    """Tells one receiver; used on the event loop."""

    def __init__(
        self,
        *,
        name: str,
        tenant: str,
        keys: Sequence[bytes],
        post: Post,
        mailbox: Mailbox,
        clock: Clock,
        ids: RandomIds,
        share: Callable[[], float],
        wait: Callable[[asyncio.Event, float], Awaitable[None]] = wait_for,
    ) -> None:
        """Tell it what is in `mailbox`. `share` gives the pauses their chance."""
        self.name = name
        self.tenant = tenant
        self.standing = Standing()
        self._keys = keys
        self._post = post
        self._mailbox = mailbox
        self._clock = clock
        self._ids = ids
        self._share = share
        self._wait = wait
        self._arrived = asyncio.Event()
        self._hurry = asyncio.Event()
        self._is_back = False
        self._told: dict[str, OutboxMessage] = {}
        self._forgot_at = clock.monotonic()

    # Used by others

    def wake(self) -> None:
        """Look: something has been written for it."""
        self._arrived.set()
        if self._mailbox.waiting() > limits.PENDING_MAX:
            self._hurry.set()

    async def test(self) -> Answer:
        """Post a ping now, beside whatever waits; a good answer ends a pause."""
        public_id = self._ids.event()
        body = payload.ping(
            public_id, receiver=self.name, tenant=self.tenant, now=self._clock.now()
        )
        answer = await self._post(body, self._headers(public_id, body))
        if answer.verdict is Verdict.DELIVERED:
            self.standing.is_gone = False
            self._is_back = True
            self._hurry.set()
        return answer

    async def run(self) -> None:
        """Tell it for ever."""
        while True:
            try:
                await self._turn()
            except StoppedError:
                return
            except ForewarnError as error:
                logger.warning("webhook %s waits: %s", self.name, error.message)
                await self._wait(asyncio.Event(), limits.RETRY_SECONDS_MIN)
            except Exception:
                # A fault of ours with one message must not end the others' as well.
                logger.exception("webhook %s met a fault of the program", self.name)
                await self._wait(asyncio.Event(), limits.RETRY_SECONDS_MAX)

    async def forget_told(self) -> None:
        """Have what was told deleted."""
        if self._told:
            await self._mailbox.forget(tuple(self._told.values()))
            self._told.clear()
        self._forgot_at = self._clock.monotonic()

    # Its own work

    async def _turn(self) -> None:
        """Tell a page of messages, or wait for one."""
        self._arrived.clear()
        await self._trim()
        read = await self._mailbox.read(limits.PAGE_MESSAGES)
        page = [each for each in read if each.message_id not in self._told]
        if not page:
            if self._told:
                await self.forget_told()
                return
            self.standing.oldest_at = 0
            await self._arrived.wait()
            return
        self.standing.oldest_at = page[0].at
        if self.standing.is_gone:
            await self._give_up(page, GONE)
            return
        now = self._clock.now()
        if stale := [each for each in page if decisions.is_stale(each.at, now=now)]:
            await self._give_up(stale, TOO_OLD)
            return
        await self._tell(page)

    async def _tell(self, page: Sequence[OutboxMessage]) -> None:
        failure: Answer | None = None
        for message in page:
            self.standing.oldest_at = message.at
            body = payload.told(message, tenant=self.tenant)
            answer = await self._post(body, self._headers(message.public_id, body))
            if answer.verdict is not Verdict.DELIVERED:
                failure = answer
                break
            self._delivered(message)
            late = self._clock.monotonic() - self._forgot_at
            if late >= limits.FORGET_SECONDS:
                await self.forget_told()
        await self.forget_told()
        if failure is not None:
            await self._failed(failure)

    def _delivered(self, message: OutboxMessage) -> None:
        standing = self.standing
        if standing.failures:
            logger.info(
                "webhook %s takes messages again, after %d failures",
                self.name,
                standing.failures,
            )
        standing.attempts["delivered"] += 1
        standing.failures = 0
        standing.delivered_at = self._clock.now()
        self._told[message.message_id] = message

    async def _failed(self, answer: Answer) -> None:
        standing, now = self.standing, self._clock.now()
        standing.attempts["failed"] += 1
        standing.failures += 1
        standing.failed_at = now
        standing.error = answer.sentence()
        if answer.verdict is Verdict.GONE:
            standing.is_gone = True
            logger.warning(
                "webhook %s answered 410: it is told nothing until `forewarn webhook "
                "test` succeeds, or the service starts anew",
                self.name,
            )
            return
        seconds = decisions.pause(
            answer, standing.failures, share=self._share(), now=now
        )
        if standing.failures == 1:
            logger.warning(
                "webhook %s: %s; tried again in %.0f s and so on",
                self.name,
                standing.error,
                seconds,
            )
        standing.next_try_at = now + round(seconds * SECOND)
        await self._pause(self._clock.monotonic() + seconds)
        standing.next_try_at = 0

    async def _pause(self, until: float) -> None:
        """Wait until then, or until a test has succeeded; too many messages meanwhile
        end no pause, but the oldest of them go."""
        self._is_back = False
        while not self._is_back and (left := until - self._clock.monotonic()) > 0:
            self._hurry.clear()
            await self._wait(self._hurry, left)
            await self._trim()

    async def _trim(self) -> None:
        """Give up the oldest where too many wait."""
        while self._mailbox.waiting() > limits.PENDING_MAX:
            await self.forget_told()
            oldest = await self._mailbox.read(limits.TRIM_MESSAGES)
            if not oldest:
                return
            await self._give_up(oldest, TOO_MANY)

    async def _give_up(self, messages: Sequence[OutboxMessage], why: str) -> None:
        count = await self._mailbox.give_up(messages, why)
        self.standing.dropped[why] += count
        logger.warning("webhook %s: messages given up: %d, %s", self.name, count, why)

    def _headers(self, public_id: str, body: bytes) -> dict[str, str]:
        return signed_headers(
            self._keys,
            message_id=public_id,
            seconds=self._clock.now() // SECOND,
            body=body,
        )
