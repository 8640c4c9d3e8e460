"""Announce operations again that were held for too long, by the guard, the brake or a
blackout."""

from dataclasses import replace

from forewarn.control.execution import ending, release, visits
from forewarn.control.requests import withdrawals
from forewarn.control.requests.admission import admit, draft_like
from forewarn.control.rules import (
    campaign_gate,
    holds,
    obstacles,
    promising,
    waits,
    wide_blackouts,
)
from forewarn.control.rules.brake import why_braked
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Vm
from forewarn.instants import Micros, round_up_to_second
from forewarn.protocol.blockers import bounded
from forewarn.protocol.events import Event
from forewarn.protocol.notes import AnnouncedAgain
from forewarn.protocol.operations import Operation, OperationState, Verb


def announce_again(work: Work, operation: Operation) -> Operation | None:
    """Replace a held operation by a new one.

    Return None if it has no live event, or can never start because of its windows.

    A NotBefore long in the past is no longer a notice, so the tenants get a new event with
    the minimum notice from now. The new operation is created before the old one ends, so
    that the request stays open.
    """
    events = [event for event in work.events_of(operation) if event.is_live]
    if not events:
        return None
    work.lock_scopes(operation.scopes)
    reasons = obstacles.why_waiting(work.tx, operation, now=work.now)
    pattern = events[0]
    request = work.request(operation.request)
    vms = [vm for name in operation.vms if (vm := work.tx.get(Vm, name)) is not None]
    notice_ends = work.now + _notice_again(work, operation, events)
    current_holds = holds.holds_of(work.tx, operation, vms)
    earliest = round_up_to_second(notice_ends)
    times = holds.HeldTimes(current_holds, earliest)
    start = campaign_gate.common_start(work.tx, operation, times, earliest)
    if start is None:
        # A notice would be for a time at which nothing can start.
        return None
    draft = draft_like(
        operation,
        vms,
        event_type=pattern.event_type,
        source=pattern.source,
        not_before=notice_ends if start == earliest and not current_holds else start,
    )
    # A host of a campaign keeps its position.
    draft = replace(
        draft,
        operation=replace(
            draft.operation,
            position=operation.position,
            drains=operation.drains,
            deferrals=operation.deferrals,
            promises=promising.promises_of(work.tx, operation, vms, times, earliest),
        ),
    )
    if operation.visit:
        again = replace(draft.operation, visit=operation.visit)
        draft = replace(draft, operation=again)
    new_operation = admit(work, request, [draft])[0]
    visits.follow(work, operation.visit, new_operation)
    ending.cancel(
        work,
        work.operation(operation.operation_id),
        note=AnnouncedAgain(
            held=work.now - operation.not_before,
            reasons=bounded(reasons),
            successor=new_operation.operation_id,
        ),
    )
    return new_operation


def _notice_again(work: Work, operation: Operation, events: list[Event]) -> Micros:
    if operation.verb in {Verb.UPGRADE_OS, Verb.REIMAGE}:
        return max(
            work.policy.notice_of(work.scope(event.scope).os_image_notice or 0)
            for event in events
        )
    return work.policy.notice_for(events[0].event_type)


def recheck(work: Work, operation_id: str) -> None:
    """Start an operation if nothing blocks it now; withdraw it if it is in a blackout.

    If it was held for too long, it is announced again. Any check can find that, since one
    at the end of the hold takes the place of the timer.
    """
    operation = work.operation(operation_id)
    if withdrawals.withdraw_if_stopped(work, operation):
        return
    is_held = operation.routine and operation.state is OperationState.READY
    if is_held and work.now >= release.hold_ends(operation, work.policy):
        _ready_or_again(work, operation)
    else:
        release.recheck(work, operation_id)


def _ready_or_again(work: Work, operation: Operation) -> None:
    """Start an operation that was held for too long if possible, or announce it again."""
    operation_id = operation.operation_id
    banned = wide_blackouts.in_force(work.tx, operation, now=work.now)
    is_stopped = bool(why_braked(work.tx, operation.verb)) or banned is not None
    # The notice of an operation that was stopped for so long is out of date.
    was_stopped = any(map(waits.is_for_stop, operation.waits_for))
    if is_stopped or not was_stopped:
        release.recheck(work, operation_id)
    operation = work.operation(operation_id)
    if operation.state is not OperationState.READY:
        return
    if not is_stopped:
        if announce_again(work, operation) is not None:
            return
        # Without an event, no notice is out of date.
        release.recheck(work, operation_id)
        operation = work.operation(operation_id)
    if operation.state is OperationState.READY:
        work.save_operation(
            operation, replace(operation, due_at=release.next_look(work, operation))
        )
