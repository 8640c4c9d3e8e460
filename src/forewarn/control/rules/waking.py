"""Choose the waiting operation to check when something becomes free, one at a time.

The cost of a wake-up does not depend on the number of waiting operations. Waiting
operations are found by the names of their waits, and only the first one that can have
become free is checked. The next one follows if the first no longer waits and something
is still free. This module only reads.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from forewarn.control.rules import brake, campaign_gate, rolling, waits
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store import kinds
from forewarn.store.port import Reader

ROOM_LOOKS_MAX = 5
"""Maximum operations that are checked when capacity became free. Capacity that does not
suit the first can suit the next; the others have a timer."""

OVERLAPPING_LOOKS_MAX = 4
"""Maximum hosts with one name of a wait that are read for campaigns with
`overlap_notice`: hosts of one campaign wait alike, and few campaigns run at once."""

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
        waiters = reader.select(
            kinds.OPERATIONS_THAT_WAIT, name, after=freed.after, limit=1
        )
        if waiters:
            return waiters[0].operation_id
    scope = waits.TURNS.scope_of(freed.name)
    return _next_overlapping(reader, scope) if scope else ""


def first_names(name: str) -> Iterator[str]:
    """Yield the names of the waits that `next_waiter` searches first for a freed name."""
    yield name
    if scope := waits.TURNS.scope_of(name):
        yield waits.OVERLAPPING_TURNS.in_scope(scope)
    if scope := waits.STARTS.scope_of(name):
        yield waits.for_migration(scope)


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
    if waits.is_turn_for_hold(freed.name):
        # Each host of the scope waits for its own timer, perhaps for days. The first host
        # of each rollout waits for the blackouts of the fleet, and can wait for another.
        operation = reader.get(Operation, operation_id)
        is_held = operation is not None and freed.name in operation.waits_for
        return None if is_held else replace(freed, looks=looks)
    if looks >= CALLS_MAX:
        return None
    operation = reader.get(Operation, operation_id)
    names = operation.waits_for if operation is not None else ()
    if freed.name == waits.TURN_ROOM and freed.name in names:
        return replace(freed, looks=looks, after=operation_id)
    if freed.name in {*names, *_freed_by(names)}:
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


def _freed_by(names: Iterable[str]) -> Iterator[str]:
    """Yield what must become free for the waits in fault domains with these names."""
    for name in names:
        for family in (waits.TURNS, waits.OVERLAPPING_TURNS):
            if family.is_one(name):
                yield waits.TURNS.in_scope(family.scope_of(name).rpartition("/")[0])


def _next_overlapping(reader: Reader, scope: str) -> str:
    """Return a host that may be announced with the other fault domains of a scope.

    Campaigns differ in how many domains they let be announced together, so a few hosts
    of each name are read.
    """
    overlapping = waits.OVERLAPPING_TURNS
    in_scope = overlapping.in_scope(scope)
    looked_at = reader.select(
        kinds.OPERATIONS_THAT_WAIT, in_scope, limit=OVERLAPPING_LOOKS_MAX
    )
    if not looked_at:
        return ""
    most = max(campaign_gate.overlap_of(reader, record.request) for record in looked_at)
    taken = rolling.domains_in_use(reader, scope, most)
    for domain in taken:
        looked_at += reader.select(
            kinds.OPERATIONS_THAT_WAIT,
            overlapping.in_domain(scope, domain),
            limit=OVERLAPPING_LOOKS_MAX,
        )
    for operation in looked_at:
        is_in_taken = any(
            overlapping.in_domain(scope, domain) in operation.waits_for
            for domain in taken
        )
        count = len(taken) + (0 if is_in_taken else 1)
        if count <= campaign_gate.overlap_of(reader, operation.request) + 1:
            return operation.operation_id
    return ""


def _names(reader: Reader, freed: Freed) -> Iterator[str]:
    """Yield the names of waits to search, best first."""
    if scope := waits.TURNS.scope_of(freed.name):
        # Each host that waits for a fault domain of the scope has this name too.
        if not reader.select(kinds.OPERATIONS_THAT_WAIT, freed.name, limit=1):
            return
        domains = rolling.domains_in_use(reader, scope)
        if len(domains) <= 1:
            yield from [waits.TURNS.in_domain(scope, name) for name in domains] or [
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
