"""A store in memory: the reference for other stores, and the simulator's store.

It is optimistic. A transaction sees the store as it was at the beginning, and its own
writes. At its end, it checks whether another transaction has committed a write of the
same records, or locked the same safety rows; the first to end wins. Each view keeps
the past that it needs: a commit copies the replaced records into every open view.
"""

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar, cast

from forewarn.instants import Micros
from forewarn.protocol.frozen import changed
from forewarn.store.indexes import END, FIRST, Place, Table
from forewarn.store.kinds import AUDIT_AT, KINDS
from forewarn.store.port import (
    PAGE_ROWS,
    ConflictError,
    DuplicateError,
    Reader,
    StoreError,
    Transaction,
    require_unchanged,
)
from forewarn.store.questions import AnyQuestion, Query, Range, Ranking, Record
from forewarn.store.rows import before
from forewarn.store.write_lock import WriteLock

R = TypeVar("R", bound=Record)
T = TypeVar("T")

Address: TypeAlias = tuple[type[Record], str]
"""A record's kind and key."""


def _allow(_written: Collection[Address]) -> None:
    """Let a transaction commit."""


class _Layer:
    """The differences between a view and the store: records, and hidden keys."""

    def __init__(self) -> None:
        self.table = Table()
        self.hidden: set[str] = set()

    def put(self, key: str, record: Record | None) -> None:
        self.hidden.add(key)
        self.table.change(key, record)


