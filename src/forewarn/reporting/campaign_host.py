"""One host of a campaign: its VMs, the steps of its visit, and what its driver said.

For operators only.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median_high
from typing import Any, TypeAlias

from forewarn.campaigns.pace import PACE_HOSTS
from forewarn.control.redaction import tenant_reader
from forewarn.fleet.model import Host, Span, Vm, VmState
from forewarn.instants import Micros, instant_or_none
from forewarn.protocol.blockers import CallEnd
from forewarn.protocol.errors import NotFoundError
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.notes import StepEnded
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    CallState,
    Move,
    Operation,
    OperationState,
)
from forewarn.protocol.visits import Visit, VisitState
from forewarn.reporting import campaign_courses
from forewarn.reporting.campaign_courses import visit_of
from forewarn.reporting.campaign_rows import RowSelection, blockers_with_hosts, row_of
from forewarn.reporting.expected import Expected, is_done
from forewarn.reporting.host_phases import phases
from forewarn.reporting.host_verbs import host_verbs
from forewarn.reporting.uptime import seconds
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry, AuditKind
from forewarn.wording import operators

Json: TypeAlias = dict[str, Any]

OUTPUTS_MAX = 20
"""Maximum messages of the driver about a host, the last ones: each has some lines."""

_DRIVER_SAID = frozenset(
    {AuditKind.DRIVER_DONE, AuditKind.DRIVER_FAILED, AuditKind.DRIVER_OUTCOME_UNKNOWN}
)


def campaign_host(expected: Expected, name: str) -> Json:
    """Return a host of a campaign with each of its VMs; raises NotFoundError."""
    reader, campaign = expected.reader, expected.campaign
    host = reader.get(Host, name)
    failed = set(campaign.failed_hosts)
    row = None if host is None else row_of(expected, host, failed, RowSelection())
    if host is None or row is None:
        raise NotFoundError(
            f"campaign {campaign.name} has no host {name!r}",
            hint=f"Run `forewarn campaign show {campaign.name} --all` to list its hosts.",
        )
    operations = campaign_courses.on_host(reader, campaign, name)
    last = operations[-1] if operations else None
    visit = None if last is None else visit_of(reader, last)
    if last is not None and not last.ended_at:
        blockers = tenant_reader.blockers(reader, last, now=expected.now)
        row["blockers"] = blockers_with_hosts(expected, last, blockers)
    return {
        **row,
        "zone": host.zone,
        "pool": host.pool,
        "host_state": host.state.value,
        "cordoned": bool(host.cordons),
        "impact": campaign.impact.value,
        "vm_list": _vms(reader, host, last, now=expected.now),
        "steps": [] if last is None or visit is None else _steps(reader, last, visit),
        "output": [] if last is None else _output(reader, last),
        "usual": usual(expected),
        "verbs": host_verbs(expected, name, operations),
    }


def _vms(
    reader: Reader, host: Host, operation: Operation | None, *, now: Micros
) -> list[Json]:
    """Return the VMs of the last attempt; before its announcement, those on the host."""
    if operation is None or operation.state is OperationState.PLANNED:
        there = every(reader, kinds.VMS_ON_HOST, host.name)
        return [_vm(vm, None, (), "waiting", now=now) for vm in there]
    pauses: defaultdict[str, list[Span]] = defaultdict(list)
    for span in every(reader, kinds.SPANS_OF_OPERATION, operation.operation_id):
        pauses[span.vm].append(span)
    rows: list[Json] = []
    for move in operation.moves:
        vm = reader.get(Vm, move.vm)
        course = _course(operation, move, vm)
        spans = pauses[move.vm]
        rows.append(
            _vm(vm, move, spans, course, now=now)
            if vm is not None
            else {**_vm_base(move.vm), "course": course, **_moved(move, spans, now)}
        )
    return rows


def _vm_base(name: str) -> Json:
    return {"vm": name, "tenant": None, "scope": None, "host": None, "state": None}


def _vm(
    vm: Vm, move: Move | None, spans: Iterable[Span], course: str, *, now: Micros
) -> Json:
    return {
        "vm": vm.name,
        "tenant": vm.tenant,
        "scope": vm.scope,
        "host": vm.host,
        "state": vm.state.value,
        "course": course,
        **_moved(move, spans, now),
    }


def _moved(move: Move | None, spans: Iterable[Span], now: Micros) -> Json:
    known = list(spans)
    paused = sum((span.ended or now) - span.began for span in known)
    return {
        "to_host": (move.to_host or None) if move else None,
        "pause_seconds": seconds(paused) if known else None,
    }


def _course(operation: Operation, move: Move, vm: Vm | None) -> str:
    """Return how far a VM of an announced operation is."""
    if vm is None or vm.state is VmState.DELETED:
        return "gone"
    if vm.state is VmState.DOWN or move.is_down:
        return "down"
    if move.done:
        return "moved" if operation.action in MOVING_ACTIONS else "done"
    if move.has_failed:
        return "failed"
    if operation.state is OperationState.IMPACTING:
        return "in work"
    return "waiting" if not operation.ended_at else "unchanged"


def _steps(reader: Reader, operation: Operation, visit: Visit) -> list[Json]:
    """Return the steps of a visit in their order, with the last result of each.

    VMs that leave the host do so between `enter` and `work`.
    """
    current = visit.current_kind
    # A step that is repeated still has the result of its last call.
    runs = visit.call_state is not CallState.NONE
    rows: list[Json] = []
    is_drained = operation.action not in MOVING_ACTIONS
    for step in visit.steps:
        if not is_drained and step.kind not in _BEFORE_DRAIN:
            rows.append(_drain(reader, operation, visit))
            is_drained = True
        result = visit.result(step.kind)
        rows.append(
            {
                "kind": step.kind.value,
                "step": step.text,
                "current": step.kind is current,
                "outcome": None
                if result is None or (step.kind is current and runs)
                else result.outcome.value,
                "at": None if result is None else instant_or_none(result.at),
                "said": "" if result is None else operators.step_said(result),
            }
        )
    return rows if is_drained else [*rows, _drain(reader, operation, visit)]


_BEFORE_DRAIN = frozenset({StepKind.NEEDED, StepKind.ENTER})

DRAIN = "drain"
"""The name of the step in which the VMs leave a host; it is not a host step."""


def _drain(reader: Reader, operation: Operation, visit: Visit) -> Json:
    """Return the step in which the VMs leave the host."""
    drains = [
        phase
        for phase in phases(reader, operation, visit)
        if phase.step == VisitState.DRAINING.value
    ]
    over = drains[-1].ends if drains else 0
    has_failed = visit.failed_in is VisitState.DRAINING
    return {
        "kind": DRAIN,
        "step": operation.action.value,
        "current": visit.state is VisitState.DRAINING,
        "outcome": None if not over else "failed" if has_failed else "done",
        "at": instant_or_none(over),
        "said": "",
    }


def _output(reader: Reader, operation: Operation) -> list[Json]:
    """Return what the driver said about the VMs of an operation, the last message last."""
    subject = f"operation:{operation.operation_id}"
    entries = [
        entry
        for entry in every(reader, kinds.AUDIT_OF_SUBJECT, subject)
        if entry.kind in _DRIVER_SAID or entry.kind is AuditKind.VM_MOVED
    ]
    texts = [_said(entry) for entry in entries]
    # That a call was done without a word says less than the moves.
    return [text for text in texts if text["text"]][-OUTPUTS_MAX:]


def _said(entry: AuditEntry) -> Json:
    note = entry.facts.note
    text = operators.note(note) if isinstance(note, CallEnd | StepEnded) else ""
    moves = "; ".join(
        f"{move.vm} {operators.moved(move)}" for move in entry.facts.moves
    )
    return {
        "at": instant_or_none(entry.at),
        "what": entry.what,
        "text": text or entry.facts.text or moves,
    }


def usual(expected: Expected) -> Json | None:
    """Return the median times of the hosts that were done last; None: none was."""
    pace = expected.pace
    if pace is None:
        return None
    lengths: defaultdict[str, list[Micros]] = defaultdict(list)
    newest = expected.reader.ranked(
        kinds.ENDED_OF_REQUEST, expected.request.request_id, limit=PACE_HOSTS
    )
    for operation in newest:
        visit = visit_of(expected.reader, operation)
        if not is_done(operation, visit):
            continue
        for phase in phases(expected.reader, operation, visit):
            if phase.ends:
                lengths[phase.step or phase.state.value].append(
                    phase.ends - phase.begins
                )
    return {
        "hosts": pace.hosts,
        "turn_seconds": seconds(pace.turn),
        "work_seconds": seconds(pace.work),
        "step_seconds": _medians(lengths),
    }


def _medians(lengths: Mapping[str, list[Micros]]) -> dict[str, float]:
    return {name: seconds(median_high(found)) for name, found in lengths.items()}
