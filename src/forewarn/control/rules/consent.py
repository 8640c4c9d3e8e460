"""Whether an operation has been let go: approvals, NotBefore, and batches.

OR inside one event: any VM that sees it approves for all its resources. AND
over the events of an operation: on a shared host it waits for all of them, or
for NotBefore. Deletions of one request wait for each other. Pure.
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
    """Return NotBefore of an operation whose notice ends at `ends` (2.7)."""
    return round_up_to_second(ends)


def is_released(
    operation: Operation, events: Collection[Event], *, now: Micros
) -> bool:
    """Tell whether the operation alone may go (clauses 3.5 and 4.2).

    `events` are those that count for it: its own, or those of the whole request
    where its operations go together (3.6). Where nobody is asked, a time that was given
    by hand is waited for.
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
    """Return every approval that is missing, and the time left until NotBefore.

    `listening` says of each scope whether somebody has enabled it; `targets`
    names the target of each operation of the request.
    """
    # The timer is beyond NotBefore only while a notice goes on after a step of the
    # clock: then NotBefore alone lets nothing go.
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
