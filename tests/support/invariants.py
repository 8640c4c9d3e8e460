"""Invariants that hold after every commit: one small function for each.

They are written from the clauses, over the rows as a watched store saw them, and
share no code with what they judge. S1 to S12 and L1 to L3 are the invariants of
the service's design; the numbers with a dot are clauses of `docs/reference/protocol.md`.
"""

from collections import Counter
from collections.abc import Callable

from forewarn.control.execution import release
from forewarn.fleet.model import Host, HostState, Vm, VmState
from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.events import Event, EventStatus, EventType
from forewarn.protocol.operations import (
    ENDED_STATES,
    STARTED_STATES,
    Action,
    CallState,
    Operation,
    OperationState,
    TargetKind,
    Verb,
)
from forewarn.protocol.views import View
from tests.support.announced import ANNOUNCED
from tests.support.blackout_watcher import blackouts_are_kept
from tests.support.closed import CLOSED, CLOSED_SETTLED
from tests.support.moments import Moment
from tests.support.row_invariants import ROWS, ROWS_SETTLED

ORDER = (
    EventStatus.NEW,
    EventStatus.SCHEDULED,
    EventStatus.STARTED,
    EventStatus.REMOVED,
)


# Safety of starts


def s1_one_fault_domain(moment: Moment) -> None:
    """6.3: routine maintenance never impacts two fault domains of a scope.

    The VMs of a live migration move one after the other, so that it may have several.
    """
    routine = {
        operation.operation_id: operation.action is Action.LIVE_MIGRATE
        for operation in moment.open()
        if operation.routine and operation.state in STARTED_STATES
    }
    domains: dict[str, set[int]] = {}
    started: dict[str, set[str]] = {}
    for vm in moment.mirror.live_vms:
        if found := routine.keys() & set(vm.started):
            domains.setdefault(vm.scope, set()).add(vm.fault_domain)
            started.setdefault(vm.scope, set()).update(found)
    for scope, touched in domains.items():
        works = started[scope]
        in_turn = len(works) == 1 and all(routine[work] for work in works)
        assert len(touched) == 1 or in_turn or scope in moment.relabelled, (
            f"S1: {touched} of {scope} are in work"
        )


def s1b_one_migration(moment: Moment) -> None:
    """6.3: of live migrations, one operation of a scope at a time."""
    busy: dict[str, str] = {}
    for operation in moment.open():
        if (
            operation.action is Action.LIVE_MIGRATE
            and operation.state is OperationState.IMPACTING
        ):
            for scope in {moment.mirror.vms[name].scope for name in operation.vms}:
                other = busy.setdefault(scope, operation.operation_id)
                assert other == operation.operation_id, (scope, other, operation)


def s2_no_start_beside_another(moment: Moment) -> None:
    """6.3: no routine start while another fault domain of the scope is down."""
    started = list(moment.started())
    # Work that nothing holds may begin right after, in the same commit.
    unheld = {operation.operation_id for operation in started if not operation.routine}
    for operation in started:
        if not operation.routine:
            continue
        vms = [moment.mirror.vms[name] for name in operation.vms]
        for scope in {vm.scope for vm in vms}:
            own = {vm.fault_domain for vm in vms if vm.scope == scope}
            if operation.action is not Action.LIVE_MIGRATE:
                assert len(own) == 1, (operation, own)
            for vm in moment.members(scope):
                if own != {vm.fault_domain} and vm.name not in operation.vms:
                    assert vm.state is VmState.RUNNING, (operation, vm)
                    assert unheld.issuperset(vm.started), (operation, vm)


def s3_start_is_allowed(moment: Moment) -> None:
    """3.5, 3.6, 4.2: all approved, or NotBefore has come, or a failure."""
    mirror = moment.mirror
    # Judged when it happens: afterwards the clock may be set back.
    fresh = {
        change.after.operation_id
        for change in moment.changes
        if isinstance(change.after, Operation)
        and (
            not isinstance(change.before, Operation)
            or change.before.state is not change.after.state
        )
    }
    for operation in moment.open():
        if operation.state is OperationState.READY and operation.operation_id in fresh:
            assert is_released(moment, operation), operation
    for operation in moment.started():
        if operation.operation_id not in fresh:
            continue
        if operation.action is Action.NONE:
            is_peaceful = bool(operation.visit) and not operation.moves
            assert operation.verb is Verb.FAIL or is_peaceful, operation
        else:
            assert is_released(moment, operation), (
                operation,
                mirror.events_of(operation.operation_id),
            )


