"""Which changes of events are told to whom, and what is written for them."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from forewarn.control.rules.policy import Subscriber
from forewarn.control.transactions.aliases import Aliases
from forewarn.control.transactions.event_json import (
    change_of,
    event_report,
    told_to_tenant,
)
from forewarn.control.transactions.messages import Messages
from forewarn.ids import RandomIds
from forewarn.instants import MINUTE
from forewarn.protocol.actors import NO_NOTICE, vm_actor
from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Outcome,
    Resource,
)
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.records import EventChange, OutboxMessage
from forewarn.store.sequence import key_of

NEW = Event(
    event_id="E1",
    operation="op-1",
    scope="web",
    tenant="shop",
    status=EventStatus.NEW,
    event_type=EventType.REBOOT,
    source=EventSource.PLATFORM,
    resources=(
        Resource(vm="web_0", name="web_0", fault_domain=0),
        Resource(vm="web_1", name="web_1", fault_domain=0),
    ),
    not_before=15 * MINUTE,
    description="",
    duration_seconds=-1,
    created=1,
)
SCHEDULED = replace(NEW, status=EventStatus.SCHEDULED)
APPROVED = replace(SCHEDULED, approver=vm_actor("web_0"), approved_at=2)
STARTED = replace(APPROVED, status=EventStatus.STARTED, started_at=3)


def removed(event: Event, outcome: Outcome) -> Event:
    return replace(event, status=EventStatus.REMOVED, removed_at=4, outcome=outcome)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (NEW, SCHEDULED, EventChange.SCHEDULED),
        (SCHEDULED, APPROVED, EventChange.APPROVED),
        (APPROVED, STARTED, EventChange.STARTED),
        (NEW, replace(STARTED, approver=NO_NOTICE), EventChange.STARTED),
        (STARTED, removed(STARTED, Outcome.COMPLETED), EventChange.COMPLETED),
        (STARTED, removed(STARTED, Outcome.FAILED), EventChange.FAILED),
        (SCHEDULED, removed(SCHEDULED, Outcome.CANCELLED), EventChange.CANCELLED),
        (
            SCHEDULED,
            replace(SCHEDULED, resources=SCHEDULED.resources[:1]),
            EventChange.CHANGED,
        ),
        (SCHEDULED, replace(SCHEDULED, not_before=MINUTE), EventChange.CHANGED),
        # What no document has shown, or shows no otherwise, is told to nobody.
        (NEW, removed(NEW, Outcome.CANCELLED), None),
        (SCHEDULED, replace(SCHEDULED, revision=1), None),
        (NEW, replace(NEW, not_before=MINUTE), None),
    ],
)
def test_each_event_change_is_classified(
    before: Event, after: Event, expected: EventChange | None
) -> None:
    assert change_of(before, after) is expected


def test_subscriber_receives_only_permitted_and_selected_changes() -> None:
    change = EventChange.STARTED
    assert Subscriber(name="all").wants(STARTED, change)
    assert Subscriber(name="shop", tenant="shop").wants(STARTED, change)
    assert not Subscriber(name="bank", tenant="bank").wants(STARTED, change)
    freezes = Subscriber(name="x", types=frozenset({EventType.FREEZE}))
    assert not freezes.wants(STARTED, change)
    ends = Subscriber(name="x", changes=frozenset({EventChange.COMPLETED}))
    assert not ends.wants(STARTED, change)


def test_each_step_is_written_for_each_interested_subscriber() -> None:
    store, numbers = MemoryStore(), itertools.count(1)
    steps = [(NEW, SCHEDULED), (SCHEDULED, APPROVED), (APPROVED, STARTED)]
    subscribers = (
        Subscriber(name="all"),
        Subscriber(name="shop", changes=frozenset({EventChange.STARTED})),
        Subscriber(name="bank", tenant="bank"),
    )
    messages = Messages(subscribers)
    for before, after in steps:
        messages.add_step(before, after)
    store.transact(
        lambda tx: messages.write(
            tx,
            now=7,
            ids=RandomIds(1),
            next_key=lambda: key_of(1, next(numbers)),
        )
    )
    written = store.read(lambda reader: reader.select(kinds.ALL_OUTBOX))
    assert [(message.receiver, message.change) for message in written] == [
        ("all", EventChange.SCHEDULED),
        ("all", EventChange.APPROVED),
        ("all", EventChange.STARTED),
        ("shop", EventChange.STARTED),
    ]
    # One change has one public id, whoever is told of it.
    assert written[2].public_id == written[3].public_id
    assert len({message.public_id for message in written}) == 3
    assert json.loads(written[1].body)["approved_by"] == "web_0"
    assert all(isinstance(message, OutboxMessage) for message in written)


ALIASES = Aliases("secret", "shop")


def seen_by_tenant(report: Mapping[str, object]) -> dict[str, object]:
    return json.loads(told_to_tenant(json.dumps(report), ALIASES))


def test_message_to_a_tenant_has_all_members_of_the_event() -> None:
    report = event_report(STARTED)
    assert list(seen_by_tenant(report)) == list(report)


def test_unlisted_member_of_an_event_is_hidden_from_a_tenant() -> None:
    report = event_report(STARTED)
    assert seen_by_tenant({**report, "host": "h1"}) == seen_by_tenant(report)


def test_message_to_a_tenant_has_aliases_and_whole_seconds() -> None:
    report = {**event_report(STARTED), "created": "2026-11-21T22:00:00.250000Z"}
    shown = seen_by_tenant(report)
    assert shown["operation"] == ALIASES.of("op-1")
    assert shown["created"] == "2026-11-21T22:00:00Z"
