"""Rollouts: hosts that are announced one after the other, each when its turn comes.

The order makes one Planned operation for each host (`host_lists`); nobody is told of
it. A host is announced in a transaction of its own, with a full notice from then on: its VMs and
scopes are those of that moment. `rolling` decides whose turn it is.

A crash leaves nothing half done. Before a commit, the host still waits. After it, the
host is announced, and the next start of the service looks at all rollouts again.
"""

from dataclasses import replace

from forewarn.control.execution import ending
from forewarn.control.requests import admission
from forewarn.control.rules import rolling, waits
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Vm
from forewarn.instants import HOUR, Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.events import EventSource
from forewarn.protocol.notes import AnyNote, RolloutStopped
from forewarn.protocol.operations import (
    Operation,
    OperationState,
    Request,
    RequestState,
)
from forewarn.store import kinds
from forewarn.store.port import Reader

LOOKED_AT_MAX = 8
"""Waiting hosts of one transaction: those that cannot be announced are passed over,
and found again by what they wait for."""

CANCELLED_MAX = 50
"""Planned operations that one transaction cancels, so that it stays short."""

PATIENCE: Micros = HOUR
"""How long the first host of a rollout is passed over before it reserves its scopes."""


def is_due(reader: Reader, request_id: str) -> bool:
    """Tell whether `go_on` has something to do for a rollout."""
    request = reader.get(Request, request_id)
    if request is None or not request.at_once:
        return False
    if request.state is not RequestState.OPEN:
        return bool(reader.select(kinds.PLANNED_OF_REQUEST, request_id, limit=1))
    if request.unplanned or request.in_flight >= request.at_once:
        return False
    return bool(
        reader.select(kinds.OPERATIONS_THAT_WAIT, waits.turn(request_id), limit=1)
    )


def go_on(work: Work, request_id: str) -> bool:
    """Announce the next host of a rollout; tell whether one was announced.

    Hosts before it that cannot be announced are passed over. What is left of a
    rollout that has stopped is cancelled.
    """
    request = work.request(request_id)
    if request.state is not RequestState.OPEN:
        if cancel_planned(work, request, note=RolloutStopped()):
            work.take_turn(request_id)
        return False
    if not request.at_once or request.in_flight >= request.at_once:
        return False
    if request.unplanned:
        # It goes on when its list is whole.
        return False
    found = work.tx.select(
        kinds.OPERATIONS_THAT_WAIT, waits.turn(request_id), limit=LOOKED_AT_MAX
    )
    if not found:
        return False
    vms = {each.operation_id: rolling.vms_of(work.tx, each) for each in found}
    waiting = {
        each.operation_id: rolling.waiting_host(work.tx, each, vms[each.operation_id])
        for each in found
    }
    scopes = {scope for each in waiting.values() for scope in each.domains}
    work.lock_scopes(scopes)
    decided = rolling.admit(
        list(waiting.values()),
        slots=1,
        scopes={scope: rolling.standing_of(work.tx, scope) for scope in scopes},
    )
    for operation_id, blocker in decided.passed_over:
        operation = work.operation(operation_id)
        work.save_operation(
            operation,
            replace(
                operation,
                waits_for=rolling.names_for(operation, waiting[operation_id], blocker),
                held_by=(blocker,),
                # Since it was passed over first, whatever was tried in between.
                due_at=operation.due_at or work.now + work.policy.sped_up(PATIENCE),
            ),
        )
    for operation_id in decided.announced:
        _announce(work, work.operation(operation_id), vms[operation_id])
    work.take_turn(request_id)
    return bool(decided.announced)


def _announce(work: Work, operation: Operation, vms: tuple[Vm, ...]) -> None:
    """Tell the VMs that are on the host now, with a full notice."""
    event_type = admission.MAINTENANCE[operation.action].event_type
    # Where there is no VM, nobody needs a notice: only a time given by hand is left.
    notice = work.policy.notice_for(event_type) if vms else 0
    draft = admission.draft_like(
        operation,
        vms,
        event_type=event_type,
        source=EventSource.PLATFORM,
        not_before=max(operation.not_before, work.now + notice),
    )
    admission.announce(work, operation, draft)
    # Other hosts of the same fault domains may be announced beside it.
    work.free_turns({vm.scope for vm in vms})


def call_up(work: Work, operation_id: str) -> bool:
    """Give a host that was passed over another chance; tell whether it was announced.

    If its rollout has no slot left, the host is among the first when there is one.
    """
    operation = work.operation(operation_id)
    if operation.state is not OperationState.PLANNED:
        return False
    request = work.request(operation.request)
    has_slot = request.in_flight < request.at_once
    kept = tuple(name for name in operation.waits_for if waits.is_reservation(name))
    work.save_operation(
        operation,
        replace(
            operation,
            waits_for=(waits.turn(operation.request), *kept),
            held_by=(),
            # Without a slot it is not passed over, and needs no timer.
            due_at=operation.due_at if has_slot else 0,
        ),
    )
    return go_on(work, operation.request)


def waited_long(work: Work, operation_id: str) -> None:
    """Look again at a host that was passed over for long.

    The first of its rollout reserves its scopes: no host behind it is announced there
    before it, in this rollout or another.
    """
    operation = work.operation(operation_id)
    names = operation.waits_for
    first = work.tx.select(kinds.PLANNED_OF_REQUEST, operation.request, limit=1)
    if [each.operation_id for each in first] == [operation_id]:
        scopes = sorted({vm.scope for vm in rolling.vms_of(work.tx, operation)})
        names = (
            *(name for name in names if not waits.is_reservation(name)),
            *map(waits.reserved, scopes),
        )
    # It waits as long again if it is passed over now.
    work.save_operation(operation, replace(operation, waits_for=names, due_at=0))
    call_up(work, operation_id)


def cancel_planned(
    work: Work, request: Request, *, note: AnyNote, by: Actor | None = None
) -> list[Operation]:
    """Cancel some of the hosts whose turn has not come; the rest follows in steps."""
    found = work.tx.select(
        kinds.PLANNED_OF_REQUEST, request.request_id, limit=CANCELLED_MAX
    )
    for operation in found:
        ending.cancel(work, work.operation(operation.operation_id), note=note, by=by)
    if len(found) == CANCELLED_MAX:
        work.take_turn(request.request_id)
    return [work.operation(operation.operation_id) for operation in found]
