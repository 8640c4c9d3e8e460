"""Read the sums of a pool, and check that a host can be emptied within its reserve.

The sums are tallies, and the largest host is found by an index: the work does not depend
on the number of hosts. This module only reads.
"""

from collections.abc import Iterator, Mapping, Sequence

from forewarn.control.rules import tallies
from forewarn.fleet.model import Capacity, Vm, total_use
from forewarn.fleet.reserve import (
    KEYS,
    PoolSum,
    Sum,
    free_of,
    limits_of,
    shortage,
    tally_name,
)
from forewarn.protocol.blockers import ReserveKept
from forewarn.protocol.operations import MOVING_ACTIONS, Operation
from forewarn.settings.amounts import Amount, amount_of
from forewarn.store import kinds, questions
from forewarn.store.port import Reader

_BY_LIMIT: Mapping[str, questions.Ranking[Capacity]] = {
    "capacity": kinds.ROOMS_BY_PLACES_LIMIT,
    "vcpu": kinds.ROOMS_BY_VCPU_LIMIT,
    "memory": kinds.ROOMS_BY_MEMORY_LIMIT,
}
"""The ranking that finds the largest hosts of a pool, by resource."""


def pool_sums(reader: Reader, pool: str) -> Iterator[PoolSum]:
    """Yield the sums of the resources that all hosts of a pool limit."""
    for key in KEYS:
        if tallies.counted(reader, tally_name(Sum.UNLIMITED, key, pool)):
            continue
        largest = reader.ranked(_BY_LIMIT[key], pool, limit=1)
        if not largest:
            continue
        limits = {name: limit for name, limit, _ in limits_of(largest[0])}
        yield PoolSum(
            key=key,
            free=tallies.counted(reader, tally_name(Sum.FREE, key, pool)),
            total=tallies.counted(reader, tally_name(Sum.TOTAL, key, pool)),
            largest=limits[key] or 0,
        )


def why_kept(
    reader: Reader, operation: Operation, vms: Sequence[Vm], amount: Amount
) -> tuple[ReserveKept, ...]:
    """Return why the reserve keeps a host from being emptied now.

    An emergency repair may use the reserve. If the driver chooses the destinations, it
    keeps its own.
    """
    if (
        not amount.value
        or not vms
        or operation.is_emergency
        or operation.driver_chooses
        or operation.action not in MOVING_ACTIONS
    ):
        return ()
    room = reader.get(Capacity, operation.host)
    if room is None:
        return ()
    short = shortage(
        amount,
        pool_sums(reader, room.pool),
        needed=total_use(vms),
        own=free_of(room),
    )
    if short is None:
        return ()
    return (
        ReserveKept(
            pool=room.pool,
            resource=short.key,
            needed=short.needed,
            free=short.free,
            reserve=short.reserve,
            setting=str(amount),
        ),
    )


def stored_amount(operation: Operation) -> Amount:
    """Return the reserve of the last check of a Planned operation; 0: it was kept."""
    for blocker in operation.held_by:
        if isinstance(blocker, ReserveKept):
            return amount_of(blocker.setting)
    return amount_of("0")
