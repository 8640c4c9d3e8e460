"""Invariants between the rows after every commit; `invariants` has the others."""

from collections import Counter
from collections.abc import Callable

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import ScopeKind, Vm
from forewarn.protocol.events import EventStatus
from forewarn.protocol.operations import (
    ENDED_STATES,
    STARTED_STATES,
    WAITING_STATES,
    Action,
    CallState,
    OperationState,
    RequestState,
)
from forewarn.protocol.visits import STUCK_VISITS, Visit, VisitState
from forewarn.store import visit_rules
from forewarn.store.contents import Contents
from tests.support.moments import Moment, is_alone

RESERVING_STATES = WAITING_STATES | {OperationState.IMPACTING}
"""States in which an operation can have places for its VMs."""

GOING_ON = {
    VisitState.WAITING,
    VisitState.ANNOUNCED,
    VisitState.DRAINING,
    VisitState.RESTORING,
}
"""States of a visit that the end of its operation ends, by the next transaction."""


def rows_capacity(moment: Moment) -> None:
    """5.2: a place is kept for who moves in its pool, and no host is overfull."""
    hosts = moment.mirror.hosts
    taken: dict[str, list[Vm]] = {name: [] for name in hosts}
    for vm in moment.mirror.live_vms:
        for place in filter(None, {vm.host, vm.moving_to}):
            taken[place].append(vm)
            assert vm.is_observed or hosts[place].pool == hosts[vm.host].pool, vm
    for name in hosts.keys() - moment.crowded:
        host, vcpus = hosts[name], sum(vm.vcpu or 0 for vm in taken[name])
        assert host.capacity is None or len(taken[name]) <= host.capacity, host
        assert host.vcpu is None or vcpus <= host.vcpu, host


def rows_domains_of_a_host(moment: Moment) -> None:
    """6.3: no host holds two fault domains of one scope, unless a hypervisor put a VM
    there, which has a mark."""
    held: dict[tuple[str, str], set[int]] = {}
    for vm in moment.mirror.live_vms:
        for place in filter(None, {vm.host, vm.moving_to}):
            held.setdefault((place, vm.scope), set()).add(vm.fault_domain)
    marked = {(vm.host, vm.scope) for vm in moment.mirror.live_vms if vm.is_observed}
    for place, domains in held.items():
        is_observed = place[0] in moment.crowded and place in marked
        assert len(domains) == 1 or is_observed, (place, domains)


def rows_started(moment: Moment) -> None:
    """6.3: a VM knows what has started on it, and where it is going."""
    started: dict[str, set[str]] = {}
    going: dict[str, str] = {}
    for operation in moment.open():
        for move in operation.moves:
            assert move.vm in moment.mirror.vms, operation
            if operation.state in STARTED_STATES:
                started.setdefault(move.vm, set()).add(operation.operation_id)
            if operation.state in RESERVING_STATES and not move.done:
                going[move.vm] = going.get(move.vm) or move.to_host
    for vm in moment.mirror.vms.values():
        assert set(vm.started) == started.get(vm.name, set()), vm
        assert len(set(vm.started)) == len(vm.started), vm
        assert vm.moving_to == going.get(vm.name, ""), (vm, going)


def rows_operations(moment: Moment) -> None:
    """4.1, 5.5: an operation's row says one thing, and so do its events."""
    mirror = moment.mirror
    for operation in mirror.operations.values():
        live = {
            event.status
            for event in mirror.events_of(operation.operation_id)
            if event.is_live
        }
        if operation.state in WAITING_STATES:
            assert live <= {EventStatus.SCHEDULED}, operation
            assert operation.call_state is CallState.NONE, operation
        elif operation.state in STARTED_STATES:
            assert live <= {EventStatus.STARTED}, operation
        elif operation.state is OperationState.PLANNED:
            # A host that a rollout has not reached has no events.
            assert not live, operation
            assert not operation.moves, operation
            assert operation.waits_for, operation
        else:
            assert operation.state in ENDED_STATES, operation
            assert not live, operation
        if operation.state is OperationState.IMPACTING:
            if operation.visit and (not operation.generation or operation.holds_vms):
                # Its visit enters the host before the driver is called, and works on it
                # between two calls.
                assert operation.call_state is CallState.NONE, operation
                continue
            failure = operation.action is Action.NONE
            assert (operation.call_state is CallState.NONE) == failure, operation
            assert failure or operation.moves, operation


