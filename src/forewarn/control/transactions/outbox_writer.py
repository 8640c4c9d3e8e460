"""What receivers are to be told, written in the transaction that changes the event.

A crash before its commit leaves neither the change nor the message, one after it
leaves both.
"""

import json
from collections.abc import Callable, Iterable, Sequence

from forewarn.control.rules.subscribers import Subscriber, change_of
from forewarn.control.transactions.event_json import event_report
from forewarn.ids import RandomIds
from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.store.outbox import OutboxMessage
from forewarn.store.port import Transaction


def write(
    tx: Transaction,
    steps: Iterable[tuple[Event, Event]],
    subscribers: Sequence[Subscriber],
    *,
    now: Micros,
    ids: RandomIds,
    next_key: Callable[[], str],
) -> None:
    """Write a message to each subscriber for each step that it wants to hear of."""
    for before, after in steps:
        change = change_of(before, after)
        if change is None:
            continue
        wanting = [each for each in subscribers if each.wants(after, change)]
        if not wanting:
            continue
        body = json.dumps(event_report(after), separators=(",", ":"))
        public_id = ids.event()
        for each in wanting:
            tx.add(
                OutboxMessage(
                    message_id=next_key(),
                    receiver=each.name,
                    at=now,
                    change=change,
                    public_id=public_id,
                    body=body,
                    approver=after.approver,
                )
            )
