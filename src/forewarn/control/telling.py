"""What receivers are to be told, written in the transaction that changes the event.

A crash before its commit leaves neither the change nor the message, one after it
leaves both.
"""

import json
from collections.abc import Callable, Iterable, Sequence

from forewarn.control.event_json import event_report
from forewarn.control.subscribers import Subscriber, change_of
from forewarn.ids import Ids
from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.store import kinds
from forewarn.store.outbox import OutboxMessage
from forewarn.store.port import Reader, Transaction


def write(
    tx: Transaction,
    steps: Iterable[tuple[Event, Event]],
    subscribers: Sequence[Subscriber],
    *,
    now: Micros,
    ids: Ids,
    message_id: Callable[[Micros], str],
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
                    message_id=message_id(now),
                    receiver=each.name,
                    at=now,
                    change=change,
                    public_id=public_id,
                    body=body,
                )
            )


def first_free(reader: Reader, *, now: Micros) -> Micros:
    """Return the instant behind all messages, for those that a new process writes.

    That is `now`, unless the clock was set back, or the process before has ended
    in this very microsecond: messages are told in the order of their ids.
    """
    last = f"{now:017d}"
    while page := reader.select(kinds.ALL_OUTBOX, after=last):
        last = page[-1].message_id
    return now if "." not in last else int(last.partition(".")[0]) + 1
