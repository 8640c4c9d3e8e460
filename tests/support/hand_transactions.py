"""Transactions that a test ends itself, to interleave the steps of several writers.

The stores let one writer of a process work at a time. These transactions do not wait for
it, as a writer of another process would not.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from forewarn.protocol.frozen import changed
from forewarn.store.connection import Connection
from forewarn.store.memory import MemoryStore, _View
from forewarn.store.port import Store, Transaction
from forewarn.store.postgres.connection import PostgresConnection
from forewarn.store.postgres.store import PostgresStore
from forewarn.store.questions import Record
from forewarn.store.rows import RowTransaction, link
from forewarn.store.sqlite import SqliteStore

R = TypeVar("R", bound=Record)

_LOCK = (
    "INSERT INTO safety (scope, revision) VALUES (?, 1)"
    " ON CONFLICT (scope) DO UPDATE SET revision = safety.revision + 1"
)
"""Write the safety row of a scope: of concurrent writers, only one can continue."""


class HandTransaction(Transaction, Protocol):
    """A transaction that the test ends."""

    def commit(self) -> None:
        """Make the writes durable and visible; raises ConflictError."""
        ...

    def rollback(self) -> None:
        """Discard the writes."""
        ...


def begin(store: Store) -> HandTransaction:
    """Open a transaction that the test ends."""
    if isinstance(store, MemoryStore):
        return _View(store._state).__enter__()
    assert isinstance(store, SqliteStore | PostgresStore)
    store._check_open()
    connection = _sqlite(store) if isinstance(store, SqliteStore) else _postgres(store)
    return _OnSeparateConnection(connection, store)


def _sqlite(store: SqliteStore) -> Connection:
    # It does not wait: in one thread, the other transaction would never end.
    connection = Connection(store._path, busy_milliseconds=0)
    connection.make_durable()
    connection.begin()
    return connection


def _postgres(store: PostgresStore) -> PostgresConnection:
    connection = PostgresConnection(store._url)
    connection.run("SET lock_timeout = '1ms'")
    connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    return connection


class _OnSeparateConnection(RowTransaction):
    """A transaction on a database that writes each row at once."""

    _connection: Connection | PostgresConnection

    def __init__(
        self,
        connection: Connection | PostgresConnection,
        store: SqliteStore | PostgresStore,
    ) -> None:
        super().__init__(connection)
        self._store = store

    def replace(self, old: R, new: R) -> R:
        codec = self._codec(old)
        stored = changed(new, revision=old.revision + 1)
        self._run_guarded(old, *codec.change(old, stored))
        link(self._connection, codec, [(old, stored)])
        return stored

    def lock_safety_rows(self, scopes: Iterable[str]) -> None:
        sql = _LOCK
        if isinstance(self._connection, PostgresConnection):
            sql = sql.replace("?", "%s")
        for scope in sorted(set(scopes)):
            self._connection.run(sql, (scope,))

    def commit(self) -> None:
        try:
            self._store._check_open()
            self._connection.commit()
        finally:
            self.rollback()

    def rollback(self) -> None:
        self._connection.close()
        # The cache does not have these writes.
        self._store._committed.forget()
