"""Which records are kept, and the questions that may be asked of them.

A record is a frozen value with a `key` and a `revision`. A *query* names what a
record is found under; a *range* names an instant that it is found by. The memory
store runs these functions; an SQL store has a statement of the same name. The
contract suite asks each question of each store.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from forewarn.fleet.model import AppliedFile, Host, Scope, Tenant, Vm, VmState
from forewarn.fleet.spans import Span
from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.protocol.operations import ENDED_STATES, Operation, Request
from forewarn.protocol.views import View
from forewarn.store.audit import AuditEntry
from forewarn.store.outbox import OutboxMessage
from forewarn.store.token import Token


class Record(Protocol):
    """What a store can keep."""

    @property
    def key(self) -> str:
        """Return what it is found by, unique among its kind."""
        ...

    @property
    def revision(self) -> int:
        """Return how often it was replaced."""
        ...


R = TypeVar("R", bound=Record)

KINDS: tuple[type[Record], ...] = (
    Tenant,
    Scope,
    Host,
    Vm,
    View,
    Request,
    Operation,
    Event,
    AuditEntry,
    OutboxMessage,
    Span,
    Token,
    AppliedFile,
)


@dataclass(frozen=True, slots=True)
class Query(Generic[R]):
    """A question answered by the records found under a value."""

    name: str
    kind: type[R]
    values: Callable[[R], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Range(Generic[R]):
    """A question answered by the records with an instant at or before another."""

    name: str
    kind: type[R]
    instant: Callable[[R], Micros]
    """0 means: not in this range."""


def _everything(_record: Record) -> tuple[str, ...]:
    return ("",)


def _open(operation: Operation) -> bool:
    return operation.state not in ENDED_STATES


ALL_TENANTS: Query[Tenant] = Query("all_tenants", Tenant, _everything)
ALL_SCOPES: Query[Scope] = Query("all_scopes", Scope, _everything)
ALL_HOSTS: Query[Host] = Query("all_hosts", Host, _everything)
ALL_VMS: Query[Vm] = Query("all_vms", Vm, _everything)
ALL_VIEWS: Query[View] = Query("all_views", View, _everything)
ALL_OPERATIONS: Query[Operation] = Query("all_operations", Operation, _everything)
ALL_AUDIT: Query[AuditEntry] = Query("all_audit", AuditEntry, _everything)

SCOPES_OF_TENANT: Query[Scope] = Query(
    "scopes_of_tenant", Scope, lambda scope: (scope.tenant,)
)
VMS_ON_HOST: Query[Vm] = Query(
    "vms_on_host",
    Vm,
    lambda vm: () if vm.state is VmState.DELETED else (vm.host,),
)
"""Deleted VMs are on no host."""
VMS_MOVING_TO: Query[Vm] = Query(
    "vms_moving_to", Vm, lambda vm: (vm.moving_to,) if vm.moving_to else ()
)
"""VMs that a host keeps a place for."""
VMS_OF_SCOPE: Query[Vm] = Query(
    "vms_of_scope",
    Vm,
    lambda vm: () if vm.state is VmState.DELETED else (vm.scope,),
)
"""Deleted VMs are in no scope."""
VMS_UNSTEADY_IN_SCOPE: Query[Vm] = Query(
    "vms_unsteady_in_scope",
    Vm,
    lambda vm: (vm.scope,) if vm.is_unsteady else (),
)
"""What the guard at Started asks: who is down, or has something started on it."""
VIEWS_OF_SCOPE: Query[View] = Query("views_of_scope", View, lambda view: (view.scope,))
VIEWS_OF_ENABLING: Query[View] = Query(
    "views_of_enabling", View, lambda view: (view.enabling,)
)
OPEN_OPERATIONS: Query[Operation] = Query(
    "open_operations", Operation, lambda op: ("",) if _open(op) else ()
)
OPEN_OPERATIONS_OF_HOST: Query[Operation] = Query(
    "open_operations_of_host", Operation, lambda op: (op.host,) if _open(op) else ()
)
OPEN_OPERATIONS_OF_VM: Query[Operation] = Query(
    "open_operations_of_vm", Operation, lambda op: op.vms if _open(op) else ()
)
OPEN_OPERATIONS_OF_SCOPE: Query[Operation] = Query(
    "open_operations_of_scope", Operation, lambda op: op.scopes if _open(op) else ()
)
OPERATIONS_IN_STATE: Query[Operation] = Query(
    "operations_in_state", Operation, lambda op: (op.state.value,)
)
OPERATIONS_OF_VM: Query[Operation] = Query(
    "operations_of_vm", Operation, lambda op: op.vms
)
OPERATIONS_OF_SCOPE: Query[Operation] = Query(
    "operations_of_scope", Operation, lambda op: op.scopes
)
OPERATIONS_OF_REQUEST: Query[Operation] = Query(
    "operations_of_request", Operation, lambda op: (op.request,)
)
EVENTS_OF_OPERATION: Query[Event] = Query(
    "events_of_operation", Event, lambda event: (event.operation,)
)
LIVE_EVENTS: Query[Event] = Query(
    "live_events", Event, lambda event: ("",) if event.is_live else ()
)
LIVE_EVENTS_OF_SCOPE: Query[Event] = Query(
    "live_events_of_scope", Event, lambda event: (event.scope,) if event.is_live else ()
)
AUDIT_OF_SUBJECT: Query[AuditEntry] = Query(
    "audit_of_subject", AuditEntry, lambda entry: entry.subjects
)
ALL_OUTBOX: Query[OutboxMessage] = Query("all_outbox", OutboxMessage, _everything)
OUTBOX_OF_RECEIVER: Query[OutboxMessage] = Query(
    "outbox_of_receiver", OutboxMessage, lambda message: (message.receiver,)
)
ALL_SPANS: Query[Span] = Query("all_spans", Span, _everything)
ALL_TOKENS: Query[Token] = Query("all_tokens", Token, _everything)
TOKENS_OF_TENANT: Query[Token] = Query(
    "tokens_of_tenant", Token, lambda token: (token.tenant,)
)
SPANS_OF_VM: Query[Span] = Query("spans_of_vm", Span, lambda span: (span.vm,))
SPANS_OF_SCOPE: Query[Span] = Query("spans_of_scope", Span, lambda span: (span.scope,))
SPANS_OF_TENANT: Query[Span] = Query(
    "spans_of_tenant", Span, lambda span: (span.tenant,)
)
SPANS_OF_OPERATION: Query[Span] = Query(
    "spans_of_operation", Span, lambda span: (span.operation,) if span.operation else ()
)
OPEN_SPANS_OF_VM: Query[Span] = Query(
    "open_spans_of_vm", Span, lambda span: (span.vm,) if span.is_open else ()
)
"""At most two: that it is there, and what keeps it from running."""

OPERATIONS_DUE: Range[Operation] = Range(
    "operations_due", Operation, lambda op: op.due_at
)
OPERATIONS_ENDED: Range[Operation] = Range(
    "operations_ended", Operation, lambda op: op.ended_at
)
VIEWS_DUE: Range[View] = Range("views_due", View, lambda view: view.due_at)
VIEWS_SEEN: Range[View] = Range(
    "views_seen", View, lambda view: view.last_seen if view.is_enabled else 0
)
AUDIT_AT: Range[AuditEntry] = Range("audit_at", AuditEntry, lambda entry: entry.at)
SPANS_ENDED: Range[Span] = Range("spans_ended", Span, lambda span: span.ended)
