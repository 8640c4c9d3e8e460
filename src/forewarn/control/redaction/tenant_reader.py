"""A store reader that shows only what one tenant may see.

Everything that a tenant sees is read through a `TenantReader`, so a report cannot reveal
anything else. Records of other tenants do not exist in it. Records that several tenants
share are reduced to the tenant's part (`tenant_filter`). Operations and requests have the
tenant's aliases, and queries use these aliases, never real IDs. A kind or a query that is
not listed shows nothing, so new ones are closed until they are opened here.
"""

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar, cast

from forewarn.control.redaction import redact, tenant_places
from forewarn.control.redaction.tenant_filter import (
    TenantFilter,
    aliases_of,
    span_cursor,
)
from forewarn.control.redaction.tenant_places import END_OF_KEYS, FIRST_OF_KEYS
from forewarn.control.redaction.tenant_queries import (
    BY_SCOPE,
    MAY_ASK,
    OF_ALIASES,
    ONLY_OPEN,
)
from forewarn.control.redaction.upcoming import Page, UpcomingWork
from forewarn.control.rules import obstacles, remedies
from forewarn.control.transactions import aliases
from forewarn.control.transactions.named import OfTenant
from forewarn.fleet.model import Scope, Span, Tenant, Vm, tags_of
from forewarn.instants import Micros
from forewarn.protocol.blockers import AnyBlocker
from forewarn.protocol.operations import ENDED_STATES, Operation, Request
from forewarn.store import kinds
from forewarn.store.port import PAGE_ROWS, Reader, every
from forewarn.store.questions import Query, Range, Ranking, Record
from forewarn.store.records import AuditEntry
from forewarn.store.remembered import Remembered

R = TypeVar("R", bound=Record)

MERGED_ROWS = 50
"""Rows per read and scope of a tenant with many scopes."""


def blockers(
    reader: Reader, operation: Operation, *, now: Micros
) -> tuple[AnyBlocker, ...]:
    """Return all reasons why the operation waits, redacted for a tenant reader.

    Reasons that an operator or tenant can resolve come first.
    """
    if isinstance(reader, TenantReader):
        all_blockers = reader.why_waiting(operation.operation_id, now=now)
    else:
        all_blockers = obstacles.why_waiting(reader, operation, now=now)
    return remedies.actionable_first(all_blockers)


def operations_among(reader: Reader, ids: Iterable[str]) -> tuple[str, ...]:
    """Return the operations that the reader may see, out of these real IDs.

    A tenant reader returns aliases.
    """
    if isinstance(reader, TenantReader):
        return reader.operations_among(ids)
    return tuple(key for key in ids if reader.get(Operation, key) is not None)


def real_id(reader: Reader, name: str) -> str:
    """Return the real ID of the operation or request that an operator names.

    An operator can use the alias that a tenant quotes. Other names are returned
    unchanged.
    """
    if isinstance(reader, TenantReader) or not aliases.is_id(name):
        return name
    kind = Operation if name.startswith("op-") else Request
    if reader.get(kind, name) is not None:
        return name
    for tenant in every(reader, kinds.ALL_TENANTS):
        record = reader.get(kind, aliases_of(reader, tenant.name).real(name))
        if (
            record is not None
            and TenantFilter(reader, tenant.name).of(record) is not None
        ):
            return record.key
    return name


def remembered(reader: Reader) -> Reader:
    """Return a reader that shares what the reasons of several operations need.

    A tenant reader does so itself.
    """
    return reader if isinstance(reader, TenantReader) else Remembered(reader)


def is_tenant(reader: Reader) -> bool:
    """Return whether a reader shows the part of a tenant only."""
    return isinstance(reader, TenantReader)


def rows_read(reader: Reader) -> int:
    """Return how many rows a tenant reader has read, also those that it does not show.

    0 for another reader, which shows each row that it reads.
    """
    return reader.rows_read if isinstance(reader, TenantReader) else 0


