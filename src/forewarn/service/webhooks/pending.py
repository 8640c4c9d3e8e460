"""How much waits for each receiver, and who is woken by what was committed."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence

from forewarn.service.observed import Change
from forewarn.store import kinds
from forewarn.store.outbox import OutboxMessage
from forewarn.store.port import Reader, Store, every


class Pending:
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

    def store_failed(self) -> None:
        """Do nothing: nothing was written."""

    def committed(self, changes: Sequence[Change], *, seconds: float) -> None:
        """Count what a transaction wrote and deleted."""
        del seconds
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
