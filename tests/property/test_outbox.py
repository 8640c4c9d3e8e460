"""No change of an event that was committed is without its message, ever.

Stories are killed at the checkpoints that they pass, as in `test_crashes`, with
receivers to be told. Nobody takes messages away here, so what the outbox holds
at the end tells every event's whole life.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.control.rules.policy import Policy, Subscriber
from forewarn.protocol.actors import ActorKind
from forewarn.protocol.events import Event, EventStatus
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import EventChange, OutboxMessage
from tests.property.stories import FLEET, STORIES
from tests.property.story_policies import POLICIES
from tests.property.test_crashes import PLACES, _crashes, _live
from tests.support.lives import Life

SUBSCRIBERS = Subscriber(name="all"), Subscriber(name="ash", tenant="ash")


def _messages(life: Life, receiver: str) -> list[OutboxMessage]:
    return life.world.read(
        lambda reader: list(every(reader, kinds.OUTBOX_OF_RECEIVER, receiver))
    )


def _lives(messages: list[OutboxMessage], events: dict[str, Event]) -> list[str]:
    """Return what was told of each event, without names that chance gave."""
    told: dict[str, list[str]] = {}
    for message in messages:
        [event_id] = [key for key in events if f'"{key}"' in message.body]
        assert message.change is not None
        told.setdefault(event_id, []).append(message.change.value)
    return sorted(
        f"{events[key].scope}: {' '.join(changes)}" for key, changes in told.items()
    )


def _check(life: Life) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_messages_are_the_same_after_a_crash_at_any_checkpoint(
    name: str, tmp_path: Path
) -> None:
    story = STORIES[name]
    policy = replace(POLICIES.get(name, Policy()), subscribers=SUBSCRIBERS)
    whole = Life(FLEET, policy=policy, file=tmp_path / "whole.db")
    before = dict(whole.world.passed)
    _live(whole, story, None)
    _check(whole)
    expected = _lives(_messages(whole, "all"), whole.mirror.events)
    passed = {
        place: whole.world.passed[place] - before.get(place, 0) for place in PLACES
    }
    whole.close()
    assert expected or not whole.mirror.events

    for place, number in _crashes(name, passed, shift=1):
        life = Life(FLEET, policy=policy, file=tmp_path / f"{place}-{number}.db")
        reached = _live(life, story, (place, number))
        _check(life)
        found = _lives(_messages(life, "all"), life.mirror.events)
        life.close()
        assert reached, (place, number)
        assert found == expected, (place, number)