def is_released(moment: Moment, operation: Operation) -> bool:
    """Return whether no approval is needed."""
    if moment.now >= operation.not_before:
        return True
    counting = [operation]
    if moment.mirror.requests[operation.request].together:
        counting = [
            other
            for other in moment.mirror.operations.values()
            if other.request == operation.request
            and other.state is not OperationState.CANCELLED
        ]
    events = [
        event
        for other in counting
        for event in moment.mirror.events_of(other.operation_id)
        if event.status is not EventStatus.REMOVED
    ]
    if operation.is_timed and not events:
        # An explicit time applies even if no VM has to approve.
        return False
    return all(event.approved_by for event in events)


def s10_impact_is_announced(moment: Moment) -> None:
    """4.2, 4.7, 5.5: what starts names everyone it hits, in Started events."""
    mirror = moment.mirror
    for operation in moment.started():
        # Maintenance without impact affects no VM.
        is_peaceful = operation.visit and operation.action is Action.NONE
        if operation.target_kind is TargetKind.HOST and not is_peaceful:
            there = {vm.name for vm in mirror.live_vms if vm.host == operation.host}
            if operation.verb is Verb.FAIL:
                # 5.5: a VM that had failed by itself is named by its own failure.
                there -= _failed_by_themselves(moment)
            assert there <= set(operation.vms), (operation, there)
        events = mirror.events_of(operation.operation_id)
        named = {
            resource.vm
            for event in events
            if event.status is EventStatus.STARTED
            for resource in event.resources
        }
        assert all(event.status is not EventStatus.SCHEDULED for event in events)
        if operation.verb not in {Verb.TERMINATE, Verb.UPGRADE_OS, Verb.REIMAGE}:
            assert operation.state in ENDED_STATES or named == set(operation.vms), (
                operation,
                named,
            )


def _failed_by_themselves(moment: Moment) -> set[str]:
    """Return the VMs that have a failure of their own."""
    return {
        name
        for operation in moment.open()
        if operation.verb is Verb.FAIL and operation.target_kind is TargetKind.VM
        for name in operation.vms
    }


def s12_own_failure_stays(moment: Moment) -> None:
    """5.5: the end of a host's failure does not end that of a VM which failed itself."""
    restored = [
        change.after.name
        for change in moment.changes
        if isinstance(change.before, Host)
        and isinstance(change.after, Host)
        and change.before.state is HostState.DOWN
        and change.after.state is HostState.UP
    ]
    for before, after in moment.changed():
        is_own = after.verb is Verb.FAIL and after.target_kind is TargetKind.VM
        if restored and is_own and before is not None:
            assert after.state not in ENDED_STATES, (restored, after)


# Events


def s6_notice(moment: Moment) -> None:
    """2.7, 5.1: enough notice, a whole second, and it never moves."""
    for before, after in moment.events():
        if after is None:
            continue
        assert after.not_before % SECOND == 0, after
        if before is not None:
            assert after.not_before == before.not_before, (before, after)
        elif after.status is EventStatus.SCHEDULED:
            notice = after.not_before - moment.now
            assert notice >= _least_notice(moment, after), (notice, after)


def _least_notice(moment: Moment, event: Event) -> Micros:
    scope = moment.mirror.scopes[event.scope]
    verb = moment.mirror.operations[event.operation].verb
    if event.event_type is EventType.TERMINATE:
        return scope.terminate_notice or 0
    if verb in {Verb.UPGRADE_OS, Verb.REIMAGE}:
        return scope.os_image_notice or 0
    return {
        EventType.FREEZE: 15 * MINUTE,
        EventType.REBOOT: 15 * MINUTE,
        EventType.REDEPLOY: 10 * MINUTE,
        EventType.PREEMPT: 30 * SECOND,
    }[event.event_type]


def s7_events_go_forward(moment: Moment) -> None:
    """2.3, 4.1: never backwards, never again, the same thing to the end."""
    for before, after in moment.events():
        if before is None or after is None:
            assert before is None or before.status is EventStatus.REMOVED, before
            continue
        assert ORDER.index(before.status) <= ORDER.index(after.status), (before, after)
        for one, two in (
            (before.operation, after.operation),
            (before.scope, after.scope),
            (before.event_type, after.event_type),
            (before.created, after.created),
        ):
            assert one == two, (before, after)
        assert {resource.vm for resource in after.resources} <= {
            resource.vm for resource in before.resources
        }, (before, after)
        if before.approved_by:
            assert after.approved_by == before.approved_by, (before, after)


