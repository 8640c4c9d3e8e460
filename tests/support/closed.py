"""What closed hosts forbid: a cordoned host takes no new VM."""

from forewarn.fleet.model import Host, Vm
from forewarn.protocol.operations import WAITING_STATES, OperationState
from forewarn.protocol.verbs import PLANNED_VERBS
from forewarn.store.records import Brake
from tests.support.moments import Moment


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
            owners = [(each.by.kind, each.by.name) for each in change.after.cordons]
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


CLOSED = (
    s13_cordoned_hosts_take_no_vm,
    s13_owners_are_distinct,
    s14_brake_stops_routine_work,
)
"""Asked after every commit."""
