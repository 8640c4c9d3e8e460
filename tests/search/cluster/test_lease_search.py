"""At no instant may two replicas begin driver calls, whatever the database and clocks do."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from forewarn.cluster.times import Times
from tests.search.cluster import leases
from tests.search.cluster.exploring import Result, explore
from tests.search.cluster.leases import FAST, SLOW, World
from tests.support.profiles import amounts

Record = Callable[[str, object], None]

TWO = World(rates=(SLOW, FAST))
TWO_TURNED = World(rates=(FAST, SLOW))
THREE = World(rates=(SLOW, FAST, FAST))

FOUND_WITHIN = 7_000
"""States in which every planted bug is found."""

BOTH = "two replicas may begin calls"
OLD = "a replica may begin calls after a takeover"


@dataclass(frozen=True)
class NoMargin(Times):
    """Bug: the leader begins calls until its lease ends."""

    @property
    def call_within(self) -> float:
        """Return the whole lease."""
        return self.lease


PLANTED = {
    "no margin": (replace(TWO, times=NoMargin(lease=50.0)), OLD),
    "counts from the answer": (replace(TWO, counts_from_answer=True), OLD),
    "watches from the question": (replace(TWO, watches_from_question=True), OLD),
    "wall clock": (replace(TWO, wall_clock=50.0), OLD),
    "no fence": (replace(TWO, fenced=False), "a write of an old term was committed"),
    "takes without the beat": (replace(TWO, compares_beat=False), OLD),
    "releases before it stops": (replace(TWO, stops_first=False), OLD),
}


def searched(world: World, limit: int) -> Result:
    return explore(
        leases.first(world),
        lambda state: leases.moves(world, state),
        leases.broken,
        limit=limit,
    )


@pytest.mark.amounts
@pytest.mark.slow
@pytest.mark.parametrize("world", [TWO, TWO_TURNED, THREE], ids=["2", "turned", "3"])
def test_no_two_replicas_begin_calls(world: World, record_property: Record) -> None:
    result = searched(world, amounts().lease_states)
    record_property("search", f"leases of {len(world.rates)} replicas: {result.states}")
    assert not result.broken, result.path
    assert result.complete or result.states == amounts().lease_states


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str) -> None:
    world, wanted = PLANTED[name]
    result = searched(world, FOUND_WITHIN)
    assert result.broken == wanted
    # It needs a time that passes, or a leader that ends.
    assert {"a tick passes", "replica 0 sends release"} & set(result.path)
