"""Invariants of closed hosts and times: cordons, the brake, and maintenance windows."""

from itertools import islice

from forewarn.fleet.model import Host, Vm
from forewarn.fleet.windows import openings
from forewarn.instants import HOUR, Micros
from forewarn.protocol.operations import WAITING_STATES, OperationState
from forewarn.protocol.verbs import PLANNED_VERBS, Verb
from forewarn.store.records import Brake, Choice
from forewarn.store.wide_blackouts import WideBlackout
from tests.support.choices_watched import CHOICES
from tests.support.moments import Moment

NOTICE_MAX: Micros = HOUR
"""Longer than the notices of maintenance."""
JOINED = 5
"""Openings of one scope that a promise can join."""


def s13_cordoned_hosts_take_no_vm(moment: Moment) -> None:
    """2.4: no VM gets a place on a host that is cordoned."""
    for change in moment.changes:
        before, after = change.before, change.after
        if not isinstance(after, Vm) or not isinstance(before, Vm):
            continue
        if after.moving_to and after.moving_to != before.moving_to:
            host = moment.mirror.hosts[after.moving_to]
            assert not host.cordons, (after, host)


def s13_owners_are_distinct(moment: Moment) -> None:
    """An owner has at most one cordon of a host."""
    for change in moment.changes:
        if isinstance(change.after, Host):
            owners = [
                (cordon.by.kind, cordon.by.name) for cordon in change.after.cordons
            ]
            assert len(owners) == len(set(owners)), change.after


def s14_brake_stops_routine_work(moment: Moment) -> None:
    """4.2: while the brake is on, no planned work is announced or started."""
    if not moment.mirror.table(Brake):
        return
    for operation in moment.started():
        assert operation.verb not in PLANNED_VERBS, operation
    for before, after in moment.changed():
        was_announced = before and before.state is not OperationState.PLANNED
        if after.state in WAITING_STATES and not was_announced:
            assert after.verb not in PLANNED_VERBS, after


def s15_maintenance_starts_in_its_windows(moment: Moment) -> None:
    """4.8: maintenance starts only while a window of each of its scopes is open."""
    for operation in moment.started():
        if operation.verb is not Verb.MAINTAIN or operation.is_emergency:
            continue
        for name in {moment.mirror.vms[vm].scope for vm in operation.vms}:
            windows = moment.mirror.scopes[name].maintenance_window
            choices = moment.mirror.table(Choice).values()
            # A tenant that wants it at once does not wait for its own window.
            is_expedited = any(
                (choice.request, choice.scope, choice.until)
                == (operation.request, name, 0)
                for choice in choices
            )
            is_promised = any(
                promise.scope == name and promise.opens <= moment.now < promise.closes
                for promise in operation.promises
            )
            if windows and not is_expedited and not is_promised:
                opening = next(openings(windows, moment.now))
                assert opening.opens <= moment.now, f"4.8: {operation}, {opening}"


def s15_promises_are_openings(moment: Moment) -> None:
    """4.8: a promise is an opening that the windows of its scope have when it is made.

    An operation can have those of the one that it replaces, and a scope without a window
    is open until the others close.
    """
    operations = moment.mirror.operations.values()
    for before, after in moment.changed():
        promised = {
            promise
            for operation in operations
            for promise in operation.promises
            if operation != after
        }
        promised |= set(before.promises) if before else set()
        for promise in set(after.promises) - promised:
            windows = moment.mirror.scopes[promise.scope].maintenance_window
            assert promise.opens < promise.closes, f"4.8: {after}, {promise}"
            assert promise.closes > moment.now, f"4.8: it is over: {after}, {promise}"
            if windows:
                coming = islice(openings(windows, promise.opens), JOINED)
                ends = {one.closes for one in (*coming, *promised)}
                assert promise.closes in ends, (
                    f"4.8: not an opening: {after}, {promise}"
                )


def s15_promises_last(moment: Moment) -> None:
    """4.8: a promise that can still be kept is not made again because of windows."""
    banned = moment.mirror.table(WideBlackout)
    chosen = {choice.request for choice in moment.mirror.table(Choice).values()}
    for before, after in moment.changed():
        if before is None or before.promises in {(), after.promises}:
            continue
        request = moment.mirror.requests[after.request]
        scopes = {
            vm.scope for vm in moment.mirror.vms.values() if vm.host == after.host
        }
        is_missed = any(
            promise.closes <= max(after.not_before, moment.now + NOTICE_MAX)
            for promise in before.promises
        )
        can_be_made_again = (
            is_missed
            or bool(banned)
            or after.request in chosen
            or bool(request.campaign)
            or not scopes <= {promise.scope for promise in before.promises}
        )
        assert can_be_made_again, f"4.8: {before}, {after}"


def s14_losses_withdraw(moment: Moment) -> None:
    """4.2: after losses, no planned work stays announced, and each loss has its span."""
    for brake in moment.mirror.table(Brake).values():
        if brake.losses is not None:
            assert brake.withdraws, brake
        for operation in moment.mirror.operations.values():
            is_announced = operation.state in WAITING_STATES
            if brake.withdraws and operation.verb in PLANNED_VERBS:
                assert not is_announced, operation


CLOSED_SETTLED = (s14_losses_withdraw,)
"""Asked when all that is due has been done."""


CLOSED = (
    s13_cordoned_hosts_take_no_vm,
    s13_owners_are_distinct,
    s14_brake_stops_routine_work,
    s15_maintenance_starts_in_its_windows,
    s15_promises_are_openings,
    s15_promises_last,
    *CHOICES,
)
"""Asked after every commit."""
