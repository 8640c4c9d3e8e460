"""What webhooks learn from commits: messages that wait, and the tenants of receivers."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from forewarn.control.requests.fleet_changes import FLEET_SUBJECT
from forewarn.fleet.model import Tenant
from forewarn.service.observed import Change, Listener
from forewarn.service.settings import Settings
from forewarn.store import kinds
from forewarn.store.audit import AuditEntry
from forewarn.store.outbox import OutboxMessage
from forewarn.store.port import Reader, Store, every

logger = logging.getLogger("forewarn.webhooks")


class Pending(Listener):
    """Counts messages by receiver (observed.Listener); read by any thread."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._on_arrival: Callable[[frozenset[str]], None] = lambda _names: None

    def load(self, store: Store) -> None:
        """Begin with what waits; nothing writes yet."""

        def count(reader: Reader) -> None:
            for message in every(reader, kinds.ALL_OUTBOX):
                self._counts[message.receiver] += 1

        store.read(count)

    def on_arrival(self, tell: Callable[[frozenset[str]], None]) -> None:
        """Have `tell` called, in the thread that wrote, with receivers' names."""
        self._on_arrival = tell

    def of(self, receiver: str) -> int:
        """Return how many messages wait for a receiver."""
        return self._counts[receiver]

    def receivers(self) -> tuple[str, ...]:
        """Return for whom something waits."""
        with self._lock:
            return tuple(name for name, count in self._counts.items() if count)

    # observed.Listener

    def committed(self, changes: Sequence[Change]) -> None:
        """Count what a transaction wrote and deleted."""
        arrived: set[str] = set()
        for change in changes:
            before, after = change.before, change.after
            if isinstance(after, OutboxMessage) and before is None:
                arrived.add(after.receiver)
                self._add(after.receiver, 1)
            elif isinstance(before, OutboxMessage) and after is None:
                self._add(before.receiver, -1)
        if arrived:
            self._on_arrival(frozenset(arrived))

    def _add(self, receiver: str, count: int) -> None:
        with self._lock:
            self._counts[receiver] += count


class Tenants(Listener):
    """Knows which tenants there are (observed.Listener); read by any thread.

    A receiver may be named before its tenant comes with a fleet file, so one without a
    tenant is no mistake yet; but nobody hears of what it is told, and that is said.
    """

    def __init__(self, settings: Settings) -> None:
        """Look after the tenants of the settings' receivers."""
        self._wanted: Mapping[str, str] = {
            webhook.name: webhook.tenant
            for webhook in settings.webhook
            if webhook.tenant
        }
        self._names: frozenset[str] = frozenset()
        self._is_telling = False

    def load(self, store: Store) -> None:
        """Begin with those that are there; nothing writes yet."""
        self._names = frozenset(
            store.read(
                lambda reader: [
                    tenant.name for tenant in every(reader, kinds.ALL_TENANTS)
                ]
            )
        )

    def begin(self) -> None:
        """Tell the log whose tenant is missing, now and after each fleet file."""
        self._is_telling = True
        self._tell()

    def has(self, name: str) -> bool:
        """Tell whether there is such a tenant."""
        return name in self._names

    # observed.Listener

    def committed(self, changes: Sequence[Change]) -> None:
        """Take which tenants came and went."""
        if not self._wanted:
            return
        is_fleet = False
        for change in changes:
            if isinstance(change.after, Tenant):
                self._names |= {change.after.name}
            elif isinstance(change.before, Tenant):
                self._names -= {change.before.name}
            elif isinstance(change.after, AuditEntry):
                is_fleet = is_fleet or FLEET_SUBJECT in change.after.subjects
        if is_fleet and self._is_telling:
            self._tell()

    def _tell(self) -> None:
        for webhook, tenant in self._wanted.items():
            if not self.has(tenant):
                logger.warning(
                    "webhook %s hears of nothing: there is no tenant %r in the fleet",
                    webhook,
                    tenant,
                )
