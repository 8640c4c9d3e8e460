"""Inject events of any type for given VMs.

The verbs of operators follow the rules of notice. Testers also need events that the
rules forbid but real platforms have shown: a notice shorter than documented, a Freeze
that is first seen as Started, a Reboot with a duration. An injected event is admitted,
approved, started and ended by the same decisions as any other event. Only its visible
values are free. Moving it is an input to these decisions and never a separate write.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forewarn.control.execution import release
from forewarn.control.requests import admission, verbs
from forewarn.control.requests.verbs.changes import CHANGES, check_targets, either
from forewarn.control.rules.maintenance import MAINTENANCE
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Vm
from forewarn.instants import SECOND, Micros
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import EventSource, EventType
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
from forewarn.verbs.model import Kind

VERBS: Mapping[tuple[EventType, EventSource], tuple[Verb, Action]] = {
    (EventType.FREEZE, EventSource.PLATFORM): (Verb.MAINTAIN, Action.FREEZE),
    (EventType.REBOOT, EventSource.PLATFORM): (Verb.MAINTAIN, Action.REBOOT),
    (EventType.REBOOT, EventSource.USER): (Verb.REBOOT, Action.REBOOT),
    (EventType.REDEPLOY, EventSource.PLATFORM): (Verb.MAINTAIN, Action.REDEPLOY),
    (EventType.REDEPLOY, EventSource.USER): (Verb.REDEPLOY, Action.REDEPLOY),
    (EventType.PREEMPT, EventSource.PLATFORM): (Verb.EVICT, Action.DELETE),
    (EventType.TERMINATE, EventSource.USER): (Verb.TERMINATE, Action.DELETE),
}
"""The verb and action behind each event type and source (table 5.9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The values of an injected event."""

    event_type: EventType
    vms: tuple[str, ...]
    source: EventSource
    notice: Micros
    """Time until NotBefore; 0: Started at once."""
    duration_seconds: int | None = None
    description: str | None = None
    migrates: bool = False
    """A Freeze is a live migration: the VMs move to other hosts with capacity."""
    routine: bool = False
    """The fault-domain guard may hold the event, like an operator's maintenance."""


class Stop(enum.Enum):
    """The state to which an operation can be moved."""

    STARTED = "Started"
    RECOVERING = "Recovering"
    """The impact is over; the event is still shown as Started (4.6)."""
    REMOVED = "Removed"
    CANCELLED = "Cancelled"


def inject(work: Work, wanted: Staged) -> Request:
    """Inject an event: one operation and one event for each host and scope.

    Refuses no VM, repeated or unknown VMs, a type that never comes from the source, and a
    live migration that is not a Freeze.
    """
    check_targets(wanted.vms, Kind.VM)
    kind = VERBS.get((wanted.event_type, wanted.source))
    if kind is None:
        raise RefusedError(
            f"a {wanted.event_type.value} never comes from {wanted.source.value}",
            hint="See table 5.9 of the page 'Protocol' for valid combinations.",
        )
    verb, action = kind
    if wanted.migrates:
        if action is not Action.FREEZE:
            raise RefusedError(
                f"a {wanted.event_type.value} cannot be a live migration",
                hint="Use a Freeze, or remove the migration.",
            )
        action = Action.LIVE_MIGRATE
    groups: dict[tuple[str, str], list[Vm]] = {}
    for name in wanted.vms:
        vm = work.vm(name)
        if not admission.is_announced(verb, work.scope(vm.scope), vm):
            raise RefusedError(
                f"VM {name} is not notified of a {wanted.event_type.value}",
                hint=f"Set `terminate_notice` of scope {vm.scope}.",
            )
        groups.setdefault((vm.host, vm.scope), []).append(vm)
    request = admission.open_request(work, verb)
    # Without notice, NotBefore is the current full second, so it starts at once.
    not_before = work.now + (wanted.notice or -(work.now % SECOND))
    drafts = [
        _draft(wanted, verb, action, vms, not_before=not_before)
        for vms in groups.values()
    ]
    admission.admit(work, request, drafts)
    return request


def _draft(
    wanted: Staged, verb: Verb, action: Action, vms: Sequence[Vm], *, not_before: Micros
) -> admission.Draft:
    usual = MAINTENANCE[action] if verb is Verb.MAINTAIN else CHANGES[verb]
    change = replace(
        usual,
        event_type=wanted.event_type,
        source=wanted.source,
        description=either(wanted.description, usual.description),
        duration_seconds=either(wanted.duration_seconds, usual.duration_seconds),
        routine=wanted.routine,
    )
    is_one = len(vms) == 1
    return admission.draft(
        verb,
        change,
        vms,
        target_kind=TargetKind.VM if is_one else TargetKind.HOST,
        target=vms[0].name if is_one else vms[0].host,
        host=vms[0].host,
        not_before=not_before,
    )


def move(work: Work, name: str, stop: Stop) -> Operation:
    """Advance an operation to `stop` now: everything it waits for becomes due.

    The caller has the driver, so it must shorten the driver's work. Refuses a move
    backwards, a move of an ended operation, and a cancel after Started.
    """
    operation = work.operation(name)
    if stop is Stop.CANCELLED:
        verbs.cancel(work, name, note=Said(text="cancelled by hand"))
        return work.operation(name)
    if stop is Stop.STARTED and operation.state not in WAITING_STATES:
        raise RefusedError(
            f"{name} is {operation.state.value}: a started operation cannot go back",
            hint="Publish another event with `forewarn sim event`.",
        )
    if operation.ended_at:
        raise RefusedError(
            f"{name} is already {operation.state.value}",
            hint="Publish another event with `forewarn sim event`.",
        )
    work.lock_scopes(operation.scopes)
    far = max(operation.not_before, operation.due_at)
    redating.bring_operation_nearer(work, operation, far, ends=operation.not_before)
    if operation.state in WAITING_STATES:
        release.start_if_ready(work, name)
    return work.operation(name)


def is_at(operation: Operation, stop: Stop) -> bool:
    """Return whether the operation has reached `stop`, or a later state."""
    has_ended = bool(operation.ended_at)
    return {
        Stop.STARTED: operation.state not in WAITING_STATES,
        Stop.RECOVERING: bool(operation.impact_ended_at) or has_ended,
        Stop.REMOVED: has_ended or operation.state is OperationState.CANCELLED,
        Stop.CANCELLED: has_ended or operation.state is OperationState.CANCELLED,
    }[stop]
