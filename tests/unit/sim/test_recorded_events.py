"""The events of a recording, and the approvals that count."""

import json
from typing import Any

import pytest

from forewarn.instants import SECOND, Micros
from forewarn.protocol import versions
from forewarn.protocol.events import EventSource, EventStatus, EventType, Outcome
from forewarn.sim.engine import START
from forewarn.sim.recorded_events import RecordedEvents
from tests.support.recordings import FREEZE, REBOOT, document, event

DUE = START + 900 * SECOND


def recorded(version: str = "2020-07-01") -> RecordedEvents:
    parsed = versions.parse(version)
    assert parsed is not None
    return RecordedEvents(parsed)


def take(events: RecordedEvents, at: Micros, *shown: dict[str, Any]) -> None:
    events.take(document(1, *shown).body, at=at)


def test_recorded_event_has_the_values_of_its_document() -> None:
    events = recorded()
    take(events, START, event(vms=["web_0", "web_1"]))
    [found] = events.live
    assert (found.event_id, found.event_type) == (FREEZE, EventType.FREEZE)
    assert found.source is EventSource.PLATFORM
    assert [resource.vm for resource in found.resources] == ["web_0", "web_1"]
    assert (found.not_before, found.created) == (DUE, START)
    assert (found.duration_seconds, found.status) == (5, EventStatus.SCHEDULED)
    assert events.find(FREEZE) == found
    assert events.find(REBOOT) is None


SHOWN: dict[str, tuple[dict[str, Any], ...]] = {
    "Scheduled": (event(),),
    "Started": (event(status="Started"),),
    "gone": (),
}

BEFORE, AFTER = START + SECOND, DUE + SECOND

AFTERWARDS = {
    ("Scheduled", "Scheduled", BEFORE): (EventStatus.SCHEDULED, None),
    ("Scheduled", "Started", BEFORE): (EventStatus.STARTED, None),
    ("Scheduled", "gone", BEFORE): (EventStatus.REMOVED, Outcome.CANCELLED),
    ("Scheduled", "gone", AFTER): (EventStatus.REMOVED, Outcome.COMPLETED),
    ("Started", "Scheduled", BEFORE): (EventStatus.SCHEDULED, None),
    ("Started", "Started", BEFORE): (EventStatus.STARTED, None),
    ("Started", "gone", BEFORE): (EventStatus.REMOVED, Outcome.COMPLETED),
    ("Started", "gone", AFTER): (EventStatus.REMOVED, Outcome.COMPLETED),
    ("gone", "Scheduled", BEFORE): (EventStatus.SCHEDULED, None),
    ("gone", "Started", BEFORE): (EventStatus.STARTED, None),
    ("gone", "gone", BEFORE): (EventStatus.REMOVED, Outcome.CANCELLED),
}
"""The state of an event, by earlier documents and the current document."""


@pytest.mark.parametrize(("before", "now", "at"), AFTERWARDS)
def test_each_document_sets_the_status_of_an_event(
    before: str, now: str, at: Micros
) -> None:
    events = recorded()
    take(events, START, *SHOWN["Started" if before == "Started" else "Scheduled"])
    if before == "gone":
        take(events, START, *SHOWN["gone"])
    take(events, at, *SHOWN[now])
    recorded_event = events.find(FREEZE)
    assert recorded_event is not None
    assert (recorded_event.status, recorded_event.outcome) == AFTERWARDS[
        before, now, at
    ]
    assert bool(recorded_event.removed_at) is (now == "gone")
    assert len(events.live) == (now != "gone")
    assert [shown_event.event_id for shown_event in events.all] == [FREEZE]


COUNTS = {"Scheduled": True, "Started": False, "gone": False}


@pytest.mark.parametrize("shown", COUNTS)
def test_an_approval_counts_while_an_event_is_scheduled(shown: str) -> None:
    events = recorded()
    take(events, START, *SHOWN["Scheduled"])
    take(events, START + SECOND, *SHOWN[shown])
    assert events.approve("web_0", [FREEZE], at=START + 2 * SECOND) is None
    recorded_event = events.find(FREEZE)
    assert recorded_event is not None
    assert recorded_event.is_approved is COUNTS[shown]
    # The first approval counts, and it stays.
    assert events.approve("web_1", [FREEZE], at=START + 3 * SECOND) is None
    take(events, START + 4 * SECOND, *SHOWN["Started"])
    recorded_event = events.find(FREEZE)
    assert recorded_event is not None
    approved = ("web_0", START + 2 * SECOND) if COUNTS[shown] else ("", 0)
    assert (recorded_event.approved_by, recorded_event.approved_at) == approved


def test_one_unknown_id_rejects_the_whole_approval() -> None:
    events = recorded()
    take(events, START, event())
    refusal = events.approve("web_0", [FREEZE, REBOOT], at=START)
    assert refusal == f"EventId {REBOOT} is not in this VM's document"
    assert not any(shown_event.is_approved for shown_event in events.all)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"Events":null}', b"[]"])
def test_body_that_is_not_a_document_changes_nothing(body: bytes) -> None:
    events = recorded()
    take(events, START, event())
    before = events.live
    events.take(body, at=START + SECOND)
    assert events.live == before


def test_event_of_unknown_type_can_be_approved() -> None:
    events = recorded()
    take(events, START, event(REBOOT, event_type="Levitate"))
    assert events.live == []
    assert events.approve("web_0", [REBOOT], at=START) is None


def test_underscore_of_preview_names_is_removed() -> None:
    content = {"DocumentIncarnation": 1, "Events": [event(vms=["_web_0"])]}
    events = recorded("2017-03-01")
    events.take(json.dumps(content).encode(), at=START)
    assert events.live[0].names("web_0")
