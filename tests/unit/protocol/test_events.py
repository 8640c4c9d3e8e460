"""Events as values."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from forewarn.protocol.actors import vm_actor
from forewarn.protocol.events import (
    DURATION_UNKNOWN,
    LIVE_STATUSES,
    Event,
    EventSource,
    EventStatus,
    EventType,
    Resource,
)

EVENT = Event(
    event_id="C7061BAC-AFDC-4513-B24B-AA5F13A16123",
    operation="op-1",
    scope="web",
    tenant="shop",
    status=EventStatus.SCHEDULED,
    event_type=EventType.FREEZE,
    source=EventSource.PLATFORM,
    resources=(
        Resource(vm="shop-a", name="a", fault_domain=0),
        Resource(vm="shop-b", name="b", fault_domain=0),
    ),
    not_before=0,
    description="",
    duration_seconds=DURATION_UNKNOWN,
    created=0,
)


@pytest.mark.clause("2.4", "2.6", "2.8", "2.9")
def test_wire_values_are_unchanged() -> None:
    assert [event_type.value for event_type in EventType] == [
        "Freeze",
        "Reboot",
        "Redeploy",
        "Preempt",
        "Terminate",
    ]
    assert {status.value for status in LIVE_STATUSES} == {"Scheduled", "Started"}
    assert [source.value for source in EventSource] == ["Platform", "User"]
    assert DURATION_UNKNOWN == -1


@pytest.mark.parametrize("status", EventStatus)
def test_scheduled_and_started_are_live(status: EventStatus) -> None:
    live = replace(EVENT, status=status).is_live
    assert live is (status.value in {"Scheduled", "Started"})


def test_event_names_matches_keys_and_not_wire_names() -> None:
    assert EVENT.names("shop-b")
    assert not EVENT.names("b")


def test_event_with_an_approver_is_approved() -> None:
    assert not EVENT.is_approved
    assert replace(EVENT, approver=vm_actor("shop-a")).is_approved


def test_event_is_immutable_and_keyed_by_its_id() -> None:
    assert EVENT.key == EVENT.event_id
    with pytest.raises(FrozenInstanceError):
        EVENT.status = EventStatus.STARTED  # pyright: ignore[reportAttributeAccessIssue]
