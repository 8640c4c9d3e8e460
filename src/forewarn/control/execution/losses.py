"""Count the hosts and VMs that were lost within the span of the brake.

A loss is a record with the end of its span, at which a timer forgets it. Like all
timers, it moves with a step of the clock, and a restart limits it to the span. Tallies
have the numbers, so that neither the fleet nor the losses are counted. A host or VM that
is lost twice within the span counts once.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from forewarn.control.rules import brake, tallies
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host
from forewarn.protocol.losses import Losses, LossKind
from forewarn.store import kinds
from forewarn.store.port import PAGE_ROWS
from forewarn.store.records import (
    FLEET_HOSTS,
    LOST_HOST,
    LOST_HOSTS,
    LOST_VM,
    LOST_VMS,
    Loss,
    lost_in,
)

FORGOTTEN_MAX = 100
"""Maximum losses that one transaction of a timer forgets: little work."""

NAMED_MAX = 10
"""Maximum hosts or VMs that the reason of the brake names."""


def add(work: Work, host: Host | None, vms: Sequence[str]) -> Losses | None:
    """Count a lost host, or none, and lost VMs; return the losses that exceed a limit."""
    while forget_due(work, limit=PAGE_ROWS):
        pass
    limits = work.policy.brake
    due_at = work.now + limits.within
    lost = [Loss(name=LOST_VM + vm, due_at=due_at) for vm in vms if limits.vms]
    if host is not None:
        lost.append(Loss(name=LOST_HOST + host.name, rack=host.rack, due_at=due_at))
    added = Counter[str]()
    for loss in lost:
        known = work.tx.get(Loss, loss.name)
        if known is None:
            work.tx.add(loss)
            added.update(loss.tallies)
        else:
            work.tx.replace(known, replace(known, due_at=due_at))
    _count(work, added)
    work.change_brake()
    return _exceeding(work, host.rack if host is not None else "")


def forget_due(work: Work, *, limit: int = FORGOTTEN_MAX) -> bool:
    """Forget losses whose span has ended; return whether there can be more."""
    due = work.tx.due(kinds.LOSSES_DUE, work.now, limit=limit)
    _forget(work, due)
    return len(due) == limit


def forget_all(work: Work) -> None:
    """Forget all losses, so that the count starts again at 0.

    They are few: the brake comes on when they exceed a limit, and nothing is counted
    while it is on.
    """
    while found := work.tx.select(kinds.ALL_LOSSES):
        _forget(work, found)


def _forget(work: Work, losses: Sequence[Loss]) -> None:
    ended = Counter[str]()
    for loss in losses:
        work.tx.remove(loss)
        ended.subtract(loss.tallies)
    _count(work, ended)
    if losses:
        work.change_brake()


def _count(work: Work, changes: Counter[str]) -> None:
    for name, by in changes.items():
        tallies.count(work.tx, name, by)


def _exceeding(work: Work, rack: str) -> Losses | None:
    limits = work.policy.brake
    lost = brake.Lost(
        hosts=tallies.counted(work.tx, LOST_HOSTS),
        vms=tallies.counted(work.tx, LOST_VMS),
        in_rack=tallies.counted(work.tx, lost_in(rack)) if rack else 0,
    )
    fleet = tallies.counted(work.tx, FLEET_HOSTS)
    excess = brake.exceeded(lost, limits, hosts=fleet)
    if excess is None:
        return None
    is_rack = excess.what is LossKind.RACK
    return Losses(
        what=excess.what,
        count=excess.count,
        most=excess.most,
        within=limits.within,
        named=_names(work, excess.what, rack),
        rack=rack if is_rack else "",
    )


def _names(work: Work, what: LossKind, rack: str) -> tuple[str, ...]:
    if what is LossKind.RACK:
        losses = work.tx.select(kinds.LOSSES_IN_RACK, rack, limit=NAMED_MAX)
    else:
        # Hosts come before VMs in the order of the keys.
        after = LOST_VM if what is LossKind.VMS else ""
        losses = work.tx.select(kinds.ALL_LOSSES, after=after, limit=NAMED_MAX)
    return tuple(loss.name.partition(":")[2] for loss in losses)
