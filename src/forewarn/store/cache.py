"""The writer's cache of committed records and query results.

The store's file belongs to one process, and one writer works at a time. A record that
the last writer committed or read is therefore the stored one, and is not read and
decoded again. A write is checked against the cache and sent to SQLite later, with
others of its kind (`pending`). The results of a few queries, which each step of an
operation needs, are cached too, as keys, and updated at every write. Safety does not
depend on the cache: each write is guarded by the revision, and any inconsistency
empties the cache.
"""

import json
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias, TypeVar, cast

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import Capacity, Host, Scope, Span, Tenant, Vm
from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.protocol.frozen import changed
from forewarn.protocol.operations import Operation
from forewarn.protocol.views import View
from forewarn.store import kinds, statements
from forewarn.store.codec import Codec, Row
from forewarn.store.database import Database
from forewarn.store.earliest import RANGES_OF, Earliest, Known
from forewarn.store.pending import Pending
from forewarn.store.port import PAGE_ROWS, DuplicateError, require_unchanged
from forewarn.store.questions import Query, Range, Ranking, Record
from forewarn.store.recent import Recent
from forewarn.store.records import AuditEntry
from forewarn.store.relay_links import RelayLink
from forewarn.store.rows import RowTransaction, Values
from forewarn.store.unplanned import UnplannedPage
from forewarn.store.wide_blackouts import WideBlackout

R = TypeVar("R", bound=Record)

RECORDS_KEPT = 50_000
"""Maximum number of cached records, about 55 MiB: a maintenance of a thousand hosts with
ten VMs each needs thirty thousand. A decision never needs a whole fleet."""

ANSWERS_KEPT = 60_000
"""Maximum number of cached query results, about 18 MiB: those of the cached records."""

ANSWER_KEYS_MAX = 50
"""Maximum keys of a cached query result: updating a longer one costs more than a new
query."""

REMEMBERED: tuple[Query[Any], ...] = (
    kinds.EVENTS_OF_OPERATION,
    kinds.LIVE_EVENTS_OF_SCOPE,
    kinds.VIEWS_OF_SCOPE,
    kinds.VIEWS_OF_ENABLING,
    kinds.OPEN_OPERATIONS_OF_HOST,
    kinds.OPEN_OPERATIONS_OF_VM,
    kinds.OPEN_OPERATIONS_OF_REQUEST,
    kinds.OPERATIONS_THAT_WAIT,
    kinds.VMS_UNSTEADY_IN_SCOPE,
    kinds.VMS_ON_HOST,
    kinds.OPEN_SPANS_OF_VM,
    kinds.ALL_BLACKOUTS,
    kinds.ALL_RELAY_LINKS,
    kinds.RELAY_OF_HOST,
    kinds.CAMPAIGNS_OPEN,
)
"""The queries that a decision about one operation needs. The cache keeps their
results. A query that is missing here also sends the pending writes of its kind, for each
of the operations that start together."""

_REMEMBERED_NAMES = frozenset(query.name for query in REMEMBERED)
_REMEMBERED_OF: Mapping[type, tuple[Query[Any], ...]] = {
    kind: tuple(query for query in REMEMBERED if query.kind is kind)
    for kind in kinds.KINDS
}

RELEVANT_FIELDS: Mapping[type, tuple[str, ...]] = {
    Event: ("operation", "scope", "status"),
    CampaignRecord: ("ended",),
    Operation: ("ended_at", "host", "moves", "request", "waits_for"),
    Span: ("ended", "vm"),
    View: ("enabling", "scope"),
    Vm: ("host", "scope", "started", "state"),
    WideBlackout: ("name",),
    RelayLink: ("host",),
}
"""The fields that determine the results of those queries: a write that does not change
them does not change the results."""

_RELEVANT: Mapping[type, Callable[[Any], object]] = {
    kind: attrgetter(*fields) for kind, fields in RELEVANT_FIELDS.items()
}

RANKED_OVER: Mapping[str, Query[Any]] = {
    kinds.UNSTEADY_DOMAINS.name: kinds.VMS_UNSTEADY_IN_SCOPE,
}
"""Rankings of the records of a query whose result is cached."""

FETCHED: Mapping[str, str] = {
    kinds.VIEWS_OF_ENABLING.name: "enabling",
    kinds.OPEN_OPERATIONS_OF_HOST.name: "ended_at = 0 AND host",
}
"""The queries whose results for many values are read together, and the condition before
the values."""

