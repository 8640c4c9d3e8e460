"""The time of a scenario: how it passes, on the machine's clock or a virtual one.

A runner asks for the time to pass until something is due, and is told whenever
something may have happened. It cannot tell the two kinds of time apart.
"""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Protocol

from forewarn.instants import SECOND, Micros
from forewarn.sim.sim_server import Actor, SimServer

LOOK_SECONDS = 0.02
"""Between two looks at what clients have done, on the machine's clock: a reaction is
known to a fiftieth of a second, and a look takes microseconds."""


CLOSELY: Micros = SECOND
"""The longest turn of a virtual clock while clients on sockets are waited for: they
live by the machine's clock, and have a rest after each turn."""


class Time(Protocol):
    """How a scenario's time passes."""

    def now(self) -> Micros:
        """Return the present instant; jumps count, pauses do not."""
        ...

    async def pass_until(self, target: Micros, *, closely: bool = False) -> None:
        """Let time pass until `target`, or until something may have happened.

        `closely`: what clients do is waited for, and they must have the time for it.
        """
        ...

    @contextmanager
    def player(self) -> Generator[None]:
        """Have time wait for one more scenario, if it waits at all."""
        yield


class RunningTime(Time):
    """A stage's time on the machine's clock: it passes by itself."""

    def __init__(self, stage: SimServer) -> None:
        """Take the time of `stage`, with its jumps and pauses."""
        self._stage = stage

    def now(self) -> Micros:
        """Return the present instant."""
        return self._stage.reckoned

    async def pass_until(self, target: Micros, *, closely: bool = False) -> None:
        """Wait, for the length of a look at most."""
        del closely
        left = (target - self.now()) / SECOND
        await asyncio.sleep(min(max(left, 0.0), LOOK_SECONDS))


class VirtualTime(Time):
    """A stage's virtual time: it is turned when all who use it wait for it.

    It goes from one thing that is due to the next, so that a week is soon over.
    """

    def __init__(
        self,
        stage: SimServer,
        *,
        actors: Sequence[Actor] = (),
        rest_seconds: float = 0.0,
    ) -> None:
        """Turn the clock of `stage`; `actors` are asked after each turn.

        `rest_seconds` of the machine's time follow each turn, in which clients on
        sockets may act.
        """
        self._stage = stage
        self._actors = actors
        self._rest_seconds = rest_seconds
        self._players = 0
        self._waiting: dict[asyncio.Future[None], Micros] = {}

    def now(self) -> Micros:
        """Return the present instant."""
        return self._stage.engine.now

    @contextmanager
    def player(self) -> Generator[None]:
        """Have time wait for one more, until the context is left."""
        self._players += 1
        try:
            yield
        finally:
            self._players -= 1
            self._turn_if_all_wait()

    async def pass_until(self, target: Micros, *, closely: bool = False) -> None:
        """Wait for the next turn, which comes when all the others wait too."""
        if closely and self._rest_seconds:
            target = min(target, self.now() + CLOSELY)
        turned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turned] = target
        try:
            self._turn_if_all_wait()
            await turned
        finally:
            self._waiting.pop(turned, None)
        await asyncio.sleep(self._rest_seconds)

    def _turn_if_all_wait(self) -> None:
        if not self._waiting or len(self._waiting) < self._players:
            return
        stage = self._stage
        # What was asked and approved at this instant counts before time goes on.
        stage.turn(0)
        for actor in self._actors:
            actor.act()
        instants = [*self._waiting.values()]
        due = stage.engine.plane.next_due()
        instants += [] if due is None else [due]
        instants += [at for actor in self._actors if (at := actor.next_at())]
        stage.turn(max(min(instants) - self.now(), 0))
        for actor in self._actors:
            actor.act()
        for turned in self._waiting:
            if not turned.done():
                turned.set_result(None)
        self._waiting.clear()
