"""The responses that every VM has ever received, and the checks of the next one.

A VM's *stay* is the time in which its numbers must not fall (2.10): it ends when its
scope is disabled, whatever views it is served meanwhile.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from forewarn.fleet.model import Vm, VmState
from forewarn.instants import Micros, format_http_date
from forewarn.protocol.events import Event, EventStatus, EventType
from forewarn.protocol.views import View
from tests.support.moments import seen_by
from tests.support.watched import Change, Mirror
from tests.support.worlds import Answer

VERSIONS = (
    "2017-03-01",
    "2017-08-01",
    "2017-11-01",
    "2019-01-01",
    "2019-04-01",
    "2019-08-01",
    "2020-07-01",
)


@dataclass(slots=True)
class _Guest:
    stay: int = 0
    view: str = ""
    highest: int = 0
    """The highest incarnation of this stay."""
    bodies: dict[tuple[int, str], bytes] = field(
        default_factory=dict[tuple[int, str], bytes]
    )
    shown: set[str] = field(default_factory=set[str])
    gone: set[str] = field(default_factory=set[str])
    known: dict[str, str] = field(default_factory=dict[str, str])
    """Every EventId that it ever saw, with the scope it was in."""
    statuses: dict[str, str] = field(default_factory=dict[str, str])

    def begin_stay(self) -> None:
        self.stay += 1
        self.highest = 0
        for forgotten in (self.bodies, self.shown, self.gone):
            forgotten.clear()


class Guests:
    """All VMs of a fleet, as clients that never forget."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._guests: dict[str, _Guest] = {}
        self._stood: dict[str, tuple[bool, int]] = {}
        """Each view before the last commit: whether enabled, and its epoch."""

    def of(self, vm: str) -> _Guest:
        return self._guests.setdefault(vm, _Guest())

    def committed(self, changes: list[Change]) -> None:
        """Note which stays end with a commit."""
        for vm in [guest for guest in self._guests if guest not in self._mirror.vms]:
            del self._guests[vm]
        for vm in self._mirror.live_vms:
            guest = self.of(vm.name)
            if self._ends_stay(guest.view, vm):
                guest.begin_stay()
            if guest.view != vm.view:
                # The visibility of events has changed with it, and can change back.
                for forgotten in (guest.shown, guest.gone):
                    forgotten.clear()
            guest.view = vm.view
        if any(isinstance(change.before or change.after, View) for change in changes):
            self._stood = {
                view.view_id: (view.is_enabled, view.epoch)
                for view in self._mirror.views.values()
            }

    def _ends_stay(self, old: str, vm: Vm) -> bool:
        before, was = self._stood.get(old, (False, 0))
        view = self._mirror.views[vm.view]
        if old != vm.view:
            assert view.is_enabled or not before, f"7.2: {vm.name} has listened"
            return not before
        return not before or not view.is_enabled or view.epoch != was

    # Answers

    def shown_to(self, vm: Vm, *, now: Micros) -> list[Event]:
        """Return the events of the VM's document; none in the first minutes (7.1)."""
        view = self._mirror.views[vm.view]
        if not view.shows_events:
            return []
        return seen_by(self._mirror, vm)

    def heard(self, vm: Vm, version: str, answer: Answer, *, now: Micros) -> None:
        """Judge a full document (S6, S7, S8, S9)."""
        guest = self.of(vm.name)
        view = self._mirror.views[vm.view]
        number = answer.incarnation
        assert number == view.incarnation, (answer, view)
        assert answer.headers["etag"] == f'"{number}"', answer
        assert number >= guest.highest, f"S8: {vm.name} fell to {number}: {guest}"
        known = guest.bodies.setdefault((number, version), answer.body)
        assert known == answer.body, f"S8: {vm.name} got two documents {number}"
        guest.highest = number
        shown = [
            event
            for event in self.shown_to(vm, now=now)
            if not is_hidden(event, version)
        ]
        assert json.loads(answer.body)["Events"] == [
            members(event, version) for event in shown
        ], "S9: not what the scope shows"
        self._note_events(guest, vm, shown, complete=version >= "2019-01-01")

    def _note_events(
        self, guest: _Guest, vm: Vm, shown: list[Event], *, complete: bool
    ) -> None:
        ids = {event.event_id for event in shown}
        assert not ids & guest.gone, "S7: an event has come back"
        if complete:
            guest.gone |= guest.shown - ids
            guest.shown = ids
        for event in shown:
            before = guest.statuses.get(event.event_id)
            assert (before, event.status.value) != ("Started", "Scheduled"), "S7"
            guest.statuses[event.event_id] = event.status.value
            guest.known[event.event_id] = event.scope

    def heard_nothing_new(self, vm: Vm, tag: str) -> None:
        """Judge a 304: only to who has the very document (1.10)."""
        guest = self.of(vm.name)
        view = self._mirror.views[vm.view]
        assert tag == str(view.incarnation), (vm, tag)
        assert guest.bodies, f"1.10: {vm.name} has got nothing in full"

    def must_accept(self, vm: Vm, *, now: Micros) -> set[str]:
        """Return the EventIds that an approval may name (3.2)."""
        if vm.state is VmState.DELETED:
            return set()
        guest = self.of(vm.name)
        view = self._mirror.views[vm.view]
        shows = view.shows_events
        shown = {event.event_id for event in self.shown_to(vm, now=now)}
        remembered = {
            event_id
            for event_id in guest.known
            if (event := self._mirror.events.get(event_id)) is not None
            # A disabled scope does not approve (3.5).
            and (shows or not event.is_live)
        }
        return shown | remembered

    def must_refuse(self, vm: Vm) -> set[str]:
        """Return the EventIds that it never could have seen (3.3)."""
        known = self.of(vm.name).known
        return {
            event.event_id
            for event in self._mirror.events.values()
            if event.scope != vm.scope and event.event_id not in known
        }


def is_hidden(event: Event, version: str) -> bool:
    """Return whether a version is too old for the event's type (1.5)."""
    since = {EventType.PREEMPT: "2017-11-01", EventType.TERMINATE: "2019-01-01"}
    return version < since.get(event.event_type, "")


def members(event: Event, version: str) -> dict[str, Any]:
    """Return what a version shows of an event (1.4, 2.2)."""
    prefix = "_" if version == "2017-03-01" else ""
    scheduled = event.status is EventStatus.SCHEDULED
    shown: dict[str, Any] = {
        "EventId": event.event_id,
        "EventStatus": event.status.value,
        "EventType": event.event_type.value,
        "ResourceType": "VirtualMachine",
        "Resources": [prefix + resource.name for resource in event.resources],
        "NotBefore": format_http_date(event.not_before) if scheduled else "",
    }
    if version >= "2019-04-01":
        shown["Description"] = event.description
    if version >= "2019-08-01":
        shown["EventSource"] = event.source.value
    if version >= "2020-07-01":
        shown["DurationInSeconds"] = event.duration_seconds
    return shown
