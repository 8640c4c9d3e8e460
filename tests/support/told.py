"""What receivers are told of the events of a life.

Nobody takes messages away from the outbox here, so what it holds at the end tells every
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
    """Return what was told of each event, without names that chance gave."""
    events = life.mirror.events
    told: dict[str, list[str]] = {}
    for message in _messages(life, "all"):
        [event_id] = [key for key in events if f'"{key}"' in message.body]
        assert message.change is not None
        told.setdefault(event_id, []).append(message.change.value)
    return sorted(
        f"{events[key].scope}: {' '.join(changes)}" for key, changes in told.items()
    )


def check_told(life: Life) -> None:
    """Hold what was told against what the events are."""
    events = life.mirror.events
    messages = _messages(life, "all")
    assert len({each.public_id for each in messages}) == len(messages)
    for key, event in events.items():
        changes = [each.change for each in messages if f'"{key}"' in each.body]
        last = {
            EventStatus.SCHEDULED: EventChange.SCHEDULED,
            EventStatus.STARTED: EventChange.STARTED,
        }.get(event.status) or EventChange(event.outcome.value if event.outcome else "")
        told = [
            change
            for change in changes
            if change not in {EventChange.APPROVED, EventChange.CHANGED}
        ]
        assert told[-1:] == [last], (event, changes)
        was_told = EventChange.APPROVED in changes
        assert (
            was_told
            or event.approver is None
            or event.approver.kind is not ActorKind.VM
        )
    # A tenant's receiver is told what the operator's is told of it, and no more.
    own = [each for each in messages if '"tenant":"ash"' in each.body]
    assert [(each.public_id, each.body) for each in own] == [
        (each.public_id, each.body) for each in _messages(life, "ash")
    ]
