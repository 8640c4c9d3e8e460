"""Operations, events, the fleet and the history as JSON.

Members of the protocol have their wire names (`EventId`); members of forewarn are in
lower case. Instants are RFC 3339 with `Z`. This module only reads.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

from forewarn.control.redaction import tenant_reader
from forewarn.control.rules.brake import blocker_of
from forewarn.control.transactions.named import need
from forewarn.fleet.instance import InstanceFacts
from forewarn.fleet.model import Host, Scope, Tenant, Vm, VmState
from forewarn.fleet.window_fields import table_of
from forewarn.instants import (
    Micros,
    format_duration,
    format_instant,
    instant_or_none,
)
from forewarn.protocol.blockers import AnyBlocker, Deferred
from forewarn.protocol.events import Event
from forewarn.protocol.losses import Losses
from forewarn.protocol.operations import (
    Operation,
    OperationState,
    Request,
)
from forewarn.protocol.visits import VisitState
from forewarn.reporting import entry_kinds
from forewarn.reporting.blocker_reports import reports_with
from forewarn.reporting.failed_hosts import has_failed
from forewarn.reporting.main_changes import is_main
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import BRAKE_KEY, AuditEntry, Brake
from forewarn.wording import holds, operators

Json: TypeAlias = dict[str, Any]

HOSTS_NAMED_MAX = 1_000
"""Maximum hosts of a fleet or campaign that are named one by one: more squares do not fit
into a screen."""


def names_each(hosts: int) -> bool:
    """Return whether a fleet or campaign of so many hosts has each host in its answer."""
    return hosts <= HOSTS_NAMED_MAX


def operation_report(reader: Reader, operation: Operation, *, now: Micros) -> Json:
    """Return an operation with its events and every reason why it waits."""
    blockers = tenant_reader.blockers(reader, operation, now=now)
    return operation_body(reader, operation, blockers, now=now)


def operation_body(
    reader: Reader, operation: Operation, blockers: Sequence[AnyBlocker], *, now: Micros
) -> Json:
    """Return an operation with its events and these reasons."""
    request = reader.get(Request, operation.request)
    events = list(every(reader, kinds.EVENTS_OF_OPERATION, operation.operation_id))
    reasons = reports_with(operation, events, blockers, now=now)
    return {
        "operation": operation.operation_id,
        "rollout": operation.request if request and request.is_rollout else None,
        "request": operation.request,
        "kind": operation.verb.value,
        "impact": operation.action.value,
        "target": operation.target,
        "target_kind": operation.target_kind.value,
        "host": operation.host,
        "state": operation.state.value,
        "routine": operation.routine,
        "not_before": format_instant(operation.not_before),
        "created": format_instant(operation.created),
        "started": instant_or_none(operation.started_at),
        "impact_ended": instant_or_none(operation.impact_ended_at),
        "ended": instant_or_none(operation.ended_at),
        "moves": [
            {"vm": move.vm, "to_host": move.to_host or None, "done": move.done}
            for move in operation.moves
        ],
        "vm_count": vm_count(reader, operation),
        "scopes": list(operation.scopes),
        "note": operators.note(operation.note),
        "no_driver_call": operation.called_no_driver,
        "events": [_event_in_operation(event) for event in events],
        "blocked_by": [reason["text"] for reason in reasons],
        "blockers": reasons,
    }


def without_reasons(operation: Json) -> Json:
    """Return an operation as JSON without the reasons why it waits.

    Some of them change with the time only.
    """
    return {**operation, "blocked_by": [], "blockers": []}


def vm_count(reader: Reader, operation: Operation) -> int:
    """Return the number of VMs of an operation; for a Planned one, those on its host
    now."""
    if operation.state is OperationState.PLANNED and not operation.moves:
        return sum(1 for _ in every(reader, kinds.VMS_ON_HOST, operation.host))
    return len(operation.moves)


def _event_in_operation(event: Event) -> Json:
    return {
        "EventId": event.event_id,
        "scope": event.scope,
        "tenant": event.tenant,
        "status": event.status.value,
        "resources": [resource.name for resource in event.resources],
        "needs_approval": event.needs_approval,
        "approved_by": event.approved_by or None,
    }


def request_report(reader: Reader, request: Request, *, now: Micros) -> Json:
    """Return a request with its operations."""
    known = tenant_reader.remembered(reader)
    return {
        "request": request.request_id,
        "rollout": request.request_id if request.is_rollout else None,
        "kind": request.verb.value,
        "state": request.state.value,
        "actor": request.actor.text,
        "reason": request.reason,
        "created": format_instant(request.created),
        "operations": [
            operation_report(known, operation, now=now)
            for operation in every(
                reader, kinds.OPERATIONS_OF_REQUEST, request.request_id
            )
        ],
    }


def rollout_report(reader: Reader, request: Request) -> Json:
    """Return a rollout with the number of its operations in each state."""
    states = Counter(
        _state_in_rollout(operation)
        for operation in every(reader, kinds.OPERATIONS_OF_REQUEST, request.request_id)
    )
    states[OperationState.PLANNED.value] += request.hosts_unplanned
    return {
        "rollout": request.request_id,
        "kind": request.verb.value,
        "state": request.state.value,
        "actor": request.actor.text,
        "reason": request.reason,
        "created": format_instant(request.created),
        "at_once": request.at_once,
        "states": {state: states[state] for state in _ROLLOUT_STATES if states[state]},
        "steps": {step.kind.value: step.text for step in request.steps},
        "visits": _visits_by_state(reader, request),
    }


def _visits_by_state(reader: Reader, request: Request) -> dict[str, int]:
    """Return the number of visits of a request in each state; most have none."""
    if not request.steps:
        return {}
    visits = every(reader, kinds.VISITS_OF_REQUEST, request.request_id)
    counts = Counter(visit.state for visit in visits)
    return {state.value: counts[state] for state in VisitState if counts[state]}


POSTPONED = "Postponed"
"""State of a host in its rollout that a tenant has deferred: its operation is Planned."""

_ROLLOUT_STATES = (POSTPONED, *(state.value for state in OperationState))


def _state_in_rollout(operation: Operation) -> str:
    is_deferred = any(isinstance(blocker, Deferred) for blocker in operation.held_by)
    return POSTPONED if is_deferred else operation.state.value


def tenant_report(tenant: Tenant) -> Json:
    """Return a tenant."""
    return {"name": tenant.name}


def scope_report(reader: Reader, scope: Scope) -> Json:
    """Return a scope with its views."""
    views = list(every(reader, kinds.VIEWS_OF_SCOPE, scope.name))
    return {
        "name": scope.name,
        "tenant": scope.tenant,
        "kind": scope.kind.value,
        "approve_user_reboot": scope.approve_user_reboot,
        "approve_user_redeploy": scope.approve_user_redeploy,
        "terminate_notice": _duration(scope.terminate_notice),
        "os_image_notice": _duration(scope.os_image_notice),
        "scale_set": scope.scale_set,
        "gpu": scope.gpu,
        "maintenance_window": [table_of(window) for window in scope.maintenance_window],
        "views": [
            {
                "view": view.view_id,
                "enabled": view.is_enabled,
                "incarnation": view.incarnation,
                "last_seen": instant_or_none(view.last_seen),
            }
            for view in views
        ],
    }


def host_report(reader: Reader, host: Host) -> Json:
    """Return a host with its VMs and the VMs for which it reserves places."""
    return {
        "name": host.name,
        "zone": host.zone,
        "cluster": host.cluster,
        "rack": host.rack,
        "pool": host.pool,
        "capacity": host.capacity,
        "vcpu": host.vcpu,
        "memory": host.memory,
        "labels": dict(host.labels),
        "last": host.last,
        "state": host.state.value,
        "failed": has_failed(reader, host.name),
        "cordons": [
            {
                "by": cordon.by.text,
                "reason": cordon.reason,
                "since": format_instant(cordon.at),
            }
            for cordon in host.cordons
        ],
        "vms": [vm.name for vm in every(reader, kinds.VMS_ON_HOST, host.name)],
        "keeps_places_for": [
            vm.name for vm in every(reader, kinds.VMS_MOVING_TO, host.name)
        ],
    }


def brake_report(reader: Reader) -> Json:
    """Return the brake; null members if it is off."""
    brake = reader.get(Brake, BRAKE_KEY)
    if brake is None:
        return {**dict.fromkeys(_OF_BRAKE), "on": False, "withdraws": False}
    return {
        "on": True,
        "by": brake.by.text,
        "reason": brake.reason or None,
        "since": format_instant(brake.since),
        "text": holds.brake(blocker_of(brake)),
        "withdraws": brake.withdraws,
        "losses": _losses(brake.losses) if brake.losses else None,
        "ends": format_instant(brake.due_at) if brake.due_at else None,
    }


_OF_BRAKE = ("on", "by", "reason", "since", "text", "withdraws", "losses", "ends")
"""Members of the report of the brake."""


def _losses(losses: Losses) -> Json:
    return {
        "what": losses.what.value,
        "rack": losses.rack or None,
        "count": losses.count,
        "most": losses.most,
        "within": format_duration(losses.within),
        "named": list(losses.named),
    }


def vm_report(vm: Vm) -> Json:
    """Return a VM."""
    return {
        "name": vm.name,
        "wire_name": vm.wire_name,
        "vm_id": vm.vm_id,
        "host": vm.host,
        "scope": vm.scope,
        "tenant": vm.tenant,
        "fault_domain": vm.fault_domain,
        "update_domain": vm.update_domain,
        "size": vm.size,
        "vcpu": vm.vcpu,
        "memory": vm.memory,
        "movable": vm.movable,
        "memory_preserving": vm.memory_preserving,
        "spot": vm.spot,
        "tags": dict(vm.tags),
        "resource_group": vm.resource_group,
        "subscription": vm.subscription,
        "location": vm.location,
        "addresses": list(vm.addresses),
        "listen": vm.listen,
        "state": vm.state.value,
        "is_off": vm.is_off,
        "moving_to": vm.moving_to or None,
        "operations": list(vm.started),
    }


def instance_facts(reader: Reader, name: str) -> InstanceFacts | None:
    """Return the VM's part of the instance endpoint; None if the VM does not exist."""
    vm = reader.get(Vm, name)
    if vm is None or vm.state is VmState.DELETED:
        return None
    return InstanceFacts(
        vm=vm, scope=need(reader, Scope, vm.scope), host=need(reader, Host, vm.host)
    )


def audit_report(entry: AuditEntry, visit: str | None) -> Json:
    """Return an entry of the history.

    `visit` is the visit whose steps decide how the host of the entry ends; None: the
    operation decides.
    """
    return {
        "id": entry.entry_id,
        "at": format_instant(entry.at),
        "actor": entry.actor.text,
        "actor_kind": entry.actor.kind.value,
        "token": entry.actor.token or None,
        "peer": entry.actor.peer or None,
        "kind": entry_kinds.name_of(entry.kind),
        "about": entry_kinds.object_of(entry.kind),
        "what": entry.what,
        "what_shortly": entry_kinds.short_text(entry.kind),
        "failure": entry_kinds.is_failure(entry.kind),
        "why": entry.why,
        "detail": operators.detail_of(entry),
        "subjects": list(entry.subjects),
        "visit": visit,
        "main": is_main(entry, visit),
    }


def _duration(duration: Micros | None) -> str | None:
    return None if duration is None else format_duration(duration)
