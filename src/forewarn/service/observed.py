"""A store whose listeners receive the changes of each transaction after its commit.

The log and the metrics use it, so that they report only durable changes and control
does not know about them. Reads go directly to the store, without overhead.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

from forewarn.clock import Clock
from forewarn.store import port
from forewarn.store.port import (
    ConflictError,
    Reader,
    Store,
    StoreError,
    Transaction,
)
from forewarn.store.questions import Query, Record

R = TypeVar("R", bound=Record)
T = TypeVar("T")

logger = logging.getLogger("forewarn.service")


class Change(NamedTuple, Generic[R]):
    """One write of a transaction.

    This class is a NamedTuple, since creating a frozen dataclass takes three times as
    long.
    """

    before: R | None
    after: R | None


class Changes:
    """The writes of one transaction.

    A listener is interested in few kinds of records, so it does not look at all writes.
    """

    def __init__(self, *changes: Change[Any]) -> None:
        """Start with these."""
        self._all: list[Change[Any]] = []
        self._of: defaultdict[type, list[Change[Any]]] = defaultdict(list)
        for before, after in changes:
            self.add(before, after)

    def add(self, before: Record | None, after: Record | None) -> None:
        """Add a write, after the others."""
        change = Change(before, after)
        self._all.append(change)
        self._of[type(after if before is None else before)].append(change)

    def __iter__(self) -> Iterator[Change[Any]]:
        """Yield all writes, in their order."""
        return iter(self._all)

    def of(self, kind: type[R]) -> Sequence[Change[R]]:
        """Return the writes of one kind of record, in their order."""
        return cast("Sequence[Change[R]]", self._of.get(kind, ()))


class Listener:
    """A receiver of commits, called in the thread that wrote."""

    def committed(self, changes: Changes) -> None:
        """Handle the changes of a transaction."""

    def took(self, seconds: float) -> None:
        """Handle the duration of a transaction."""

    def store_failed(self) -> None:
        """Handle a transaction that failed in the store."""


class ObservedStore:
    """Forwards everything to a store, and reports writes to listeners."""

    def __init__(
        self, inner: Store, *, clock: Clock, listeners: Sequence[Listener]
    ) -> None:
        """Observe `inner`, which the caller closes."""
        self._inner = inner
        self._clock = clock
        self._listeners = listeners

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction and commit it; return what it returned."""
        changes = Changes()

        def attempt(tx: Transaction) -> T:
            nonlocal changes
            # A retry after a conflict starts again.
            changes = Changes()
            return work(_Observed(tx, changes))

        begun = self._clock.monotonic()
        try:
            result = self._inner.transact(attempt)
        except StoreError as error:
            if not isinstance(error, ConflictError):
                self._notify(lambda listener: listener.store_failed())
            raise
        seconds = self._clock.monotonic() - begun
        self._notify(lambda listener: listener.took(seconds))
        self._notify(lambda listener: listener.committed(changes))
        return result

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on a consistent view; any thread can call this."""
        return self._inner.read(work)

    def latest(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on the committed state, with what the writer remembers of it."""
        return port.latest(self._inner, work)

    def close(self) -> None:
        """Close the store."""
        self._inner.close()

    def _notify(self, notification: Callable[[Listener], None]) -> None:
        for listener in self._listeners:
            try:
                notification(listener)
            except Exception:
                # The transaction is committed, so its effects must not depend on whether
                # it was counted and logged.
                logger.exception("a listener failed to handle a transaction")


class _Observed:
    """Forwards everything, and records the writes."""

    __slots__ = (
        "_note",
        "_tx",
        "audit_keys",
        "due",
        "earliest",
        "get",
        "latest",
        "lock_safety_rows",
        "ranked",
        "select",
    )

    def __init__(self, tx: Transaction, changes: Changes) -> None:
        self._tx = tx
        self._note = changes.add
        self.get = tx.get
        self.latest = tx.latest
        self.select = tx.select
        self.due = tx.due
        self.earliest = tx.earliest
        self.audit_keys = tx.audit_keys
        self.ranked = tx.ranked
        self.lock_safety_rows = tx.lock_safety_rows

    def fetch(self, kind: type[Record], keys: Iterable[str]) -> None:
        port.fetch(self._tx, kind, keys)

    def fetch_answers(self, query: Query[Any], values: Iterable[str]) -> None:
        port.fetch_answers(self._tx, query, values)

    def none_yet(self, query: Query[Any], value: str) -> None:
        port.none_yet(self._tx, query, value)

    def add(self, record: R) -> R:
        added = self._tx.add(record)
        self._note(None, added)
        return added

    def replace(self, old: R, new: R) -> R:
        stored = self._tx.replace(old, new)
        self._note(old, stored)
        return stored

    def remove(self, old: Record) -> None:
        self._tx.remove(old)
        self._note(old, None)