PROBED: Mapping[str, tuple[str, str]] = {
    kinds.OPERATIONS_THAT_WAIT.name: ("operation_waits", "wait"),
}
"""Queries that mostly find nothing, with the table and column of their values: the values
without a record are found together. Others can have thousands of records."""

FETCHED_TOGETHER = 2_000
"""Maximum keys or values of one statement."""

ADDED_LATER: frozenset[type] = frozenset(
    {
        *(AuditEntry, Operation, Event, Span, UnplannedPage),
        *(Tenant, Scope, Host, Capacity, Vm, View),
    }
)
"""Kinds of which one request or one fleet file creates hundreds. They are sent in bulk, and
a duplicate ID is found then."""

Name: TypeAlias = tuple[type, str]

Question: TypeAlias = tuple[str, str]
"""The name of a query, and its value."""


ABSENT: Any = object()
"""Marks a key without a record, so that it is not asked for again."""


class Committed:
    """The cache of committed records and query results."""

    def __init__(self) -> None:
        """Start empty."""
        self._records: Recent[Name, Record] = Recent(absent=ABSENT)
        self._answers: Recent[Question, tuple[str, ...]] = Recent()
        self.earliest: Known = {}
        """The earliest instants of ranges that were asked for."""
        self.find = self._records.find
        """Return the record, ABSENT if there is none, or None if it is not cached."""
        self.answer = self._answers.find
        """Return the keys of the query result, or None if it is not cached."""

    def take(
        self,
        seen: Mapping[Name, Record | None],
        answers: Mapping[Question, tuple[str, ...] | None],
        earliest: Earliest,
        *,
        gone: Iterable[Name] = (),
    ) -> None:
        """Store the records and query results of a transaction, and forget removed ones.

        A record that is None does not exist; a result that is None is not known.
        """
        self._records.take(seen, RECORDS_KEPT)
        self._records.drop(gone)
        self._answers.take(answers, ANSWERS_KEPT)
        self.earliest.update(earliest.news)
        for name in earliest.forgotten:
            self.earliest.pop(name, None)

    def forget(self) -> None:
        """Empty the cache."""
        self._records.clear()
        self._answers.clear()
        self.earliest.clear()


