"""A tenant's share of each record: what it may see of it, or that it is not there.

What several tenants share (operations, requests, lines of the trail) is cut down to
the tenant's part, without hosts, without what an operator wrote, and without counters
that grow as others act. A kind that is not known here does not exist for a tenant. Who
asks what, and which records are found, is `sight`'s.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from forewarn.control import neutral, tenures
from forewarn.control.admission import (
    DOWN_ALREADY,
    NO_NOTICE,
    NOBODY_LISTENS,
    POLICY,
)
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
from forewarn.store.kinds import Record
from forewarn.store.port import Reader, every

R = TypeVar("R", bound=Record)

PLATFORM = "platform"
"""Who did it, where that was neither the tenant nor the service by itself."""

INSTANT_DIGITS = 17
"""Of a line's id: its instant, which sorts."""

_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_POLICIES = frozenset({POLICY, NO_NOTICE, DOWN_ALREADY, NOBODY_LISTENS})


def speaker(tenant: str, name: str) -> str:
    """Return how the trail calls the holder of a tenant's token.

    No name in a fleet or of a token has a slash, so it is nobody else's.
    """
    return f"{tenant}/{name}"


class Share:
    """What of the records is one tenant's; remembered for the length of one read."""

    def __init__(self, reader: Reader, tenant: str) -> None:
        """Look through `reader`, which shows all, for what is `tenant`'s."""
        self._reader = reader
        self.tenant = tenant
        self.past = tenures.Past(reader, tenant)
        self._tenants: dict[str, str] = {}
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

    def of(self, record: R) -> R | None:
        """Return the record as the tenant may see it; None: it is not there."""
        see = self._see.get(type(record))
        return None if see is None else see(record)

    # Whose things are

    def had_scope(self, name: str) -> bool:
        """Tell whether a scope is the tenant's, or was."""
        return self.is_own_scope(name) or name in self.past.scopes

    def had_vm(self, name: str) -> bool:
        """Tell whether a VM is the tenant's, or was."""
        return self._is_own_vm(name) or self.past.had_vm(name)

    def is_own_scope(self, name: str) -> bool:
        """Tell whether a scope is the tenant's now."""
        if name not in self._tenants:
            scope = self._reader.get(Scope, name)
            self._tenants[name] = scope.tenant if scope else ""
        return self._tenants[name] == self.tenant

    def _is_own_vm(self, name: str) -> bool:
        vm = self._reader.get(Vm, name)
        return vm is not None and vm.tenant == self.tenant

    def is_own_subject(self, subject: str, at: Micros | None = None) -> bool:
        """Tell whether what a line is about is the tenant's, or was at an instant."""
        kind, _, name = subject.partition(":")
        match kind:
            case "vm" if at is not None:
                return self.past.had_vm_at(name, at)
            case "vm":
                return self.had_vm(name)
            case "scope" if at is not None:
                return self.past.had_scope_at(name, at)
            case "scope":
                return self.had_scope(name)
            case "tenant":
                return name == self.tenant
            case "event":
                return self._has(Event, name)
            case "operation":
                return self._has(Operation, name)
            case "request":
                return self._has(Request, name)
            case _:
                return False

    def _has(self, kind: type[Record], key: str) -> bool:
        record = self._reader.get(kind, key)
        return record is not None and self.of(record) is not None

    # Records

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
        return view if self.is_own_scope(view.scope) else None

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
                and self.past.had_vm_at(move.vm, operation.created)
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
        return self.past.had_scope_at(scope, at)

    def _request(self, request: Request) -> Request | None:
        key = request.request_id
        if key not in self._requests:
            self._requests[key] = self._cut_request(request)
        return self._requests[key]

    def _cut_request(self, request: Request) -> Request | None:
        if request.actor.startswith(speaker(self.tenant, "")):
            return request
        operations = every(
            self._reader, kinds.OPERATIONS_OF_REQUEST, request.request_id
        )
        own = [seen for each in operations if (seen := self._operation(each))]
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

    def _line(self, entry: AuditEntry) -> AuditEntry | None:
        is_ours = entry.actor.startswith(speaker(self.tenant, ""))
        subjects = tuple(
            each for each in entry.subjects if self.is_own_subject(each, entry.at)
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
