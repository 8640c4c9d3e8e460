"""One turn of the control thread is short, whatever follows from what."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from forewarn.control.plane import LOOKS_PER_TURN, STEPS_PER_TURN
from forewarn.control.requests import verbs
from forewarn.control.requests.rollouts import PAGE
from forewarn.control.requests.verbs import OrderOptions
from forewarn.protocol.operations import Action, OperationState
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader
from tests.support.rollouts import DONE, PLANNED, name_of, roll_out, states, world_of
from tests.support.worlds import World

T = TypeVar("T")

HOSTS = 60


class ReadStore(MemoryStore):
    """A store that counts how often it was read outside of transactions."""

    reads = 0

    def read(self, work: Callable[[Reader], T]) -> T:
        self.reads += 1
        return super().read(work)


READS_MAX = 2 * LOOKS_PER_TURN + 4 * STEPS_PER_TURN
"""Of one turn: who waits and who follows, for each look and for each step."""


def test_background_rechecks_span_several_iterations() -> None:
    store = ReadStore()
    world = world_of(
        [{f"a{number}": 0} for number in range(HOSTS)], store=lambda: store
    )
    roll_out(world, HOSTS, at_once=HOSTS)
    most = 0
    while due := world.plane.next_due():
        world.clock.advance_to(max(due, world.now))
        store.reads = 0
        world.plane.advance(now=world.now)
        most = max(most, store.reads)
        if set(states(world).values()) == {DONE}:
            break
    assert set(states(world).values()) == {DONE}
    assert LOOKS_PER_TURN < most <= READS_MAX


@pytest.mark.parametrize("shared", [True, False])
def test_turn_without_time_left_still_runs_one_step(shared: bool) -> None:
    world = world_of(
        [{"a" if shared else f"a{number}": number % 5} for number in range(10)]
    )
    world.plane.bound_turns(lambda: True)
    roll_out(world, 10, at_once=10)
    with counted(world) as most:
        world.advance("24h")
    assert set(states(world).values()) == {DONE}
    assert max(most) <= 2, "one step, and one timer"


def test_request_does_not_wait_for_earlier_requests() -> None:
    world = world_of([{f"a{number}": 0} for number in range(HOSTS + 1)])
    assert transactions_of(world, PAGE) == 1 + STEPS_PER_TURN
    assert states(world)[name_of(PAGE - 1)] is PLANNED, "much is left to be done"
    assert transactions_of(world, 1, after=HOSTS) == 1
    world.settle()
    assert set(states(world).values()) == {OperationState.ANNOUNCED}


def transactions_of(world: World, count: int, *, after: int = 0) -> int:
    """Order a rollout; return how many transactions came before the answer."""
    names = [name_of(number) for number in range(after, after + count)]
    before = world.passed["committed"]
    wishes = OrderOptions(at_once=count)
    world.order(lambda work: verbs.maintain(work, names, Action.FREEZE, wishes))
    return world.passed["committed"] - before


@contextmanager
def counted(world: World) -> Generator[list[int]]:
    """Yield the numbers of transactions of each turn."""
    found: list[int] = []
    advance = world.plane.advance

    def counting(*, now: int) -> bool:
        before = world.passed["committed"]
        more = advance(now=now)
        found.append(world.passed["committed"] - before)
        return more

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.plane, "advance", counting)
        yield found