class RememberingTransaction(RowTransaction):
    """A transaction that reads each uncached record at most once."""

    def __init__(self, connection: Database, committed: Committed) -> None:
        """Use `connection`; `remember` updates `committed` after the commit."""
        super().__init__(connection)
        self._committed = committed
        self._pending = Pending(connection)
        self.seen: dict[Name, Record | None] = {}
        self.answers: dict[Question, tuple[str, ...] | None] = {}
        self._earliest = Earliest(committed.earliest)
        self._moved: dict[Name, Record | None] = {}
        """The records that were written since `_earliest` was up to date, as they were."""
        self._removed: set[Name] = set()
        self._affected: set[Question] = set()
        """Queries whose results a write of this transaction may have changed."""

    def get(self, kind: type[R], key: str) -> R | None:
        """Return the record with this key, or None."""
        name = (kind, key)
        records: dict[Name, Any] = self.seen
        record: Any = records.get(name)
        if record is None and name not in records:
            record = self._committed.find(name)
            if record is None:
                record = super().get(kind, key)
            elif record is ABSENT:
                record = None
            records[name] = record
        return record

    def fetch(self, kind: type[Record], keys: Iterable[str]) -> None:
        """Read the records with these keys together, before `get` asks for each."""
        codec = self._schema.codecs[kind]
        wanted = (key for key in keys if not self._is_known((kind, key)))
        for some in _parts(wanted):
            rows = self._among(codec, codec.key, some)
            records = {record.key: record for record in self._decoded(kind, rows)}
            for key in some:
                self.seen[kind, key] = records.get(key)

    def fetch_answers(self, query: Query[Any], values: Iterable[str]) -> None:
        """Read the results of a query of FETCHED or PROBED for these values together."""
        codec = self._schema.codecs[query.kind]
        wanted = (value for value in values if self._is_unknown((query.name, value)))
        if query.name in PROBED:
            self._probe(query, wanted)
            return
        for some in _parts(wanted):
            rows = self._among(codec, FETCHED[query.name], some)
            keys_of: dict[str, list[str]] = {value: [] for value in some}
            for record in self._decoded(query.kind, rows):
                for value in query.values(record):
                    keys_of[value].append(record.key)
            for value, keys in keys_of.items():
                self._remember_answer((query.name, value), tuple(sorted(keys)))

    def _probe(self, query: Query[Any], values: Iterable[str]) -> None:
        """Find out which of these values have no record."""
        table, column = PROBED[query.name]
        for some in _parts(values):
            sql = statements.those_found(table, column)
            present = {
                row[0] for row in self._connection.rows(sql, (json.dumps(some),))
            }
            for value in some:
                if value not in present:
                    self._remember_answer((query.name, value), ())

    def none_yet(self, query: Query[Any], value: str) -> None:
        """Note that nothing is found under a value, because it is new."""
        if query.name in _REMEMBERED_NAMES and self._is_unknown((query.name, value)):
            self._remember_answer((query.name, value), ())

    def _is_known(self, name: Name) -> bool:
        return name in self.seen or self._committed.find(name) is not None

    def _is_unknown(self, question: Question) -> bool:
        """Return whether only the stored rows have the result of a query."""
        return question not in self._affected and self._answer(question) is None

    def _among(self, codec: Codec[Any], column: str, values: list[str]) -> list[Row]:
        sql = statements.among(codec.table, [*codec.columns], column)
        return self._connection.rows(sql, (json.dumps(values),))

    def select(
        self,
        query: Query[R],
        value: str = "",
        *,
        after: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        """Return a page of the records found under `value`."""
        question = (query.name, value)
        keys = None if after else self._answer(question)
        if keys is not None:
            return [
                record
                for key in keys[:limit]
                if (record := self.get(query.kind, key)) is not None
            ]
        records = super().select(query, value, after=after, limit=limit)
        if query.name in _REMEMBERED_NAMES and not after and len(records) < limit:
            self._remember_answer(question, tuple(record.key for record in records))
        return records

    def due(self, over: Range[R], until: Micros, *, limit: int = PAGE_ROWS) -> list[R]:
        """Return records whose instant is not 0 and at or before `until`."""
        known = self._instants()
        if known.knows(over.name):
            earliest = known.of(over.name)
            if earliest is None or earliest > until:
                return []
        return super().due(over, until, limit=limit)

    def earliest(self, over: Range[R]) -> Micros | None:
        """Return the earliest instant that is not 0, or None."""
        known = self._instants()
        if not known.knows(over.name):
            known.remember(over.name, super().earliest(over))
        return known.of(over.name)

    def _instants(self) -> Earliest:
        """Return what is known of the earliest instants, after all writes."""
        if self._moved:
            # A record can be written several times, and is followed once.
            for name, old in self._moved.items():
                self._earliest.follow(old, self.seen[name])
            self._moved = {}
        return self._earliest

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
        over = RANKED_OVER.get(ranking.name)
        if over is not None:
            answer = self.select(over, value, limit=ANSWER_KEYS_MAX + 1)
            if len(answer) <= ANSWER_KEYS_MAX:
                ordered = _in_order(ranking, value, answer, lowest=lowest, above=above)
                return ordered[:limit]
        return super().ranked(ranking, value, limit=limit, lowest=lowest, above=above)

    def add(self, record: R) -> R:
        """Store a new record; raises DuplicateError.

        A record of ADDED_LATER that is not cached is found to exist when it is sent.
        """
        if isinstance(record, AuditEntry):  # often written, rarely read
            first = self._committed.earliest.get(kinds.AUDIT_AT.name, 0)
            if first is None or record.at < first or self._earliest.news:
                self._earliest.follow(None, record)
            self._pending.add(record)
            return record
        name: Name = (type(record), record.key)
        if type(record) in ADDED_LATER:
            if self._known(name) is not None:
                raise DuplicateError(f"{name[0].__name__} {name[1]} exists already")
            self._pending.add(record)
        else:
            super().add(record)
        self.seen[name] = record
        if type(record) in RANGES_OF:
            self._moved.setdefault(name, None)
        self._follow(None, record)
        return record

    def _known(self, name: Name) -> Record | None:
        """Return the record if it is cached and was not removed."""
        if name in self.seen:
            return self.seen[name]
        known = self._committed.find(name)
        return None if known is ABSENT else known

    def replace(self, old: R, new: R) -> R:
        """Replace `old` by `new`; return it with its new revision."""
        assert type(new) is type(old)
        assert new.key == old.key
        name = type(new), new.key
        if self.seen.get(name) is not old:
            require_unchanged(self, old)
        stored = changed(new, revision=old.revision + 1)
        self._pending.replace(old, stored)
        self.seen[name] = stored
        if name[0] in RANGES_OF:
            self._moved.setdefault(name, old)
        self._follow(old, stored)
        return stored

    def remove(self, old: Record) -> None:
        """Delete `old`; raises StaleWriteError if it changed after it was read."""
        require_unchanged(self, old)
        self._pending.send(type(old))
        super().remove(old)
        self.seen[type(old), old.key] = None
        self._removed.add((type(old), old.key))
        if type(old) in RANGES_OF:
            self._moved.setdefault((type(old), old.key), old)
        self._follow(old, None)

    def lock_safety_rows(self, scopes: Iterable[str]) -> None:
        """Write nothing: this transaction already has exclusive access to all rows.

        The transaction took SQLite's write lock when it began, and a waiting writer
        sees the result.
        """
        del scopes

    def send_all(self) -> None:
        """Send the pending writes, before the commit."""
        self._pending.send_all()

    def remember(self) -> None:
        """Keep what this transaction has read and written, after the commit."""
        earliest = self._instants() if self._moved else self._earliest
        gone = [name for name in self._removed if self.seen[name] is None]
        for name in gone:
            # It is not read again, and the others need the room.
            del self.seen[name]
        self._committed.take(self.seen, self.answers, earliest, gone=gone)

    def _rows(self, name: str, kind: type[Record], values: Values) -> list[Row]:
        """Send the pending writes that a statement may read, and return its rows."""
        if name not in _REMEMBERED_NAMES or (name, values["value"]) in self._affected:
            self._pending.send(kind)
        return super()._rows(name, kind, values)

    def _answer(self, question: Question) -> tuple[str, ...] | None:
        if question in self.answers:
            return self.answers[question]
        return self._committed.answer(question)

    def _remember_answer(self, question: Question, keys: tuple[str, ...]) -> None:
        self.answers[question] = keys if len(keys) <= ANSWER_KEYS_MAX else None

    def _follow(self, old: Record | None, new: Record | None) -> None:
        """Update the cached query results after a write."""
        record = new or old
        assert record is not None
        look = _RELEVANT.get(type(record))
        if look is None or (old and new and look(old) == look(new)):
            return
        for query in _REMEMBERED_OF[type(record)]:
            before = () if old is None else query.values(old)
            after = () if new is None else query.values(new)
            if before == after:
                continue
            for value in {*before, *after}:
                question = (query.name, value)
                self._affected.add(question)
                known = self._answer(question)
                if known is not None:
                    keys = [key for key in known if key != record.key]
                    if value in after:
                        insort(keys, record.key)
                    self._remember_answer(question, tuple(keys))

    def _decoded(self, kind: type[R], rows: list[Row]) -> list[R]:
        """Return the records of rows; reuse those that are cached."""
        decode: Callable[[Row], Any] = self._schema.decoders[kind]
        key_at, revision_at = self._schema.places[kind]
        records: list[R] = []
        for row in rows:
            name = (kind, row[key_at])
            known = self.seen.get(name) or self._committed.find(name)
            # A pending write is newer than the row in the store.
            if known is None or known is ABSENT or known.revision < row[revision_at]:
                known = decode(row)
                self.seen[name] = known
            records.append(cast("R", known))
        return records


def _parts(values: Iterable[str]) -> Iterator[list[str]]:
    """Yield the different values, in lists for one statement each."""
    every = iter(dict.fromkeys(values))
    while some := [*islice(every, FETCHED_TOGETHER)]:
        yield some


def _in_order(
    ranking: Ranking[R],
    value: str,
    found: Iterable[R],
    *,
    lowest: bool,
    above: int | None,
) -> list[R]:
    """Return the records in the order of their numbers under `value`."""
    numbered = [
        (number, record.key, record)
        for record in found
        for rank, number in ranking.places(record)
        if rank == value and (above is None or number > above)
    ]
    numbered.sort(key=itemgetter(0, 1), reverse=not lowest)
    return [record for _number, _key, record in numbered]
