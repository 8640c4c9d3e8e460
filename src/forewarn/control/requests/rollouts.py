"""Rollouts: announce hosts one after the other.

A request creates one Planned operation per host, which is not announced. It checks all
hosts and stores the whole list, with the IDs of the future operations, and creates the
operations of the first page. Each further page is a separate transaction, and no host is
announced before the last page. No transaction therefore grows with the list. Code that
must know all open operations of a host calls `complete` first. A host whose operation is
not created yet is therefore treated like a Planned one.

Each host is announced in its own transaction, with a full notice from then on and with
the VMs and scopes of that time. `rolling` decides which host is next.

A crash leaves nothing incomplete. Between two pages, the next start of the service finds
the rest of the list in the request. Before a commit, the host still waits. After the
commit, the host is announced, and the next start checks all rollouts again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from forewarn.control.execution import ending
from forewarn.control.requests import admission
from forewarn.control.rules import brake, rolling, waits
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Vm
from forewarn.ids import place_in
from forewarn.instants import HOUR, Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.events import EventSource
from forewarn.protocol.frozen import changed
from forewarn.protocol.notes import AnyNote, RolloutStopped
from forewarn.protocol.operations import (
    Operation,
    OperationState,
    Request,
    RequestState,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditKind, Facts

LOOKED_AT_MAX = 8
"""Maximum waiting hosts per transaction. Hosts that cannot be announced are skipped and
found again by the names of their waits."""

CANCELLED_MAX = 50
"""Maximum Planned operations that one transaction cancels, so that it stays short."""

PATIENCE: Micros = HOUR
"""Time for which the first host of a rollout is skipped before it reserves its scopes."""


def is_due(reader: Reader, request_id: str) -> bool:
    """Return whether `go_on` has work for a rollout."""
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
    """Announce the next host of a rollout; return whether one was announced.

    Hosts that cannot be announced are skipped. If the rollout has stopped, its remaining
    hosts are cancelled.
    """
    request = work.request(request_id)
    if request.state is not RequestState.OPEN:
        if cancel_planned(work, request, note=RolloutStopped()):
            work.take_turn(request_id)
        return False
    if not request.at_once or request.in_flight >= request.at_once:
        return False
    if request.unplanned:
        # The rollout continues when its list of hosts is complete.
        return False
    found = work.tx.select(
        kinds.OPERATIONS_THAT_WAIT, waits.turn(request_id), limit=LOOKED_AT_MAX
    )
    if not found:
        return False
    if brake.why_braked(work.tx, request.verb):
        _wait_for_brake(work, found[0])
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
                # The time counts from the first time that the host was skipped.
                due_at=operation.due_at or work.now + work.policy.sped_up(PATIENCE),
            ),
        )
    for operation_id in decided.announced:
        _announce(work, work.operation(operation_id), vms[operation_id])
    work.take_turn(request_id)
    return bool(decided.announced)


def _wait_for_brake(work: Work, operation: Operation) -> None:
    """Let the next host of a rollout also wait for the end of the brake.

    It keeps its turn. One host is enough: the others follow it.
    """
    if waits.TURN_BRAKE not in operation.waits_for:
        names = (*operation.waits_for, waits.TURN_BRAKE)
        work.save_operation(operation, replace(operation, waits_for=names))


def _announce(work: Work, operation: Operation, vms: tuple[Vm, ...]) -> None:
    """Announce a host to the VMs that are on it now, with a full notice."""
    event_type = admission.MAINTENANCE[operation.action].event_type
    # A host without VMs needs no notice; only a time from the caller applies.
    notice = work.policy.notice_for(event_type) if vms else 0
    draft = admission.draft_like(
        operation,
        vms,
        event_type=event_type,
        source=EventSource.PLATFORM,
        not_before=max(operation.not_before, work.now + notice),
    )
    admission.announce(work, operation, draft)
    # Other hosts of the same fault domains can be announced in parallel.
    work.free_turns({vm.scope for vm in vms})


def call_up(work: Work, operation_id: str) -> bool:
    """Try to announce a skipped host again; return whether it was announced.

    If its rollout has no free slot, the host is among the first when one becomes free.
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
            # If the rollout has no free slot, the host is not skipped and needs no
            # timer.
            due_at=operation.due_at if has_slot else 0,
        ),
    )
    return go_on(work, operation.request)


