"""The kinds of records, and the questions that a store can answer about them.

A record is a frozen value with a `key` and a `revision`. A *query* finds records under
a value, a *range* by an instant, and a *ranking* in the order of a number. The memory
store runs these functions; an SQL store has a statement of the same name. The
contract suite runs each question on each store.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from forewarn.fleet.model import (
    UNLIMITED,
    AppliedFile,
    Capacity,
    Host,
    Scope,
    Span,
    Tenant,
    Vm,
    VmState,
    places_of,
)
from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.protocol.operations import (
    WAITING_STATES,
    Operation,
    OperationState,
    Request,
)
from forewarn.protocol.views import View
from forewarn.store.records import (
    AuditEntry,
    Brake,
    Leader,
    OrderKey,
    OutboxMessage,
    Token,
)


class Record(Protocol):
    """A value that a store can keep."""

    @property
    def key(self) -> str:
        """Return the key, which is unique among its kind."""
        ...

    @property
    def revision(self) -> int:
        """Return the number of replacements."""
        ...


R = TypeVar("R", bound=Record)

KINDS: tuple[type[Record], ...] = (
    Leader,
    Tenant,
    Scope,
    Host,
    Capacity,
    Vm,
    View,
    Request,
    Operation,
    Event,
    AuditEntry,
    OutboxMessage,
    Span,
    Token,
    OrderKey,
    AppliedFile,
    Brake,
)


@dataclass(frozen=True, slots=True)
class Question(Generic[R]):
    """A question about the records of one kind."""

    name: str
    kind: type[R]


@dataclass(frozen=True, slots=True)
class Query(Question[R]):
    """A question for the records that are found under a value."""

    values: Callable[[R], Iterable[str]]

    def places(self, record: R) -> Iterable[tuple[str, int]]:
        """Return the values that the record is found under, with the number 0."""
        return [(value, 0) for value in self.values(record)]


@dataclass(frozen=True, slots=True)
class Range(Question[R]):
    """A question for the records with an instant at or before another."""

    instant: Callable[[R], Micros]
    """The instant of a record; 0: it is not in this range."""

    def places(self, record: R) -> Iterable[tuple[str, int]]:
        """Return the instant under the empty value, unless it is 0."""
        instant = self.instant(record)
        return [("", instant)] if instant else []


@dataclass(frozen=True, slots=True)
class Ranking(Question[R]):
    """A question for the records that are found under a value, ordered by a number."""

    places: Callable[[R], Iterable[tuple[str, int]]]
    """The values that the record is found under, each with its number. A record can have
    several numbers under a value, and is then found several times."""


AnyQuestion: TypeAlias = Query[R] | Range[R] | Ranking[R]


def everything(_record: Record) -> tuple[str, ...]:
    """Find every record under the empty value."""
    return ("",)


def _open(operation: Operation) -> bool:
    return not operation.ended_at


def domain_value(scope: str, fault_domain: int) -> str:
    """Return the value that the VMs of a fault domain are found under."""
    return f"{scope}/{fault_domain}"


ALL_TENANTS: Query[Tenant] = Query("all_tenants", Tenant, everything)
ALL_SCOPES: Query[Scope] = Query("all_scopes", Scope, everything)
ALL_HOSTS: Query[Host] = Query("all_hosts", Host, everything)
ALL_ROOMS: Query[Capacity] = Query("all_rooms", Capacity, everything)
ALL_VMS: Query[Vm] = Query("all_vms", Vm, everything)
ALL_VIEWS: Query[View] = Query("all_views", View, everything)
ALL_OPERATIONS: Query[Operation] = Query("all_operations", Operation, everything)
ALL_AUDIT: Query[AuditEntry] = Query("all_audit", AuditEntry, everything)

HOSTS_AT_PLACE: Query[Host] = Query("hosts_at_place", Host, places_of)
"""The hosts of a zone, cluster, rack or pool, or with a label: `fleet.model.place`."""
HOSTS_CORDONED: Query[Host] = Query(
    "hosts_cordoned", Host, lambda host: ("",) if host.cordons else ()
)
"""Hosts that take no new VM."""
SCOPES_OF_TENANT: Query[Scope] = Query(
    "scopes_of_tenant", Scope, lambda scope: (scope.tenant,)
)
VMS_ON_HOST: Query[Vm] = Query(
    "vms_on_host",
    Vm,
    lambda vm: () if vm.state is VmState.DELETED else (vm.host,),
)
"""Deleted VMs are on no host."""
FIXED_VMS_ON_HOST: Query[Vm] = Query(
    "fixed_vms_on_host",
    Vm,
    lambda vm: () if vm.movable or vm.state is VmState.DELETED else (vm.host,),
)
"""VMs on a host that cannot be moved to another one."""
VMS_MOVING_TO: Query[Vm] = Query(
    "vms_moving_to", Vm, lambda vm: (vm.moving_to,) if vm.moving_to else ()
)
"""VMs for which a host has reserved capacity."""
VMS_MOVING: Query[Vm] = Query(
    "vms_moving", Vm, lambda vm: ("",) if vm.moving_to else ()
)
"""VMs for which any host has reserved capacity."""
VMS_OBSERVED: Query[Vm] = Query(
    "vms_observed",
    Vm,
    lambda vm: ("",) if vm.is_observed and vm.state is not VmState.DELETED else (),
)
"""VMs that the driver observed on hosts where forewarn did not place them: few."""
VMS_OF_SCOPE: Query[Vm] = Query(
    "vms_of_scope",
    Vm,
    lambda vm: () if vm.state is VmState.DELETED else (vm.scope,),
)
"""Deleted VMs are in no scope."""
VMS_OF_DOMAIN: Query[Vm] = Query(
    "vms_of_domain",
    Vm,
    lambda vm: (
        ()
        if vm.state is VmState.DELETED
        else (domain_value(vm.scope, vm.fault_domain),)
    ),
)
"""The VMs of one fault domain of a scope."""
VMS_WITH_LISTENER: Query[Vm] = Query(
    "vms_with_listener",
    Vm,
    lambda vm: ("",) if vm.listen and vm.state is not VmState.DELETED else (),
)
"""VMs with a separate listener. There is no index, because the query runs only at a
start, which reads all VMs anyway. Reading 100,000 rows takes less than 0.1 s."""
VMS_UNSTEADY_IN_SCOPE: Query[Vm] = Query(
    "vms_unsteady_in_scope",
    Vm,
    lambda vm: (vm.scope,) if vm.is_unsteady else (),
)
"""The guard's query at a start: VMs that are down or have a started operation."""
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
    "operations_of_vm", Operation, lambda op: (*op.vms, *op.left_vms)
)
"""All operations of a VM, including those that it has left."""
OPERATIONS_OF_SCOPE: Query[Operation] = Query(
    "operations_of_scope", Operation, lambda op: op.scopes
)
OPERATIONS_OF_REQUEST: Query[Operation] = Query(
    "operations_of_request", Operation, lambda op: (op.request,)
)
OPEN_OPERATIONS_OF_REQUEST: Query[Operation] = Query(
    "open_operations_of_request",
    Operation,
    lambda op: (op.request,) if _open(op) else (),
)
ANNOUNCED_OF_REQUEST: Query[Operation] = Query(
    "announced_of_request",
    Operation,
    lambda op: (op.request,) if op.state in WAITING_STATES else (),
)
PLANNED_OF_REQUEST: Query[Operation] = Query(
    "planned_of_request",
    Operation,
    lambda op: (op.request,) if op.state is OperationState.PLANNED else (),
)
ROLLOUTS: Query[Request] = Query(
    "rollouts", Request, lambda made: ("",) if made.key.startswith("ro-") else ()
)
"""Rollouts, which have IDs with their own prefix."""
REQUESTS_UNPLANNED: Query[Request] = Query(
    "requests_unplanned", Request, lambda made: ("",) if made.unplanned else ()
)
"""Rollouts with hosts that have no operation yet: few, and only for a short time."""
OPERATIONS_THAT_WAIT: Query[Operation] = Query(
    "operations_that_wait", Operation, lambda op: op.waits_for
)
"""Operations that wait for a name, so that a wake-up reads no others."""
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
ALL_OUTBOX: Query[OutboxMessage] = Query("all_outbox", OutboxMessage, everything)
OUTBOX_OF_RECEIVER: Query[OutboxMessage] = Query(
    "outbox_of_receiver", OutboxMessage, lambda message: (message.receiver,)
)
ALL_SPANS: Query[Span] = Query("all_spans", Span, everything)
ALL_TOKENS: Query[Token] = Query("all_tokens", Token, everything)
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
"""The open spans of a VM, at most two: its existence, and an outage."""

