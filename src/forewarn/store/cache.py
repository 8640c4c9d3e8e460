"""What the writer remembers of what it has committed.

The store's file belongs to one process, and its writers take turns, so what the
last of them committed or read is what is stored: a record that is remembered
need not be read and decoded again. Nothing depends on it for safety. Writes are
guarded by revision as ever; whatever looks wrong makes the memory empty.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar, cast

from forewarn.store.audit import AuditEntry
from forewarn.store.codec import Row
from forewarn.store.connection import Connection
from forewarn.store.kinds import Record
from forewarn.store.rows import RowTransaction, Schema

R = TypeVar("R", bound=Record)

RECORDS_KEPT = 20_000
"""About 20 MiB: what is under way on a busy day, and far from a whole fleet."""

Name: TypeAlias = tuple[type, str]


class Committed:
    """Records as they were last committed, the longest remembered go first."""

    def __init__(self) -> None:
        """Remember nothing."""
        self._records: dict[Name, Record] = {}

    def find(self, name: Name) -> Record | None:
        """Return the record, or None if it is not remembered."""
        return self._records.get(name)

    def take(self, seen: Mapping[Name, Record | None]) -> None:
        """Take over what a transaction saw and left; None: it is not stored."""
        records = self._records
        for name, record in seen.items():
            records.pop(name, None)
            if record is not None:
                records[name] = record
        for name in list(records)[: max(0, len(records) - RECORDS_KEPT)]:
            del records[name]

    def forget(self) -> None:
        """Remember nothing any more."""
        self._records.clear()


class RememberingTransaction(RowTransaction):
    """A transaction that reads each record once, if it is not remembered."""

    def __init__(
        self, connection: Connection, schema: Schema, committed: Committed
    ) -> None:
        """Work on `connection`; the caller hands over `seen` after the commit."""
        super().__init__(connection, schema)
        self._committed = committed
        self.seen: dict[Name, Record | None] = {}

    def get(self, kind: type[R], key: str) -> R | None:
        """Return the record with this key, or None."""
        name = (kind, key)
        if name in self.seen:
            return cast("R | None", self.seen[name])
        record = cast("R | None", self._committed.find(name))
        if record is None:
            record = super().get(kind, key)
        self.seen[name] = record
        return record

    def add(self, record: R) -> R:
        """Store a new record; raises DuplicateError."""
        super().add(record)
        if not isinstance(record, AuditEntry):  # written by many, read by few
            self.seen[type(record), record.key] = record
        return record

    def replace(self, old: R, new: R) -> R:
        """Store `new` in place of `old`; return it with its new revision."""
        stored = super().replace(old, new)
        self.seen[type(stored), stored.key] = stored
        return stored

    def remove(self, old: Record) -> None:
        """Delete `old`; raises StaleWriteError unless it is still as read."""
        super().remove(old)
        self.seen[type(old), old.key] = None

    def _decoded(self, kind: type[R], rows: list[Row]) -> list[R]:
        """Return the records of rows; those that are known are not made again."""
        decode: Callable[[Row], Any] = self._schema.decoders[kind]
        key_at, revision_at = self._schema.places[kind]
        records: list[R] = []
        for row in rows:
            name = (kind, row[key_at])
            known = self.seen.get(name) or self._committed.find(name)
            if known is None or known.revision != row[revision_at]:
                known = decode(row)
                self.seen[name] = known
            records.append(cast("R", known))
        return records
