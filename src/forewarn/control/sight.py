"""What a tenant may see of the store: a reader that shows nothing else.

Everything that a tenant is shown is read through a `Sight`, so a report cannot
tell what it was never given. A record of another tenant is not there, as if it did
not exist; of what several tenants share it has the tenant's part (`share`). A kind
or a question that is not known shows nothing, so what is added later is closed until
somebody opens it.
"""

import heapq
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, TypeVar, cast

from forewarn.control import neutral, obstacles
from forewarn.control.blockers import Blocker
from forewarn.control.share import INSTANT_DIGITS, Share
from forewarn.fleet.model import Scope, Tenant, Vm
from forewarn.fleet.spans import Span
from forewarn.instants import Micros
from forewarn.protocol.operations import Operation
from forewarn.store import kinds
from forewarn.store.audit import AuditEntry
from forewarn.store.kinds import Query, Range, Record
from forewarn.store.port import PAGE_ROWS, Reader, every

R = TypeVar("R", bound=Record)

MERGED_ROWS = 50
"""Rows that are read ahead of each scope of a tenant that has many."""


def blockers(
    reader: Reader, operation: Operation, *, now: Micros
) -> tuple[Blocker, ...]:
    """Return every reason that holds the operation, as the reader's owner may know."""
    if isinstance(reader, Sight):
        return reader.why_waiting(operation.operation_id, now=now)
    return obstacles.why_waiting(reader, operation, now=now)


