"""What must hold between the rows of the fleet: hosts, scopes, VMs and views."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

from forewarn.fleet import checks
from forewarn.fleet import views as fleet_views
from forewarn.fleet.capacity import capacity_of, taken_by
from forewarn.fleet.model import HostState, VmState
from forewarn.protocol import documents, views
from forewarn.protocol.events import EventStatus
from forewarn.protocol.operations import (
    STARTED_STATES,
    OperationState,
)
from forewarn.store.contents import Contents, those, unknown


def references(contents: Contents) -> Iterator[str]:
    """Tell of names that nothing has (the rest is the fleet's own rules)."""
    for scope in contents.scopes.values():
        me = f"scope {scope.name} is of tenant"
        yield from unknown(me, {scope.tenant}, contents.tenants)
    for vm in contents.vms.values():
        places = {vm.host, vm.moving_to} - {""}
        for host in sorted(places - contents.hosts.keys()):
            yield f"vm {vm.name} is on host {host}, or moves there, which is not there"
        yield from unknown(f"vm {vm.name} is of scope", {vm.scope}, contents.scopes)
    for view in contents.views.values():
        me = f"view {view.view_id} is of scope"
        yield from unknown(me, {view.scope}, contents.scopes)


def fleet(contents: Contents) -> Iterator[str]:
    """Tell what a fleet file would be refused for: one host and one fault domain
    of a scope, capacity, names, addresses."""
    found = checks.check_fleet(
        contents.tenants.values(),
        contents.scopes.values(),
        contents.hosts.values(),
        contents.vms.values(),
    )
    for problem in found:
        yield f"the fleet is not sound: {problem}"


def seats(contents: Contents) -> Iterator[str]:
    """6.1, 6.2, 7.2: every VM has its view, and every view its VMs."""
    if any(references(contents)):
        return  # They were reported, and nothing can be computed.
    settled = fleet_views.settle(
        contents.vms.values(), scopes=contents.scopes, hosts=contents.hosts
    )
    used: set[str] = set()
    for vm in contents.live_vms:
        right = settled[vm.name]
        me = f"vm {vm.name} is served view {vm.view}"
        yield from those(
            (
                vm.tenant != right.tenant,
                f"vm {vm.name} is of tenant {vm.tenant}, its scope of {right.tenant}",
            ),
            (vm.view != right.view, f"{me} instead of {right.view}"),
            (vm.view not in contents.views, f"{me}, which is not there"),
        )
        used.add(vm.view)
    for view_id in sorted(contents.views.keys() - used):
        yield f"view {view_id} is served to no vm"


def enablings(contents: Contents) -> Iterator[str]:
    """7.1, 7.2: what one request enables is enabled together, and each delay ends."""
    enabled = defaultdict[str, set[bool]](set)
    for view in contents.views.values():
        enabled[view.enabling].add(view.is_enabled)
        has_begun = view.epoch > 0 and view.incarnation > 0
        ends = [end for end in (view.ready_at, view.events_from) if end]
        me = f"view {view.view_id}"
        yield from those(
            (
                view.is_enabled and not has_begun,
                f"{me} is enabled and has never begun",
            ),
            (
                view.due_at != min(ends, default=0),
                f"{me} has a delay that no timer ends, or a timer of none",
            ),
            (ends and not view.is_enabled, f"{me} is disabled and has a delay"),
        )
    for key, states in enabled.items():
        if len(states) > 1:
            yield f"of the views of {key} some are enabled and some are not"


def incarnations(contents: Contents) -> Iterator[str]:
    """2.10: an incarnation names what the document shows."""
    for view in contents.views.values():
        if not view.is_enabled:
            continue
        shown = [
            event
            for event in contents.live_events_of_scope.get(view.scope, [])
            if views.sees(view, event)
        ]
        shown.sort(key=lambda event: event.place)
        # Nothing is shown before the first-events delay is over (7.1).
        if view.digest != documents.digest(shown if view.shows_events else []):
            yield (
                f"view {view.view_id} stands at incarnation {view.incarnation} of "
                "another content than its events are; the next start raises it"
            )


def marks(contents: Contents) -> Iterator[str]:
    """3.2: what a document shows is marked with its view, to stay approvable."""
    unsound = [
        event.event_id
        for event in contents.events.values()
        if not all(map(views.is_mark, event.shown_in))
    ]
    yield from (f"event {event_id} has a mark that is none" for event_id in unsound)
    for vm in contents.vms.values():
        if not all(map(views.is_mark, vm.left_views)):
            yield f"vm {vm.name} has a mark that is none"
    for view in contents.views.values() if not unsound else ():
        for event in contents.live_events_of_scope.get(view.scope, []):
            if (
                view.shows_events
                and views.sees(view, event)
                and not views.was_shown_in(event, view)
            ):
                yield (
                    f"event {event.event_id} is shown in view {view.view_id}, and "
                    "could not be approved after a change of views"
                )


def started_lists(contents: Contents) -> Iterator[str]:
    """6.3: a VM knows what has started on it, and where it is going."""
    started = defaultdict[str, set[str]](set)
    going: dict[str, str] = {}
    for operation in contents.open_operations:
        for move in operation.moves:
            if operation.state in STARTED_STATES:
                started[move.vm].add(operation.operation_id)
            if operation.state is OperationState.IMPACTING and not move.done:
                going[move.vm] = going.get(move.vm) or move.to_host
    for vm in contents.vms.values():
        right = started[vm.name]
        for operation_id in sorted(set(vm.started) ^ right):
            where = "does not know of" if operation_id in right else "still names"
            yield f"vm {vm.name} {where} operation {operation_id}, as to what has started"
        if vm.moving_to != going.get(vm.name, ""):
            yield (
                f"host {vm.moving_to or going[vm.name]} and vm {vm.name} disagree "
                "whether a place is kept there"
            )


def down_is_told(contents: Contents) -> Iterator[str]:
    """4.7, 5.5: who is down is named by a Started event until it runs again."""
    named = {
        resource.vm
        for events in contents.live_events_of_scope.values()
        for event in events
        if event.status is EventStatus.STARTED
        for resource in event.resources
    }
    for vm in contents.live_vms:
        host = contents.hosts.get(vm.host)
        is_on_dead_host = host is not None and host.state is HostState.DOWN
        yield from those(
            (
                vm.state is VmState.DOWN and vm.name not in named,
                f"vm {vm.name} is down and no Started event names it",
            ),
            (
                vm.state is VmState.RUNNING and is_on_dead_host,
                f"vm {vm.name} runs on host {vm.host}, which is down",
            ),
        )


def rooms(contents: Contents) -> Iterator[str]:
    """6.3: the places that are kept of each host are those that are there."""
    used = Counter(name for vm in contents.vms.values() for name in taken_by(vm))
    works = Counter(
        operation.host
        for operation in contents.open_operations
        if operation.occupies_host
    )
    for name in sorted(contents.rooms.keys() - contents.hosts.keys()):
        yield f"places are kept of host {name}, which is not there"
    for name, host in contents.hosts.items():
        kept = contents.rooms.get(name)
        if kept is None:
            yield f"no places are kept of host {name}"
            continue
        right = capacity_of(
            host, used=used[name], works=works[name], done_in=kept.done_in
        )
        if replace(kept, revision=0) != right:
            yield (
                f"host {name} has {right.used} of {right.places} places taken and "
                f"{right.works} operations; {kept.used} of {kept.places} and "
                f"{kept.works} are kept, or its zone or state differs"
            )