def waited_long(work: Work, operation_id: str) -> None:
    """Check again a host that its rollout has skipped for a long time.

    The first host of a rollout reserves its scopes: no later host is announced there
    before it, in this or another rollout.
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
    # If the rollout skips the host now, the host waits for the same time again.
    work.save_operation(operation, replace(operation, waits_for=names, due_at=0))
    call_up(work, operation_id)


def cancel_planned(
    work: Work, request: Request, *, note: AnyNote, by: Actor | None = None
) -> list[Operation]:
    """Cancel some Planned hosts; the others follow in later steps."""
    found = work.tx.select(
        kinds.PLANNED_OF_REQUEST, request.request_id, limit=CANCELLED_MAX
    )
    for operation in found:
        ending.cancel(work, work.operation(operation.operation_id), note=note, by=by)
    if len(found) == CANCELLED_MAX:
        work.take_turn(request.request_id)
    return [work.operation(operation.operation_id) for operation in found]


PAGE = 25
"""Maximum hosts per transaction. Creating and storing one operation takes about 0.1 ms, so
other approvals and requests wait for about 3 ms."""


def plan(
    work: Work, request: Request, hosts: Sequence[str], pattern: Operation
) -> None:
    """Store the list of hosts, and create the Planned operations of its first page.

    None is announced. `pattern` has the common fields of the operations.
    """
    admission.check_actions(work, [pattern.action])
    ids = work.ids.shorts("op", len(hosts), place=place_in(request.request_id))
    # One history entry for all: a thousand hosts must not write a thousand entries.
    work.note(
        AuditKind.HOSTS_PLANNED,
        (
            f"request:{request.request_id}",
            *(f"operation:{operation_id}" for operation_id in ids),
        ),
        Facts(count=len(hosts), at_once=request.at_once),
    )
    listed = work.tx.replace(
        request, replace(request, unplanned=tuple(zip(ids, hosts, strict=True)))
    )
    _make(work, listed, pattern, count=PAGE)


def plan_page(work: Work, request_id: str) -> None:
    """Create the Planned operations of the next page of a list.

    If the rollout was cancelled, they are cancelled afterwards.
    """
    request = work.request(request_id)
    if request.unplanned:
        _make(work, request, _like_the_first(work, request), count=PAGE)


def complete(work: Work, hosts: Iterable[str]) -> None:
    """Create the operations of these hosts, if a list contains any of them.

    All operations up to the last of these hosts are created, so a list stays in order.
    """
    names = frozenset(hosts)
    for request in list(every(work.tx, kinds.REQUESTS_UNPLANNED)):
        count = max(
            (
                place
                for place, (_, host) in enumerate(request.unplanned, start=1)
                if host in names
            ),
            default=0,
        )
        if count:
            _make(work, request, _like_the_first(work, request), count=count)


def _like_the_first(work: Work, request: Request) -> Operation:
    """Return the common fields of the operations of a list, from its first one.

    The first one was not announced, because the list is not complete. It can have ended.
    """
    (first,) = work.tx.select(kinds.OPERATIONS_OF_REQUEST, request.request_id, limit=1)
    like = admission.draft_like(
        first,
        (),
        event_type=admission.MAINTENANCE[first.action].event_type,
        source=EventSource.PLATFORM,
        not_before=first.not_before,
    )
    return replace(like.operation, created=first.created)


def _make(work: Work, request: Request, pattern: Operation, *, count: int) -> None:
    page, rest = request.unplanned[:count], request.unplanned[count:]
    work.tx.replace(request, replace(request, unplanned=rest))
    position = request.hosts - len(request.unplanned)
    waits_for = (waits.turn(request.request_id),)
    for operation_id, host in page:
        position += 1
        work.add_operation(
            changed(
                pattern,
                operation_id=operation_id,
                request=request.request_id,
                target=host,
                host=host,
                not_before=work.not_before(operation_id, pattern.not_before),
                position=position,
                waits_for=waits_for,
            )
        )
    if rest:
        work.take_page(request.request_id)
    else:
        work.take_turn(request.request_id)