class Sight:
    """A reader for one tenant, for the length of one read."""

    def __init__(self, reader: Reader, tenant: str) -> None:
        """Show what `tenant` may see of `reader`."""
        self._reader = reader
        self.tenant = tenant
        self._share = Share(reader, tenant)

    # The port

    def get(self, kind: type[R], key: str) -> R | None:
        """Return the record as the tenant may see it, or None."""
        record = self._reader.get(kind, key)
        return None if record is None else self._share.of(record)

    def select(
        self,
        query: Query[R],
        value: str = "",
        *,
        after: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        """Return a page of what the tenant may see; Span pages may be longer.

        Their keys are cut to the instant, so times that began together stay so.
        """
        found: list[R] = []
        for record in self._found(query, value, after):
            if len(found) >= limit and (
                query.kind is not Span or record.key != found[-1].key
            ):
                break
            found.append(record)
        return found

    def due(self, over: Range[R], until: Micros, *, limit: int = PAGE_ROWS) -> list[R]:
        """Return nothing: no tenant waits for timers."""
        del over, until, limit
        return []

    def earliest(self, over: Range[R]) -> Micros | None:
        """Return None: no tenant waits for timers."""
        del over

    def why_waiting(self, operation_id: str, *, now: Micros) -> tuple[Blocker, ...]:
        """Return every reason that holds an operation, without others' names."""
        seen = self.get(Operation, operation_id)
        whole = self._reader.get(Operation, operation_id)
        if seen is None or whole is None:
            return ()
        # Its companions in one request may be the tenant's, too.
        vms = {
            name
            for each in every(self, kinds.OPERATIONS_OF_REQUEST, whole.request)
            for name in each.vms
        }
        return neutral.for_tenant(
            obstacles.why_waiting(self._reader, whole, now=now),
            scopes={name for name in whole.scopes if self._share.is_own_scope(name)}
            | {scope.name for name in vms if (scope := self._scope_of(name))},
            vms=vms,
        )

    # Questions

    def _found(self, query: Query[R], value: str, after: str) -> Iterator[R]:
        if query.kind is AuditEntry:
            yield from cast("Iterator[R]", self._lines(query.name, value, after))
            return
        if query is kinds.ALL_TENANTS:
            own = self.get(Tenant, self.tenant)
            yield from cast("list[R]", [own] if own and own.name > after else [])
            return
        rows: Iterator[Any] = heapq.merge(
            *(
                self._rows(source, name, after)
                for source, name in self._sources(query, value)
            ),
            key=attrgetter("key"),
        )
        last = ""
        for row in rows:
            # What concerns several scopes is found under each.
            if row.key == last or not _fits(query, value, row):
                continue
            last = row.key
            record = self._share.of(row)
            if record is not None:
                yield record

    def _rows(self, query: Query[R], value: str, after: str) -> Iterator[R]:
        while True:
            page = self._reader.select(query, value, after=after, limit=MERGED_ROWS)
            yield from page
            if len(page) < MERGED_ROWS:
                return
            after = page[-1].key

    def _sources(self, query: Query[Any], value: str) -> list[tuple[Query[Any], str]]:
        """Return the questions that find what the tenant asks for, and little else."""
        narrower = _BY_SCOPE.get(query.name)
        if narrower is not None:
            # What is open, or there, is in no scope that has left.
            has_past = narrower is kinds.OPERATIONS_OF_SCOPE
            scopes = self._scopes_ever() if has_past else self._scopes()
            return [(narrower, scope) for scope in scopes]
        if query is kinds.ALL_SCOPES:
            return [(kinds.SCOPES_OF_TENANT, self.tenant)]
        if query is kinds.ALL_SPANS:
            return [(kinds.SPANS_OF_TENANT, self.tenant)]
        is_open = _MAY_ASK.get(query.name)
        if is_open is None or not is_open(self._share, value):
            return []
        return [(query, value)]

    def _scopes(self) -> list[str]:
        return [
            scope.name
            for scope in every(self._reader, kinds.SCOPES_OF_TENANT, self.tenant)
        ]

    def _scopes_ever(self) -> list[str]:
        """Return the tenant's scopes, and those that once were."""
        return sorted({*self._scopes(), *self._share.past.scopes})

    def _scope_of(self, vm: str) -> Scope | None:
        found = self.get(Vm, vm)
        return None if found is None else self.get(Scope, found.scope)

    # The trail

    def _lines(self, name: str, value: str, after: str) -> Iterator[AuditEntry]:
        """Yield lines behind the id `after`, which is one of those shown before."""
        if name == kinds.ALL_AUDIT.name:
            subjects = [f"scope:{scope}" for scope in self._scopes_ever()]
            subjects.append(f"tenant:{self.tenant}")
        elif name == kinds.AUDIT_OF_SUBJECT.name and self._share.is_own_subject(value):
            subjects = [value]
        else:
            return
        # The rest of an id is a digest, so the instant's lines are looked through.
        start = after[:INSTANT_DIGITS]
        rows = heapq.merge(
            *(self._rows(kinds.AUDIT_OF_SUBJECT, each, start) for each in subjects),
            key=attrgetter("key"),
        )
        is_behind = len(after) == INSTANT_DIGITS or not after
        last = ""
        for row in rows:
            if row.key == last:
                continue
            last = row.key
            line = self._share.of(row)
            if line is None:
                continue
            if is_behind or not line.key.startswith(start):
                is_behind = True
                yield line
            elif line.key == after:
                is_behind = True


def _fits(query: Query[Any], value: str, row: Record) -> bool:
    """Tell whether a row that a narrower question found is asked for."""
    if query is kinds.OPERATIONS_IN_STATE:
        return cast("Operation", row).state.value == value
    return True


def _whenever(_share: Share, _value: str) -> bool:
    return True


def _of_own_vm(share: Share, value: str) -> bool:
    return share.had_vm(value)


def _of_own_scope(share: Share, value: str) -> bool:
    return share.had_scope(value)


_BY_SCOPE: dict[str, Query[Any]] = {
    "all_vms": kinds.VMS_OF_SCOPE,
    "all_operations": kinds.OPERATIONS_OF_SCOPE,
    "operations_in_state": kinds.OPERATIONS_OF_SCOPE,
    "open_operations": kinds.OPEN_OPERATIONS_OF_SCOPE,
    "live_events": kinds.LIVE_EVENTS_OF_SCOPE,
}
"""Questions about everything, and how each is asked of one scope."""

_MAY_ASK: dict[str, Callable[[Share, str], bool]] = {
    "scopes_of_tenant": _whenever,
    "vms_of_scope": _of_own_scope,
    "views_of_scope": _of_own_scope,
    "open_operations_of_scope": _of_own_scope,
    "operations_of_scope": _of_own_scope,
    "open_operations_of_vm": _of_own_vm,
    "operations_of_vm": _of_own_vm,
    "operations_of_request": _whenever,
    "events_of_operation": _whenever,
    "live_events_of_scope": _of_own_scope,
    "spans_of_vm": _whenever,
    "spans_of_scope": _whenever,
    "spans_of_tenant": _whenever,
    "spans_of_operation": _whenever,
    "open_spans_of_vm": _whenever,
}
"""Questions that are asked as they are, where their value is the tenant's own; what
they find is cut down one by one."""
