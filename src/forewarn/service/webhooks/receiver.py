"""One receiver of webhooks: it gets its messages in order, and can be tested.

The messages of one receiver are posted in order, each until it is accepted. After a
crash, a message that was posted but not deleted is posted again, with the same ID and the
same body.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.clock import Clock
from forewarn.control import outbox
from forewarn.control.gateway import OperatorGateway
from forewarn.control.transactions.work import Who
from forewarn.ids import RandomIds
from forewarn.instants import SECOND, Micros
from forewarn.protocol.actors import service_part
from forewarn.protocol.errors import ForewarnError
from forewarn.reporting.campaign_sums import campaign_sums
from forewarn.service import metric_definitions
from forewarn.service.inbox import StoppedError
from forewarn.service.webhooks import decisions, limits, payload
from forewarn.service.webhooks.commits import Pending
from forewarn.service.webhooks.signing import signed_headers
from forewarn.store.notices import NoticeKind
from forewarn.store.port import Reader
from forewarn.store.records import OutboxMessage

logger = logging.getLogger("forewarn.webhooks")


WHO = Who(actor=service_part("webhooks"))

Post: TypeAlias = Callable[[bytes, dict[str, str]], Awaitable[decisions.Answer]]
"""Posts a body with headers; failures are returned, not raised."""


@dataclass(frozen=True, kw_only=True)
class Mailbox:
    """The messages of one receiver in the outbox."""

    receiver: str
    tenant: str
    gateway: OperatorGateway
    pending: Pending

    def waiting(self) -> int:
        """Return the number of pending messages."""
        return self.pending.of(self.receiver)

    async def read(self, limit: int) -> list[OutboxMessage]:
        """Return the oldest messages."""
        return await self.gateway.read(
            lambda reader: outbox.waiting(
                reader, self.receiver, tenant=self.tenant, limit=limit
            )
        )

    async def foreign_to(self, tenant: str) -> list[OutboxMessage]:
        """Return the messages that a tenant may not get."""
        return await self.gateway.read(
            lambda reader: outbox.foreign(reader, self.receiver, tenant=tenant)
        )

    async def figures(self, message: OutboxMessage) -> payload.Json | None:
        """Return the sums of the campaign that a notice says is done; else None.

        They are those of the moment of the notice, so each attempt posts the same.
        """
        notice = message.notice
        is_done = notice is not None and notice.kind is NoticeKind.CAMPAIGN_DONE
        if notice is None or notice.campaign is None or not is_done:
            return None
        campaign_id = notice.campaign.campaign_id

        def sums(reader: Reader) -> payload.Json | None:
            campaign = reader.get(CampaignRecord, campaign_id)
            # It can be deleted before its notice is delivered.
            if campaign is None:
                return None
            return campaign_sums(reader, campaign, now=message.at)

        return await self.gateway.read(sums)

    async def forget(self, messages: Sequence[OutboxMessage]) -> None:
        """Delete delivered messages."""
        await self.gateway.order(WHO, lambda work: outbox.forget(work, messages))

    async def give_up(self, messages: Sequence[OutboxMessage], why: str) -> int:
        """Drop messages; return the number of deleted ones."""
        return await self.gateway.order(
            WHO,
            lambda work: outbox.give_up(
                work, messages, receiver=self.receiver, tenant=self.tenant, why=why
            ),
        )


@dataclass(slots=True, kw_only=True)
class Status:
    """The status of a receiver."""

    attempts: Counter[str] = field(default_factory=Counter[str])
    """Posts by result: delivered, failed."""
    dropped: Counter[str] = field(default_factory=Counter[str])
    """Dropped messages by reason: too old, gone, too many."""
    failures: int = 0
    """Failures in a row."""
    is_gone: bool = False
    oldest_at: Micros = 0
    """Instant of the next message; 0 if no message is known to be pending."""
    delivered_at: Micros = 0
    failed_at: Micros = 0
    error: str = ""
    """The error of the last failure."""
    next_try_at: Micros = 0
    """Instant of the next attempt after a failure; 0 if there is none."""


TOO_OLD, TOO_MANY, GONE = metric_definitions.WEBHOOK_REASONS


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, at most for `seconds`."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


class Receiver:
    """Sends the messages of one receiver; used on the event loop."""

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
        form: payload.Format = payload.Format.EVENTS,
        wait: Callable[[asyncio.Event, float], Awaitable[None]] = wait_for,
    ) -> None:
        """Send the messages of `mailbox`. `share` returns the jitter of pauses."""
        self.name = name
        self.tenant = tenant
        self.status = Status()
        self._keys = keys
        self._post = post
        self._mailbox = mailbox
        self._clock = clock
        self._ids = ids
        self._share = share
        self._form = form
        self._wait = wait
        self._arrived = asyncio.Event()
        self._hurry = asyncio.Event()
        self._is_back = False
        self._told: dict[str, OutboxMessage] = {}
        self._forgot_at = clock.monotonic()

    # Called by others

    def wake(self) -> None:
        """Check for new messages."""
        self._arrived.set()
        if self._mailbox.waiting() > limits.PENDING_MAX:
            self._hurry.set()

    async def test(self) -> decisions.Answer:
        """Post a ping now, in parallel to messages; a success ends a pause."""
        public_id = self._ids.event()
        body = payload.ping(
            public_id,
            receiver=self.name,
            tenant=self.tenant,
            now=self._clock.now(),
            form=self._form,
        )
        answer = await self._post(body, self._headers(public_id, body))
        if answer.verdict is decisions.Verdict.DELIVERED:
            self.status.is_gone = False
            self._is_back = True
            self._hurry.set()
        return answer

    async def run(self) -> None:
        """Send messages until cancelled."""
        while True:
            try:
                await self._turn()
            except StoppedError:
                return
            except ForewarnError as error:
                logger.warning("webhook %s waits: %s", self.name, error.message)
                await self._wait(asyncio.Event(), limits.RETRY_SECONDS_MIN)
            except Exception:
                # A bug with one message must not end the delivery of the others.
                logger.exception("webhook %s: a bug in forewarn", self.name)
                await self._wait(asyncio.Event(), limits.RETRY_SECONDS_MAX)

    async def forget_told(self) -> None:
        """Delete the delivered messages."""
        if self._told:
            await self._mailbox.forget(tuple(self._told.values()))
            self._told.clear()
        self._forgot_at = self._clock.monotonic()

    # Internal

    async def _turn(self) -> None:
        """Send a page of messages, or wait for messages."""
        self._arrived.clear()
        await self._trim()
        read = await self._mailbox.read(limits.PAGE_MESSAGES)
        page = [message for message in read if message.message_id not in self._told]
        if not page:
            if self._told:
                await self.forget_told()
                return
            self.status.oldest_at = 0
            await self._arrived.wait()
            return
        self.status.oldest_at = page[0].at
        if self.status.is_gone:
            await self._give_up(page, GONE)
            return
        now = self._clock.now()
        if stale := [
            message for message in page if decisions.is_stale(message.at, now=now)
        ]:
            await self._give_up(stale, TOO_OLD)
            return
        await self._deliver(page)

    async def _deliver(self, page: Sequence[OutboxMessage]) -> None:
        failure: decisions.Answer | None = None
        for message in page:
            self.status.oldest_at = message.at
            body = payload.told(
                message,
                tenant=self.tenant,
                form=self._form,
                figures=await self._mailbox.figures(message),
            )
            answer = await self._post(body, self._headers(message.public_id, body))
            if answer.verdict is not decisions.Verdict.DELIVERED:
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
        status = self.status
        if status.failures:
            logger.info(
                "webhook %s accepts messages again after %d failures",
                self.name,
                status.failures,
            )
        status.attempts["delivered"] += 1
        status.failures = 0
        status.delivered_at = self._clock.now()
        self._told[message.message_id] = message

    async def _failed(self, answer: decisions.Answer) -> None:
        status, now = self.status, self._clock.now()
        status.attempts["failed"] += 1
        status.failures += 1
        status.failed_at = now
        status.error = answer.sentence()
        if answer.verdict is decisions.Verdict.GONE:
            status.is_gone = True
            logger.warning(
                "webhook %s responded with 410: it gets no messages until `forewarn "
                "webhook test` succeeds or the service restarts",
                self.name,
            )
            return
        seconds = decisions.pause(answer, status.failures, share=self._share(), now=now)
        if status.failures == 1:
            logger.warning(
                "webhook %s: %s; next attempt in %.0f s, further attempts follow",
                self.name,
                status.error,
                seconds,
            )
        status.next_try_at = now + round(seconds * SECOND)
        await self._pause(self._clock.monotonic() + seconds)
        status.next_try_at = 0

    async def _pause(self, until: float) -> None:
        """Wait until `until`, or until a test succeeds. If too many messages arrive
        meanwhile, the pause continues, and the oldest are dropped."""
        self._is_back = False
        while not self._is_back and (left := until - self._clock.monotonic()) > 0:
            self._hurry.clear()
            await self._wait(self._hurry, left)
            await self._trim()

    async def _trim(self) -> None:
        """Drop the oldest messages if too many are pending."""
        while self._mailbox.waiting() > limits.PENDING_MAX:
            await self.forget_told()
            oldest = await self._mailbox.read(limits.TRIM_MESSAGES)
            if not oldest:
                return
            await self._give_up(oldest, TOO_MANY)

    async def _give_up(self, messages: Sequence[OutboxMessage], why: str) -> None:
        count = await self._mailbox.give_up(messages, why)
        self.status.dropped[why] += count
        logger.warning("webhook %s: dropped %d messages: %s", self.name, count, why)

    def _headers(self, public_id: str, body: bytes) -> dict[str, str]:
        """Return the headers; a receiver without a key gets no signature."""
        content = {"Content-Type": self._form.content_type}
        if not self._keys:
            return content
        seconds = self._clock.now() // SECOND
        signed = signed_headers(
            self._keys, message_id=public_id, seconds=seconds, body=body
        )
        return {**content, **signed}
