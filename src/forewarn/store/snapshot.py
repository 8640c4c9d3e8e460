"""Consistent reads of a store, also from another process than the service.

Such reads take no lock and change nothing, and the writer does not wait for them. The
store must have this version's schema, as the service's file has.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from forewarn.store import queries, statements
from forewarn.store.connection import Connection
from forewarn.store.database import Database
from forewarn.store.port import Columns, LostError, Reader, StoreError
from forewarn.store.questions import Query, Record
from forewarn.store.rows import RowReader

T = TypeVar("T")

COLUMN_ROWS = 500
"""Rows whose columns are decoded together: few enough for the processor's caches. Pages of
4,000 rows take half as long again."""


class SnapshotReader(RowReader):
    """A consistent view that also reads single fields (port.ColumnReader)."""

    def columns(
        self,
        query: Query[Any],
        names: Sequence[str],
        *,
        between: tuple[str, str] | None = None,
        among: Collection[str] | None = None,
    ) -> Iterator[Columns]:
        """Yield fields of the records found under all values of a query."""
        codec = self._schema.codecs[query.kind]
        stored = statements.columns_for(names)
        condition, parameters = "", ()
        if among is not None:
            condition, parameters = queries.AMONG, (json.dumps([*among]),)
        elif between is not None:
            condition, parameters = queries.BETWEEN, between
        sql = queries.columns(query, stored, codec, condition)
        for page in self._connection.pages(sql, COLUMN_ROWS, parameters):
            yield codec.transposed(names, page)

    def columns_of(
        self, kind: type[Record], names: Sequence[str], keys: Collection[str]
    ) -> Iterator[Columns]:
        """Yield fields of the records with some keys."""
        codec = self._schema.codecs[kind]
        sql = statements.columns_of(
            codec.table, statements.columns_for(names), codec.key
        )
        parameters = (json.dumps([*keys]),)
        if len(keys) <= COLUMN_ROWS:
            # A cursor of PostgreSQL needs four messages, and this one.
            rows = self._connection.rows(sql, parameters) if keys else []
            pages = iter([rows] if rows else [])
        else:
            pages = self._connection.pages(sql, COLUMN_ROWS, parameters)
        for page in pages:
            yield codec.transposed(names, page)

    def those_found(self, query: Query[Any], values: Collection[str]) -> set[str]:
        """Return the values with a record."""
        if not values:
            return set()
        sql = queries.those_found(query)
        rows = self._connection.rows(sql, (json.dumps([*values]),))
        return {value for (value,) in rows}


Source: TypeAlias = Path | str
"""The file of a store, or the URL of its database."""


def connect(source: Source) -> "SnapshotDatabase":
    """Return a new connection that only reads; raises StoreError."""
    if isinstance(source, Path):
        return Connection(source, read_only=True)
    # A service with a file does not load the client of PostgreSQL.
    from forewarn.store.postgres.connection import PostgresConnection  # noqa: PLC0415

    return PostgresConnection(source, read_only=True)


@contextlib.contextmanager
def reading(source: Source) -> Generator[Reader]:
    """Return a reader of the committed state; raises StoreError."""
    with contextlib.closing(connect(source)) as connection:
        connection.begin_snapshot()
        yield SnapshotReader(connection)


def snapshots_of(source: Source) -> "SnapshotStore":
    """Return the reader of a store; raises StoreError if it cannot connect."""
    store = SnapshotStore(lambda: connect(source))
    store.read(lambda _reader: None)
    return store


class SnapshotDatabase(Database, Protocol):
    """A connection for consistent reads."""

    def begin_snapshot(self) -> None:
        """Open a transaction that sees one moment, and only reads."""
        ...

    def end(self) -> bool:
        """Roll back an open transaction; close and return False if that fails."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class SnapshotStore:
    """Reads a store, with one connection for each concurrent reader."""

    def __init__(self, connect: Callable[[], SnapshotDatabase]) -> None:
        """Read from new connections; the first read connects.

        The store must have this version's schema.
        """
        self._connect = connect
        self._guard = threading.Lock()
        self._is_closed = False
        self._idle: list[SnapshotDatabase] = []

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on the committed state; may be called from any thread."""
        connection = self._begun()
        try:
            return work(SnapshotReader(connection))
        finally:
            self._give_back(connection)

    def _begun(self) -> SnapshotDatabase:
        """Return a connection with a new snapshot; raises StoreError.

        An idle one may have been lost, as when the server was restarted.
        """
        while (idle := self._taken()) is not None:
            try:
                idle.begin_snapshot()
            except LostError:
                idle.close()
            else:
                return idle
        connection = self._connect()
        try:
            connection.begin_snapshot()
        except BaseException:
            connection.close()
            raise
        return connection

    def _taken(self) -> SnapshotDatabase | None:
        with self._guard:
            if self._is_closed:
                raise StoreError("the store is closed")
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: SnapshotDatabase) -> None:
        if not connection.end():
            return
        with self._guard:
            if not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close all connections."""
        with self._guard:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
