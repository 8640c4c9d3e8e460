"""Decide which waits of a host end with work that is under way.

A host that has waited for long holds other hosts back so that its wait ends: the work under
way ends, and no later host begins in its scopes. Other waits are not shorter for that: a VM
or a host that is down, an unknown outcome, or the window of a tenant can take days. This
module only reads.
"""

from collections.abc import Iterable

from forewarn.control.rules.remedies import Remedy, remedy_of
from forewarn.fleet.model import Capacity, place
from forewarn.instants import Micros
from forewarn.protocol.blockers import (
    HOLD_KINDS,
    AnyBlocker,
    BudgetUsed,
    HostInUse,
    NoCapacity,
    ReserveKept,
    ScopeInUse,
)
from forewarn.protocol.operations import (
    WAITING_STATES,
    CallState,
    Operation,
    OperationState,
    Verb,
)
from forewarn.protocol.visits import STUCK_VISITS, Visit
from forewarn.store import kinds
from forewarn.store.port import Reader


def ends_with_work(
    reader: Reader, operation: Operation, blockers: Iterable[AnyBlocker], until: Micros
) -> bool:
    """Return whether work under way ends all blockers of a Planned host.

    Work that is announced for a time after `until` is not under way.
    """
    return all(_ends(reader, operation, blocker, until) for blocker in blockers)


def _ends(
    reader: Reader, operation: Operation, blocker: AnyBlocker, until: Micros
) -> bool:
    match blocker:
        case ScopeInUse(operation=other):
            return _is_under_way(reader, other, until)
        case HostInUse(operation=other, arriving=arriving):
            return bool(arriving) or _is_under_way(reader, other, until)
        case BudgetUsed(failed=failed, most=most):
            return failed < most
        case NoCapacity(why=why) if why.is_fixed:
            return False
        case NoCapacity() | ReserveKept():
            return _works_in_pool(reader, operation.host)
        case _:
            return remedy_of(blocker) is Remedy.SERVICE


def _is_under_way(reader: Reader, operation_id: str, until: Micros) -> bool:
    """Return whether an operation ends without an operator and without a recovery."""
    operation = reader.get(Operation, operation_id) if operation_id else None
    if operation is None or operation.verb is Verb.FAIL:
        return False
    visit = reader.get(Visit, operation.visit) if operation.visit else None
    if visit is not None and visit.state in STUCK_VISITS:
        return False
    if operation.state in WAITING_STATES:
        is_soon = operation.not_before <= until
        return is_soon and not any(map(_lasts, operation.held_by))
    is_unknown = operation.call_state is CallState.UNKNOWN
    return operation.state is not OperationState.PLANNED and not is_unknown


def _lasts(blocker: AnyBlocker) -> bool:
    """Return whether announced work waits for an operator, or for a window."""
    return blocker.kind in HOLD_KINDS or remedy_of(blocker) is Remedy.OPERATOR


def _works_in_pool(reader: Reader, host: str) -> bool:
    """Return whether a host of the pool is in work, so that room may become free."""
    room = reader.get(Capacity, host)
    if room is None or not room.pool:
        return bool(reader.select(kinds.REQUESTS_IN_FLIGHT, limit=1))
    pool = place("pool", room.pool)
    return bool(reader.select(kinds.ROOMS_AT_WORK, pool, limit=1))
