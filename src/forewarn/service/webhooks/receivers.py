"""All receivers of webhooks: start, stop, list and test them."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from forewarn.admin.meters import Reading
from forewarn.clock import Clock
from forewarn.control.gateway import OperatorGateway
from forewarn.ids import RandomIds
from forewarn.instants import SECOND, instant_or_none
from forewarn.protocol.errors import ForewarnError, NotFoundError
from forewarn.service import metric_definitions
from forewarn.service.inbox import StoppedError
from forewarn.service.options import without_secrets
from forewarn.service.settings import Settings, problem
from forewarn.service.settings_model import WebhookSettings
from forewarn.service.webhooks import decisions, limits
from forewarn.service.webhooks.commits import Pending, Tenants
from forewarn.service.webhooks.payload import Format
from forewarn.service.webhooks.receiver import Mailbox, Receiver
from forewarn.service.webhooks.signing import WebhookSecrets

NO_TENANT = "no such tenant"
"""The state of a receiver whose tenant is not in the fleet."""

REMOVED = "its receiver is no longer configured"

OTHERS = "its receiver is a tenant's now"


class Webhooks:
    """The receivers; used on the event loop (admin.gateways.WebhookGateway)."""

    def __init__(
        self,
        settings: Settings,
        *,
        secrets_of: Mapping[str, WebhookSecrets],
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
                    secrets_of[webhook.name].url,
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
                keys=secrets_of[webhook.name].keys,
                post=sender.post,
                mailbox=self._mailbox(webhook.name, webhook.tenant),
                clock=clock,
                ids=ids,
                share=secrets.SystemRandom().random,
                form=Format(webhook.format),
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
        work: list[Callable[[], Any]] = [
            lambda receiver_=receiver: self._run(receiver_)
            for receiver in self._receivers.values()
        ]
        work += [
            lambda name=name: self._sweep(name)
            for name in self._pending.receivers()
            if name not in self._receivers
        ]
        self._tasks = [asyncio.create_task(run()) for run in work]

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

    async def _run(self, receiver: Receiver) -> None:
        """Send the messages of a receiver, without those that it got as another one's.

        The settings change only while the service does not run.
        """
        # The history entry has no tenant: the number of the messages is not its business.
        mailbox = self._mailbox(receiver.name, "")
        while receiver.tenant:
            try:
                others = await mailbox.foreign_to(receiver.tenant)
                if others:
                    await mailbox.give_up(others, OTHERS)
                break
            except StoppedError:
                return
            except ForewarnError:
                await asyncio.sleep(limits.RETRY_SECONDS_MIN)
        await receiver.run()

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
            "url": without_secrets(webhook.url) or f"file {webhook.url_file}",
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
                    (receiver.name, result): receiver.status.attempts[result]
                    for receiver in receivers
                    for result in metric_definitions.WEBHOOK_RESULTS
                },
            ),
            Reading(
                metric_definitions.WEBHOOK_DROPPED,
                {
                    (receiver.name, why): receiver.status.dropped[why]
                    for receiver in receivers
                    for why in metric_definitions.WEBHOOK_REASONS
                },
            ),
            Reading(
                metric_definitions.WEBHOOK_PENDING,
                {
                    receiver.name: self._pending.of(receiver.name)
                    for receiver in receivers
                },
            ),
            Reading(
                metric_definitions.WEBHOOK_AGE,
                {receiver.name: self._age(receiver) for receiver in receivers},
            ),
        ]

    def _age(self, receiver: Receiver) -> float:
        since = receiver.status.oldest_at
        is_known = since and self._pending.of(receiver.name)
        return (self._clock.now() - since) / SECOND if is_known else 0.0