class _Metered:
    """A reader that counts the rows that it returns."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.rows = 0

    def get(self, kind: type[R], key: str) -> R | None:
        self.rows += 1
        return self._reader.get(kind, key)

    def select(
        self,
        query: Query[R],
        value: str = "",
        *,
        after: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        records = self._reader.select(query, value, after=after, limit=limit)
        self.rows += 1 + len(records)
        return records

    def latest(
        self,
        query: Query[R],
        value: str = "",
        *,
        before: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        records = self._reader.latest(query, value, before=before, limit=limit)
        self.rows += 1 + len(records)
        return records

    def ranked(
        self,
        ranking: Ranking[R],
        value: str,
        *,
        limit: int = PAGE_ROWS,
        lowest: bool = False,
        above: int | None = None,
    ) -> list[R]:
        records = self._reader.ranked(
            ranking, value, limit=limit, lowest=lowest, above=above
        )
        self.rows += 1 + len(records)
        return records

    def due(self, over: Range[R], until: Micros, *, limit: int = PAGE_ROWS) -> list[R]:
        return self._reader.due(over, until, limit=limit)

    def earliest(self, over: Range[R]) -> Micros | None:
        return self._reader.earliest(over)

    def audit_keys(self, first: Micros, end: Micros) -> tuple[str, str] | None:
        return self._reader.audit_keys(first, end)


class TenantReader(OfTenant):
    """A store reader for one tenant, for one read."""

    def __init__(self, reader: Reader, tenant: str) -> None:
        """Show the part of `reader` that `tenant` may see."""
        self._reader = _Metered(reader)
        self.tenant = tenant
        self._share = TenantFilter(self._reader, tenant)
        self._remembered = Remembered(self._reader)
        self._parts: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    @property
    def rows_read(self) -> int:
        """Return how many rows were read, also those that the tenant does not see."""
        return self._reader.rows

    # The port

    def get(self, kind: type[R], key: str) -> R | None:
        """Return the record as the tenant may see it, or None."""
        is_alias = kind in {Operation, Request}
        record = self._reader.get(kind, self.real(key) if is_alias else key)
        return None if record is None else self._share.of(record)

    def select(
        self,
        query: Query[R],
        value: str = "",
        *,
        after: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        """Return a page of records that the tenant may see; pages of spans can be longer.

        Keys of spans are cut to the second, so spans that began together stay together.
        """
        if query.name in OF_ALIASES:
            value = self.real(value)
        shown: list[R] = []
        for record in self._found(query, value, after):
            if len(shown) >= limit and (
                query.kind is not Span or record.key != shown[-1].key
            ):
                break
            shown.append(record)
        return shown

    def latest(
        self,
        query: Query[R],
        value: str = "",
        *,
        before: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        """Return a page of records that the tenant may see, the latest first."""
        if query.name in OF_ALIASES:
            value = self.real(value)
        records = self._found(query, value, before, is_backward=True)
        return [*islice(records, limit)]

    def due(self, over: Range[R], until: Micros, *, limit: int = PAGE_ROWS) -> list[R]:
        """Return no records: timers are not for tenants."""
        del over, until, limit
        return []

    def earliest(self, over: Range[R]) -> Micros | None:
        """Return None: timers are not for tenants."""
        del over

    def audit_keys(self, first: Micros, end: Micros) -> tuple[str, str] | None:
        """Return bounds in the form of the IDs that a tenant sees, cut to the second.

        A bound is empty if the clock was set back there.
        """
        return tenant_places.bounds(self._reader, first, end)

    def ranked(
        self,
        ranking: Ranking[R],
        value: str,
        *,
        limit: int = PAGE_ROWS,
        lowest: bool = False,
        above: int | None = None,
    ) -> list[R]:
        """Return no records: rankings are only for decisions."""
        del ranking, value, limit, lowest, above
        return []

    def why_waiting(self, operation_id: str, *, now: Micros) -> tuple[AnyBlocker, ...]:
        """Return all reasons why an operation waits, redacted."""
        shown = self.get(Operation, operation_id)
        whole = self._reader.get(Operation, self.real(operation_id))
        if shown is None or whole is None or shown.state in ENDED_STATES:
            return ()
        vms, scopes = self._part_of_request(shown.request)
        own = {name for name in whole.scopes if self._share.is_own_scope(name)}
        return self._share.blockers(
            redact.for_tenant(
                obstacles.why_waiting(self._remembered, whole, now=now),
                scopes=scopes | own,
                vms=vms,
            )
        )

    def upcoming(
        self, *, scope: str, vm: str, after: str, limit: int, now: Micros
    ) -> Page:
        """Return a page of the coming work on the VMs of the tenant."""
        work = UpcomingWork(self._remembered, self._share, now=now)
        return work.page(scope=scope, vm=vm, after=after, limit=limit)

    def _part_of_request(self, alias: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the VMs of the tenant in a request, and their scopes.

        They are cached: a list of the operations of a rollout needs the VMs of the same
        thousand hosts for each operation.
        """
        if alias not in self._parts:
            vms = frozenset(
                name
                for operation in every(self, kinds.OPERATIONS_OF_REQUEST, alias)
                for name in operation.vms
            )
            scopes = frozenset(
                scope.name for name in vms if (scope := self._scope_of(name))
            )
            self._parts[alias] = vms, scopes
        return self._parts[alias]

    # Names

    def real(self, name: str) -> str:
        """Return the real ID of an alias of the tenant."""
        return self._share.aliases.real(name)

    def operations_among(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Return the aliases of the operations that the tenant may see."""
        operations = (self._reader.get(Operation, key) for key in ids)
        shown = (self._share.of(stored) for stored in operations if stored is not None)
        return tuple(
            operation.operation_id for operation in shown if operation is not None
        )

    def has_left(self, alias: str) -> bool:
        """Return whether the tenant left an operation before it ended."""
        whole = self._reader.get(Operation, self.real(alias))
        return whole is not None and self._share.has_left(whole)

    def is_open(self, alias: str) -> bool:
        """Return whether an operation is open, even if only for others."""
        whole = self._reader.get(Operation, self.real(alias))
        return whole is not None and whole.state not in ENDED_STATES

    def _edge(self, query: Query[Any], key: str, *, is_backward: bool) -> str:
        """Return the key from which a page is read; no page for an invalid cursor.

        A text that is not a cursor of this module must not be compared with keys.
        """
        if not key:
            return ""
        if query.kind is Span:
            return span_cursor(key)
        if query.kind is Operation:
            nothing = FIRST_OF_KEYS if is_backward else END_OF_KEYS
            return self.real(key) if aliases.is_id(key) else nothing
        return key

    # Queries

    def _found(
        self, query: Query[R], value: str, after: str, *, is_backward: bool = False
    ) -> Iterator[R]:
        """Yield the records that follow a key, or precede it and go backwards."""
        if query.kind is AuditEntry:
            lines = self._lines(query.name, value, after, is_backward=is_backward)
            yield from cast("Iterator[R]", lines)
            return
        if query is kinds.ALL_TENANTS:
            own = self.get(Tenant, self.tenant)
            yield from cast("list[R]", [own] if own and own.name > after else [])
            return
        start = self._edge(query, after, is_backward=is_backward)
        rows: Iterator[Any] = heapq.merge(
            *(
                self._rows(source, name, start, is_backward=is_backward)
                for source, name in self._sources(query, value)
            ),
            key=attrgetter("key"),
            reverse=is_backward,
        )
        last = ""
        for row in rows:
            # A record of several scopes is found under each.
            if row.key == last:
                continue
            last = row.key
            record = self._share.of(row)
            # The tenant's part decides: it can have ended before the operation.
            if record is not None and _is_found_by(query, value, record):
                yield record

    def _rows(
        self,
        query: Query[R],
        value: str,
        key: str,
        ahead: int = MERGED_ROWS,
        *,
        is_backward: bool = False,
    ) -> Iterator[R]:
        """Yield the rows behind a key, or those before it and backwards."""
        while True:
            page = (
                self._reader.latest(query, value, before=key, limit=ahead)
                if is_backward
                else self._reader.select(query, value, after=key, limit=ahead)
            )
            yield from page
            if len(page) < ahead:
                return
            key = page[-1].key

    def _sources(self, query: Query[Any], value: str) -> list[tuple[Query[Any], str]]:
        """Return queries that find the requested records of the tenant, and few others."""
        narrower = BY_SCOPE.get(query.name)
        if narrower is not None:
            # Open operations and current objects are only in current scopes.
            has_past = narrower is kinds.OPERATIONS_OF_SCOPE
            scopes = self._scopes_ever() if has_past else self._scopes()
            return [(narrower, scope) for scope in scopes]
        if query is kinds.ALL_SCOPES:
            return [(kinds.SCOPES_OF_TENANT, self.tenant)]
        if query is kinds.ALL_CHOICES:
            return [(kinds.CHOICES_OF_TENANT, self.tenant)]
        if query is kinds.ALL_SPANS:
            return [(kinds.SPANS_OF_TENANT, self.tenant)]
        is_open = MAY_ASK.get(query.name)
        if is_open is None or not is_open(self._share, value):
            return []
        return [(query, value)]

    def _scopes(self) -> list[str]:
        return [
            scope.name
            for scope in every(self._reader, kinds.SCOPES_OF_TENANT, self.tenant)
        ]

    def _scopes_ever(self) -> list[str]:
        """Return the current and earlier scopes of the tenant."""
        return sorted({*self._scopes(), *self._share.past.scopes})

    def _scope_of(self, vm: str) -> Scope | None:
        record = self.get(Vm, vm)
        return None if record is None else self.get(Scope, record.scope)

    # The history

    def _lines(
        self, name: str, value: str, edge: str, *, is_backward: bool
    ) -> Iterator[AuditEntry]:
        """Yield entries after the ID `edge`, which an earlier page showed.

        With `is_backward`, those before it, the latest first.
        """
        subjects = self._subjects(name, value)
        if not subjects:
            return
        find = tenant_places.place_before if is_backward else tenant_places.place_after
        place = find(self._reader, edge)
        # Each page collects the keys of all operations again. So a page has more rows
        # per subject if there are few subjects.
        ahead = max(MERGED_ROWS, PAGE_ROWS // len(subjects))
        rows = heapq.merge(
            *(
                self._rows(
                    kinds.AUDIT_OF_SUBJECT,
                    subject,
                    place.key,
                    ahead,
                    is_backward=is_backward,
                )
                for subject in subjects
            ),
            key=attrgetter("key"),
            reverse=is_backward,
        )
        is_behind = False
        last = ""
        for row in rows:
            if row.key == last:
                continue
            last = row.key
            line = self._share.of(row)
            is_behind = is_behind or place.is_behind(row)
            if line is None:
                continue
            if is_behind:
                yield line
            elif line.key == edge:
                is_behind = True

    def _subjects(self, name: str, value: str) -> list[str]:
        """Return the subjects whose entries a query of the history finds."""
        if name == kinds.ALL_AUDIT.name:
            scopes = [f"scope:{scope}" for scope in self._scopes_ever()]
            return [*scopes, f"tenant:{self.tenant}"]
        if name != kinds.AUDIT_OF_SUBJECT.name:
            return []
        kind, _, named = value.partition(":")
        if kind in {"operation", "request"}:
            value = f"{kind}:{self.real(named)}"
        return [value] if self._share.is_own_subject(value) else []


def _is_found_by(query: Query[Any], value: str, row: Any) -> bool:
    """Return whether a record has the state or tag of a query for all scopes."""
    if query.name in ONLY_OPEN:
        return row.state not in ENDED_STATES
    if query is kinds.OPERATIONS_IN_STATE:
        return row.state.value == value
    return query is not kinds.VMS_WITH_TAG or value in tags_of(row)
