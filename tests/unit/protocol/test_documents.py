"""The bytes of documents."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.instants import parse_instant
from forewarn.protocol import documents, versions
from forewarn.protocol.actors import vm_actor
from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Outcome,
    Resource,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "metadata"

MIGRATION = Event(
    event_id="C7061BAC-AFDC-4513-B24B-AA5F13A16123",
    operation="op-1",
    scope="west",
    tenant="shop",
    status=EventStatus.SCHEDULED,
    event_type=EventType.FREEZE,
    source=EventSource.PLATFORM,
    resources=(
        Resource(vm="w0", name="WestNO_0", fault_domain=0),
        Resource(vm="w1", name="WestNO_1", fault_domain=1),
    ),
    not_before=parse_instant("2022-04-11T22:26:58Z"),
    description=(
        "Virtual machine is being paused because of a memory-preserving Live "
        "Migration operation."
    ),
    duration_seconds=5,
    created=0,
)
STARTED = replace(MIGRATION, status=EventStatus.STARTED)


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


@pytest.mark.clause("2.1", "2.5", "2.10")
@pytest.mark.parametrize(
    ("number", "events"),
    [(1, ()), (2, (MIGRATION,)), (3, (STARTED,)), (4, ())],
)
def test_the_worked_example_is_served_exactly(
    number: int, events: tuple[Event, ...]
) -> None:
    assert documents.render(number, events, versions.NEWEST) == golden(
        f"worked_example_{number}.json"
    )


@pytest.mark.clause("1.4", "2.2", "2.3", "2.7", "2.8", "2.9")
@pytest.mark.parametrize("version", versions.VERSIONS, ids=lambda v: v.name)
def test_each_version_matches_its_golden_document(version: versions.ApiVersion) -> None:
    events = [
        replace(
            MIGRATION, event_type=kind, event_id=f"{at}" * 8 + MIGRATION.event_id[8:]
        )
        for at, kind in enumerate(EventType)
    ]
    rendered = documents.render(7, [*events, STARTED], version)
    assert rendered == golden(f"document_{version.name}.json")


@pytest.mark.clause("1.5", "2.1")
def test_a_document_of_hidden_events_is_empty() -> None:
    event = replace(MIGRATION, event_type=EventType.TERMINATE)
    rendered = documents.render(3, [event], versions.VERSIONS[1])
    assert rendered == b'{"DocumentIncarnation":3,"Events":[]}'


@pytest.mark.clause("2.7")
def test_not_before_is_rfc_1123_and_empty_after_the_start() -> None:
    scheduled = json.loads(documents.render(1, [MIGRATION], versions.NEWEST))
    started = json.loads(documents.render(1, [STARTED], versions.NEWEST))
    assert scheduled["Events"][0]["NotBefore"] == "Mon, 11 Apr 2022 22:26:58 GMT"
    assert started["Events"][0]["NotBefore"] == ""


@pytest.mark.clause("2.6")
@pytest.mark.parametrize("status", [EventStatus.NEW, EventStatus.REMOVED])
def test_an_event_that_is_not_live_is_never_rendered(status: EventStatus) -> None:
    with pytest.raises(AssertionError):
        documents.render(1, [replace(MIGRATION, status=status)], versions.NEWEST)


@pytest.mark.clause("2.1", "2.8")
@given(st.text(), st.text(), st.integers(-1, 10**6))
def test_any_text_is_rendered_losslessly(
    name: str, description: str, seconds: int
) -> None:
    event = replace(
        MIGRATION,
        resources=(Resource(vm="v", name=name, fault_domain=0),),
        description=description,
        duration_seconds=seconds,
    )
    rendered = documents.render(1, [event], versions.NEWEST)
    assert rendered.isascii()
    members = json.loads(rendered)["Events"][0]
    assert members["Resources"] == [name]
    assert members["Description"] == description
    assert members["DurationInSeconds"] == seconds


@pytest.mark.clause("2.1")
def test_lone_surrogate_is_escaped() -> None:
    event = replace(MIGRATION, description="\ud800")
    assert rb"\ud800" in documents.render(1, [event], versions.NEWEST)


@pytest.mark.clause("2.10")
def test_digest_depends_only_on_visible_content() -> None:
    base = documents.digest([MIGRATION])
    assert documents.digest([MIGRATION]) == base
    assert (
        documents.digest([replace(MIGRATION, approver=vm_actor("w0"), revision=9)])
        == base
    )
    others = [
        [],
        [STARTED],
        [MIGRATION, MIGRATION],
        [replace(MIGRATION, description="other")],
        [replace(MIGRATION, event_type=EventType.TERMINATE)],
        [replace(MIGRATION, not_before=MIGRATION.not_before + 1_000_000)],
    ]
    assert len({base, *map(documents.digest, others)}) == len(others) + 1


@pytest.mark.clause("2.10")
def test_events_that_look_alike_have_equal_digests() -> None:
    others: dict[str, object] = {
        "operation": "op-2",
        "tenant": "office",
        "status": EventStatus.STARTED,
        "event_type": EventType.REBOOT,
        "source": EventSource.USER,
        "resources": MIGRATION.resources[:1],
        "not_before": MIGRATION.not_before + 1_000_000,
        "description": "",
        "duration_seconds": 9,
        "created": MIGRATION.created + 1,
        "approver": vm_actor("w0"),
        "approved_at": 1,
        "started_at": 1,
        "removed_at": 1,
        "outcome": Outcome.FAILED,
        "shown_in": ("web",),
        "is_planned_work": not MIGRATION.is_planned_work,
        "revision": 1,
    }
    names = {field.name for field in fields(Event)}
    assert names - {"event_id", "scope"} == {*others}, "those never change"
    for name, value in others.items():
        other = replace(MIGRATION, **{name: value})
        is_same = documents.digest([other]) == documents.digest([MIGRATION])
        assert documents.look_alike(MIGRATION, other) is is_same, name


@pytest.mark.clause("2.10")
def test_document_does_not_depend_on_cached_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(documents, "_REMEMBERED_MAX", 3)
    events = [replace(MIGRATION, description=f"text {number}") for number in range(5)]
    for some in (events, events[:2], events[2:], events):
        shown = json.loads(documents.render(1, some, versions.NEWEST))["Events"]
        assert [event["Description"] for event in shown] == [
            event.description for event in some
        ]
        assert b"text" not in documents.render(1, some, versions.VERSIONS[1])
    again = [replace(event) for event in events]
    assert documents.digest(again) == documents.digest(events)


@pytest.mark.clause("2.10")
def test_the_digest_is_stable_across_releases() -> None:
    # Another value would raise every incarnation at an upgrade.
    assert documents.digest([]) == "4f53cda18c2baa0c0354bb5f9a3ecbe5"
