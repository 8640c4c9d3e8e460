"""The pending writes of a transaction: decided, but not sent to SQLite yet.

If a record is replaced several times, only its last value is sent, unless a query needs
the rows earlier. Writes are sent by kind, many rows with one statement. The guard of
each write is the value that the first write had read. A row that differs from the cache
is therefore found here, before the commit, and the transaction is rolled back.
"""

from collections import defaultdict
from typing import Any

from forewarn.store.codec import Codec, Row
from forewarn.store.database import Database
from forewarn.store.port import DuplicateError, StaleWriteError
from forewarn.store.questions import Record
from forewarn.store.rows import Change, link, schema
from forewarn.store.statements import Write


class Pending:
    """The pending writes of one transaction."""

    def __init__(self, connection: Database) -> None:
        """Start empty."""
        self._connection = connection
        self._codecs = schema().codecs
        self._changes: defaultdict[type, dict[str, Change]] = defaultdict(dict)

    def add(self, new: Record) -> None:
        """Add a new record; raises DuplicateError if it is already pending."""
        changes = self._changes[type(new)]
        if new.key in changes:
            raise DuplicateError(f"{type(new).__name__} {new.key} exists already")
        changes[new.key] = (None, new)

    def replace(self, old: Record, new: Record) -> None:
        """Replace `old` by `new`."""
        changes = self._changes[type(new)]
        known = changes.get(new.key)
        changes[new.key] = (known[0] if known else old, new)

    def send(self, kind: type[Record]) -> None:
        """Send the pending writes of a kind, before a query of it.

        Raises StaleWriteError and DuplicateError.
        """
        if self._changes.get(kind):
            self._send_changes(self._codecs[kind], self._changes.pop(kind))

    def send_all(self) -> None:
        """Send all pending writes; raises StaleWriteError and DuplicateError."""
        for kind in list(self._changes):
            self.send(kind)

    def _send_changes(self, codec: Codec[Any], changes: dict[str, Change]) -> None:
        writes: defaultdict[Write, list[Row]] = defaultdict(list)
        for old, new in changes.values():
            statement, row = (
                (codec.add, codec.encode(new))
                if old is None
                else codec.change(old, new)
            )
            writes[statement].append(row)
        for statement, rows in writes.items():
            if self._connection.write(statement, rows) != len(rows):
                many = f"one of {len(rows)} {codec.kind.__name__}"
                if statement == codec.add:
                    raise DuplicateError(f"{many} exists already")
                raise StaleWriteError(f"{many} changed after it was read")
        link(self._connection, codec, changes.values())
