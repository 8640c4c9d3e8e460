"""A scenario on a virtual clock that somebody else turns: it goes on when time passes.

Its runner waits for the stage's time and for nothing else, so it is resumed by hand,
within the call that has let time pass: after that call, all of its steps that were due
are done, and the same calls give the same times in each run.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from typing import Any

from forewarn.instants import Micros
from forewarn.sim.journal import Seen
from forewarn.sim.scenario.model import Expected, Scenario
from forewarn.sim.scenario.run import Result, Runner
from forewarn.sim.scenario.time import CLOSELY, Time
from forewarn.sim.sim_server import SimServer


class SteppedTime(Time):
    """A stage's virtual time, as who does not turn it sees it."""

    def __init__(self, stage: SimServer) -> None:
        """Take the time of `stage`."""
        self._stage = stage
        self.target: Micros = 0
        """What is waited for."""
        self.closely = False
        """What clients do is waited for."""

    def now(self) -> Micros:
        """Return the present instant."""
        return self._stage.engine.now

    async def pass_until(self, target: Micros, *, closely: bool = False) -> None:
        """Wait until time has passed, or something may have happened."""
        self.target, self.closely = target, closely
        await _turn()


@types.coroutine
def _turn() -> Generator[None]:
    """Wait until whoever turns the clock resumes the runner."""
    yield


class Stepped:
    """One scenario that is stepped through. Used on the stage's loop."""

    def __init__(
        self, stage: SimServer, scenario: Scenario, *, expected: Expected
    ) -> None:
        """Begin with the first good question for events, see `await_first`."""
        self._stage = stage
        self._scenario = scenario
        self._time = SteppedTime(stage)
        self.runner = Runner(stage, self._time, expected=expected)
        self.over: Future[Result] = Future()
        """Its result, or what ended it otherwise."""
        self._work: Coroutine[Any, None, Result] | None = None
        self._is_acting = False

    @property
    def has_begun(self) -> bool:
        """Tell whether its first step was due."""
        return self._work is not None

    def await_first(self) -> None:
        """Begin as soon as those have asked who are told; at once if none is expected."""
        self._stage.actors.append(self)
        if self.runner.expected is Expected.NONE:
            self.begin()
        else:
            self._stage.journal.on_seen.append(self._see)

    def begin(self) -> None:
        """Begin now, whoever has asked; later calls do nothing."""
        if self._work is None:
            if self._see in (heard := self._stage.journal.on_seen):
                heard.remove(self._see)
            self._work = self.runner.run(self._scenario)
            self.act()

    def next_at(self) -> Micros | None:
        """Return when it wants to go on; None: not yet, or it is over."""
        if self._work is None or self._is_acting or self.over.done():
            return None
        return self._time.target

    def act(self) -> None:
        """Do what is due, and judge what clients have done."""
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
        """Let time pass until something is due, or what clients do was waited for."""
        # What was asked and approved at this instant counts before time goes on.
        self._stage.turn(0)
        at, now = self.next_at(), self._time.now()
        if at is None:
            return
        if self._time.closely:
            at = min(at, now + CLOSELY)
        due = self._stage.engine.plane.next_due()
        at = at if due is None else min(at, due)
        self._stage.turn(max(at - now, 0))

    def _see(self, seen: Seen) -> None:
        if seen.is_answered_poll:
            # Who asked has its answer first, and finds it begun at its next question.
            asyncio.get_running_loop().call_soon(self._begin_if_asked)

    def _begin_if_asked(self) -> None:
        if not self.has_begun and self.runner.may_begin([self._scenario]):
            self.begin()
