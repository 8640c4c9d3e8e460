"""Checks of the messages to receivers about the events of a life.

No receiver takes messages from the outbox here, so what it holds at the end tells every
event's whole life.
"""

from forewarn.control.rules.policy import Subscriber
from forewarn.protocol.actors import ActorKind
from forewarn.protocol.events import EventStatus
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import EventChange, OutboxMessage
from tests.support.lives import Life

SUBSCRIBERS = Subscriber(name="all"), Subscriber(name="ash", tenant="ash")


def _messages(life: Life, receiver: str) -> list[OutboxMessage]:
    return life.world.read(
        lambda reader: list(every(reader, kinds.OUTBOX_OF_RECEIVER, receiver))
    )


def told(life: Life) -> list[str]:
    """Return the messages about each event, without random names."""
    events = life.mirror.events
    changes_by_event: dict[str, list[str]] = {}
    for message in _messages(life, "all"):
        [event_id] = [key for key in events if f'"{key}"' in message.body]
        assert message.change is not None
        changes_by_event.setdefault(event_id, []).append(message.change.value)
    return sorted(
        f"{events[key].scope}: {' '.join(changes)}"
        for key, changes in changes_by_event.items()
    )


def check_told(life: Life) -> None:
    """Compare the messages with the events."""
    events = life.mirror.events
    messages = _messages(life, "all")
    assert len({message.public_id for message in messages}) == len(messages)
    for key, event in events.items():
        changes = [message.change for message in messages if f'"{key}"' in message.body]
        last = {
            EventStatus.SCHEDULED: EventChange.SCHEDULED,
            EventStatus.STARTED: EventChange.STARTED,
        }.get(event.status) or EventChange(event.outcome.value if event.outcome else "")
        sent = [
            change
            for change in changes
            if change not in {EventChange.APPROVED, EventChange.CHANGED}
        ]
        assert sent[-1:] == [last], (event, changes)
        was_told = EventChange.APPROVED in changes
        assert (
            was_told
            or event.approver is None
            or event.approver.kind is not ActorKind.VM
        )
    # A tenant's receiver gets the operators' messages about the tenant, and no others.
    own = [message for message in messages if '"tenant":"ash"' in message.body]
    assert [(message.public_id, message.body) for message in own] == [
        (message.public_id, message.body) for message in _messages(life, "ash")
    ]
