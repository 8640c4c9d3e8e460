"""Choose the waiting operation to check when something becomes free, one at a time.

The cost of a wake-up does not depend on the number of waiting operations. Waiting
operations are found by the names of their waits, and only the first one that can have
become free is checked. The next one follows if the first no longer waits and something
is still free. This module only reads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from forewarn.control.rules import brake, rolling, waits
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store import kinds
from forewarn.store.port import Reader

ROOM_LOOKS_MAX = 5
"""Maximum operations that are checked when capacity became free. Capacity that does not
suit the first can suit the next; the others have a timer."""

CALLS_MAX = 16
"""Maximum hosts of rollouts that are checked without success when something became
free. The rollout of the first host can lack a slot while the next host's rollout has one.
The others have a timer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """Something that became free, and the progress of its checks."""

    name: str
    after: str = ""
    """Last operation that was checked and still waits."""
    looks: int = 0


def next_waiter(reader: Reader, freed: Freed) -> str:
    """Return the operation to check next; empty: none can continue."""
    for name in _names(reader, freed):
        found = reader.select(
            kinds.OPERATIONS_THAT_WAIT, name, after=freed.after, limit=1
        )
        if found:
            return found[0].operation_id
    return ""


def after_look(reader: Reader, freed: Freed, operation_id: str) -> Freed | None:
    """Return how to continue after the check of an operation; None: no more checks."""
    looks = freed.looks + 1
    operation = reader.get(Operation, operation_id)
    if operation is None or not _still_waits(operation, freed.name):
        return replace(freed, looks=looks)
    if freed.name == waits.ROOM and looks < ROOM_LOOKS_MAX:
        return replace(freed, looks=looks, after=operation_id)
    # The blocker of the first operation blocks all others with the same wait.
    return None


def after_call(reader: Reader, freed: Freed, operation_id: str) -> Freed | None:
    """Return how to continue after a host that could not be announced."""
    looks = freed.looks + 1
    if freed.name == waits.TURN_BRAKE:
        # Each rollout has one such host, and its check takes the name from it.
        return None if brake.in_force(reader) else replace(freed, looks=looks)
    if looks >= CALLS_MAX:
        return None
    operation = reader.get(Operation, operation_id)
    names = operation.waits_for if operation is not None else ()
    if freed.name == waits.TURN_ROOM and freed.name in names:
        return replace(freed, looks=looks, after=operation_id)
    turns = {name.rpartition("/")[0] for name in names if waits.TURNS.is_one(name)}
    if freed.name in {*names, *turns}:
        # The blocker of the first operation blocks all others with the same wait.
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
    """Yield the names of waits to search, best first."""
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
            # The operation cannot start, but its stored reasons must be updated.
            yield freed.name
        return
    yield waits.for_migration(scope)