UNSTEADY_DOMAINS: Ranking[Vm] = Ranking(
    "unsteady_domains",
    Vm,
    lambda vm: ((vm.scope, vm.fault_domain),) if vm.is_unsteady else (),
)
"""The VMs of a scope that are unsteady, by their fault domains."""

ANNOUNCED_DOMAINS: Ranking[Event] = Ranking(
    "announced_domains",
    Event,
    lambda event: {(event.scope, domain) for domain in event.excluding_domains},
)
"""The live events of planned work in a scope, by the fault domains of their VMs."""


def zone_value(pool: str, zone: str) -> str:
    """Return the value that the hosts of a zone in a pool are found under."""
    return f"{pool}/{zone}"


ROOMS_OPEN_IN_ZONE: Ranking[Capacity] = Ranking(
    "rooms_open_in_zone",
    Capacity,
    lambda room: (
        ((zone_value(room.pool, room.zone), room.free),) if room.is_open else ()
    ),
)
"""The hosts of a pool and zone that can take a VM now, by their free capacity."""
ROOMS_OPEN: Ranking[Capacity] = Ranking(
    "rooms_open",
    Capacity,
    lambda room: ((room.pool, room.free),) if room.is_open else (),
)
"""The hosts of a pool that can take a VM now, by their free capacity."""
ROOMS_WITH_SPACE: Ranking[Capacity] = Ranking(
    "rooms_with_space",
    Capacity,
    lambda room: ((room.pool, room.free),) if room.has_space else (),
)
"""Hosts of a pool with free capacity that are not cordoned, including those with running
operations."""
ROOMS_BY_VCPU: Ranking[Capacity] = Ranking(
    "rooms_by_vcpu",
    Capacity,
    lambda room: (
        ((room.pool, room.vcpu - room.vcpu_used),)
        if room.has_space and room.vcpu < UNLIMITED
        else ()
    ),
)
"""Hosts of a pool with free places and limited vCPUs, by the free vCPUs."""
ROOMS_BY_MEMORY: Ranking[Capacity] = Ranking(
    "rooms_by_memory",
    Capacity,
    lambda room: (
        ((room.pool, room.memory - room.memory_used),)
        if room.has_space and room.memory < UNLIMITED
        else ()
    ),
)
"""Hosts of a pool with free places and limited memory, by the free memory."""

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
ORDER_KEYS_EXPIRED: Range[OrderKey] = Range(
    "order_keys_expired", OrderKey, lambda each: each.expires_at
)
