"""A scenario on a virtual clock that a test advances.

Its runner waits only for the time of the simulated server. It is resumed within the call
that advances the clock: after this call, all due steps are done, and the same calls give
the same times in each run.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from typing import Any

from forewarn.instants import Micros
from forewarn.sim.journal import JournalEntry
from forewarn.sim.scenario.model import Expected, Scenario
from forewarn.sim.scenario.run import Result, Runner
from forewarn.sim.scenario.time import CLOSELY, Time
from forewarn.sim.sim_server import SimServer


class SteppedTime(Time):
    """A virtual time that another component advances."""

    def __init__(self, stage: SimServer) -> None:
        """Use the time of `stage`."""
        self._stage = stage
        self.target: Micros = 0
        """The instant that the runner waits for."""
        self.closely = False
        """Whether the runner waits for clients."""

    def now(self) -> Micros:
        """Return the current instant."""
        return self._stage.engine.now

    async def pass_until(self, target: Micros, *, closely: bool = False) -> None:
        """Wait until time has passed or something may have happened."""
        self.target, self.closely = target, closely
        await _turn()


@types.coroutine
def _turn() -> Generator[None]:
    """Wait until the runner is resumed."""
    yield


class Stepped:
    """A scenario that is resumed step by step. Used on the event loop of the server."""

    def __init__(
        self, stage: SimServer, scenario: Scenario, *, expected: Expected
    ) -> None:
        """Prepare the scenario; `await_first` starts it."""
        self._stage = stage
        self._scenario = scenario
        self._time = SteppedTime(stage)
        self.runner = Runner(stage, self._time, expected=expected)
        self.over: Future[Result] = Future()
        """Result of the coroutine, or the exception that ended it."""
        self._work: Coroutine[Any, None, Result] | None = None
        self._is_acting = False

    @property
    def has_begun(self) -> bool:
        """Return whether the scenario has started."""
        return self._work is not None

    def await_first(self) -> None:
        """Start when the required clients have asked; at once if none is required."""
        self._stage.actors.append(self)
        if self.runner.expected is Expected.NONE:
            self.begin()
        else:
            self._stage.journal.on_seen.append(self._see)

    def begin(self) -> None:
        """Start now, without waiting for clients; later calls do nothing."""
        if self._work is None:
            if self._see in (heard := self._stage.journal.on_seen):
                heard.remove(self._see)
            self._work = self.runner.run(self._scenario)
            self.act()

    def next_at(self) -> Micros | None:
        """Return when the scenario wants to continue; None: not started, or ended."""
        if self._work is None or self._is_acting or self.over.done():
            return None
        return self._time.target

    def act(self) -> None:
        """Run due steps, and judge the actions of clients."""
        if self._work is None or self._is_acting or self.over.done():
            return
        self._is_acting = True
        try:
            self._work.send(None)
        except StopIteration as ended:
            self.over.set_result(ended.value)
        except Exception as fault:
            self.over.set_exception(fault)
            raise
        finally:
            self._is_acting = False

    def turn(self) -> None:
        """Let time pass until something is due, or for one small step for clients."""
        # Process requests and approvals of this instant before time advances.
        self._stage.turn(0)
        at, now = self.next_at(), self._time.now()
        if at is None:
            return
        if self._time.closely:
            at = min(at, now + CLOSELY)
        due = self._stage.engine.plane.next_due()
        at = at if due is None else min(at, due)
        self._stage.turn(max(at - now, 0))

    def _see(self, entry: JournalEntry) -> None:
        if entry.is_answered_poll:
            # The client gets its answer first, and sees the start at its next poll.
            asyncio.get_running_loop().call_soon(self._begin_if_asked)

    def _begin_if_asked(self) -> None:
        if not self.has_begun and self.runner.may_begin([self._scenario]):
            self.begin()
