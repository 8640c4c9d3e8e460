"""Events that somebody stages by hand: any type, for the VMs that are named.

An operator's verbs keep the rules of notice; who tests a program also wants what
the rules forbid but the world has shown: notice shorter than documented, a Freeze
that is first seen Started, a Reboot with a duration. A staged event is admitted,
approved, started and ended by the same decisions as any other; only what it says
of itself is free. Moving it on is an input to them, never a write beside them.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forewarn.control.execution import release
from forewarn.control.requests import admission, verbs
from forewarn.control.requests.admission import Draft
from forewarn.control.requests.verbs.hosts import MAINTENANCE
from forewarn.control.requests.verbs.order import check_targets
from forewarn.control.requests.verbs.vms import CHANGES
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Vm
from forewarn.instants import SECOND, Micros
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import DURATION_UNKNOWN, EventSource, EventType
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import (
    WAITING_STATES,
    Action,
    Operation,
    OperationState,
    Request,
    TargetKind,
    Verb,
)
from forewarn.sim import redating

VERBS: Mapping[tuple[EventType, EventSource], tuple[Verb, Action]] = {
    (EventType.FREEZE, EventSource.PLATFORM): (Verb.MAINTAIN, Action.FREEZE),
    (EventType.REBOOT, EventSource.PLATFORM): (Verb.MAINTAIN, Action.REBOOT),
    (EventType.REBOOT, EventSource.USER): (Verb.REBOOT, Action.REBOOT),
    (EventType.REDEPLOY, EventSource.PLATFORM): (Verb.MAINTAIN, Action.REDEPLOY),
    (EventType.REDEPLOY, EventSource.USER): (Verb.REDEPLOY, Action.REDEPLOY),
    (EventType.PREEMPT, EventSource.PLATFORM): (Verb.EVICT, Action.DELETE),
    (EventType.TERMINATE, EventSource.USER): (Verb.TERMINATE, Action.DELETE),
}
"""What is behind an event of a type and source; no others exist (table 5.9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """An event as somebody wants it."""

    event_type: EventType
    vms: tuple[str, ...]
    source: EventSource
    notice: Micros
    """From now until NotBefore; 0: Started at once."""
    duration_seconds: int | None = None
    description: str | None = None
    migrates: bool = False
    """A Freeze is a live migration: the VMs end on other hosts, where there is room."""
    routine: bool = False
    """The fault-domain guard may hold it, as it may hold an operator's maintenance."""


class Stop(enum.Enum):
    """Where a staged event may be moved to."""

    STARTED = "Started"
    RECOVERING = "Recovering"
    """The impact is over; the event is still shown as Started (4.6)."""
    REMOVED = "Removed"
    CANCELLED = "Cancelled"


def stage(work: Work, wanted: Staged) -> Request:
    """Order the event: one operation, and so one event, for each host and scope.

    Refused: no VM, one twice or unknown; a type that its source never has; a live
    migration that is no Freeze.
    """
    check_targets(wanted.vms, "vm")
    kind = VERBS.get((wanted.event_type, wanted.source))
    if kind is None:
        raise RefusedError(
            f"a {wanted.event_type.value} never comes from {wanted.source.value}",
            hint="table 5.9 of the page 'Protocol' lists what there is",
        )
    verb, action = kind
    if wanted.migrates:
        if action is not Action.FREEZE:
            raise RefusedError(
                f"a {wanted.event_type.value} is no live migration",
                hint="only a Freeze is: leave the migration out",
            )
        action = Action.LIVE_MIGRATE
    groups: dict[tuple[str, str], list[Vm]] = {}
    for name in wanted.vms:
        vm = work.vm(name)
        if not admission.is_announced(verb, work.scope(vm.scope), vm):
            raise RefusedError(
                f"vm {name} is told of no {wanted.event_type.value}",
                hint=f"set terminate_notice of scope {vm.scope}",
            )
        groups.setdefault((vm.host, vm.scope), []).append(vm)
    request = admission.open_request(work, verb)
    # Without notice it is due at a second that has begun: it starts at once.
    not_before = work.now + (wanted.notice or -(work.now % SECOND))
    drafts = [
        _draft(wanted, verb, action, vms, not_before=not_before)
        for vms in groups.values()
    ]
    admission.admit(work, request, drafts)
    return request


def _draft(
    wanted: Staged, verb: Verb, action: Action, vms: Sequence[Vm], *, not_before: Micros
) -> Draft:
    usual = MAINTENANCE.get(action)
    description = wanted.description
    if description is None:
        said = usual if verb is Verb.MAINTAIN else CHANGES.get(verb)
        description = said.description if said else ""
    seconds = wanted.duration_seconds
    if seconds is None:
        seconds = usual.duration_seconds if usual else DURATION_UNKNOWN
    return Draft(
        verb=verb,
        action=action,
        target_kind=TargetKind.VM if len(vms) == 1 else TargetKind.HOST,
        target=vms[0].name if len(vms) == 1 else vms[0].host,
        host=vms[0].host,
        vms=tuple(vms),
        event_type=wanted.event_type,
        source=wanted.source,
        description=description,
        duration_seconds=seconds,
        routine=wanted.routine,
        not_before=not_before,
    )


def move(work: Work, name: str, stop: Stop) -> Operation:
    """Have an operation go on to `stop` now: what it waits for is due at once.

    The driver's work is hastened by the caller, who holds the driver. Refused:
    backwards, past the end, or a cancel after Started.
    """
    operation = work.operation(name)
    if stop is Stop.CANCELLED:
        verbs.cancel(work, name, note=Said(text="cancelled by hand"))
        return work.operation(name)
    if stop is Stop.STARTED and operation.state not in WAITING_STATES:
        raise RefusedError(
            f"{name} is {operation.state.value}: it has started, and does not go back",
            hint="stage another event",
        )
    if operation.ended_at:
        raise RefusedError(
            f"{name} is {operation.state.value} already", hint="stage another event"
        )
    work.lock_scopes(operation.scopes)
    far = max(operation.not_before, operation.due_at)
    redating.bring_operation_nearer(work, operation, far, ends=operation.not_before)
    if operation.state in WAITING_STATES:
        release.start_if_ready(work, name)
    return work.operation(name)


def is_at(operation: Operation, stop: Stop) -> bool:
    """Tell whether the operation has come to `stop`, or beyond."""
    has_ended = bool(operation.ended_at)
    return {
        Stop.STARTED: operation.state not in WAITING_STATES,
        Stop.RECOVERING: bool(operation.impact_ended_at) or has_ended,
        Stop.REMOVED: has_ended or operation.state is OperationState.CANCELLED,
        Stop.CANCELLED: has_ended or operation.state is OperationState.CANCELLED,
    }[stop]
