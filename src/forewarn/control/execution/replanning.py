"""Plan a host of a rollout again: another operation, which waits for its turn.

The caller then ends the operation that it replaces, so the request stays open.
"""

from dataclasses import replace

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules import choices, waits
from forewarn.control.transactions.about import task_of
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host
from forewarn.ids import place_before
from forewarn.instants import Micros
from forewarn.protocol.actors import campaign_actor
from forewarn.protocol.blockers import AnyBlocker
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind


def turn_of(work: Work, operation: Operation) -> str:
    """Return the name of the wait of a Planned host for its announcement."""
    request = work.request(operation.request)
    if not request.campaign:
        return waits.turn(request.request_id)
    stage = work.campaign(request.campaign).stage_of(operation.position)
    return waits.turn(request.request_id, stage)


def turns_of(work: Work, operation: Operation) -> tuple[str, ...]:
    """Return the names of the wait of a Planned host for its announcement.

    If a tenant has expedited a VM on it, it comes before the others of its rollout,
    however often it is withdrawn. A host that its campaign has cordoned is tried again.
    """
    names = [turn_of(work, operation)]
    request = work.request(operation.request)
    if request.campaign:
        owner = campaign_actor(work.campaign(request.campaign).name)
        host = work.tx.get(Host, operation.host)
        if host is not None and host.cordon_of(owner) is not None:
            names.append(waits.again_turn(request.request_id))
    if request.has_choices:
        vms = tuple(every(work.tx, kinds.VMS_ON_HOST, operation.host))
        chosen = choices.of_request(work.tx, operation.request, vms)
        if not all(choice.until for choice in chosen):
            names.append(waits.first_turn(operation.request))
    return tuple(names)


def host_pattern(operation: Operation, not_before: Micros) -> Operation:
    """Return the maintenance of a host without its VMs, as it is before its notice."""
    return Operation(
        operation_id="",
        request="",
        verb=operation.verb,
        action=operation.action,
        target_kind=operation.target_kind,
        target=operation.target,
        host=operation.host,
        state=OperationState.PLANNED,
        routine=operation.routine,
        not_before=not_before,
        moves=(),
        scopes=(),
        duration_seconds=operation.duration_seconds,
        description=operation.description,
        created=0,
        is_timed=operation.is_timed,
        is_emergency=operation.is_emergency,
        drains=operation.drains,
        deferrals=operation.deferrals,
        promises=operation.promises,
    )


def plan_again(
    work: Work,
    request_id: str,
    pattern: Operation,
    *,
    place: str,
    until: Micros = 0,
    blocker: AnyBlocker | None = None,
) -> Operation:
    """Create another operation for a host of a rollout; it waits for its turn.

    Its ID sorts at `place`. With `until` and a blocker, it gets its turn then.
    """
    operation_id = work.ids.short("op", place=place)
    planned = replace(
        pattern,
        operation_id=operation_id,
        request=request_id,
        not_before=work.not_before(operation_id, pattern.not_before),
        created=work.now,
        due_at=until,
        held_by=() if blocker is None else (blocker,),
    )
    names = (waits.for_pause(planned.host),) if until else turns_of(work, planned)
    return work.add_operation(replace(planned, waits_for=names))


def plan_first(work: Work, operation: Operation) -> Operation:
    """Plan an announced host again in its rollout, before the others that wait.

    A time that was given for it applies again.
    """
    request = operation.request
    # The time of a campaign's window does not apply again; one from a caller does.
    campaign = work.request(request).campaign
    has_windows = bool(campaign and work.campaign(campaign).windows)
    is_timed = operation.is_timed and not has_windows
    pattern = replace(
        host_pattern(operation, operation.not_before if is_timed else work.now),
        position=operation.position or 1,
        is_timed=is_timed,
    )
    planned = plan_again(work, request, pattern, place=place_before(request))
    work.note_operation(AuditKind.OPERATION_PLANNED, planned, task_of(planned))
    return planned


def give_place(work: Work, campaign: CampaignRecord, operation: Operation) -> int:
    """Let a host of a campaign change into its last stage; return its new position.

    The next waiting host takes its place in the stage, so that as many hosts as before
    prove the work. Each later stage moves its first host up in the same way.
    """
    position = operation.position
    request = operation.request
    for stage in range(campaign.stage_of(position), len(campaign.stages)):
        turn = waits.turn(request, stage + 1)
        waiting = work.tx.select(kinds.OPERATIONS_THAT_WAIT, turn, limit=1)
        if not waiting:
            break
        (first,) = waiting
        names = (
            waits.turn(request, stage) if name == turn else name
            for name in first.waits_for
        )
        work.save_operation(
            first, replace(first, position=position, waits_for=tuple(names))
        )
        position = first.position
    return position
