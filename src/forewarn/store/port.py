"""The store port: short transactions over guarded, frozen records.

Every implementation keeps these promises, which one contract suite tests:

* A transaction is short, does no other I/O and may run again: `transact` repeats the
  work after a conflict with another writer. Its writes become visible and durable
  together, before `transact` returns, or not at all.
* A read may run again too, on a newer view, after the connection was lost.
* A write is guarded: `replace` and `remove` get the record that was read, and fail
  with `StaleWriteError` if the stored one has another revision.
* Guards on single rows do not protect a rule over several rows. A transaction that
  starts, finishes, fails or moves something of a scope first locks the scope's safety
  row (`lock_safety_rows`). It thus conflicts with every other such transaction.
* The caller supplies identifiers and times. Reads return pages in the order of the
  key.

No code above this port may use a rowid, a dialect of SQL, or load a whole fleet.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.store import kinds
from forewarn.store.questions import Query, Range, Ranking, Record

R = TypeVar("R", bound=Record)
T = TypeVar("T")

PAGE_ROWS = 500
"""Maximum rows of one page: fast to read, without delaying a writer."""

TRANSACTION_ATTEMPTS = 20
"""Maximum attempts of a transaction after conflicts. A few are enough, because only one
writer of a process works at a time, and an endless loop would hide a bug."""


class StoreError(ForewarnError):
    """The store cannot do its work; the service must stop accepting requests."""


class UnwrittenError(StoreError):
    """Nothing of the transaction was written; the same work can be done again later."""


class ConflictError(UnwrittenError):
    """Another writer was first; the same work can be retried at once."""


class InterruptedWorkError(ConflictError):
    """The connection was lost before the commit."""


class NoSpaceError(UnwrittenError):
    """The disk of the store is full. The store can be read."""


class StaleWriteError(ConflictError):
    """The record changed after it was read; read and decide again."""


class DuplicateError(StoreError):
    """A record with this key exists: a bug of the caller, without a retry."""


class LostError(StoreError):
    """The connection is lost: the outcome of a commit under way is unknown."""


class StoreGoneError(StoreError):
    """The database has not answered for long, so the store is closed: its state is
    unknown."""


class StoreBusyError(StoreError):
    """Another process has opened the store; stop it, or use another file."""


class NotLeaderError(StoreError):
    """The term has ended: another service has begun one, or the database has lost
    transactions of this one. Work that is done later is not written."""


class StoreTooNewError(StoreError):
    """A newer version of forewarn wrote this store; use it, or restore a backup."""


class Reader(Protocol):
    """A consistent view of the committed state."""

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

        The page begins after the key `after`. A page with fewer than `limit` records
        is the last one.
        """
        ...

    def latest(
        self,
        query: Query[R],
        value: str = "",
        *,
        before: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        """Return a page of the records found under `value`, the greatest key first.

        The page begins before the key `before`; an empty one is the end. The query is
        one of `queries.LATEST`. The keys of their kinds are in the order of the decisions.
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

        Each of their keys is greater than the first bound, and not greater than the
        second. None: there is no such entry.
        """
        ...

    def ranked(
        self,
        ranking: Ranking[R],
        value: str,
        *,
        limit: int = PAGE_ROWS,
        lowest: bool = False,
        above: int | None = None,
    ) -> list[R]:
        """Return the records under `value` with the highest numbers, or the lowest.

        Equal numbers are in the order of the key, seen from the lowest. A record with
        several numbers under `value` is returned once for each. `above` is only for the
        lowest numbers: those up to it are left out.
        """
        ...


class Transaction(Reader, Protocol):
    """A consistent view with writes; it sees its own writes."""

    def add(self, record: R) -> R:
        """Store a new record; raises DuplicateError."""
        ...

    def replace(self, old: R, new: R) -> R:
        """Replace `old` by `new`; return it with its new revision.

        Raises StaleWriteError unless the stored record has `old`'s revision.
        """
        ...

    def remove(self, old: Record) -> None:
        """Delete `old`; raises StaleWriteError if it changed after it was read."""
        ...

    def lock_safety_rows(self, scopes: Iterable[str]) -> None:
        """Lock the safety rows of these scopes, in sorted order.

        Of two transactions that lock the same row, at most one commits what it has
        read; the other gets ConflictError, here or at its end. A store that runs one
        writer at a time writes nothing.
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

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on a consistent view; may be called from any thread."""
        ...

    def close(self) -> None:
        """Close the store; a second call has no effect."""
        ...


def every(
    reader: Reader,
    query: Query[R],
    value: str = "",
    *,
    after: str = "",
    page: int = PAGE_ROWS,
) -> Iterator[R]:
    """Return an iterator of all records found under `value` after a key.

    It reads a page at a time. Most questions have less than one.
    """
    records = reader.select(query, value, after=after, limit=page)
    if len(records) < page:
        return iter(records)
    return _pages(reader, query, value, records, page)


def _pages(
    reader: Reader, query: Query[R], value: str, records: list[R], page: int
) -> Iterator[R]:
    """Yield these records, and then those of the pages after them."""
    while True:
        yield from records
        if len(records) < page:
            return
        records = reader.select(query, value, after=records[-1].key, limit=page)


@runtime_checkable
class FetchingReader(Protocol):
    """A reader that reads many records, or results of a query, with one statement."""

    def fetch(self, kind: type[Record], keys: Iterable[str]) -> None:
        """Read the records with these keys together, before `get` asks for each."""
        ...

    def fetch_answers(self, query: Query[Any], values: Iterable[str]) -> None:
        """Read the results of a query for these values together."""
        ...


def fetch(reader: Reader, kind: type[Record], keys: Iterable[str]) -> None:
    """Prepare for `get` of many keys: one statement instead of one for each."""
    if isinstance(reader, FetchingReader):
        reader.fetch(kind, keys)


def fetch_answers(reader: Reader, query: Query[Any], values: Iterable[str]) -> None:
    """Prepare for `select` with many values; the query is one of `cache.FETCHED`."""
    if isinstance(reader, FetchingReader):
        reader.fetch_answers(query, values)


@runtime_checkable
class RememberingReader(Protocol):
    """A reader that remembers the results of some queries."""

    def none_yet(self, query: Query[Any], value: str) -> None:
        """Note that nothing is found under a value, because it is new."""
        ...


def none_yet(reader: Reader, query: Query[Any], value: str) -> None:
    """Tell that nothing is found under a value yet, such as a new ID."""
    if isinstance(reader, RememberingReader):
        reader.none_yet(query, value)


def latest(store: Store, work: Callable[[Reader], T]) -> T:
    """Run `work` on the committed state, with what the writer remembers of it.

    This is for the thread that writes: another one waits for its transactions.
    """
    # To compare the store with a protocol takes as long as some of these questions.
    read: Callable[[Callable[[Reader], T]], T] = getattr(store, "latest", store.read)
    return read(work)


Columns: TypeAlias = Sequence[Sequence[Any]]
"""Values of some records: one sequence for each field."""


@runtime_checkable
class CountingReader(Protocol):
    """A reader that counts records without reading them."""

    def count(self, query: Query[Any], value: str = "", *, limit: int) -> int:
        """Return the number of records found under `value`, at most `limit`."""
        ...


def count(reader: Reader, query: Query[Any], value: str = "", *, limit: int) -> int:
    """Return the number of records found under `value`, at most `limit`."""
    if isinstance(reader, CountingReader):
        return reader.count(query, value, limit=limit)
    return len(reader.select(query, value, limit=limit))


@runtime_checkable
class ColumnReader(Protocol):
    """A reader of a file, which reads single fields faster than whole records."""

    def columns(
        self,
        query: Query[Any],
        names: Sequence[str],
        *,
        between: tuple[str, str] | None = None,
        among: Collection[str] | None = None,
    ) -> Iterator[Columns]:
        """Yield fields of all records that a query finds: see the function `columns`."""
        ...

    def columns_of(
        self, kind: type[Record], names: Sequence[str], keys: Collection[str]
    ) -> Iterator[Columns]:
        """Yield fields of the records with some keys: see the function `columns_of`."""
        ...

    def those_found(self, query: Query[Any], values: Collection[str]) -> set[str]:
        """Return the values with a record: see the function `those_found`."""
        ...


def columns(
    reader: Reader,
    query: Query[Any],
    names: Sequence[str],
    *,
    between: tuple[str, str] | None = None,
    among: Collection[str] | None = None,
) -> Iterator[Columns]:
    """Yield at least two fields of the records found under all values of a query.

    `moves.vm` is the field `vm` of each member of the list `moves`, as a tuple.
    With `between`, only values from the first to the second one count; with `among`, only
    these values, by one statement. The records are in the order of the value and of the
    key, some hundreds together. This is for a process that may read a whole fleet.
    """
    if isinstance(reader, ColumnReader):
        yield from reader.columns(query, names, between=between, among=among)
        return
    get = _fields_of(names)
    if between is not None and between[0] == between[1]:
        among = {between[0]}
    if among is not None:
        for value in sorted(set(among)):
            if records := [*every(reader, query, value)]:
                yield [*zip(*map(get, records), strict=True)]
        return
    keys = sorted(
        (
            (value, record)
            for record in every(reader, kinds.EVERYTHING[query.kind])
            for value in query.values(record)
            if between is None or between[0] <= value <= between[1]
        ),
        key=lambda row: (row[0], row[1].key),
    )
    if keys:
        yield [*zip(*(get(record) for _, record in keys), strict=True)]


def columns_of(
    reader: Reader, kind: type[Record], names: Sequence[str], keys: Collection[str]
) -> Iterator[Columns]:
    """Yield at least two fields of the records with some keys, in the order of the key.

    No other record is read, and keys that no record has are left out.
    """
    if isinstance(reader, ColumnReader):
        yield from reader.columns_of(kind, names, keys)
        return
    rows = [reader.get(kind, key) for key in sorted(set(keys))]
    there = [record for record in rows if record is not None]
    if there:
        yield [*zip(*map(_fields_of(names), there), strict=True)]


def those_found(reader: Reader, query: Query[Any], values: Collection[str]) -> set[str]:
    """Return those of the values under which a query finds a record, by one statement.

    The query finds records by one column.
    """
    if isinstance(reader, ColumnReader):
        return reader.those_found(query, values)
    return {value for value in values if reader.select(query, value, limit=1)}


def _fields_of(names: Sequence[str]) -> Callable[[Record], tuple[Any, ...]]:
    """Return a getter of these fields, and of fields of the members of lists."""

    def get(record: Record) -> tuple[Any, ...]:
        values: list[Any] = []
        for name in names:
            column, _, part = name.partition(".")
            value = getattr(record, column)
            values.append(
                tuple(getattr(item, part) for item in value) if part else value
            )
        return tuple(values)

    return get


def require_unchanged(reader: Reader, old: Record) -> None:
    """Raise StaleWriteError unless the stored record has the revision of `old`."""
    kind = type(old)
    stored = reader.get(kind, old.key)
    if stored is None or stored.revision != old.revision:
        raise StaleWriteError(f"{kind.__name__} {old.key} changed after it was read")
