"""State of webhooks that follows commits: pending messages and existing tenants."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping

from forewarn.control.requests.fleet_changes import FLEET_SUBJECT
from forewarn.fleet.model import Tenant
from forewarn.service.observed import Changes, Listener
from forewarn.service.settings import Settings
from forewarn.store import kinds
from forewarn.store.port import Reader, Store, every
from forewarn.store.records import AuditEntry, OutboxMessage

logger = logging.getLogger("forewarn.webhooks")


class Pending(Listener):
    """The number of pending messages per receiver; any thread can read it."""

    def __init__(self) -> None:
        """Start with zero counts."""
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._on_arrival: Callable[[frozenset[str]], None] = lambda _names: None

    def load(self, store: Store) -> None:
        """Load the pending messages; call it before anything writes."""

        def count(reader: Reader) -> None:
            for message in every(reader, kinds.ALL_OUTBOX):
                self._counts[message.receiver] += 1

        store.read(count)

    def on_arrival(self, tell: Callable[[frozenset[str]], None]) -> None:
        """Call `tell` in the writing thread with the receivers of new messages."""
        self._on_arrival = tell

    def of(self, receiver: str) -> int:
        """Return the number of pending messages of a receiver."""
        return self._counts[receiver]

    def receivers(self) -> tuple[str, ...]:
        """Return the receivers with pending messages."""
        with self._lock:
            return tuple(name for name, count in self._counts.items() if count)

    # observed.Listener

    def committed(self, changes: Changes) -> None:
        """Count the messages that a transaction wrote and deleted."""
        arrived: set[str] = set()
        for before, after in changes.of(OutboxMessage):
            if before is None and after is not None:
                arrived.add(after.receiver)
                self._add(after.receiver, 1)
            elif before is not None and after is None:
                self._add(before.receiver, -1)
        if arrived:
            self._on_arrival(frozenset(arrived))

    def _add(self, receiver: str, count: int) -> None:
        with self._lock:
            self._counts[receiver] += count


class Tenants(Listener):
    """The existing tenants (observed.Listener); any thread can read them.

    A receiver can be configured before its tenant is in the fleet file, so a missing
    tenant is not an error. But the receiver gets no messages, so a warning is logged.
    """

    def __init__(self, settings: Settings) -> None:
        """Store the tenants of the configured receivers."""
        self._wanted: Mapping[str, str] = {
            webhook.name: webhook.tenant
            for webhook in settings.webhook
            if webhook.tenant
        }
        self._names: frozenset[str] = frozenset()
        self._is_logging = False

    def load(self, store: Store) -> None:
        """Load the existing tenants; call it before anything writes."""
        self._names = frozenset(
            store.read(
                lambda reader: [
                    tenant.name for tenant in every(reader, kinds.ALL_TENANTS)
                ]
            )
        )

    def begin(self) -> None:
        """Log the receivers with a missing tenant, now and after each fleet file."""
        self._is_logging = True
        self._log_missing()

    def has(self, name: str) -> bool:
        """Return whether the tenant exists."""
        return name in self._names

    # observed.Listener

    def committed(self, changes: Changes) -> None:
        """Record new and deleted tenants."""
        if not self._wanted:
            return
        for before, after in changes.of(Tenant):
            if after is not None:
                self._names |= {after.name}
            elif before is not None:
                self._names -= {before.name}
        is_fleet = any(
            after is not None and FLEET_SUBJECT in after.subjects
            for _before, after in changes.of(AuditEntry)
        )
        if is_fleet and self._is_logging:
            self._log_missing()

    def _log_missing(self) -> None:
        for webhook, tenant in self._wanted.items():
            if not self.has(tenant):
                logger.warning(
                    "webhook %s gets no messages: the fleet has no tenant %r",
                    webhook,
                    tenant,
                )
