"""Let a whole rollout wait for the end of the brake or of blackouts of the fleet.

Its next host waits for all: it keeps its turn, and the others follow it. So the cost does
not depend on the number of hosts.
"""

from dataclasses import replace

from forewarn.control.rules import brake, holds, waits, wide_blackouts
from forewarn.control.rules.maintenance import MAINTENANCE
from forewarn.control.transactions.work import Work
from forewarn.instants import Micros, round_up_to_second
from forewarn.protocol.blockers import InBlackout
from forewarn.protocol.operations import Operation, Request


def notice_of(work: Work, operation: Operation, *, is_empty: bool) -> Micros:
    """Return the notice of a host.

    A host without VMs needs none; only a time from the caller applies.
    """
    event_type = MAINTENANCE[operation.action].event_type
    return 0 if is_empty else work.policy.notice_for(event_type)


def wait_if_stopped(work: Work, request: Request, first: Operation) -> bool:
    """Return whether a rollout announces nothing now; its first host then waits."""
    if brake.why_braked(work.tx, request.verb):
        if waits.TURN_BRAKE not in first.waits_for:
            names = (*first.waits_for, waits.TURN_BRAKE)
            work.save_operation(first, replace(first, waits_for=names))
        return True
    banned = _why_no_notice(work, request, first)
    if banned is not None:
        _wait_for_blackouts(work, first, banned)
    return banned is not None


def _why_no_notice(
    work: Work, request: Request, operation: Operation
) -> InBlackout | None:
    """Return the blackout of the fleet that stops a rollout; None: there is none.

    The gate of a stored campaign has asked for it. An empty host, which needs no notice,
    waits as long as the others.
    """
    if request.campaign or operation.is_emergency:
        return None
    notice = notice_of(work, operation, is_empty=False)
    not_before = operation.not_before
    start = round_up_to_second(max(not_before, work.now + notice))
    # Those of a part are holds of the hosts there.
    blackouts = holds.of_blackouts(wide_blackouts.of_fleet(work.tx))
    times = holds.HeldTimes(blackouts, start, now=work.now)
    for blocker in times.why_not_announced():
        if isinstance(blocker, InBlackout):
            at = times.next_notice(notice=notice, not_before=not_before)
            return replace(blocker, ends=at or 0)
    return None


def _wait_for_blackouts(work: Work, operation: Operation, banned: InBlackout) -> None:
    """Let a host wait for a timer; nothing is stored if it waits already."""
    is_new = waits.TURN_BLACKOUTS not in operation.waits_for
    if not is_new and banned in operation.held_by and operation.due_at > work.now:
        return
    other_waits = (name for name in operation.waits_for if name != waits.TURN_BLACKOUTS)
    waiting = replace(
        operation,
        waits_for=(*other_waits, waits.TURN_BLACKOUTS),
        held_by=(banned,),
        due_at=banned.ends or work.now + holds.LOOK_AGAIN_AFTER,
    )
    work.save_operation(operation, waiting)
