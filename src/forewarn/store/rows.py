"""The reader and the transaction of the port, on one connection to a database.

A question runs a statement by its name. The statements that read or write one record
are created from its columns. A guarded write is one statement with the expected key,
revision and status. If it changes no row, the write is stale.
"""

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, TypeVar

from forewarn.instants import Micros
from forewarn.store import queries
from forewarn.store.codec import CODECS, Codec, Row
from forewarn.store.database import Database
from forewarn.store.port import PAGE_ROWS, DuplicateError, StaleWriteError
from forewarn.store.questions import Query, Range, Ranking, Record
from forewarn.store.records import AuditEntry
from forewarn.store.statements import Write

R = TypeVar("R", bound=Record)

Values: TypeAlias = Mapping[str, str | int]
"""The parameters of a statement that answers a question."""

Change: TypeAlias = tuple[Any, Any]
"""The stored record (None: there is none), and the new one (None: removed)."""


class Schema:
    """The statements and decoders of this version, for any store."""

    def __init__(self) -> None:
        """Complete the statements, and make a decoder for each kind."""
        self.statements: Mapping[str, str] = queries.load(CODECS)
        self.codecs: Mapping[type, Codec[Any]] = {codec.kind: codec for codec in CODECS}
        self.decoders: Mapping[type, Callable[[Row], Any]] = {
            codec.kind: codec.decoder() for codec in CODECS
        }
        self.places: Mapping[type, tuple[int, int]] = {
            codec.kind: (
                [*codec.columns].index(codec.key),
                [*codec.columns].index("revision"),
            )
            for codec in CODECS
        }
        """The positions of the key and the revision in a row."""


@functools.cache
def schema() -> Schema:
    """Return the schema, which all stores of a process share."""
    return Schema()


END_OF_KEYS = "\U0010ffff"
"""A text that sorts after every key in all databases: the last code point."""


def before(key: str) -> str:
    """Return a text that sorts before the key and after smaller ones.

    Keys with the same beginning may be between the two.
    """
    return key[:-1]


class RowReader:
    """A consistent view: that of the open transaction of a connection."""

    def __init__(self, connection: Database) -> None:
        """Read from `connection`."""
        self._connection = connection
        self._schema = schema()

    def get(self, kind: type[R], key: str) -> R | None:
        """Return the record with this key, or None."""
        rows = self._connection.rows(self._schema.codecs[kind].get, (key,))
        return self._decoded(kind, rows)[0] if rows else None

    def select(
        self,
        query: Query[R],
        value: str = "",
        *,
        after: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        """Return a page of the records found under `value`."""
        assert limit > 0
        return self._records(
            query.name, query.kind, {"value": value, "after": after, "limit": limit}
        )

    def latest(
        self,
        query: Query[R],
        value: str = "",
        *,
        before: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        """Return a page of the records found under `value`, the greatest key first."""
        assert limit > 0
        values = {"value": value, "before": before or END_OF_KEYS, "limit": limit}
        return self._records(f"latest_{query.name}", query.kind, values)

    def count(self, query: Query[Any], value: str = "", *, limit: int) -> int:
        """Return the number of records found under `value`, at most `limit`."""
        if query.name not in queries.COUNTED:
            return len(self.select(query, value, limit=limit))
        values = {"value": value, "after": "", "limit": limit}
        [(found,)] = self._rows(f"count_{query.name}", query.kind, values)
        return found

    def due(self, over: Range[R], until: Micros, *, limit: int = PAGE_ROWS) -> list[R]:
        """Return records whose instant is not 0 and at or before `until`."""
        assert limit > 0
        return self._records(over.name, over.kind, {"until": until, "limit": limit})

    def earliest(self, over: Range[R]) -> Micros | None:
        """Return the earliest instant that is not 0, or None."""
        rows = self._rows(f"earliest_{over.name}", over.kind, {})
        return rows[0][0] if rows else None

    def audit_keys(self, first: Micros, end: Micros) -> tuple[str, str] | None:
        """Return bounds of the keys of audit entries with an instant in [first, end)."""
        [(least, greatest)] = self._rows(
            "audit_keys", AuditEntry, {"first": first, "end": end}
        )
        return None if least is None else (before(least), greatest)

    def ranked(
        self,
        ranking: Ranking[R],
        value: str,
        *,
        limit: int = PAGE_ROWS,
        lowest: bool = False,
        above: int | None = None,
    ) -> list[R]:
        """Return the records under `value` with the highest numbers, or the lowest."""
        assert limit > 0
        values: dict[str, str | int] = {"value": value, "limit": limit}
        if above is not None:
            values["above"] = above
            name = f"above_{ranking.name}"
        else:
            name = f"lowest_{ranking.name}" if lowest else ranking.name
        return self._records(name, ranking.kind, values)

    def _records(self, name: str, kind: type[R], values: Values) -> list[R]:
        return self._decoded(kind, self._rows(name, kind, values))

    def _rows(self, name: str, kind: type[Record], values: Values) -> list[Row]:
        """Return the rows of `kind` that a statement finds."""
        del kind
        return self._connection.rows(self._schema.statements[name], values)

    def _decoded(self, kind: type[R], rows: list[Row]) -> list[R]:
        decode: Callable[[Row], R] = self._schema.decoders[kind]
        return list(map(decode, rows))


class RowTransaction(RowReader):
    """A view of the store in a transaction that sends each write at once."""

    def add(self, record: R) -> R:
        """Store a new record; raises DuplicateError."""
        codec = self._codec(record)
        if not self._connection.write(codec.add, [codec.encode(record)]):
            raise DuplicateError(f"{codec.kind.__name__} {record.key} exists already")
        link(self._connection, codec, [(None, record)])
        return record

    def remove(self, old: Record) -> None:
        """Delete `old`; raises StaleWriteError if it changed after it was read."""
        codec = self._codec(old)
        self._run_guarded(old, codec.remove, codec.guard(old))
        link(self._connection, codec, [(old, None)])

    def _codec(self, record: R) -> Codec[R]:
        return self._schema.codecs[type(record)]

    def _run_guarded(self, old: Record, statement: Write, values: Row) -> None:
        if not self._connection.write(statement, [values]):
            raise StaleWriteError(
                f"{type(old).__name__} {old.key} changed after it was read"
            )


def link(connection: Database, codec: Codec[Any], changes: Collection[Change]) -> None:
    """Update the link rows of records after some changes."""
    for links in codec.links:
        gone: list[Row] = []
        added: list[Row] = []
        for old, new in changes:
            before, after = links.change(old, new)
            gone += before
            added += after
        # Most changes of a record leave its links as they are.
        if gone:
            connection.write(links.remove, gone)
        if added:
            connection.write(links.add, added)
