"""A store that counts the rows that are read and the values that are written."""

from collections.abc import Callable
from typing import Any, TypeVar

from forewarn.store.port import Transaction
from forewarn.store.questions import Record
from forewarn.store.rows import schema
from tests.support.counted import Counted, CountedStore

T = TypeVar("T")


class _Weighed(Counted):
    """A transaction that counts what each write sends to a database."""

    def __init__(self, tx: Transaction, store: "WeighedStore") -> None:
        super().__init__(tx, store.rows)
        self._tx, self._store = tx, store

    def add(self, record: Record) -> Any:
        codec = schema().codecs[type(record)]
        self._count(codec.encode(record))
        for links in codec.links:
            for row in links.rows(record):
                self._count(row)
        return self._tx.add(record)

    def replace(self, old: Record, new: Record) -> Any:
        codec = schema().codecs[type(new)]
        _, values = codec.change(old, new)
        self._count(values)
        for links in codec.links:
            for rows in links.change(old, new):
                for row in rows:
                    self._count(row)
        return self._tx.replace(old, new)

    def remove(self, old: Record) -> None:
        codec = schema().codecs[type(old)]
        self._count(codec.guard(old))
        for links in codec.links:
            for row in links.rows(old):
                self._count(row)
        self._tx.remove(old)

    def _count(self, row: tuple[Any, ...]) -> None:
        self._store.written_rows += 1
        self._store.written_bytes += sum(len(str(value).encode()) for value in row)


class WeighedStore(CountedStore):
    """A store whose writes are counted too, as rows and as the bytes of their values."""

    written_rows = 0
    written_bytes = 0

    def transact(self, work: Callable[[Transaction], T]) -> T:
        return self._inner.transact(lambda tx: work(_Weighed(tx, self).transaction))