def rows_visits(moment: Moment) -> None:
    """A visit agrees with its request, its operation and its host, or it is stuck."""
    mirror = moment.mirror
    contents = Contents()
    contents.visits.update(mirror.table(Visit))
    contents.hosts.update(mirror.hosts)
    contents.requests.update(mirror.requests)
    contents.operations.update(mirror.operations)
    assert not list(visit_rules.visits(contents))
    for visit in contents.visits.values():
        operation = mirror.operations.get(visit.operation)
        follows = operation is not None and operation.state not in ENDED_STATES
        is_woken = visit.due_at or visit.state in STUCK_VISITS or follows
        # The end of an operation continues or ends its visit in the next transaction.
        assert visit.ended_at or is_woken or visit.state in GOING_ON, visit


def visits_went_on(moment: Moment) -> None:
    """A visit whose operation has ended waits for its own timer, or for a person."""
    operations = moment.mirror.operations
    for visit in moment.mirror.table(Visit).values():
        if visit.state in GOING_ON:
            operation = operations.get(visit.operation)
            is_open = operation is not None and operation.state not in ENDED_STATES
            assert is_open or visit.due_at or visit.ended_at, visit


def rows_requests(moment: Moment) -> None:
    """4.5: a request is open as long as something of it is."""
    states: dict[str, set[OperationState]] = {}
    for operation in moment.mirror.operations.values():
        states.setdefault(operation.request, set()).add(operation.state)
    in_flight = Counter(
        operation.request
        for operation in moment.mirror.operations.values()
        if operation.state not in {*ENDED_STATES, OperationState.PLANNED}
        and not operation.visit
    )
    visits = moment.mirror.table(Visit).values()
    in_flight.update(visit.request for visit in visits if visit.holds_slot)
    visited = {visit.request for visit in visits if not visit.ended_at}
    for name, request in moment.mirror.requests.items():
        under_way = states[name] - ENDED_STATES
        if request.at_once:
            assert request.in_flight == in_flight[name], request
            # An operator can lower the budget of a campaign below what is in flight.
            assert request.campaign or in_flight[name] <= request.at_once, request
        if request.state is RequestState.OPEN:
            campaign = moment.mirror.table(CampaignRecord).get(request.campaign)
            can_retry = campaign is not None and bool(campaign.failed)
            assert under_way or name in visited or can_retry, request
        elif request.state is RequestState.CLOSED:
            assert not under_way, request
            assert name not in visited, request
        elif request.is_rollout or request.state is RequestState.CANCELLED:
            assert not under_way & WAITING_STATES, request


def rows_views(moment: Moment) -> None:
    """6.1, 6.2, 7.2: every VM has its view, and every view its VMs."""
    mirror = moment.mirror
    used: set[str] = set()
    for vm in mirror.live_vms:
        view = mirror.views[vm.view]
        used.add(view.view_id)
        scope = mirror.scopes[vm.scope]
        zone = mirror.hosts[vm.host].zone if scope.kind is ScopeKind.SCALE_SET else ""
        key = f"{scope.name}@{zone}" if zone else scope.name
        assert view.enabling == key, (vm, view)
        assert view.scope == scope.name, (vm, view)
        assert vm.tenant == scope.tenant, (vm, scope)
        assert view.vm == (vm.name if is_alone(mirror, scope.name) else ""), (vm, view)
    assert used == set(mirror.views), set(mirror.views) ^ used
    enabled: dict[str, set[bool]] = {}
    for view in mirror.views.values():
        enabled.setdefault(view.enabling, set()).add(view.is_enabled)
    assert all(len(states) == 1 for states in enabled.values()), enabled


ROWS: tuple[Callable[[Moment], None], ...] = (
    rows_capacity,
    rows_domains_of_a_host,
    rows_started,
    rows_operations,
    rows_visits,
    rows_requests,
    rows_views,
)

ROWS_SETTLED = (visits_went_on,)
"""Asked when all that is due has been done."""
