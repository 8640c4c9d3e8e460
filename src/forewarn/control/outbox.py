"""The outbox's other end: messages go when they were told, or were given up.

A crash after a delivery and before this has it delivered again, under the same
public id.
"""

from collections.abc import Sequence

from forewarn.control.work import Work
from forewarn.store.outbox import OutboxMessage

GAVE_UP = "webhook gave up"
"""What the trail's line says; what follows in it is a count and a reason of ours."""


def forget(work: Work, messages: Sequence[OutboxMessage]) -> int:
    """Delete messages; return how many were there."""
    # Nobody changes a message: it is there as it was read, or gone.
    there = [
        message
        for message in messages
        if work.tx.get(OutboxMessage, message.message_id) is not None
    ]
    for message in there:
        work.tx.remove(message)
    return len(there)


def give_up(
    work: Work,
    messages: Sequence[OutboxMessage],
    *,
    receiver: str,
    tenant: str,
    why: str,
) -> int:
    """Delete messages that will not be told, with one line of the trail for all."""
    count = forget(work, messages)
    if count:
        subjects = (f"webhook:{receiver}", *([f"tenant:{tenant}"] if tenant else []))
        what = "change was" if count == 1 else "changes were"
        work.note(GAVE_UP, subjects, f"{count} {what} not told: {why}")
    return count
