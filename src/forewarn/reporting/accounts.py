"""The account of an operation: planned and actual times, and approvals.

An account joins the operation and its events, the downtime of its VMs, and the history
entries about it. It only reads.
"""

from forewarn.fleet.model import Span
from forewarn.instants import Micros, format_instant, instant_or_none
from forewarn.protocol.actors import VMS
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.operations import (
    ENDED_STATES,
    Operation,
    OperationState,
    Request,
)
from forewarn.reporting.reports import vm_count
from forewarn.reporting.uptime import Json, seconds
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry, AuditKind
from forewarn.wording import operators

_PHASES = {
    AuditKind.OPERATION_ANNOUNCED: "scheduled",
    AuditKind.EVENT_APPROVED: "approved",
    AuditKind.OPERATION_READY: "ready",
    AuditKind.OPERATION_HELD: "held",
    AuditKind.OPERATION_IMPACTING: "started",
    AuditKind.OPERATION_RECOVERING: "impact over",
    AuditKind.DRIVER_DONE: "driver done",
    AuditKind.DRIVER_FAILED: "driver failed",
    AuditKind.DRIVER_OUTCOME_UNKNOWN: "driver unknown",
    AuditKind.OPERATION_RESOLVED: "resolved",
    AuditKind.OPERATION_DONE: "done",
    AuditKind.OPERATION_CANCELLED: "cancelled",
    AuditKind.OPERATION_FAILED: "failed",
}
"""Names of the history entries that an account repeats."""


def account(reader: Reader, operation: Operation, *, now: Micros) -> Json:
    """Return the account of an operation."""
    request = reader.get(Request, operation.request)
    events = list(every(reader, kinds.EVENTS_OF_OPERATION, operation.operation_id))
    is_planned = operation.state is OperationState.PLANNED
    vms = _vms(reader, operation, events, now=now)
    return {
        "operation": operation.operation_id,
        "what": operators.task(operation),
        "kind": operation.verb.value,
        "impact": operation.action.value,
        "target": operation.target,
        "target_kind": operation.target_kind.value,
        "host": operation.host,
        "state": operation.state.value,
        "outcome": outcome_of(operation),
        "note": operators.note(operation.note),
        "no_driver_call": operation.called_no_driver,
        "actor": request.actor.text if request else None,
        "reason": request.reason if request else "",
        "description": operation.description,
        "not_before": format_instant(operation.not_before),
        "created": format_instant(operation.created),
        "started": instant_or_none(operation.started_at),
        "impact_ended": instant_or_none(operation.impact_ended_at),
        "ended": instant_or_none(operation.ended_at),
        "approvals": [_approval(event) for event in events],
        "phases": _phases(reader, operation, events),
        "vm_count": vm_count(reader, operation) if is_planned else len(vms),
        "vms": vms,
    }


def outcome_of(operation: Operation) -> str | None:
    """Return the outcome of the operation; None if it has not ended."""
    if operation.state not in ENDED_STATES:
        return None
    done = operation.state is OperationState.DONE
    return "completed" if done else operation.state.value.lower()


def _approval(event: Event) -> Json:
    return {
        "EventId": event.event_id,
        "scope": event.scope,
        "tenant": event.tenant,
        "status": event.status.value,
        "needs_approval": event.needs_approval,
        "approved_by": event.approved_by or None,
        "approved": instant_or_none(event.approved_at),
        "started": instant_or_none(event.started_at),
        "removed": instant_or_none(event.removed_at),
        "outcome": event.outcome.value if event.outcome else None,
    }


def _phases(reader: Reader, operation: Operation, events: list[Event]) -> list[Json]:
    """Return the steps of the operation in their order in the history."""
    subject = f"operation:{operation.operation_id}"
    phases: list[Json] = []
    scopes = {f"event:{event.event_id}": event.scope for event in events}
    for entry in every(reader, kinds.AUDIT_OF_SUBJECT, subject):
        phase = _PHASES.get(entry.kind)
        if phase is None:
            continue
        phases.append(
            {
                "phase": phase,
                "at": format_instant(entry.at),
                "by": _by(entry),
                "detail": operators.detail_of(entry),
                "scope": next(
                    (
                        scopes[subject]
                        for subject in entry.subjects
                        if subject in scopes
                    ),
                    None,
                ),
            }
        )
    return phases


def _by(entry: AuditEntry) -> str:
    # The actor of a VM's approval is "vm"; the entry has the name of the VM.
    if entry.kind is AuditKind.EVENT_APPROVED and entry.actor == VMS:
        return entry.facts.by.text if entry.facts.by else entry.actor.text
    return entry.actor.text


def _vms(
    reader: Reader, operation: Operation, events: list[Event], *, now: Micros
) -> list[Json]:
    """Return the planned and the actual downtime of each VM."""
    by_vm: dict[str, list[Span]] = {name: [] for name in operation.vms}
    events = [event for event in events if event.status is not EventStatus.NEW]
    for event in events:
        for resource in event.resources:
            by_vm.setdefault(resource.vm, [])
    for span in every(reader, kinds.SPANS_OF_OPERATION, operation.operation_id):
        by_vm.setdefault(span.vm, []).append(span)
    planned = operation.duration_seconds
    return [
        {
            "vm": vm,
            "approved_by": _approver(vm, events, spans),
            "planned_seconds": planned if planned >= 0 else None,
            "down_seconds": seconds(
                sum((span.ended or now) - span.began for span in spans)
            ),
            "at_most": any(not span.is_exact for span in spans),
            "down": [
                {
                    "kind": span.kind.value,
                    "began": format_instant(span.began),
                    "ended": instant_or_none(span.ended),
                }
                for span in spans
            ],
        }
        for vm, spans in by_vm.items()
    ]


def _approver(vm: str, events: list[Event], spans: list[Span]) -> str | None:
    """Return the approver of the VM's event; None without an approval or event.

    A VM that left its event was down in its scope, which has one event of an operation.
    """
    own = [event for event in events if event.names(vm)]
    scopes = {span.scope for span in spans}
    for event in own or [event for event in events if event.scope in scopes]:
        return event.approved_by or None
    return None
