"""The time of a scenario, on the machine's clock or on a virtual one.

A runner lets time pass until something is due, and continues whenever something may have
happened. It does not distinguish the two kinds of time.
"""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Protocol

from forewarn.instants import SECOND, Micros
from forewarn.sim.sim_server import Actor, SimServer

LOOK_SECONDS = 0.02
"""Interval of checks for actions of clients, on the machine's clock. A check takes
microseconds, and reactions are measured to a fiftieth of a second."""


CLOSELY: Micros = SECOND
"""Maximum step of a virtual clock while the runner waits for clients on sockets. They use
the machine's clock and get a pause after each step."""


class Time(Protocol):
    """The time of a scenario."""

    def now(self) -> Micros:
        """Return the current instant. Jumps of the clock advance it; pauses do not."""
        ...

    async def pass_until(self, target: Micros, *, closely: bool = False) -> None:
        """Let time pass until `target`, or until something may have happened.

        If `closely` is set, the runner waits for clients, so the clock advances in
        small steps and gives them time to act.
        """
        ...

    @contextmanager
    def player(self) -> Generator[None]:
        """Register a scenario, so that a virtual clock advances only while this
        scenario waits too."""
        yield


class RunningTime(Time):
    """The time of a simulated server on the machine's clock."""

    def __init__(self, stage: SimServer) -> None:
        """Use the time of `stage`, with its jumps and pauses."""
        self._stage = stage

    def now(self) -> Micros:
        """Return the current instant."""
        return self._stage.reckoned

    async def pass_until(self, target: Micros, *, closely: bool = False) -> None:
        """Wait until the target or the next check."""
        del closely
        left = (target - self.now()) / SECOND
        await asyncio.sleep(min(max(left, 0.0), LOOK_SECONDS))


class VirtualTime(Time):
    """A virtual time, which advances when all its users wait for it.

    The time advances from timer to timer, so a week passes quickly.
    """

    def __init__(
        self,
        stage: SimServer,
        *,
        actors: Sequence[Actor] = (),
        rest_seconds: float = 0.0,
    ) -> None:
        """Advance the clock of `stage`; `actors` act after each step.

        After each step, clients on sockets have `rest_seconds` of real time to act.
        """
        self._stage = stage
        self._actors = actors
        self._rest_seconds = rest_seconds
        self._players = 0
        self._waiting: dict[asyncio.Future[None], Micros] = {}

    def now(self) -> Micros:
        """Return the current instant."""
        return self._stage.engine.now

    @contextmanager
    def player(self) -> Generator[None]:
        """Register a user: until the context ends, time advances only while this user
        waits too."""
        self._players += 1
        try:
            yield
        finally:
            self._players -= 1
            self._turn_if_all_wait()

    async def pass_until(self, target: Micros, *, closely: bool = False) -> None:
        """Wait for the next step, which comes when all users wait."""
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
        # Process requests and approvals of this instant before time advances.
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
