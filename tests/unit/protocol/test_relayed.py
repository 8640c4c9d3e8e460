"""Published values as JSON: a relay renders the same bytes, and trusts no message."""

import json
from dataclasses import replace
from typing import Any

import pytest

from forewarn.protocol import documents, relayed
from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Resource,
)
from forewarn.protocol.published import Guest, ViewSnapshot
from forewarn.protocol.versions import VERSIONS

EVENT = Event(
    event_id="602D9444-D2CD-49C7-8624-8643E7171297",
    operation="op-1",
    scope="web",
    tenant="shop",
    status=EventStatus.SCHEDULED,
    event_type=EventType.FREEZE,
    source=EventSource.PLATFORM,
    resources=(Resource(vm="key of web_0", name="web_0", fault_domain=2),),
    not_before=1_893_456_000_000_000,
    description="Größe \ud800",
    duration_seconds=5,
    created=7,
    shown_in=("web 1 2",),
)
VIEW = ViewSnapshot(
    view_id="web",
    enabling="web",
    enabled=True,
    epoch=2,
    incarnation=3,
    ready_at=4,
    events=(EVENT, replace(EVENT, event_id="X", status=EventStatus.STARTED)),
)
GUEST = Guest(
    vm="web_0",
    view_id="web",
    vm_id="13f56399-bd52-4150-9748-7190aae1ff21",
    addresses=("192.0.2.4", "2001:db8::4"),
    listen="127.0.0.1:8301",
)


def test_a_relay_renders_the_same_bytes_in_each_version() -> None:
    view = relayed.view_of(json.loads(relayed.view_text(VIEW)))
    for version in VERSIONS:
        assert documents.render(3, view.events, version) == documents.render(
            3, VIEW.events, version
        )
    assert replace(view, events=()) == replace(VIEW, events=(), enabling="")


def test_a_relay_learns_nothing_that_its_vms_do_not_see() -> None:
    text = relayed.view_text(VIEW)
    for secret in ("op-1", "shop", "key of web_0", "web 1 2"):
        assert secret not in text


def test_a_relay_has_no_listener_of_a_single_vm() -> None:
    guest = relayed.guest_of(json.loads(relayed.guest_text(GUEST, {})))
    assert guest == replace(GUEST, listen="")


_VIEW: Any = json.loads(relayed.view_text(VIEW))
_GUEST: Any = json.loads(relayed.guest_text(GUEST, {}))


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        "web",
        {},
        {**_VIEW, "view": 1},
        {**_VIEW, "enabled": 1},
        {**_VIEW, "epoch": True},
        {**_VIEW, "incarnation": "3"},
        {**_VIEW, "events": {}},
        {**_VIEW, "events": [None]},
        {**_VIEW, "events": [{**_VIEW["events"][0], "status": "Removed"}]},
        {**_VIEW, "events": [{**_VIEW["events"][0], "type": "Explode"}]},
        {**_VIEW, "events": [{**_VIEW["events"][0], "resources": [1]}]},
    ],
)
def test_a_wrong_view_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        relayed.view_of(wrong)


@pytest.mark.parametrize(
    "wrong", [None, {}, {**_GUEST, "addresses": "192.0.2.4"}, {**_GUEST, "vm": None}]
)
def test_a_wrong_vm_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        relayed.guest_of(wrong)


@pytest.mark.parametrize("events", [(), VIEW.events])
def test_view_is_the_text_of_a_json_encoder(events: tuple[Event, ...]) -> None:
    text = relayed.view_text(replace(VIEW, view_id='a "b" é\\ \ud800', events=events))
    assert text == json.dumps(json.loads(text), separators=(",", ":"))


def test_vm_is_the_text_of_a_json_encoder() -> None:
    instance = {"name": 'x "y" é', "spot": True, "tags": [["a", "ü"]], "domain": 3}
    for guest in (GUEST, replace(GUEST, addresses=())):
        text = relayed.guest_text(guest, instance)
        assert text == json.dumps(json.loads(text), separators=(",", ":"))
        assert json.loads(text)["instance"] == instance
