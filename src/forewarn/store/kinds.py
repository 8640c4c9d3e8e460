"""The kinds of records, and each question about them by its name.

The contract suite runs each question on each store.
"""

from collections.abc import Mapping
from typing import Any

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import (
    AppliedFile,
    Capacity,
    Host,
    Scope,
    Span,
    Tenant,
    Vm,
    VmState,
    places_of,
    tags_of,
)
from forewarn.protocol.events import Event
from forewarn.protocol.operations import (
    STARTED_STATES,
    WAITING_STATES,
    Operation,
    OperationState,
    Request,
    RequestState,
)
from forewarn.protocol.views import View
from forewarn.protocol.visits import Visit
from forewarn.store import room_questions
from forewarn.store.host_abilities import HostAbilities
from forewarn.store.questions import Query, Range, Ranking, Record, everything
from forewarn.store.records import (
    AuditEntry,
    Brake,
    Choice,
    Leader,
    Loss,
    OrderKey,
    OutboxMessage,
    Tally,
    Token,
)
from forewarn.store.relay_links import RelayLink
from forewarn.store.unplanned import UnplannedPage
from forewarn.store.wide_blackouts import WideBlackout

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
    Visit,
    Event,
    AuditEntry,
    OutboxMessage,
    Span,
    Token,
    OrderKey,
    AppliedFile,
    Brake,
    Loss,
    Tally,
    CampaignRecord,
    Choice,
    WideBlackout,
    HostAbilities,
    RelayLink,
    UnplannedPage,
)


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
SCOPES_WITH_WINDOW: Query[Scope] = Query(
    "scopes_with_window",
    Scope,
    lambda scope: ("",) if scope.maintenance_window else (),
)
EXPLICIT_SCOPES: Query[Scope] = Query(
    "explicit_scopes", Scope, lambda scope: () if scope.implied else ("",)
)
"""Scopes that can have several VMs; most scopes are those of single VMs."""
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
VMS_WITH_TAG: Query[Vm] = Query("vms_with_tag", Vm, tags_of)
"""The VMs with a tag, also deleted ones: `fleet.model.tags_of`."""
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
DRIFT_OF_CAMPAIGN: Query[Host] = Query(
    "drift_of_campaign", Host, lambda host: (host.drift_of,) if host.drift_of else ()
)
"""Hosts that match the selection of a campaign and were added after its start."""
VMS_DOWN_FOR: Query[Vm] = Query(
    "vms_down_for", Vm, lambda vm: (vm.down_for,) if vm.down_for else ()
)
"""VMs that are down after the work of a campaign."""
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
WORKED_ON_HOST: Query[Operation] = Query(
    "worked_on_host",
    Operation,
    lambda op: (op.host,) if op.position and op.started_at else (),
)
"""Operations of rollouts that have started on a host."""
ATTEMPTS_ON_HOST: Query[Operation] = Query(
    "attempts_on_host", Operation, lambda op: (op.host,) if op.position else ()
)
"""Operations of rollouts on a host, in all states."""
ENDED_OF_REQUEST: Ranking[Operation] = Ranking(
    "ended_of_request",
    Operation,
    lambda op: ((op.request, op.ended_at),) if op.position and op.ended_at else (),
)
"""The ended operations of a rollout, by the times of their ends."""
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
STARTED_OF_REQUEST: Query[Operation] = Query(
    "started_of_request",
    Operation,
    lambda op: (op.request,) if op.state in STARTED_STATES else (),
)
PLANNED_OF_REQUEST: Query[Operation] = Query(
    "planned_of_request",
    Operation,
    lambda op: (op.request,) if op.state is OperationState.PLANNED else (),
)
DEFERRED_OF_REQUEST: Query[Operation] = Query(
    "deferred_of_request",
    Operation,
    lambda op: (
        (op.request,) if op.state is OperationState.PLANNED and op.drains else ()
    ),
)
"""Planned hosts of a campaign whose VMs could not be moved away."""
PLANNED_BY_POSITION: Ranking[Operation] = Ranking(
    "planned_by_position",
    Operation,
    lambda op: (
        ((op.request, op.position),)
        if op.state is OperationState.PLANNED and op.position
        else ()
    ),
)
"""The hosts of a request that are not announced, by their positions in its list."""
ROLLOUTS: Query[Request] = Query(
    "rollouts", Request, lambda made: ("",) if made.key.startswith("ro-") else ()
)
"""Rollouts, which have IDs with their own prefix."""
ROLLOUTS_IMPLYING: Query[Request] = Query(
    "rollouts_implying", Request, lambda made: ("",) if made.implies_campaign else ()
)
"""Rollouts of several hosts without a stored campaign, which imply one."""
ROLLOUTS_IMPLYING_OPEN: Query[Request] = Query(
    "rollouts_implying_open",
    Request,
    lambda made: (
        ("",) if made.implies_campaign and made.state is RequestState.OPEN else ()
    ),
)
"""Those that are open: few."""
REQUESTS_IN_FLIGHT: Query[Request] = Query(
    "requests_in_flight", Request, lambda made: ("",) if made.in_flight > 0 else ()
)
"""Requests with hosts in flight, including those that have stopped or were cancelled."""
REQUESTS_UNPLANNED: Query[Request] = Query(
    "requests_unplanned",
    Request,
    lambda made: ("",) if made.hosts_unplanned > 0 else (),
)
"""Rollouts with hosts that have no operation yet: few, and only for a short time."""
UNPLANNED_OF_REQUEST: Query[UnplannedPage] = Query(
    "unplanned_of_request", UnplannedPage, lambda page: (page.request,)
)
UNPLANNED_OF_HOST: Query[UnplannedPage] = Query(
    "unplanned_of_host", UnplannedPage, lambda page: {host for _, host in page.hosts}
)
"""The pages with a host that has no operation yet."""
OPERATIONS_THAT_WAIT: Query[Operation] = Query(
    "operations_that_wait", Operation, lambda op: op.waits_for
)
"""Operations that wait for a name, so that a wake-up reads no others."""
ALL_CAMPAIGNS: Query[CampaignRecord] = Query(
    "all_campaigns", CampaignRecord, everything
)
CAMPAIGNS_OPEN: Query[CampaignRecord] = Query(
    "campaigns_open",
    CampaignRecord,
    lambda campaign: () if campaign.has_ended else ("",),
)
"""Campaigns that have not ended: few."""
OPEN_VISITS: Query[Visit] = Query(
    "open_visits", Visit, lambda visit: () if visit.ended_at else ("",)
)
OPEN_VISITS_OF_HOST: Query[Visit] = Query(
    "open_visits_of_host", Visit, lambda visit: () if visit.ended_at else (visit.host,)
)
OPEN_VISITS_OF_REQUEST: Query[Visit] = Query(
    "open_visits_of_request",
    Visit,
    lambda visit: () if visit.ended_at else (visit.request,),
)
VISITS_OF_REQUEST: Query[Visit] = Query(
    "visits_of_request", Visit, lambda visit: (visit.request,)
)
ALL_VISITS: Query[Visit] = Query("all_visits", Visit, everything)
ALL_EVENTS: Query[Event] = Query("all_events", Event, everything)
EVENTS_OF_OPERATION: Query[Event] = Query(
    "events_of_operation", Event, lambda event: (event.operation,)
)
LIVE_EVENTS: Query[Event] = Query(
    "live_events", Event, lambda event: ("",) if event.is_live else ()
)
PLANNED_EVENTS_OF_TENANT: Query[Event] = Query(
    "planned_events_of_tenant",
    Event,
    lambda event: (event.tenant,) if event.is_live and event.is_planned_work else (),
)
"""The live events of planned work on the VMs of a tenant."""
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
ALL_CHOICES: Query[Choice] = Query("all_choices", Choice, everything)
CHOICES_OF_TENANT: Query[Choice] = Query(
    "choices_of_tenant", Choice, lambda choice: (choice.tenant,)
)
CHOICES_OF_REQUEST: Query[Choice] = Query(
    "choices_of_request", Choice, lambda choice: (choice.request,)
)
ALL_SPANS: Query[Span] = Query("all_spans", Span, everything)
ALL_TOKENS: Query[Token] = Query("all_tokens", Token, everything)
TOKENS_OF_TENANT: Query[Token] = Query(
    "tokens_of_tenant", Token, lambda token: () if token.host else (token.tenant,)
)
"""The tokens of a tenant; with an empty name, those of operators."""
TOKENS_OF_RELAY: Query[Token] = Query(
    "tokens_of_relay", Token, lambda token: (token.host,) if token.host else ()
)
"""The tokens of the relay of a host."""
SPANS_OF_VM: Query[Span] = Query("spans_of_vm", Span, lambda span: (span.vm,))
SPANS_OF_SCOPE: Query[Span] = Query("spans_of_scope", Span, lambda span: (span.scope,))
OUTAGES_OF_SCOPE: Query[Span] = Query(
    "outages_of_scope", Span, lambda span: (span.scope,) if span.operation else ()
)
"""The interruptions of the VMs of a scope, without their existences."""
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

