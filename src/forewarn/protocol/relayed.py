"""Published values as JSON, for the relay of a host.

A relay serves the documents of the VMs of its host. It gets from an event only what a
document shows, so it learns nothing that its VMs do not see. Both directions are here:
the service writes, and the relay reads, which raises ValueError for anything else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, TypeVar, cast

from forewarn.protocol.events import (
    LIVE_STATUSES,
    Event,
    EventSource,
    EventStatus,
    EventType,
    Resource,
)
from forewarn.protocol.published import Guest, ViewSnapshot

T = TypeVar("T")

_BOOLEANS = ("false", "true")

_ENCODER = json.JSONEncoder(separators=(",", ":"))


def view_text(view: ViewSnapshot) -> str:
    """Return a view as JSON."""
    return text_of_view(
        view.view_id,
        enabled=view.enabled,
        epoch=view.epoch,
        incarnation=view.incarnation,
        ready_at=view.ready_at,
        events=",".join([_text(_event_members(event)) for event in view.events]),
    )


def text_of_view(
    view_id: str,
    *,
    enabled: bool,
    epoch: int,
    incarnation: int,
    ready_at: int,
    events: str = "",
) -> str:
    """Return a view as JSON; `events` are texts, most often none.

    To join texts takes a third of the time of an encoder, and after a restart of the
    service all views are written at once.
    """
    return (
        f'{{"view":{_quoted(view_id)},"enabled":{_BOOLEANS[enabled]},'
        f'"epoch":{epoch},"incarnation":{incarnation},'
        f'"ready_at":{ready_at},"events":[{events}]}}'
    )


def guest_text(guest: Guest, instance: Mapping[str, Any]) -> str:
    """Return a VM as JSON, with the members of its instance document."""
    return text_of_guest(
        guest.vm, guest.view_id, guest.vm_id, guest.addresses, instance
    )


def text_of_guest(
    vm: str,
    view_id: str,
    vm_id: str,
    addresses: Iterable[str],
    instance: Mapping[str, Any],
) -> str:
    """Return a VM as JSON, as `guest_text` does, without a value for it."""
    listed = ",".join(map(_quoted, addresses))
    members = ",".join(
        [
            f'"{name}":{_quoted(value) if type(value) is str else _text(value)}'
            for name, value in instance.items()
        ]
    )
    return (
        f'{{"vm":{_quoted(vm)},"view":{_quoted(view_id)},'
        f'"vm_id":{_quoted(vm_id)},"addresses":[{listed}],'
        f'"instance":{{{members}}}}}'
    )


def view_of(value: object) -> ViewSnapshot:
    """Return the view in a JSON value; raises ValueError."""
    members = _members(value)
    events = _list(members, "events")
    return ViewSnapshot(
        view_id=_str(members, "view"),
        # Views are enabled together by the service only.
        enabling="",
        enabled=_bool(members, "enabled"),
        epoch=_int(members, "epoch"),
        incarnation=_int(members, "incarnation"),
        ready_at=_int(members, "ready_at"),
        events=tuple(map(_event_of, events)),
    )


def guest_of(value: object) -> Guest:
    """Return the VM in a JSON value; raises ValueError."""
    members = _members(value)
    return Guest(
        vm=_str(members, "vm"),
        view_id=_str(members, "view"),
        vm_id=_str(members, "vm_id"),
        addresses=tuple(_texts(members, "addresses")),
        # A relay has one listener for all VMs of its host.
        listen="",
    )


def _event_members(event: Event) -> dict[str, Any]:
    return {
        "id": event.event_id,
        "status": event.status.value,
        "type": event.event_type.value,
        "source": event.source.value,
        "resources": [resource.name for resource in event.resources],
        "not_before": event.not_before,
        "description": event.description,
        "duration": event.duration_seconds,
    }


def _event_of(value: object) -> Event:
    """Return an event with what a document shows; the rest of it is empty."""
    members = _members(value)
    status = EventStatus(_str(members, "status"))
    if status not in LIVE_STATUSES:
        raise ValueError(f"no document shows the status {status.value}")
    names = _texts(members, "resources")
    return Event(
        event_id=_str(members, "id"),
        operation="",
        scope="",
        tenant="",
        status=status,
        event_type=EventType(_str(members, "type")),
        source=EventSource(_str(members, "source")),
        resources=tuple(Resource(vm=name, name=name, fault_domain=0) for name in names),
        not_before=_int(members, "not_before"),
        description=_str(members, "description"),
        duration_seconds=_int(members, "duration"),
        created=0,
    )


def _text(value: object) -> str:
    return _ENCODER.encode(value)


def _members(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", _typed(value, "a value", dict))


def _str(members: Mapping[str, object], name: str) -> str:
    return _typed(members.get(name), name, str)


def _int(members: Mapping[str, object], name: str) -> int:
    return _typed(members.get(name), name, int)


def _bool(members: Mapping[str, object], name: str) -> bool:
    return _typed(members.get(name), name, bool)


def _list(members: Mapping[str, object], name: str) -> list[object]:
    return cast("list[object]", _typed(members.get(name), name, list))


def _texts(members: Mapping[str, object], name: str) -> list[str]:
    return [_typed(text, name, str) for text in _list(members, name)]


def _typed(value: object, name: str, kind: type[T]) -> T:
    """Return a value whose type is `kind`; raises ValueError."""
    # Not isinstance: Python counts True as an integer, and JSON does not.
    if type(value) is not kind:
        raise ValueError(f"{name} is not of type {kind.__name__}")
    return cast("T", value)
