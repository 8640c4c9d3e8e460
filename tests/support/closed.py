"""What closed hosts forbid: a cordoned host takes no new VM."""

from forewarn.fleet.model import Host, Vm
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


CLOSED = (s13_cordoned_hosts_take_no_vm, s13_owners_are_distinct)
"""Asked after every commit."""
