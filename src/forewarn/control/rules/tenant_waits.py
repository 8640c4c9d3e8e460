"""Keep the times for which windows and deferrals of tenants hold an operation.

The reasons of a waiting operation are stored when it is checked, and they change with its
next check. So each time is counted when it ends, in the record that is stored anyway. Pure.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from forewarn.instants import Micros
from forewarn.protocol.blockers import (
    AnyBlocker,
    Deferred,
    NoCommonWindow,
    WindowClosed,
)
from forewarn.protocol.frozen import changed
from forewarn.protocol.operations import Operation, TenantCause, TenantWait

WAITS_MAX = 16
"""Maximum times of an operation. Above it, the oldest ones are added up."""


def cause_of(held_by: Sequence[AnyBlocker]) -> TenantCause | None:
    """Return by what tenants hold an operation; None: by nothing.

    A deferral counts before a window, which would have passed without it.
    """
    if any(isinstance(blocker, Deferred) for blocker in held_by):
        return TenantCause.DEFERRAL
    if any(isinstance(blocker, WindowClosed | NoCommonWindow) for blocker in held_by):
        return TenantCause.WINDOW
    return None


def noted(old: Operation, new: Operation, *, now: Micros) -> Operation:
    """Return a changed operation with the times for which tenants held it until now."""
    if new.held_by is old.held_by:
        return new
    cause = cause_of(new.held_by)
    all_waits = new.tenant_waits
    current = all_waits[-1] if all_waits and not all_waits[-1].ends else None
    if cause is (current.cause if current else None):
        return new
    if current is not None:
        # After a step back of the clock, it has no length.
        ended = (replace(current, ends=now),) if now > current.begins else ()
        all_waits = (*all_waits[:-1], *ended)
    if cause is not None:
        all_waits = _begun(all_waits, cause, now)
    return changed(new, tenant_waits=all_waits)


def _begun(
    all_waits: tuple[TenantWait, ...], cause: TenantCause, now: Micros
) -> tuple[TenantWait, ...]:
    """Return the times with one that begins now, or continues the last one.

    Each check removes the reasons, and finds them again at the same instant.
    """
    if all_waits and (last := all_waits[-1]).ends == now and last.cause is cause:
        return (*all_waits[:-1], replace(last, ends=0))
    if len(all_waits) >= WAITS_MAX:
        all_waits = _added_up(all_waits)
    return (*all_waits, TenantWait(cause=cause, begins=now))


def _added_up(all_waits: tuple[TenantWait, ...]) -> tuple[TenantWait, ...]:
    """Return the same times with the oldest two of one cause as one, of their length."""
    for number, (first, second) in enumerate(pairwise(all_waits)):
        if first.cause is second.cause:
            begins = second.begins - (first.ends - first.begins)
            both = replace(second, begins=begins)
            return (*all_waits[:number], both, *all_waits[number + 2 :])
    return all_waits[1:]
