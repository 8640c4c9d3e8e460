"""The store port: short transactions over guarded, frozen records.

What every implementation promises (one contract suite asks them all):

* A transaction is short, does no I/O of its own and may be run again: `transact`
  repeats the work when it met another writer. Its writes become visible and
  durable together, before `transact` returns, or not at all.
* A write is guarded: `replace` and `remove` name the record that was read, and
  fail with `StaleWriteError` if the stored one has another revision.
* A rule over several rows is not protected by guards on single rows. Who starts,
  finishes, fails or moves something of a scope takes the scope's safety row
  first (`lock_safety_rows`), and so meets every other who does.
* Identifiers and times come from the caller. Reads come in pages, in the order
  of the key.

Nothing above this port may use a rowid, a dialect of SQL or a whole-fleet load.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.store.kinds import Query, Range, Ranking, Record

R = TypeVar("R", bound=Record)
T = TypeVar("T")

PAGE_ROWS = 500
"""Rows of one read: enough to be quick, few enough not to hold up a writer."""

TRANSACTION_ATTEMPTS = 20
"""How often work is begun anew after meeting another writer; a few suffice,
since the writers take turns, and an endless loop would hide a bug."""


class StoreError(ForewarnError):
    """The store cannot do its work; the service must stop taking orders."""


class ConflictError(StoreError):
    """Another writer came first; the same work may be tried again at once."""


class StaleWriteError(ConflictError):
    """The record changed after it was read; read again and decide anew."""


class DuplicateError(StoreError):
    """A record with this key exists: a bug of the caller, never a retry."""


class StoreBusyError(StoreError):
    """Another process has the store open; stop it, or use another file."""


class StoreTooNewError(StoreError):
    """A newer forewarn wrote this store; use that version or a backup."""


class Reader(Protocol):
    """A consistent view of what was committed."""

    def get(self, kind: type[R], key: str) -> R | None:
        """Return the record with this key, or None."""
        ...

    def select(
        self,
        query: Query[R],
        value: str = "",
        *,
        after: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        """Return a page of the records found under `value`, in order of the key.

        The page begins behind the key `after`; fewer than `limit` records mean
        that it was the last.
        """
        ...

    def due(self, over: Range[R], until: Micros, *, limit: int = PAGE_ROWS) -> list[R]:
        """Return records whose instant is not 0 and at or before `until`.

        The earliest come first; equal instants in order of the key.
        """
        ...

    def earliest(self, over: Range[R]) -> Micros | None:
        """Return the earliest instant that is not 0, or None."""
        ...

    def audit_keys(self, first: Micros, end: Micros) -> tuple[str, str] | None:
        """Return bounds of the keys of audit entries with an instant in [first, end).

        Each of them has a key behind the first bound, and not behind the second.
        None: there is no such entry.
        """
        ...

    def ranked(
        self,
        ranking: Ranking[R],
        value: str,
        *,
        limit: int = PAGE_ROWS,
        lowest: bool = False,
    ) -> list[R]:
        """Return the records under `value` with the highest numbers, or the lowest.

        Equal numbers stand in order of the key, seen from the lowest. A record with
        several numbers under `value` stands at each of them.
        """
        ...


class Transaction(Reader, Protocol):
    """A consistent view that may be changed; sees its own writes."""

    def add(self, record: R) -> R:
        """Store a new record; raises DuplicateError."""
        ...

    def replace(self, old: R, new: R) -> R:
        """Store `new` in place of `old`; return it with its new revision.

        Raises StaleWriteError unless the stored record has `old`'s revision.
        """
        ...

    def remove(self, old: Record) -> None:
        """Delete `old`; raises StaleWriteError unless it is still as read."""
        ...

    def lock_safety_rows(self, scopes: Iterable[str]) -> None:
        """Take the safety rows of these scopes, in sorted order.

        Of two transactions that took the same row, at most one commits on what
        it read; the other meets ConflictError, here or at its end. Where writers
        take turns there is nothing to write.
        """
        ...


class Store(Protocol):
    """Durable memory."""

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction and commit it; return what it returned.

        An exception of `work` rolls everything back and is passed on, except
        ConflictError: then `work` is run again, up to TRANSACTION_ATTEMPTS
        times. When this returns, the writes are durable.
        """
        ...

    def begin(self) -> "OpenTransaction":
        """Open a transaction to be ended by hand: for contract tests."""
        ...

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on a consistent view; may be called from any thread."""
        ...

    def close(self) -> None:
        """Let go of the store; may be called twice."""
        ...


class OpenTransaction(Transaction, Protocol):
    """A transaction that its holder ends."""

    def commit(self) -> None:
        """Make the writes durable and visible; raises ConflictError."""
        ...

    def rollback(self) -> None:
        """Forget the writes."""
        ...


def every(
    reader: Reader, query: Query[R], value: str = "", *, page: int = PAGE_ROWS
) -> Iterator[R]:
    """Yield all records found under `value`, a page at a time."""
    after = ""
    while True:
        records = reader.select(query, value, after=after, limit=page)
        yield from records
        if len(records) < page:
            return
        after = records[-1].key


def require_unchanged(reader: Reader, old: Record) -> None:
    """Raise StaleWriteError unless the stored record has the revision of `old`."""
    kind = type(old)
    stored = reader.get(kind, old.key)
    if stored is None or stored.revision != old.revision:
        raise StaleWriteError(f"{kind.__name__} {old.key} changed after it was read")
