"""The reader and the transaction of the port, on one SQLite connection.

Every read and write runs a statement by its name. A guarded write is one
statement that names the key, revision and status it expects; that it changed
no row is how a stale write shows.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from forewarn.instants import Micros
from forewarn.store import queries
from forewarn.store.codec import CODECS, Codec, Row, Values, revised
from forewarn.store.connection import Connection
from forewarn.store.kinds import Query, Range, Ranking, Record
from forewarn.store.port import PAGE_ROWS, DuplicateError, StaleWriteError
from forewarn.store.queries import Numbered

R = TypeVar("R", bound=Record)


class Schema:
    """How the records of an opened file are read and written."""

    def __init__(self, connection: Connection) -> None:
        """Look at the columns of the file's tables; raises StoreError."""
        self.statements: Mapping[str, str] = queries.load()
        self.numbered: Mapping[str, Numbered] = {
            name: queries.numbered(sql) for name, sql in self.statements.items()
        }
        self.codecs: Mapping[type, Codec[Any]] = {codec.kind: codec for codec in CODECS}
        columns = {
            codec.kind: connection.columns(
                self.statements[f"get_{codec.noun}"], {"key": ""}
            )
            for codec in CODECS
        }
        self.decoders: Mapping[type, Callable[[Row], Any]] = {
            codec.kind: codec.decoder(columns[codec.kind]) for codec in CODECS
        }
        self.places: Mapping[type, tuple[int, int]] = {
            codec.kind: (
                columns[codec.kind].index(codec.key),
                columns[codec.kind].index("revision"),
            )
            for codec in CODECS
        }
        """Where a row has its key and its revision."""


def before(key: str) -> str:
    """Return a text that sorts before the key, and behind what the key has before it.

    Keys that begin alike may stand between the two.
    """
    return key[:-1]


class RowReader:
    """A consistent view: what the transaction open on a connection sees."""

    def __init__(self, connection: Connection, schema: Schema) -> None:
        """Read from `connection`."""
        self._connection = connection
        self._schema = schema

    def get(self, kind: type[R], key: str) -> R | None:
        """Return the record with this key, or None."""
        name = f"get_{self._schema.codecs[kind].noun}"
        records = self._records(name, kind, {"key": key})
        return records[0] if records else None

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
        page: Values = {"value": value, "after": after, "limit": limit}
        return self._records(query.name, query.kind, page)

    def due(self, over: Range[R], until: Micros, *, limit: int = PAGE_ROWS) -> list[R]:
        """Return records whose instant is not 0 and at or before `until`."""
        assert limit > 0
        return self._records(over.name, over.kind, {"until": until, "limit": limit})

    def earliest(self, over: Range[R]) -> Micros | None:
        """Return the earliest instant that is not 0, or None."""
        statement = self._schema.statements[f"earliest_{over.name}"]
        rows = self._connection.rows(statement)
        return rows[0][0] if rows else None

    def audit_keys(self, first: Micros, end: Micros) -> tuple[str, str] | None:
        """Return bounds of the keys of audit entries with an instant in [first, end)."""
        statement = self._schema.statements["audit_keys"]
        [(least, greatest)] = self._connection.rows(
            statement, {"first": first, "end": end}
        )
        return None if least is None else (before(least), greatest)

    def ranked(
        self,
        ranking: Ranking[R],
        value: str,
        *,
        limit: int = PAGE_ROWS,
        lowest: bool = False,
    ) -> list[R]:
        """Return the records under `value` with the highest numbers, or the lowest."""
        assert limit > 0
        name = f"lowest_{ranking.name}" if lowest else ranking.name
        return self._records(name, ranking.kind, {"value": value, "limit": limit})

    def _records(self, name: str, kind: type[R], values: Values) -> list[R]:
        rows = self._connection.rows(self._schema.statements[name], values)
        return self._decoded(kind, rows)

    def _decoded(self, kind: type[R], rows: list[Row]) -> list[R]:
        decode: Callable[[Row], R] = self._schema.decoders[kind]
        return list(map(decode, rows))


class RowTransaction(RowReader):
    """A view that may be changed."""

    def add(self, record: R) -> R:
        """Store a new record; raises DuplicateError."""
        codec = self._codec(record)
        if not self._run(f"add_{codec.noun}", codec.encode(record)):
            raise DuplicateError(f"{codec.kind.__name__} {record.key} exists already")
        self._link(codec, None, record)
        return record

    def replace(self, old: R, new: R) -> R:
        """Store `new` in place of `old`; return it with its new revision."""
        assert type(new) is type(old)
        assert new.key == old.key
        codec = self._codec(old)
        stored = revised(new, old.revision + 1)
        self._run_guarded("replace", codec, old, codec.encode(stored))
        self._link(codec, old, stored)
        return stored

    def remove(self, old: Record) -> None:
        """Delete `old`; raises StaleWriteError unless it is still as read."""
        codec = self._codec(old)
        self._run_guarded("remove", codec, old, {})
        self._link(codec, old, None)

    def take_safety(self, scopes: Iterable[str]) -> None:
        """Take the safety rows of these scopes, in sorted order."""
        self._run_each("take_safety", [(each,) for each in sorted(set(scopes))])

    def _codec(self, record: R) -> Codec[R]:
        return self._schema.codecs[type(record)]

    def _run(self, name: str, values: Values) -> int:
        return self._connection.run(self._schema.statements[name], values)

    def _run_each(self, name: str, rows: list[Row]) -> None:
        if rows:
            self._connection.run_each(self._schema.numbered[name].sql, rows)

    def _run_guarded(self, verb: str, codec: Codec[R], old: R, values: Values) -> None:
        if not self._run(f"{verb}_{codec.noun}", values | codec.guard(old)):
            raise StaleWriteError(
                f"{codec.kind.__name__} {old.key} changed after it was read"
            )

    def _link(self, codec: Codec[R], old: R | None, new: R | None) -> None:
        for links in codec.links:
            if links.are_same(old, new):
                continue
            before = [] if old is None else list(links.rows(old))
            after = [] if new is None else list(links.rows(new))
            if before == after:
                continue
            self._run_each(f"remove_{links.noun}", before)
            self._run_each(f"add_{links.noun}", after)
