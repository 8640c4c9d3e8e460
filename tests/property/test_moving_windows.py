"""Tenants change their windows as they like: their host is reached within a bound.

Each window is longer than half a day, so two of them always have a common opening within a
day. A promise is made when the host first waits, and lasts: the host is maintained before
two days have passed, whatever the tenants do in between.
"""

from itertools import cycle
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.control.requests import verbs, windows
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.window_fields import window_of
from forewarn.instants import DAY, MINUTE, Micros
from forewarn.protocol.operations import Action
from tests.support.worlds import LastingStore, World

pytestmark = pytest.mark.clause("4.8")

FLEET = """
[[scope]]
name = "web"
kind = "availability-set"
[[scope]]
name = "db"
kind = "availability-set"
[[host]]
name = "h0"
[[vm]]
name = "web_0"
host = "h0"
scope = "web"
[[vm]]
name = "db_0"
host = "h0"
scope = "db"
"""

BOUND: Micros = 2 * DAY


class Move(NamedTuple):
    """A tenant changes its window, and time passes."""

    scope: str
    opens_in: int
    """Minutes until the next opening; it is closed for less than eleven hours a day."""
    passes: int
    """Minutes until the next change."""
    restarts: bool


MOVES = st.lists(
    st.builds(
        Move,
        scope=st.sampled_from(("web", "db")),
        opens_in=st.integers(1, 12 * 60),
        passes=st.integers(60, 12 * 60),
        restarts=st.booleans(),
    ),
    min_size=4,
    max_size=12,
)


def change(world: World, move: Move) -> None:
    start = (world.now // MINUTE + move.opens_in) % (DAY // MINUTE)
    wanted = (window_of(f"{start // 60:02}:{start % 60:02} 13h"),)
    world.order(lambda work: windows.set_windows(work, move.scope, wanted))
    world.settle()


@given(moves=MOVES)
def test_host_is_reached_within_a_bound(moves: list[Move]) -> None:
    store = LastingStore()
    world = World(store=lambda: store, driver=SimulatedDriver(), fleet=FLEET)
    for scope in ("web", "db"):
        change(world, Move(scope=scope, opens_in=60, passes=0, restarts=False))
    began = world.now
    world.order(
        lambda work: verbs.maintain(work, ["h0"], Action.REBOOT, OrderOptions())
    )
    world.settle()
    coming = cycle(moves)
    while not started_at(world):
        assert world.now < began + BOUND
        move = next(coming)
        change(world, move)
        if move.restarts:
            world.restart()
        world.advance(move.passes * MINUTE)
    assert started_at(world) <= began + BOUND


def started_at(world: World) -> Micros:
    """Return when the maintenance of the host started; 0: it has not."""
    (operation,) = world.operations()
    return operation.started_at
