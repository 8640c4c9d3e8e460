"""Writes that a transaction has decided and not sent yet.

Of a record that is replaced several times only the last value is sent, as long
as nobody asks a question that its row could answer; what is sent goes kind by
kind, many rows to one statement. The guard of each write is what the first of
them had read, so a row that is not as it was remembered shows here, before the
commit, and nothing of the transaction is kept.
"""

from collections import defaultdict
from typing import Any

from forewarn.store.codec import Codec, Row
from forewarn.store.connection import Connection
from forewarn.store.kinds import Record
from forewarn.store.port import DuplicateError, StaleWriteError
from forewarn.store.rows import Change, Schema, link


class Pending:
    """What one transaction owes its connection."""

    def __init__(self, connection: Connection, schema: Schema) -> None:
        """Owe nothing yet."""
        self._connection = connection
        self._schema = schema
        self._changes: defaultdict[type, dict[str, Change]] = defaultdict(dict)

    def add(self, new: Record) -> None:
        """Owe a record that is new; raises DuplicateError where it is owed already."""
        changes = self._changes[type(new)]
        if new.key in changes:
            raise DuplicateError(f"{type(new).__name__} {new.key} exists already")
        changes[new.key] = (None, new)

    def replace(self, old: Record, new: Record) -> None:
        """Owe that `new` stands in place of `old`."""
        changes = self._changes[type(new)]
        known = changes.get(new.key)
        changes[new.key] = (known[0] if known else old, new)

    def send(self, kind: type[Record]) -> None:
        """Send what is owed of a kind, before something is asked of it.

        Raises StaleWriteError and DuplicateError.
        """
        if self._changes.get(kind):
            self._send_changes(self._schema.codecs[kind], self._changes.pop(kind))

    def send_all(self) -> None:
        """Send everything; raises StaleWriteError and DuplicateError."""
        for kind in list(self._changes):
            self.send(kind)

    def _send_changes(self, codec: Codec[Any], changes: dict[str, Change]) -> None:
        writes: defaultdict[str, list[Row]] = defaultdict(list)
        for old, new in changes.values():
            statement, row = (
                (codec.add, codec.encode(new))
                if old is None
                else codec.change(old, new)
            )
            writes[statement].append(row)
        for statement, rows in writes.items():
            if self._connection.run_each(statement, rows) != len(rows):
                many = f"one of {len(rows)} {codec.kind.__name__}"
                if statement == codec.add:
                    raise DuplicateError(f"{many} exists already")
                raise StaleWriteError(f"{many} changed after it was read")
        link(self._connection, codec, changes.values())