def s8_one_rise_a_commit(moment: Moment) -> None:
    """2.10: what a document shows and its number change together, by one."""
    joined = {
        change.after.view
        for change in moment.changes
        if isinstance(change.after, Vm)
        and (
            not isinstance(change.before, Vm) or change.before.view != change.after.view
        )
    }
    for change in moment.changes:
        one, two = change.before, change.after
        if not isinstance(one, View) or not isinstance(two, View):
            continue
        if change.renewed:
            assert one.epoch < two.epoch, (one, two)
            continue
        begins = two.is_enabled and not one.is_enabled
        assert (one.epoch < two.epoch) if begins else (one.epoch == two.epoch), (
            one,
            two,
        )
        if one.epoch != two.epoch or two.view_id in joined:
            continue
        assert two.incarnation in {one.incarnation, one.incarnation + 1}, (one, two)
        assert (one.digest == two.digest) == (one.incarnation == two.incarnation)


def s12_removed_means_over(moment: Moment) -> None:
    """2.6, 4.3: a removed event's impact has ended, or never began."""
    mirror = moment.mirror
    for before, after in moment.events():
        if before is None or after is None or not before.is_live or after.is_live:
            continue
        operation = mirror.operations[after.operation]
        left = not {resource.vm for resource in after.resources}.intersection(
            operation.vms
        )
        assert left or operation.state in ENDED_STATES, (after, operation)
        if before.status is EventStatus.SCHEDULED and not left:
            assert operation.state is OperationState.CANCELLED, operation
            assert not operation.started_at, operation


def s12_down_is_told(moment: Moment) -> None:
    """4.7, 5.5: one failure's Started event names a VM for as long as it is down."""
    mirror = moment.mirror
    named = Counter(
        resource.vm
        for event in mirror.live_events
        if mirror.operations[event.operation].verb is Verb.FAIL
        for resource in event.resources
        if event.status is EventStatus.STARTED
        and event.event_type is moment.policy.failure_event
    )
    for vm in mirror.live_vms:
        is_down = vm.state is VmState.DOWN
        assert named[vm.name] == is_down, (vm, named)
        if not is_down and mirror.hosts[vm.host].state is HostState.DOWN:
            raise AssertionError(f"{vm} runs on a host that is down")


# Liveness, as far as one moment shows it


def l1_something_wakes_it(moment: Moment) -> None:
    """4.1: every open operation has a timer, or waits for a person."""
    mirror = moment.mirror
    for operation in moment.open():
        if operation.verb is Verb.FAIL:
            down = [mirror.vms[name].state is VmState.DOWN for name in operation.vms]
            assert all(down), operation
            if not down:
                host = mirror.hosts[operation.host]
                assert operation.target_kind is TargetKind.HOST, operation
                assert host.state is HostState.DOWN, operation
        elif operation.state is OperationState.PLANNED:
            assert operation.waits_for, operation
        elif (
            operation.visit
            and operation.started_at
            and (not operation.generation or operation.holds_vms)
        ):
            # Its visit has a timer of its own, or waits for a person.
            continue
        elif operation.call_state is not CallState.UNKNOWN:
            assert operation.due_at, operation


def l2_approved_goes_at_once(moment: Moment) -> None:
    """4.2: nothing waits for an approval that is not missing."""
    for operation in moment.open():
        if operation.state is OperationState.ANNOUNCED:
            # After a step forward, the notice continues.
            is_noticed = operation.not_before <= moment.now < operation.due_at
            assert is_noticed or not is_released(moment, operation), operation


def l3_holds_are_bounded(moment: Moment) -> None:
    """4.2: silence and holds last no longer than they may."""
    for operation in moment.open():
        due = operation.due_at
        assert not due or due > moment.now, operation
        events = moment.mirror.events_of(operation.operation_id)
        if operation.routine and operation.state is OperationState.READY and events:
            bound = operation.not_before + moment.policy.hold_max
            # A step forward may pass the bound until the next look.
            look = release.look_again_at_most(moment.policy)
            assert moment.now < bound or due <= moment.now + look, operation


EVERY_COMMIT: tuple[Callable[[Moment], None], ...] = (
    s1_one_fault_domain,
    s1b_one_migration,
    *ANNOUNCED,
    s2_no_start_beside_another,
    s3_start_is_allowed,
    s6_notice,
    blackouts_are_kept,
    s7_events_go_forward,
    s8_one_rise_a_commit,
    s10_impact_is_announced,
    s12_own_failure_stays,
    s12_down_is_told,
    s12_removed_means_over,
    *ROWS,
    l1_something_wakes_it,
    *CLOSED,
)
"""Asked after every commit."""

SETTLED: tuple[Callable[[Moment], None], ...] = (
    l2_approved_goes_at_once,
    l3_holds_are_bounded,
    *CLOSED_SETTLED,
    *ROWS_SETTLED,
)
"""Asked when all that is due has been done."""