ALL_LOSSES: Query[Loss] = Query("all_losses", Loss, everything)
"""Hosts come before VMs."""
LOSSES_IN_RACK: Query[Loss] = Query(
    "losses_in_rack", Loss, lambda loss: (loss.rack,) if loss.rack else ()
)
ALL_BLACKOUTS: Query[WideBlackout] = Query("all_blackouts", WideBlackout, everything)
"""The blackouts of the service: few, and most decisions about planned work read them."""
ALL_ABILITIES: Query[HostAbilities] = Query("all_abilities", HostAbilities, everything)
"""The answers of the driver about hosts, for a plan of the whole fleet."""
ALL_RELAY_LINKS: Query[RelayLink] = Query("all_relay_links", RelayLink, everything)
RELAY_OF_HOST: Query[RelayLink] = Query(
    "relay_of_host", RelayLink, lambda link: (link.host,)
)
RELAYS_SILENT: Query[RelayLink] = Query(
    "relays_silent", RelayLink, lambda link: ("",) if link.silent_since else ()
)

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


# The questions about the capacity of hosts, which another module defines.
ROOMS_AT_WORK = room_questions.ROOMS_AT_WORK
ROOMS_AWAY = room_questions.ROOMS_AWAY
ROOMS_BY_MEMORY = room_questions.ROOMS_BY_MEMORY
ROOMS_BY_MEMORY_LIMIT = room_questions.ROOMS_BY_MEMORY_LIMIT
ROOMS_BY_PLACES_LIMIT = room_questions.ROOMS_BY_PLACES_LIMIT
ROOMS_BY_VCPU = room_questions.ROOMS_BY_VCPU
ROOMS_BY_VCPU_LIMIT = room_questions.ROOMS_BY_VCPU_LIMIT
ROOMS_DONE = room_questions.ROOMS_DONE
ROOMS_OPEN = room_questions.ROOMS_OPEN
ROOMS_OPEN_IN_ZONE = room_questions.ROOMS_OPEN_IN_ZONE
ROOMS_WITH_SPACE = room_questions.ROOMS_WITH_SPACE
done_value = room_questions.done_value
zone_value = room_questions.zone_value

