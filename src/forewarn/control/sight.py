"""What a tenant may see of the store: a reader that shows nothing else.

Everything that a tenant is shown is read through a `Sight`, so a report cannot
tell what it was never given. A record of another tenant is not there, as if it did
not exist; what several tenants share (operations, requests, lines of the trail) is
cut down to the tenant's part, without hosts, without what an operator wrote, and
without counters that grow as others act. A kind or a question that is not known
here shows nothing, so what is added later is closed until somebody opens it.
"""

import hashlib
import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any, TypeVar, cast

from forewarn.control import neutral, obstacles, tenures
from forewarn.control.admission import (
    DOWN_ALREADY,
    NO_NOTICE,
    NOBODY_LISTENS,
    POLICY,
)
from forewarn.control.blockers import Blocker
from forewarn.control.outbox import GAVE_UP
from forewarn.control.release import HELD
from forewarn.fleet.model import Scope, Tenant, Vm
from forewarn.fleet.spans import Span
from forewarn.instants import Micros
from forewarn.protocol.events import Event, Outcome
from forewarn.protocol.operations import (
    ENDED_STATES,
    Move,
    Operation,
    Request,
    RequestState,
)
from forewarn.protocol.views import View
from forewarn.store import kinds
from forewarn.store.audit import AuditEntry
from forewarn.store.kinds import Query, Range, Record
from forewarn.store.port import PAGE_ROWS, Reader, every

R = TypeVar("R", bound=Record)

PLATFORM = "platform"
"""Who did it, where that was neither the tenant nor the service by itself."""

INSTANT_DIGITS = 17
"""Of a line's id: its instant, which sorts."""

MERGED_ROWS = 50
"""Rows that are read ahead of each scope of a tenant that has many."""

_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_POLICIES = frozenset({POLICY, NO_NOTICE, DOWN_ALREADY, NOBODY_LISTENS})


def blockers(
    reader: Reader, operation: Operation, *, now: Micros
) -> tuple[Blocker, ...]:
    """Return every reason that holds the operation, as the reader's owner may know."""
    if isinstance(reader, Sight):
        return reader.why_waiting(operation.operation_id, now=now)
    return obstacles.why_waiting(reader, operation, now=now)


def speaker(tenant: str, name: str) -> str:
    """Return how the trail calls the holder of a tenant's token.

    No name in a fleet or of a token has a slash, so it is nobody else's.
    """
    return f"{tenant}/{name}"


