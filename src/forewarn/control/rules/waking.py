"""Who is looked at when something has become free: one operation at a time.

The cost of a wake-up does not depend on how many wait. Waiters are found by what they
wait for, and only the first who can have been set free is looked at. The next one
follows if the first is gone, and something is still free. Reading only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from forewarn.control.rules import rolling, waits
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store import kinds
from forewarn.store.port import Reader

ROOM_LOOKS_MAX = 5
"""Who is looked at when a place became free. A place that does not suit the first may
suit the next; the others have a timer."""

CALLS_MAX = 16
"""Hosts of rollouts that are called up in vain when something became free: the rollout
of one may have no slot, and that of the next may. The others have a timer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """Something that has become free, and how far its waiters were looked at."""

    name: str
    after: str = ""
    """The last operation that was looked at and still waits."""
    looks: int = 0


def next_waiter(reader: Reader, freed: Freed) -> str:
    """Return the operation to look at next; empty: nobody who waits can go on."""
    for name in _names(reader, freed):
        found = reader.select(
            kinds.OPERATIONS_THAT_WAIT, name, after=freed.after, limit=1
        )
        if found:
            return found[0].operation_id
    return ""


def after_look(reader: Reader, freed: Freed, operation_id: str) -> Freed | None:
    """Return how to go on after a look at an operation; None if nobody follows."""
    looks = freed.looks + 1
    operation = reader.get(Operation, operation_id)
    if operation is None or not _still_waits(operation, freed.name):
        return replace(freed, looks=looks)
    if freed.name == waits.ROOM and looks < ROOM_LOOKS_MAX:
        return replace(freed, looks=looks, after=operation_id)
    # What holds the first of a scope holds all others that wait for the same.
    return None


def after_call(reader: Reader, freed: Freed, operation_id: str) -> Freed | None:
    """Return how to go on after a host that was called up and not announced."""
    looks = freed.looks + 1
    if looks >= CALLS_MAX:
        return None
    operation = reader.get(Operation, operation_id)
    names = operation.waits_for if operation is not None else ()
    if freed.name == waits.TURN_ROOM and freed.name in names:
        return replace(freed, looks=looks, after=operation_id)
    turns = {name.rpartition("/")[0] for name in names if waits.TURNS.is_one(name)}
    if freed.name in {*names, *turns}:
        # What holds the first of a scope holds all others that wait for the same.
        return None
    return replace(freed, looks=looks)


def _still_waits(operation: Operation, name: str) -> bool:
    names = {name}
    if scope := waits.STARTS.scope_of(name):
        names.add(waits.for_migration(scope))
    return operation.state is OperationState.READY and bool(
        names & set(operation.waits_for)
    )


def _names(reader: Reader, freed: Freed) -> Iterator[str]:
    """Yield under which names to look for waiters, the best first."""
    if scope := waits.TURNS.scope_of(freed.name):
        domains = rolling.standing_of(reader, scope).domains
        if len(domains) <= 1:
            yield from [waits.TURNS.in_domain(scope, each) for each in domains] or [
                freed.name
            ]
        return
    scope = waits.STARTS.scope_of(freed.name)
    if not scope:
        yield freed.name
        return
    highest = reader.ranked(kinds.UNSTEADY_DOMAINS, scope, limit=1)
    if not highest:
        yield freed.name
    else:
        lowest = reader.ranked(kinds.UNSTEADY_DOMAINS, scope, limit=1, lowest=True)
        domain = highest[0].fault_domain
        if lowest[0].fault_domain == domain:
            yield waits.STARTS.in_domain(scope, domain)
        yield waits.for_migration(scope)
        if not freed.looks:
            # It cannot start. The reasons that are stored have to follow the change.
            yield freed.name
        return
    yield waits.for_migration(scope)
