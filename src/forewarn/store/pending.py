"""Writes that a transaction has decided and not sent yet.

Of a record that is replaced several times only the last value is sent, as long
as nobody asks a question that its row could answer; what is sent goes kind by
kind, many rows to one statement. The guard of each write is what the first of
them had read, so a row that is not as it was remembered shows here, before the
commit, and nothing of the transaction is kept.
"""

from collections import defaultdict
from collections.abc import Callable
from operator import itemgetter
from typing import Any, TypeAlias, cast

from forewarn.store.audit import AuditEntry
from forewarn.store.codec import Codec, Row, Values
from forewarn.store.connection import Connection
from forewarn.store.kinds import Record
from forewarn.store.port import DuplicateError, StaleWriteError
from forewarn.store.rows import Schema

_Change: TypeAlias = tuple[Any, Any]
"""A record as it is stored (None: it is not), and as it will be."""


class Pending:
    """What one transaction owes its connection."""

    def __init__(self, connection: Connection, schema: Schema) -> None:
        """Owe nothing yet."""
        self._connection = connection
        self._schema = schema
        self._changes: defaultdict[type, dict[str, _Change]] = defaultdict(dict)
        self._entries: list[AuditEntry] = []

    def add(self, new: Record) -> None:
        """Owe a record that is new."""
        self._changes[type(new)][new.key] = (None, new)

    def replace(self, old: Record, new: Record) -> None:
        """Owe that `new` stands in place of `old`."""
        changes = self._changes[type(new)]
        known = changes.get(new.key)
        changes[new.key] = (known[0] if known else old, new)

    def append(self, entry: AuditEntry) -> None:
        """Owe a line of the trail."""
        self._entries.append(entry)

    def send(self, kind: type[Record]) -> None:
        """Send what is owed of a kind, before something is asked of it.

        Raises StaleWriteError and DuplicateError.
        """
        if self._changes.get(kind):
            self._send_changes(self._schema.codecs[kind], self._changes.pop(kind))
        if kind is AuditEntry and self._entries:
            entries, self._entries = self._entries, []
            self._send_entries(entries)

    def send_all(self) -> None:
        """Send everything; raises StaleWriteError and DuplicateError."""
        for kind in list(self._changes):
            self.send(kind)
        self.send(AuditEntry)

    def _send_changes(self, codec: Codec[Any], changes: dict[str, _Change]) -> None:
        writes: defaultdict[str, list[Values]] = defaultdict(list)
        adding = f"add_{codec.noun}"
        for old, new in changes.values():
            name, values = (
                (adding, codec.encode(new)) if old is None else codec.change(old, new)
            )
            writes[name].append(values)
        for name, rows in writes.items():
            if self._write_each(name, rows) != len(rows):
                if name == adding:
                    raise DuplicateError(
                        f"one of {len(rows)} {codec.kind.__name__} exists already"
                    )
                raise StaleWriteError(
                    f"one of {len(rows)} {codec.kind.__name__} changed after it was read"
                )
        for links in codec.links:
            gone: list[Row] = []
            added: list[Row] = []
            for old, new in changes.values():
                if old is None:
                    added += links.rows(new)
                elif not links.are_same(old, new):
                    before, after = list(links.rows(old)), list(links.rows(new))
                    if before != after:
                        gone += before
                        added += after
            self._run_each(f"remove_{links.noun}", gone)
            self._run_each(f"add_{links.noun}", added)

    def _send_entries(self, entries: list[AuditEntry]) -> None:
        codec: Codec[AuditEntry] = self._schema.codecs[AuditEntry]
        rows = [codec.encode(entry) for entry in entries]
        if self._write_each(f"add_{codec.noun}", rows) != len(rows):
            raise DuplicateError(
                f"one of {len(rows)} lines of the trail exists already"
            )
        for links in codec.links:
            added = [row for entry in entries for row in links.rows(entry)]
            self._run_each(f"add_{links.noun}", added)

    def _write_each(self, name: str, rows: list[Values]) -> int:
        """Run a statement for each set of values; return how many rows it changed."""
        if not rows:
            return 0
        statement = self._schema.numbered[name]
        # Each has a key and a revision at least, so this gives tuples.
        in_order = cast("Callable[[Values], Row]", itemgetter(*statement.names))
        return self._connection.run_each(statement.sql, map(in_order, rows))

    def _run_each(self, name: str, rows: list[Row]) -> None:
        if rows:
            self._connection.run_each(self._schema.numbered[name].sql, rows)
