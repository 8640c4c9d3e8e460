"""Decide whether an operation is released: approvals, NotBefore, and batches.

OR inside one event: any VM that sees it approves for all its resources. AND over the
events of an operation: on a shared host, the operation waits for all of them, or for
NotBefore. Deletions of one request wait for each other. Pure.
"""

from collections.abc import Collection, Mapping

from forewarn.instants import Micros, round_up_to_second
from forewarn.protocol.blockers import (
    AnyBlocker,
    BatchWaits,
    NotApproved,
    NotDue,
    NoticeRuns,
)
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation


def whole_second(_operation_id: str, ends: Micros) -> Micros:
    """Return the NotBefore for a notice that ends at `ends` (2.7)."""
    return round_up_to_second(ends)


def is_released(
    operation: Operation, events: Collection[Event], *, now: Micros
) -> bool:
    """Return whether the operation is released (clauses 3.5 and 4.2).

    `events` are the events that count: those of the operation, or of the whole request
    if its operations start together (3.6). Without events, an operation whose time was
    given by hand waits for NotBefore.
    """
    if now >= operation.not_before:
        return True
    if operation.is_timed and not events:
        return False
    return all(event.is_approved for event in events)


def waiting_for(
    operation: Operation,
    events: Collection[Event],
    *,
    now: Micros,
    listening: Mapping[str, bool],
    targets: Mapping[str, str],
) -> tuple[AnyBlocker, ...]:
    """Return all missing approvals, and the time until NotBefore.

    `listening` has the scopes with Scheduled Events enabled; `targets` has the target of
    each operation of the request.
    """
    # The timer is later than NotBefore only if a notice continues after a clock step.
    # Then NotBefore alone does not release the operation.
    is_stepped = operation.not_before <= now < operation.due_at
    decisive = operation.not_before - 1 if is_stepped else now
    if is_released(operation, events, now=decisive):
        return ()
    missing: list[AnyBlocker] = []
    for event in events:
        if event.is_approved:
            continue
        if event.operation == operation.operation_id:
            missing.append(
                NotApproved(
                    tenant=event.tenant,
                    scope=event.scope,
                    listens=listening.get(event.scope, False),
                )
            )
        else:
            missing.append(
                BatchWaits(
                    tenant=event.tenant,
                    scope=event.scope,
                    target=targets.get(event.operation, event.operation),
                )
            )
    if now < operation.not_before:
        missing.append(NotDue(remaining=operation.not_before - now))
    else:
        missing.append(NoticeRuns(remaining=operation.due_at - now))
    return tuple(missing)