class Sight:
    """A reader for one tenant, for the length of one read."""

    def __init__(self, reader: Reader, tenant: str) -> None:
        """Show what `tenant` may see of `reader`."""
        self._reader = reader
        self.tenant = tenant
        self._tenants: dict[str, str] = {}
        self._past = tenures.Past(reader, tenant)
        self._operations: dict[str, Operation | None] = {}
        self._requests: dict[str, Request | None] = {}
        self._see: dict[type, Callable[[Any], Any]] = {
            Tenant: self._tenant,
            Scope: self._scope,
            Vm: self._vm,
            View: self._view,
            Span: self._span,
            Event: self._event,
            Operation: self._operation,
            Request: self._request,
            AuditEntry: self._line,
        }
        """How each kind is shown; what is not here does not exist for a tenant."""

    # The port

    def get(self, kind: type[R], key: str) -> R | None:
        """Return the record as the tenant may see it, or None."""
        record = self._reader.get(kind, key)
        return None if record is None else self._seen(record)

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
            scopes={name for name in whole.scopes if self._is_own_scope(name)}
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
            record = self._seen(row)
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
        if is_open is None or not is_open(self, value):
            return []
        return [(query, value)]

    def _scopes(self) -> list[str]:
        return [
            scope.name
            for scope in every(self._reader, kinds.SCOPES_OF_TENANT, self.tenant)
        ]

    def _scopes_ever(self) -> list[str]:
        """Return the tenant's scopes, and those that once were."""
        return sorted({*self._scopes(), *self._past.scopes})

    def had_scope(self, name: str) -> bool:
        """Tell whether a scope is the tenant's, or was."""
        return self._is_own_scope(name) or name in self._past.scopes

    def had_vm(self, name: str) -> bool:
        """Tell whether a VM is the tenant's, or was."""
        return self._is_own_vm(name) or self._past.had_vm(name)

    def _is_own_scope(self, name: str) -> bool:
        if name not in self._tenants:
            scope = self._reader.get(Scope, name)
            self._tenants[name] = scope.tenant if scope else ""
        return self._tenants[name] == self.tenant

    def _is_own_vm(self, name: str) -> bool:
        vm = self._reader.get(Vm, name)
        return vm is not None and vm.tenant == self.tenant

    def _scope_of(self, vm: str) -> Scope | None:
        found = self.get(Vm, vm)
        return None if found is None else self.get(Scope, found.scope)

    # Records

    def _seen(self, record: R) -> R | None:
        """Return the record as the tenant may see it; None: it is not there."""
        see = self._see.get(type(record))
        return None if see is None else see(record)

    def _tenant(self, tenant: Tenant) -> Tenant | None:
        return replace(tenant, applied="") if tenant.name == self.tenant else None

    def _scope(self, scope: Scope) -> Scope | None:
        return replace(scope, applied="") if scope.tenant == self.tenant else None

    def _vm(self, vm: Vm) -> Vm | None:
        if vm.tenant != self.tenant:
            return None
        # Where it runs, and where its listener is, are the operator's.
        return replace(vm, host="", moving_to="", listen="", applied="")

    def _view(self, view: View) -> View | None:
        return view if self._is_own_scope(view.scope) else None

    def _span(self, span: Span) -> Span | None:
        if span.tenant != self.tenant:
            return None
        # A slash sorts behind the point that follows the instant in the key.
        cut = len(span.vm) + 1 + INSTANT_DIGITS
        return replace(span, span_id=f"{span.span_id[:cut]}/")

    def _event(self, event: Event) -> Event | None:
        if event.tenant != self.tenant:
            return None
        return replace(event, approved_by=self._approver(event.approved_by))

    def _approver(self, by: str) -> str:
        own = by.startswith(f"({speaker(self.tenant, '')}") or by in _POLICIES
        if not by or own or self.had_vm(by):
            return by
        return f"({PLATFORM})"

    def _operation(self, operation: Operation) -> Operation | None:
        key = operation.operation_id
        if key not in self._operations:
            self._operations[key] = self._cut(operation)
        return self._operations[key]

    def _cut(self, operation: Operation) -> Operation | None:
        events = list(every(self._reader, kinds.EVENTS_OF_OPERATION, operation.key))
        own = [event for event in events if event.tenant == self.tenant]
        # Whose a past operation is, its events know, and not who has the scope now.
        told = {event.scope: event.tenant for event in events}
        scopes = tuple(
            name
            for name in operation.scopes
            if self._is_own_part(told.get(name), name, operation.created)
        )
        if not scopes:
            return None
        named = {resource.vm for event in own for resource in event.resources}
        strange = {
            resource.vm
            for event in events
            if event.tenant != self.tenant
            for resource in event.resources
        }
        moves = tuple(
            Move(vm=move.vm, done=move.done)
            for move in operation.moves
            if move.vm in named
            or (
                move.vm not in strange
                and self._past.had_vm_at(move.vm, operation.created)
            )
        )
        if not own and not moves:
            return None
        vms = {move.vm for move in moves} | named
        is_ours = operation.note.startswith(f"cancelled by {speaker(self.tenant, '')}")
        return replace(
            operation,
            target=operation.target if operation.target in vms else "",
            host="",
            moves=moves,
            scopes=scopes,
            description=own[0].description if own else "",
            note=operation.note if is_ours else "",
            attempts=1,
            generation=0,
        )

    def _is_own_part(self, told: str | None, scope: str, at: Micros) -> bool:
        if told is not None:
            return told == self.tenant
        return self._past.had_scope_at(scope, at)

    def _request(self, request: Request) -> Request | None:
        key = request.request_id
        if key not in self._requests:
            self._requests[key] = self._cut_request(request)
        return self._requests[key]

    def _cut_request(self, request: Request) -> Request | None:
        if request.actor.startswith(speaker(self.tenant, "")):
            return request
        own = list(every(self, kinds.OPERATIONS_OF_REQUEST, request.request_id))
        if not own:
            return None
        # As far as it is the tenant's: that others still wait is theirs.
        is_over = all(operation.state in ENDED_STATES for operation in own)
        return replace(
            request,
            actor=PLATFORM,
            reason="",
            state=RequestState.CLOSED if is_over else RequestState.OPEN,
        )

    # The trail

    def _lines(self, name: str, value: str, after: str) -> Iterator[AuditEntry]:
        """Yield lines behind the id `after`, which is one of those shown before."""
        if name == kinds.ALL_AUDIT.name:
            subjects = [f"scope:{scope}" for scope in self._scopes_ever()]
            subjects.append(f"tenant:{self.tenant}")
        elif name == kinds.AUDIT_OF_SUBJECT.name and self._is_own_subject(value):
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
            line = self._line(row)
            if line is None:
                continue
            if is_behind or not line.key.startswith(start):
                is_behind = True
                yield line
            elif line.key == after:
                is_behind = True

    def _line(self, entry: AuditEntry) -> AuditEntry | None:
        is_ours = entry.actor.startswith(speaker(self.tenant, ""))
        subjects = tuple(
            each for each in entry.subjects if self._is_own_subject(each, entry.at)
        )
        about = {each.partition(":")[0] for each in subjects}
        # What is only about something shared may be another's step in it.
        if not about & {"vm", "scope", "tenant", "event"} and not is_ours:
            return None
        if entry.what == HELD and f"tenant:{self.tenant}" not in subjects:
            # Of the reasons that held it, none that the tenant is told changed.
            return None
        digest = hashlib.sha256(entry.entry_id.encode()).hexdigest()
        return replace(
            entry,
            entry_id=f"{entry.at:0{INSTANT_DIGITS}d}.{digest[:16]}",
            actor=entry.actor if is_ours else self._actor(entry.actor),
            why=entry.why if is_ours else "",
            subjects=subjects,
            detail=neutral.told(entry.detail, subjects)
            if entry.what == HELD
            else self._detail(entry.what, entry.detail),
        )

    def _is_own_subject(self, subject: str, at: Micros | None = None) -> bool:
        kind, _, name = subject.partition(":")
        match kind:
            case "vm" if at is not None:
                return self._past.had_vm_at(name, at)
            case "vm":
                return self.had_vm(name)
            case "scope" if at is not None:
                return self._past.had_scope_at(name, at)
            case "scope":
                return self.had_scope(name)
            case "tenant":
                return name == self.tenant
            case "event":
                return self.get(Event, name) is not None
            case "operation":
                return self.get(Operation, name) is not None
            case "request":
                return self.get(Request, name) is not None
            case _:
                return False

    def _actor(self, actor: str) -> str:
        if actor in {"clock", "driver", "vm"}:
            return actor
        own = actor.startswith("vm ") and self.had_vm(actor[3:])
        return actor if own else PLATFORM

    def _detail(self, what: str, detail: str) -> str:
        if detail in _OUTCOMES or what == GAVE_UP:
            return detail
        if detail.startswith("by ") and "\n" not in detail:
            return f"by {self._approver(detail[3:])}"
        return ""


def _fits(query: Query[Any], value: str, row: Record) -> bool:
    """Tell whether a row that a narrower question found is asked for."""
    if query is kinds.OPERATIONS_IN_STATE:
        return cast("Operation", row).state.value == value
    return True


def _whenever(_sight: Sight, _value: str) -> bool:
    return True


def _of_own_vm(sight: Sight, value: str) -> bool:
    return sight.had_vm(value)


def _of_own_scope(sight: Sight, value: str) -> bool:
    return sight.had_scope(value)


_BY_SCOPE: dict[str, Query[Any]] = {
    "all_vms": kinds.VMS_OF_SCOPE,
    "all_operations": kinds.OPERATIONS_OF_SCOPE,
    "operations_in_state": kinds.OPERATIONS_OF_SCOPE,
    "open_operations": kinds.OPEN_OPERATIONS_OF_SCOPE,
    "live_events": kinds.LIVE_EVENTS_OF_SCOPE,
}
"""Questions about everything, and how each is asked of one scope."""

_MAY_ASK: dict[str, Callable[[Sight, str], bool]] = {
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
