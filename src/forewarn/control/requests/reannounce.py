"""A hold that lasted too long: cancelled and announced again.

What was announced for a NotBefore long past is no notice any more, so the tenants
are told again, with the least notice from now.
"""

from dataclasses import replace

from forewarn.control.execution import ending, release
from forewarn.control.requests import admission
from forewarn.control.requests.admission import Draft
from forewarn.control.rules import obstacles
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Vm
from forewarn.instants import Micros
from forewarn.protocol.blockers import bounded
from forewarn.protocol.events import Event
from forewarn.protocol.notes import AnnouncedAgain
from forewarn.protocol.operations import Operation, OperationState, Verb


def announce_again(work: Work, operation: Operation) -> Operation | None:
    """Replace a held operation by a new one; None if nobody was told of it.

    The new one is made before the old one ends, so that the request stays open.
    """
    events = [event for event in work.events_of(operation) if event.is_live]
    if not events:
        return None
    work.lock_scopes(operation.scopes)
    reasons = obstacles.why_waiting(work.tx, operation, now=work.now)
    pattern = events[0]
    request = work.request(operation.request)
    draft = Draft(
        verb=operation.verb,
        action=operation.action,
        target_kind=operation.target_kind,
        target=operation.target,
        host=operation.host,
        vms=tuple(
            vm for name in operation.vms if (vm := work.tx.get(Vm, name)) is not None
        ),
        event_type=pattern.event_type,
        source=pattern.source,
        description=operation.description,
        duration_seconds=operation.duration_seconds,
        routine=operation.routine,
        not_before=work.now + _notice(work, operation, events),
        is_timed=operation.is_timed,
    )
    made = admission.admit(work, request, [draft])[0]
    ending.cancel(
        work,
        work.operation(operation.operation_id),
        note=AnnouncedAgain(
            held=work.now - operation.not_before,
            reasons=bounded(reasons),
            successor=made.operation_id,
        ),
    )
    return made


def _notice(work: Work, operation: Operation, events: list[Event]) -> Micros:
    if operation.verb in {Verb.UPGRADE_OS, Verb.REIMAGE}:
        return max(
            work.policy.notice_of(work.scope(event.scope).os_image_notice or 0)
            for event in events
        )
    return work.policy.notice_for(events[0].event_type)


def ready_or_again(work: Work, operation_id: str) -> None:
    """Start a held operation at the last moment, or tell the tenants again."""
    release.recheck(work, operation_id)
    operation = work.operation(operation_id)
    if (
        operation.state is OperationState.READY
        and announce_again(work, operation) is None
    ):
        due_at = release.next_look(work, operation)
        work.save_operation(operation, replace(operation, due_at=due_at))
