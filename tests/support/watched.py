"""A store that is watched: every commit is written down, and shown to a witness.

The mirror is what the store said was durable. After a crash the store must hold
exactly that.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, cast

from forewarn.fleet.model import Host, Scope, Vm, VmState
from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, Request
from forewarn.protocol.views import View
from forewarn.protocol.visits import Visit
from forewarn.store import kinds
from forewarn.store.kinds import KINDS
from forewarn.store.port import (
    PAGE_ROWS,
    Reader,
    Store,
    Transaction,
    every,
)
from forewarn.store.questions import Query, Range, Ranking, Record
from forewarn.store.records import AuditEntry

R = TypeVar("R", bound=Record)
T = TypeVar("T")


Key: TypeAlias = tuple[type[Record], str]
Writes: TypeAlias = dict[Key, Record | None]


@dataclass(frozen=True, slots=True)
class Change:
    """One record that a transaction changed."""

    before: Record | None
    after: Record | None
    renewed: bool = False
    """It was removed, and another was made under its key."""


class Mirror:
    """The committed rows, by kind and key, without the audit log."""

    def __init__(self) -> None:
        self.tables: dict[type[Record], dict[str, Record]] = {
            kind: {} for kind in KINDS if kind is not AuditEntry
        }
        self._events_of: dict[str, dict[str, Event]] = {}
        """The events of each operation, so that an invariant of all operations reads
        each event once."""
        self.commits = 0
        """Transactions that wrote anything, the trail included."""
        self.entries: list[AuditEntry] = []
        """The audit entries of the last commit."""

    def table(self, kind: type[R]) -> dict[str, R]:
        return cast("dict[str, R]", self.tables[kind])

    @property
    def hosts(self) -> dict[str, Host]:
        return self.table(Host)

    @property
    def scopes(self) -> dict[str, Scope]:
        return self.table(Scope)

    @property
    def vms(self) -> dict[str, Vm]:
        return self.table(Vm)

    @property
    def live_vms(self) -> list[Vm]:
        return [vm for vm in self.vms.values() if vm.state is not VmState.DELETED]

    @property
    def views(self) -> dict[str, View]:
        return self.table(View)

    @property
    def operations(self) -> dict[str, Operation]:
        return self.table(Operation)

    @property
    def requests(self) -> dict[str, Request]:
        return self.table(Request)

    @property
    def events(self) -> dict[str, Event]:
        return self.table(Event)

    @property
    def live_events(self) -> list[Event]:
        return [event for event in self.events.values() if event.is_live]

    def events_of(self, operation_id: str) -> list[Event]:
        return list(self._events_of.get(operation_id, {}).values())

    def content(self) -> dict[type[Record], dict[str, Record]]:
        """Return a copy of what `stored` reads, to be compared later."""
        read = {Event, Request, Visit, *(query.kind for query in _ALL)}
        return {
            kind: dict(table) for kind, table in self.tables.items() if kind in read
        }

    def take(self, writes: Writes, renewed: set[Key]) -> list[Change]:
        """Take over a commit; return what it changed."""
        changes: list[Change] = []
        self.commits += bool(writes)
        self.entries = [
            write for write in writes.values() if isinstance(write, AuditEntry)
        ]
        for (kind, key), after in writes.items():
            if kind is AuditEntry:
                continue
            table = self.tables[kind]
            before = table.pop(key, None)
            if after is not None:
                table[key] = after
            changes.append(Change(before, after, renewed=(kind, key) in renewed))
            event = after or before
            if isinstance(event, Event):
                self._index(event, is_removed=after is None)
        return changes

    def _index(self, event: Event, *, is_removed: bool) -> None:
        of = self._events_of.setdefault(event.operation, {})
        if is_removed:
            del of[event.key]
        else:
            of[event.key] = event


class _WatchedTransaction:
    """Passes everything on, and remembers the writes."""

    def __init__(self, inner: Transaction) -> None:
        self._inner = inner
        self.writes: Writes = {}
        self.renewed: set[Key] = set()

    def get(self, kind: type[R], key: str) -> R | None:
        return self._inner.get(kind, key)

    def select(
        self,
        query: Query[R],
        value: str = "",
        *,
        after: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        return self._inner.select(query, value, after=after, limit=limit)

    def latest(
        self,
        query: Query[R],
        value: str = "",
        *,
        before: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        return self._inner.latest(query, value, before=before, limit=limit)

    def due(self, over: Range[R], until: Micros, *, limit: int = PAGE_ROWS) -> list[R]:
        return self._inner.due(over, until, limit=limit)

    def earliest(self, over: Range[R]) -> Micros | None:
        return self._inner.earliest(over)

    def audit_keys(self, first: Micros, end: Micros) -> tuple[str, str] | None:
        return self._inner.audit_keys(first, end)

    def ranked(
        self,
        ranking: Ranking[R],
        value: str,
        *,
        limit: int = PAGE_ROWS,
        lowest: bool = False,
        above: int | None = None,
    ) -> list[R]:
        return self._inner.ranked(
            ranking, value, limit=limit, lowest=lowest, above=above
        )

    def add(self, record: R) -> R:
        added = self._inner.add(record)
        if (type(record), record.key) in self.writes:
            self.renewed.add((type(record), record.key))
        self.writes[type(record), record.key] = added
        return added

    def replace(self, old: R, new: R) -> R:
        stored = self._inner.replace(old, new)
        self.writes[type(old), old.key] = stored
        return stored

    def remove(self, old: Record) -> None:
        self._inner.remove(old)
        self.writes[type(old), old.key] = None

    def lock_safety_rows(self, scopes: Iterable[str]) -> None:
        self._inner.lock_safety_rows(scopes)


class WatchedStore:
    """A store whose commits are mirrored and shown to `witness`."""

    def __init__(
        self,
        inner: Store,
        mirror: Mirror,
        witness: Callable[[list[Change]], None],
        *,
        keep_open: bool = False,
    ) -> None:
        """Watch `inner`; `keep_open` is for one that would forget at its close."""
        self.inner = inner
        self._mirror = mirror
        self._witness = witness
        self._keep_open = keep_open

    def transact(self, work: Callable[[Transaction], T]) -> T:
        writes: Writes = {}
        renewed: set[Key] = set()

        def attempt(tx: Transaction) -> T:
            nonlocal writes, renewed
            watched = _WatchedTransaction(tx)
            result = work(watched)
            writes, renewed = watched.writes, watched.renewed
            return result

        result = self.inner.transact(attempt)
        if changes := self._mirror.take(writes, renewed):
            self._witness(changes)
        return result

    def read(self, work: Callable[[Reader], T]) -> T:
        return self.inner.read(work)

    def close(self) -> None:
        if not self._keep_open:
            self.inner.close()


_ALL: tuple[Query[Record], ...] = tuple(
    cast("Query[Record]", query)
    for query in vars(kinds).values()
    if isinstance(query, Query)
    and query.name.startswith("all_")
    and query.kind is not AuditEntry
)
"""Every question that is answered by a whole table, but the trail."""


def stored(reader: Reader) -> dict[type[Record], dict[str, Record]]:
    """Return everything that a store holds, but the trail."""
    rows: dict[type[Record], dict[str, Record]] = {
        query.kind: {record.key: record for record in every(reader, query)}
        for query in _ALL
    }
    operations = cast("dict[str, Operation]", rows[Operation])
    rows[Event] = {
        event.key: event
        for key in operations
        for event in every(reader, kinds.EVENTS_OF_OPERATION, key)
    }
    rows[Request] = {
        name: request
        for name in {operation.request for operation in operations.values()}
        if (request := reader.get(Request, name)) is not None
    }
    rows[Visit] = {
        visit.key: visit
        for name in rows[Request]
        for visit in every(reader, kinds.VISITS_OF_REQUEST, name)
    }
    return rows
