"""Rules between the records of the fleet: hosts, scopes, VMs with their spans, and views."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

from forewarn.fleet import checks
from forewarn.fleet import views as fleet_views
from forewarn.fleet.model import (
    HostState,
    Span,
    SpanKind,
    Vm,
    VmState,
    capacity_of,
    taken_by,
    total_use,
)
from forewarn.instants import SORTABLE_DIGITS, sortable
from forewarn.protocol import documents, views
from forewarn.protocol.events import EventStatus
from forewarn.protocol.operations import (
    STARTED_STATES,
    WAITING_STATES,
    OperationState,
)
from forewarn.store.contents import Contents, first_of, unknown, violated

RESERVING_STATES = WAITING_STATES | {OperationState.IMPACTING}
"""States in which an operation can have reserved destinations."""


def references(contents: Contents) -> Iterator[str]:
    """Report references to missing records."""
    for scope in contents.scopes.values():
        me = f"scope {scope.name} is of tenant"
        yield from unknown(me, {scope.tenant}, contents.tenants)
    for vm in contents.vms.values():
        places = {vm.host, vm.moving_to} - {""}
        for host in sorted(places - contents.hosts.keys()):
            yield f"VM {vm.name} is on or moves to host {host}, which does not exist"
        yield from unknown(f"VM {vm.name} is of scope", {vm.scope}, contents.scopes)
    for view in contents.views.values():
        me = f"view {view.view_id} is of scope"
        yield from unknown(me, {view.scope}, contents.scopes)


def fleet(contents: Contents) -> Iterator[str]:
    """Report violations of the fleet file's rules: at most one fault domain of a scope
    on a host, capacity, names, addresses."""
    problems = checks.check_fleet(
        contents.tenants.values(),
        contents.scopes.values(),
        contents.hosts.values(),
        contents.vms.values(),
    )
    for problem in problems:
        yield f"the fleet is not valid: {problem}"


def abilities(contents: Contents) -> Iterator[str]:
    """Report answers of a driver that no decision can have stored."""
    for stored in contents.abilities.values():
        me = f"the abilities of host {stored.host}"
        places = [(ability.vm, ability.action) for ability in stored.told]
        yield from violated(
            (stored.host not in contents.hosts, f"{me} are of an unknown host"),
            (stored.since <= 0, f"{me} have no time"),
            (not stored.told, f"{me} are empty"),
            (len(set(places)) < len(places), f"{me} answer a question twice"),
        )


def relay_links(contents: Contents) -> Iterator[str]:
    """Report relays that no decision can have stored."""
    for link in contents.relay_links.values():
        me = f"the relay of host {link.host}"
        yield from violated(
            (link.host not in contents.hosts, f"{me} is of an unknown host"),
            (link.silent_since < 0, f"{me} is silent since no time"),
            (
                not 0 < link.term <= contents.term,
                f"{me} was heard in term {link.term}, which has not been",
            ),
        )


def view_assignments(contents: Contents) -> Iterator[str]:
    """6.1, 6.2, 7.2: every VM has the right view, and every view has VMs."""
    if any(references(contents)):
        return  # Reported elsewhere; views cannot be computed.
    settled = fleet_views.settle(
        contents.vms.values(), scopes=contents.scopes, hosts=contents.hosts
    )
    used: set[str] = set()
    for vm in contents.live_vms:
        right = settled[vm.name]
        me = f"VM {vm.name} is served view {vm.view}"
        yield from violated(
            (
                vm.tenant != right.tenant,
                f"VM {vm.name} is of tenant {vm.tenant}, but its scope is of {right.tenant}",
            ),
            (vm.view != right.view, f"{me} instead of {right.view}"),
            (vm.view not in contents.views, f"{me}, which does not exist"),
        )
        used.add(vm.view)
    for view_id in sorted(contents.views.keys() - used):
        yield f"view {view_id} has no VMs"


def enablings(contents: Contents) -> Iterator[str]:
    """7.1, 7.2: views of one request are enabled together, and each delay has an end."""
    enabled = defaultdict[str, set[bool]](set)
    for view in contents.views.values():
        enabled[view.enabling].add(view.is_enabled)
        has_begun = view.epoch > 0 and view.incarnation > 0
        ends = [end for end in (view.ready_at, view.events_from) if end]
        me = f"view {view.view_id}"
        yield from violated(
            (
                view.is_enabled and not has_begun,
                f"{me} is enabled but has no epoch or incarnation",
            ),
            (
                view.due_at != min(ends, default=0),
                f"{me} has a delay without a timer, or a timer without a delay",
            ),
            (ends and not view.is_enabled, f"{me} is disabled but has a delay"),
        )
    for key, states in enabled.items():
        if len(states) > 1:
            yield f"some views of {key} are enabled and others are not"


def incarnations(contents: Contents) -> Iterator[str]:
    """2.10: an incarnation belongs to the content of the document."""
    for view in contents.views.values():
        if not view.is_enabled:
            continue
        shown = [
            event
            for event in contents.live_events_of_scope.get(view.scope, [])
            if views.sees(view, event)
        ]
        shown.sort(key=lambda event: event.place)
        # The document is empty until the delay of the first events is over (7.1).
        if view.digest != documents.digest(shown if view.shows_events else []):
            yield (
                f"incarnation {view.incarnation} of view {view.view_id} belongs to other "
                "content than its events; the next start raises it"
            )


def marks(contents: Contents) -> Iterator[str]:
    """3.2: a shown event is marked with its view, so that it can be approved later."""
    invalid = [
        event.event_id
        for event in contents.events.values()
        if not all(map(views.is_mark, event.shown_in))
    ]
    yield from (f"event {event_id} has an invalid view mark" for event_id in invalid)
    for vm in contents.vms.values():
        if not all(map(views.is_mark, vm.left_views)):
            yield f"VM {vm.name} has an invalid view mark"
    for view in contents.views.values() if not invalid else ():
        for event in contents.live_events_of_scope.get(view.scope, []):
            if (
                view.shows_events
                and views.sees(view, event)
                and not views.was_shown_in(event, view)
            ):
                yield (
                    f"event {event.event_id} is shown in view {view.view_id} without its "
                    "mark, and could not be approved after a change of views"
                )


def started_lists(contents: Contents) -> Iterator[str]:
    """6.3: a VM lists the operations that have started on it, and its destination."""
    started = defaultdict[str, set[str]](set)
    going: dict[str, str] = {}
    for operation in contents.open_operations:
        for move in operation.moves:
            if operation.state in STARTED_STATES:
                started[move.vm].add(operation.operation_id)
            if operation.state in RESERVING_STATES and not move.done:
                going[move.vm] = going.get(move.vm) or move.to_host
    for vm in contents.vms.values():
        right = started[vm.name]
        for operation_id in sorted(set(vm.started) ^ right):
            where = "does not list" if operation_id in right else "still lists"
            yield f"VM {vm.name} {where} operation {operation_id} as started"
        if vm.moving_to != going.get(vm.name, ""):
            yield (
                f"VM {vm.name} and its operation disagree whether capacity is reserved "
                f"on host {vm.moving_to or going[vm.name]}"
            )


def announced_outages(contents: Contents) -> Iterator[str]:
    """4.7, 5.5: a Started event names each VM that is down until it runs again."""
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
        yield from violated(
            (
                vm.state is VmState.DOWN and vm.name not in named,
                f"VM {vm.name} is down, but no Started event names it",
            ),
            (
                vm.state is VmState.RUNNING and is_on_dead_host,
                f"VM {vm.name} runs on host {vm.host}, which is down",
            ),
        )


def capacities(contents: Contents) -> Iterator[str]:
    """6.3: the stored capacity of each host matches its VMs, operations and visits."""
    guests = defaultdict[str, list[Vm]](list)
    for vm in contents.vms.values():
        for name in taken_by(vm):
            guests[name].append(vm)
    works = Counter(
        operation.host
        for operation in contents.open_operations
        if operation.occupies_host
    ) + Counter(visit.host for visit in contents.visits.values() if visit.occupies_host)
    for name in sorted(contents.rooms.keys() - contents.hosts.keys()):
        yield f"there is a capacity of host {name}, which does not exist"
    for name, host in contents.hosts.items():
        stored = contents.rooms.get(name)
        if stored is None:
            yield f"there is no capacity of host {name}"
            continue
        right = capacity_of(
            host,
            use=total_use(guests[name]),
            works=works[name],
            done_in=stored.done_in,
        )
        if replace(stored, revision=0) != right:
            yield (
                f"host {name} uses {right.used} of {right.places} places and has "
                f"{right.works} operations, but its capacity has {stored.used} of "
                f"{stored.places} and {stored.works}, or another zone, pool, size or state, "
                "or a cordon"
            )


def open_spans(contents: Contents) -> Iterator[str]:
    """Report open spans that do not match the state of the VM."""
    for name in sorted(contents.open_spans.keys() - contents.vms.keys()):
        yield f"VM {name} does not exist but has an open span"
    for vm in contents.vms.values():
        spans = contents.open_spans[vm.name]
        lives = [span for span in spans if not span.is_outage]
        outages = [span for span in spans if span.is_outage]
        if vm.state is VmState.DELETED:
            if spans:
                yield f"VM {vm.name} was deleted but has an open span"
            continue
        if [(life.scope, life.tenant) for life in lives] != [(vm.scope, vm.tenant)]:
            yield f"VM {vm.name} does not have exactly one open span in scope {vm.scope}"
        yield from _wrong_outages(contents, vm, outages)


def _wrong_outages(contents: Contents, vm: Vm, outages: list[Span]) -> Iterator[str]:
    if len(outages) > 1:
        yield f"VM {vm.name} has {len(outages)} open outages at the same time"
    if vm.state is VmState.DOWN:
        if [span.kind for span in outages] != [SpanKind.FAILURE]:
            yield f"VM {vm.name} is down but has no open span of a failure"
        return
    for span in outages:
        operation = contents.operations.get(span.operation)
        if operation is None or operation.state is not OperationState.IMPACTING:
            yield f"VM {vm.name} runs but has an open outage"


def wrong_span(span: Span, contents: Contents) -> str:
    """Return the problem of one span, or nothing.

    The spans of a VM are read in the order of their IDs, which is that of their
    beginnings. Two open spans cannot be of the same sort. After the wall clock was set
    back, ended spans may overlap and be out of order.
    """
    last = contents.last_spans.get(span.is_outage, span)
    contents.last_spans[span.is_outage] = span
    written = span.span_id[len(span.vm) + 1 :][:SORTABLE_DIGITS]
    is_twice = last.vm == span.vm and last.is_open and span.is_open
    me = f"span {span.span_id} of VM {span.vm}"
    return first_of(
        (
            not span.span_id.startswith(f"{span.vm}/"),
            f"{me} has the ID of another VM",
        ),
        (span.ended and span.ended < span.began, f"{me} ends before it begins"),
        (
            sortable(span.began) < written,
            f"{me} begins before it was written",
        ),
        (
            is_twice and last is not span,
            f"spans {last.span_id} and {span.span_id} of VM {span.vm} overlap",
        ),
    )