class _View:
    """The store at the opening of the view, and the view's own writes."""

    def __init__(self, state: "State") -> None:
        self._state = state
        self._layers: defaultdict[type[Record], _Layer] = defaultdict(_Layer)
        self._began = state.commits
        self._before: dict[Address, Record | None] = {}
        self._scopes: set[str] = set()

    def __enter__(self) -> Self:
        with self._state.lock:
            self._state.check_open()
            self._began = self._state.commits
            self._state.views.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.rollback()

    # -- reads ---------------------------------------------------------------------

    def get(self, kind: type[R], key: str) -> R | None:
        """Return the record with this key, or None."""
        with self._state.lock:
            self._check_open()
            layer = self._layers[kind]
            table = layer.table if key in layer.hidden else self._state.tables[kind]
            return cast("R | None", table.get(key))

    def select(
        self,
        query: Query[R],
        value: str = "",
        *,
        after: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        """Return a page of the records found under `value`."""
        return self._records(query, value, limit, after=(0, after))

    def latest(
        self,
        query: Query[R],
        value: str = "",
        *,
        before: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        """Return a page of the records found under `value`, the greatest key first."""
        end = (0, before) if before else END
        return self._records(query, value, limit, end=end, lowest=False)

    def due(self, over: Range[R], until: Micros, *, limit: int = PAGE_ROWS) -> list[R]:
        """Return records whose instant is not 0 and at or before `until`."""
        return self._records(over, "", limit, end=(until + 1, ""))

    def earliest(self, over: Range[R]) -> Micros | None:
        """Return the earliest instant that is not 0, or None."""
        return next((round(instant) for instant, _ in self._find(over, "", 1)), None)

    def audit_keys(self, first: Micros, end: Micros) -> tuple[str, str] | None:
        """Return bounds of the keys of audit entries with an instant in [first, end)."""
        places = self._find(AUDIT_AT, "", sys.maxsize, after=(first, ""), end=(end, ""))
        keys = [key for _, key in places]
        return (before(min(keys)), max(keys)) if keys else None

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
        after = FIRST if above is None else (above + 1, "")
        return self._records(ranking, value, limit, after=after, lowest=lowest)

    def _records(
        self,
        question: AnyQuestion[R],
        value: str,
        limit: int,
        *,
        after: Place = FIRST,
        end: Place = END,
        lowest: bool = True,
    ) -> list[R]:
        assert limit > 0
        records: list[R] = []
        with self._state.lock:
            places = self._find(
                question, value, limit, after=after, end=end, lowest=lowest
            )
            for _, key in places:
                record = self.get(question.kind, key)
                assert record is not None, "an index has a record that does not exist"
                records.append(record)
        return records

    def _find(
        self,
        question: AnyQuestion[Any],
        value: str,
        limit: int,
        *,
        after: Place = FIRST,
        end: Place = END,
        lowest: bool = True,
    ) -> list[Place]:
        """Merge the places in the store with those in the view's layer."""
        with self._state.lock:
            self._check_open()
            layer = self._layers[question.kind]
            stored = self._state.tables[question.kind].find(
                question,
                value,
                min(sys.maxsize, limit + len(layer.hidden)),
                after=after,
                end=end,
                lowest=lowest,
            )
            places = [place for place in stored if place[1] not in layer.hidden]
            places += layer.table.find(
                question, value, limit, after=after, end=end, lowest=lowest
            )
            places.sort(reverse=not lowest)
            return places[:limit]

    # -- writes --------------------------------------------------------------------

    def add(self, record: R) -> R:
        """Store a new record; raises DuplicateError."""
        kind = type(record)
        if self.get(kind, record.key) is not None:
            raise DuplicateError(f"{kind.__name__} {record.key} exists already")
        self._write(kind, record.key, record)
        return record

    def replace(self, old: R, new: R) -> R:
        """Replace `old` by `new`; return it with its new revision."""
        assert type(new) is type(old)
        assert new.key == old.key
        require_unchanged(self, old)
        stored = changed(new, revision=old.revision + 1)
        self._write(type(old), old.key, stored)
        return stored

    def remove(self, old: Record) -> None:
        """Delete `old`; raises StaleWriteError if it changed after it was read."""
        require_unchanged(self, old)
        self._write(type(old), old.key, None)

    def lock_safety_rows(self, scopes: Iterable[str]) -> None:
        """Lock the safety rows of these scopes; the commit finds conflicts."""
        with self._state.lock:
            self._check_open()
            self._scopes |= set(scopes)

    def _write(self, kind: type[Record], key: str, record: Record | None) -> None:
        with self._state.lock:
            if (kind, key) not in self._before:
                self._before[kind, key] = self.get(kind, key)
            self._layers[kind].put(key, record)

    # -- the end -------------------------------------------------------------------

    def commit(
        self, committing: Callable[[Collection[Address]], None] = _allow
    ) -> None:
        """Make the writes visible, all at once; raises ConflictError.

        `committing` gets the addresses of the written records while no other transaction
        can commit. If it raises, nothing is written.
        """
        state = self._state
        with state.lock:
            self._check_open()
            state.views.remove(self)
            for (kind, key), before in self._before.items():
                if state.tables[kind].get(key) is not before:
                    raise ConflictError(f"another writer changed {kind.__name__} {key}")
            for scope in self._scopes:
                if state.safety.get(scope, 0) > self._began:
                    raise ConflictError(
                        f"another writer locked the safety row of scope {scope}"
                    )
            committing(self._before.keys())
            state.commits += 1
            state.safety.update(dict.fromkeys(self._scopes, state.commits))
            for (kind, key), before in self._before.items():
                for view in state.views:
                    view.keep(kind, key, before)
                state.tables[kind].change(key, self._layers[kind].table.get(key))

    def keep(self, kind: type[Record], key: str, before: Record | None) -> None:
        """Keep `before` in this view, because the store replaces it."""
        layer = self._layers[kind]
        if key not in layer.hidden:
            layer.put(key, before)

    def rollback(self) -> None:
        """Discard the writes; no effect after the end."""
        with self._state.lock:
            self._state.views.discard(self)

    def _check_open(self) -> None:
        self._state.check_open()
        if self not in self._state.views:
            raise StoreError("the transaction has ended")


class State:
    """The committed state."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.tables = {kind: Table() for kind in KINDS}
        self.safety: dict[str, int] = {}
        """The number of the commit that last locked each scope."""
        self.commits = 0
        self.views: set[_View] = set()
        self.is_closed = False

    def check_open(self) -> None:
        """Raise StoreError if the state was discarded."""
        if self.is_closed:
            raise StoreError("the store is closed")

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on a consistent view."""
        with _View(self) as view:
            return work(view)

    def close(self) -> None:
        """Discard everything."""
        with self.lock:
            self.is_closed = True
            self.views.clear()
            self.tables.clear()


class MemoryStore:
    """A store that loses its data when it closes."""

    def __init__(
        self,
        *,
        conflict: Callable[[], bool] = lambda: False,
        committing: Callable[[Collection[Address]], None] = _allow,
        state: State | None = None,
    ) -> None:
        """Start empty, or with a state that several stores share.

        `conflict` is called at the end of each attempt of `transact`. If it returns
        True, the attempt fails as if another writer had been first. `committing` is
        called in each commit, with the addresses of the written records.
        """
        self._state = state or State()
        self._write_lock = WriteLock()
        self._conflict, self._committing = conflict, committing

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction and commit it; return what it returned."""

        def attempt() -> T:
            with _View(self._state) as view:
                result = work(view)
                if self._conflict():
                    raise ConflictError("a test simulated another writer")
                view.commit(self._committing)
                return result

        return self._write_lock.run(attempt)

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` on a consistent view."""
        return self._state.read(work)

    def close(self) -> None:
        """Discard all data."""
        self._write_lock.run(self._state.close)
