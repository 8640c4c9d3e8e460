"""The idle sweep of all connections."""

import asyncio

import pytest

from forewarn.metadata.timers import TOGETHER_MAX, IdleSweep
from tests.support.loops import until
from tests.unit.metadata.support import Play

pytestmark = pytest.mark.system

SOON = 0.001


class Quiet:
    def __init__(self) -> None:
        self.looks = 0

    def check_idle(self) -> None:
        self.looks += 1


def test_sweep_visits_every_connection_in_small_batches(play: Play) -> None:
    async def story() -> None:
        everybody = [Quiet() for _ in range(2 * TOGETHER_MAX + 1)]
        first, last = everybody[0], everybody[-1]
        rounds = IdleSweep(everybody, seconds=SOON)
        rounds.begin()
        rounds.begin()
        others_had_their_turn = False
        while not last.looks:
            others_had_their_turn |= first.looks > last.looks
            await asyncio.sleep(0)
        assert others_had_their_turn
        await until(lambda: last.looks >= 2)
        rounds.end()
        looks = [viewer.looks for viewer in everybody]
        assert max(looks) - min(looks) <= 1

    play(story)


def test_sweeps_run_only_while_there_are_connections(play: Play) -> None:
    async def story() -> None:
        everybody: set[Quiet] = set()
        rounds = IdleSweep(everybody, seconds=SOON)
        rounds.begin()
        await until(lambda: rounds._timer is None)
        somebody = Quiet()
        everybody.add(somebody)
        rounds.begin()
        await until(lambda: somebody.looks >= 1)
        rounds.end()
        looks = somebody.looks
        later = Quiet()
        others = IdleSweep({later}, seconds=SOON)
        others.begin()
        await until(lambda: later.looks >= 5)
        others.end()
        assert somebody.looks == looks

    play(story)


def test_connection_that_closes_during_a_sweep_is_harmless(play: Play) -> None:
    async def story() -> None:
        everybody: set[Quiet] = set()

        class Leaver(Quiet):
            def check_idle(self) -> None:
                super().check_idle()
                everybody.discard(self)

        stays = Quiet()
        everybody.update([stays, *(Leaver() for _ in range(5))])
        rounds = IdleSweep(everybody, seconds=SOON)
        rounds.begin()
        await until(lambda: stays.looks >= 3)
        rounds.end()
        assert everybody == {stays}

    play(story)
