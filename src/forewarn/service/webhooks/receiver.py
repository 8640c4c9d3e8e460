"""The receivers of webhooks: start, stop, list and test them.

The messages of one receiver are posted in order, each until it is accepted. After a
crash, a message that was posted but not deleted is posted again, with the same ID and the
same body.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from forewarn.admin.meters import Reading
from forewarn.clock import Clock
from forewarn.control import outbox
from forewarn.control.gateway import OperatorGateway
from forewarn.control.transactions.work import Who
from forewarn.ids import RandomIds
from forewarn.instants import SECOND, Micros, instant_or_none
from forewarn.protocol.actors import service_part
from forewarn.protocol.errors import ForewarnError, NotFoundError
from forewarn.service import metric_definitions
from forewarn.service.inbox import StoppedError
from forewarn.service.options import without_secrets
from forewarn.service.settings import Settings, problem
from forewarn.service.settings_model import WebhookSettings
from forewarn.service.webhooks import decisions, limits, payload
from forewarn.service.webhooks.commits import Pending, Tenants
from forewarn.service.webhooks.signing import signed_headers
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
            public_id, receiver=self.name, tenant=self.tenant, now=self._clock.now()
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
        page = [each for each in read if each.message_id not in self._told]
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
        if stale := [each for each in page if decisions.is_stale(each.at, now=now)]:
            await self._give_up(stale, TOO_OLD)
            return
        await self._tell(page)

    async def _tell(self, page: Sequence[OutboxMessage]) -> None:
        failure: decisions.Answer | None = None
        for message in page:
            self.status.oldest_at = message.at
            body = payload.told(message, tenant=self.tenant)
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
        return signed_headers(
            self._keys,
            message_id=public_id,
            seconds=self._clock.now() // SECOND,
            body=body,
        )


NO_TENANT = "no such tenant"
"""The state of a receiver whose tenant is not in the fleet."""

REMOVED = "its receiver is no longer configured"


class Webhooks:
    """The receivers; used on the event loop (admin.gateways.WebhookGateway)."""

    def __init__(
        self,
        settings: Settings,
        *,
        keys: Mapping[str, Sequence[bytes]],
        pending: Pending,
        tenants: Tenants,
        gateway: OperatorGateway,
        clock: Clock,
        ids: RandomIds,
    ) -> None:
        """Create a receiver for each [[webhook]]; nothing is sent yet.

        Raises SettingsError if a `ca_file` cannot be used.
        """
        self._settings = {webhook.name: webhook for webhook in settings.webhook}
        self._pending = pending
        self._tenants = tenants
        self._gateway = gateway
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = contextlib.AsyncExitStack()
        self._receivers: dict[str, Receiver] = {}
        for number, webhook in enumerate(settings.webhook, start=1):
            # Imported only if there are receivers: it takes 10 MiB.
            from forewarn.service.webhooks.sender import Sender  # noqa: PLC0415

            try:
                sender = Sender(
                    webhook.url,
                    timeout=webhook.timeout,
                    clock=clock,
                    ca_file=webhook.ca_file,
                    proxy=webhook.proxy,
                )
            except OSError as error:
                message = f"{webhook.ca_file} cannot be used: {error.strerror}"
                raise problem(settings, f"webhook.{number}.ca_file", message) from error
            self._closing.push_async_callback(sender.close)
            self._receivers[webhook.name] = Receiver(
                name=webhook.name,
                tenant=webhook.tenant,
                keys=keys[webhook.name],
                post=sender.post,
                mailbox=self._mailbox(webhook.name, webhook.tenant),
                clock=clock,
                ids=ids,
                share=secrets.SystemRandom().random,
            )

    def _mailbox(self, receiver: str, tenant: str) -> Mailbox:
        return Mailbox(
            receiver=receiver,
            tenant=tenant,
            gateway=self._gateway,
            pending=self._pending,
        )

    # Start and stop

    def begin(self) -> None:
        """Start to send messages."""
        loop = asyncio.get_running_loop()

        def arrived(names: frozenset[str]) -> None:
            # A closed loop raises this; then no receiver is left.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake, names)

        self._pending.on_arrival(arrived)
        self._tenants.begin()
        work: list[Callable[[], Any]] = [each.run for each in self._receivers.values()]
        work += [
            lambda name=name: self._sweep(name)
            for name in self._pending.receivers()
            if name not in self._receivers
        ]
        self._tasks = [asyncio.create_task(each()) for each in work]

    def _wake(self, names: Iterable[str]) -> None:
        for name in names:
            if receiver := self._receivers.get(name):
                receiver.wake()

    async def _sweep(self, name: str) -> None:
        """Delete the messages of a receiver that is no longer configured."""
        mailbox = self._mailbox(name, "")
        with contextlib.suppress(ForewarnError):
            while messages := await mailbox.read(limits.TRIM_MESSAGES):
                await mailbox.give_up(messages, REMOVED)

    async def end(self) -> None:
        """Stop within a second; messages that are not deleted by then are sent again."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        with contextlib.suppress(ForewarnError, TimeoutError):
            async with asyncio.timeout(limits.END_SECONDS):
                for receiver in self._receivers.values():
                    await receiver.forget_told()
                await self._closing.aclose()

    # Requests of operators (admin.gateways.WebhookGateway)

    async def webhooks(self) -> list[dict[str, Any]]:
        """Return the status of each receiver."""
        return [
            self._report(receiver, self._settings[name])
            for name, receiver in self._receivers.items()
        ]

    def _report(self, receiver: Receiver, webhook: WebhookSettings) -> dict[str, Any]:
        status, pending = receiver.status, self._pending.of(receiver.name)
        state = "idle" if not pending else "failing" if status.failures else "sending"
        if receiver.tenant and not self._tenants.has(receiver.tenant):
            state = NO_TENANT
        return {
            "webhook": receiver.name,
            "tenant": receiver.tenant or None,
            "url": without_secrets(webhook.url),
            "state": "gone" if status.is_gone else state,
            "pending": pending,
            "oldest": instant_or_none(status.oldest_at) if pending else None,
            "delivered": status.attempts["delivered"],
            "dropped": status.dropped.total(),
            "failures": status.failures,
            "last_delivered": instant_or_none(status.delivered_at),
            "last_failed": instant_or_none(status.failed_at),
            "last_error": status.error or None,
            "next_try": instant_or_none(status.next_try_at),
        }

    async def test_webhook(self, name: str) -> dict[str, Any]:
        """Post a ping; return the result. Raises NotFoundError."""
        receiver = self._receivers.get(name)
        if receiver is None:
            raise NotFoundError(
                f"there is no webhook {name!r}",
                hint="Run `forewarn webhook list` to see all webhooks.",
            )
        answer = await receiver.test()
        good = answer.verdict is decisions.Verdict.DELIVERED
        return {
            "webhook": name,
            "delivered": good,
            "status": answer.status or None,
            "error": None if good else answer.sentence(),
            "seconds": round(answer.seconds, 3),
        }

    # Metrics

    def readings(self) -> list[Reading]:
        """Return the readings of all receivers, with all their series."""
        receivers = self._receivers.values()
        return [
            Reading(
                metric_definitions.WEBHOOK_ATTEMPTS,
                {
                    (each.name, result): each.status.attempts[result]
                    for each in receivers
                    for result in metric_definitions.WEBHOOK_RESULTS
                },
            ),
            Reading(
                metric_definitions.WEBHOOK_DROPPED,
                {
                    (each.name, why): each.status.dropped[why]
                    for each in receivers
                    for why in metric_definitions.WEBHOOK_REASONS
                },
            ),
            Reading(
                metric_definitions.WEBHOOK_PENDING,
                {each.name: self._pending.of(each.name) for each in receivers},
            ),
            Reading(
                metric_definitions.WEBHOOK_AGE,
                {each.name: self._age(each) for each in receivers},
            ),
        ]

    def _age(self, receiver: Receiver) -> float:
        since = receiver.status.oldest_at
        is_known = since and self._pending.of(receiver.name)
        return (self._clock.now() - since) / SECOND if is_known else 0.0
