"""Views: who sees what, and what enabling means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Resource,
)
from forewarn.protocol.lifecycle import ViewInput, ViewState
from forewarn.protocol.views import (
    ANY_VIEW,
    View,
    end_delays,
    is_mark,
    mark_of,
    sees,
    step_view,
    was_shown_before,
)

SHARED = View(view_id="web", scope="web", enabling="web")
ALONE = View(view_id="gpu/g_0", scope="gpu", enabling="gpu", vm="g_0")


def event(scope: str, *vms: str) -> Event:
    return Event(
        event_id="C7061BAC-AFDC-4513-B24B-AA5F13A16123",
        operation="op-1",
        scope=scope,
        tenant="shop",
        status=EventStatus.SCHEDULED,
        event_type=EventType.FREEZE,
        source=EventSource.PLATFORM,
        resources=tuple(Resource(vm=vm, name=vm, fault_domain=0) for vm in vms),
        not_before=0,
        description="",
        duration_seconds=0,
        created=0,
    )


@pytest.mark.clause("6.1")
def test_a_view_sees_every_event_of_its_scope_and_no_other() -> None:
    assert sees(SHARED, event("web", "a"))
    assert not sees(SHARED, event("db", "a"))


@pytest.mark.clause("6.2")
def test_view_for_one_vm_sees_the_events_that_name_it() -> None:
    assert sees(ALONE, event("gpu", "g_1", "g_0"))
    assert not sees(ALONE, event("gpu", "g_1"))
    assert not sees(ALONE, event("web", "g_0"))


@pytest.mark.clause("2.10", "7.1", "7.3")
def test_each_enabling_starts_a_new_epoch() -> None:
    old = replace(SHARED, epoch=3, incarnation=9, digest="x", last_seen=1)
    enabled = step_view(old, ViewInput.ASKED, now=10, ready_at=12, events_from=15)
    assert enabled == replace(
        old,
        state=ViewState.ENABLED,
        epoch=4,
        incarnation=1,
        digest="",
        ready_at=12,
        events_from=15,
        due_at=12,
        last_seen=10,
    )
    assert enabled.is_enabled
    assert not old.is_enabled


@pytest.mark.clause("7.1")
def test_each_delay_ends_separately() -> None:
    enabled = step_view(SHARED, ViewInput.ASKED, now=10, ready_at=12, events_from=15)
    assert end_delays(enabled, until=11) == enabled
    ready = end_delays(enabled, until=12)
    assert (ready.ready_at, ready.events_from, ready.due_at) == (0, 15, 15)
    assert not ready.shows_events
    over = end_delays(ready, until=15)
    assert (over.ready_at, over.events_from, over.due_at) == (0, 0, 0)
    assert over.shows_events


@pytest.mark.clause("7.1", "7.3")
def test_disabling_ends_the_delays() -> None:
    enabled = step_view(SHARED, ViewInput.ASKED, now=10, ready_at=12, events_from=15)
    silent = step_view(enabled, ViewInput.SILENT, now=11)
    assert (silent.ready_at, silent.events_from, silent.due_at) == (0, 0, 0)
    assert not silent.shows_events


@pytest.mark.clause("7.1")
@pytest.mark.parametrize("events_from", [0, 10])
def test_without_a_delay_nothing_is_due(events_from: int) -> None:
    enabled = step_view(SHARED, ViewInput.ASKED, now=10, events_from=events_from)
    assert enabled.due_at == 0


@pytest.mark.clause("7.1")
def test_request_keeps_a_view_enabled_and_changes_nothing_else() -> None:
    enabled = replace(SHARED, state=ViewState.ENABLED, incarnation=5, last_seen=10)
    assert step_view(enabled, ViewInput.ASKED, now=20) == replace(enabled, last_seen=20)
    # Sightings may come late.
    assert step_view(enabled, ViewInput.ASKED, now=5) == enabled


@pytest.mark.clause("7.3")
def test_view_without_requests_is_disabled() -> None:
    enabled = replace(SHARED, state=ViewState.ENABLED, epoch=2, due_at=9)
    silent = step_view(enabled, ViewInput.SILENT, now=20)
    assert silent == replace(enabled, state=ViewState.DISABLED, due_at=0)


def test_a_view_is_found_by_its_id() -> None:
    assert ALONE.key == "gpu/g_0"


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (("web 2 5",), True),
        (("web 1 9",), False),
        (("web 2 4",), False),
        (("db 9 9",), False),
        ((), False),
    ],
)
def test_event_shown_before_a_vm_left_the_view_is_recognized(
    left: tuple[str, ...], expected: bool
) -> None:
    shown = replace(event("web", "a"), shown_in=("web 2 5",))
    assert was_shown_before(shown, left) is expected


@pytest.mark.parametrize(
    ("left", "expected"),
    [("web 1 1", True), ("web@1 1 1", True), ("web/a 3 2", True), ("db 1 1", False)],
)
def test_events_of_0_1_0_were_shown_in_every_view_of_their_scope(
    left: str, expected: bool
) -> None:
    """Version 0.1.0 did not store which views showed an event."""
    shown = replace(event("web", "a"), shown_in=(ANY_VIEW,))
    assert was_shown_before(shown, (left,)) is expected


@pytest.mark.parametrize("text", [mark_of(SHARED), mark_of(ALONE), ANY_VIEW])
def test_view_mark_is_recognized(text: str) -> None:
    assert is_mark(text)


@pytest.mark.parametrize("text", ["", "web", "web 1", "web 1 x", "web 1 2 3", "web  1"])
def test_other_text_is_not_a_view_mark(text: str) -> None:
    assert not is_mark(text)
