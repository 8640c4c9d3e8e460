"""Readers and stores that count what they are asked, and the rows of the answers."""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar, cast

from forewarn.store.port import Reader, Store, Transaction

T = TypeVar("T")


class Counted:
    """A reader, or a transaction, that counts its questions and their rows."""

    def __init__(self, reader: Reader, rows: Counter[str]) -> None:
        """Read from `reader`, and count in `rows` by the name of the question."""
        self._reader = reader
        self.rows = rows

    @property
    def reader(self) -> Reader:
        return cast("Reader", self)

    @property
    def transaction(self) -> Transaction:
        return cast("Transaction", self)

    def get(self, kind: Any, key: str) -> Any:
        self.rows[kind.__name__] += 1
        return self._reader.get(kind, key)

    def select(self, query: Any, *args: Any, **more: Any) -> Any:
        rows = self._reader.select(query, *args, **more)
        self.rows[query.name] += 1 + len(rows)
        return rows

    def latest(self, query: Any, *args: Any, **more: Any) -> Any:
        rows = self._reader.latest(query, *args, **more)
        self.rows[query.name] += 1 + len(rows)
        return rows

    def ranked(self, ranking: Any, *args: Any, **more: Any) -> Any:
        rows = self._reader.ranked(ranking, *args, **more)
        self.rows[ranking.name] += 1 + len(rows)
        return rows

    def due(self, over: Any, *args: Any, **more: Any) -> Any:
        rows = self._reader.due(over, *args, **more)
        self.rows[over.name] += 1 + len(rows)
        return rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


class CountedStore:
    """A store whose reads are counted, in transactions and outside of them."""

    def __init__(self, inner: Store) -> None:
        """Count what `inner` is asked."""
        self._inner = inner
        self.rows: Counter[str] = Counter()

    def transact(self, work: Callable[[Transaction], T]) -> T:
        return self._inner.transact(lambda tx: work(Counted(tx, self.rows).transaction))

    def read(self, work: Callable[[Reader], T]) -> T:
        return self._inner.read(lambda reader: work(Counted(reader, self.rows).reader))

    def close(self) -> None:
        self._inner.close()