EVERYTHING: Mapping[type[Record], Query[Any]] = {
    query.kind: query
    for query in (
        *(ALL_SCOPES, ALL_HOSTS, ALL_ROOMS, ALL_VMS),
        *(ALL_OPERATIONS, ALL_EVENTS, ALL_SPANS, ALL_VISITS, ALL_CAMPAIGNS),
    )
}
"""The queries for all records of the kinds of which single fields are read."""

OPERATIONS_DUE: Range[Operation] = Range(
    "operations_due", Operation, lambda op: op.due_at
)
OPERATIONS_ENDED: Range[Operation] = Range(
    "operations_ended", Operation, lambda op: op.ended_at
)
CAMPAIGNS_DUE: Range[CampaignRecord] = Range(
    "campaigns_due", CampaignRecord, lambda campaign: campaign.due_at
)
VISITS_DUE: Range[Visit] = Range("visits_due", Visit, lambda visit: visit.due_at)
VISITS_ENDED: Range[Visit] = Range("visits_ended", Visit, lambda visit: visit.ended_at)
VIEWS_DUE: Range[View] = Range("views_due", View, lambda view: view.due_at)
VIEWS_SEEN: Range[View] = Range(
    "views_seen", View, lambda view: view.last_seen if view.is_enabled else 0
)
AUDIT_AT: Range[AuditEntry] = Range("audit_at", AuditEntry, lambda entry: entry.at)
SPANS_ENDED: Range[Span] = Range("spans_ended", Span, lambda span: span.ended)
ORDER_KEYS_EXPIRED: Range[OrderKey] = Range(
    "order_keys_expired", OrderKey, lambda key: key.expires_at
)
LOSSES_DUE: Range[Loss] = Range("losses_due", Loss, lambda loss: loss.due_at)
