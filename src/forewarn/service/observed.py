"""A store that is listened to: what each transaction wrote, after it committed.

The log and the metrics come from here, so that they tell what is durable, and
control need not know of either. Reads are the store's own methods, at no cost.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from forewarn.clock import Clock
from forewarn.store.kinds import Record
from forewarn.store.port import (
    ConflictError,
    OpenTransaction,
    Reader,
    Store,
    StoreError,
    Transaction,
)

R = TypeVar("R", bound=Record)
T = TypeVar("T")

logger = logging.getLogger("forewarn.service")


class Change(NamedTuple):
    """One write of a transaction, in its order.

    One is made for each write, and a frozen dataclass takes three times as long.
    """

    before: Record | None
    after: Record | None


class Listener:
    """Who hears of commits, in the thread that wrote."""

    def committed(self, changes: Sequence[Change]) -> None:
        """Take what a transaction wrote."""

    def took(self, seconds: float) -> None:
        """Take how long a transaction took."""

    def store_failed(self) -> None:
        """Take that a transaction could not be done."""


class ObservedStore:
    """Passes everything on to a store, and tells `listeners` what was written."""

    def __init__(
        self, inner: Store, *, clock: Clock, listeners: Sequence[Listener]
    ) -> None:
        """Observe `inner`, which stays its giver's to close."""
        self._inner = inner
        self._clock = clock
        self._listeners = listeners

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction and commit it; return what it returned."""
        changes: list[Change] = []

        def attempt(tx: Transaction) -> T:
            nonlocal changes
            # Made anew: what an attempt wrote that met another writer is void.
            changes = []
            return work(_Observed(tx, changes))

        begun = self._clock.monotonic()
        try:
            result = self._inner.transact(attempt)
        except StoreError as error:
            if not isinstance(error, ConflictError):
                self._tell(lambda listener: listener.store_failed())
            raise
        seconds = self._clock.monotonic() - begun
        self._tell(lambda listener: listener.took(seconds))
        self._tell(lambda listener: listener.committed(changes))
        return result

    def begin(self) -> OpenTransaction:
        """Open a transaction to be ended by hand, unobserved."""
        return self._inner.begin()

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on a consistent view; may be called from any thread."""
        return self._inner.read(work)

    def close(self) -> None:
        """Close the store."""
        self._inner.close()

    def _tell(self, what: Callable[[Listener], None]) -> None:
        for listener in self._listeners:
            try:
                what(listener)
            except Exception:
                # It is committed: what follows from it must not depend on whether
                # it could be counted and logged.
                logger.exception("a transaction could not be told of")


class _Observed:
    """Passes everything on, and remembers the writes."""

    __slots__ = (
        "_changes",
        "_tx",
        "audit_keys",
        "due",
        "earliest",
        "get",
        "lock_safety_rows",
        "ranked",
        "select",
    )

    def __init__(self, tx: Transaction, changes: list[Change]) -> None:
        self._tx = tx
        self._changes = changes
        self.get = tx.get
        self.select = tx.select
        self.due = tx.due
        self.earliest = tx.earliest
        self.audit_keys = tx.audit_keys
        self.ranked = tx.ranked
        self.lock_safety_rows = tx.lock_safety_rows

    def add(self, record: R) -> R:
        added = self._tx.add(record)
        self._changes.append(Change(None, added))
        return added

    def replace(self, old: R, new: R) -> R:
        stored = self._tx.replace(old, new)
        self._changes.append(Change(old, stored))
        return stored

    def remove(self, old: Record) -> None:
        self._tx.remove(old)
        self._changes.append(Change(old, None))
