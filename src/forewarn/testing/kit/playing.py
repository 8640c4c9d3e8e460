"""Find scenarios by name or file, run them in a world, and judge the result."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from forewarn.instants import SECOND, Micros
from forewarn.sim.engine import World
from forewarn.sim.scenario import builtin, casting, rehearsal
from forewarn.sim.scenario.file import is_file, load_scenario
from forewarn.sim.scenario.judging import NO_CLIENT
from forewarn.sim.scenario.model import Expected, Order, Scenario
from forewarn.sim.scenario.run import Finding, Result, Runner
from forewarn.sim.scenario.stepped import Stepped
from forewarn.sim.scenario.time import RunningTime, VirtualTime
from forewarn.sim.sim_server import SimServer
from forewarn.sim.vms import fleet_now
from forewarn.testing.kit import failure_report
from forewarn.testing.kit.core import Core
from forewarn.testing.kit.durations import (
    CLIENT_SECONDS,
    SCENARIO_SECONDS,
    Length,
    seconds_of,
)
from forewarn.testing.kit.files import check_name
from forewarn.testing.kit.setup import ExpectName

__tracebackhide__ = True
"""pytest shows the line of the test that failed, and no line of this module."""

REST_SECONDS = 0.02
"""Pause after each tick of a virtual clock, in seconds of the machine's clock. Programs
under test use the machine's clock and see each step if they poll this often."""


def find_scenario(name: str | Path) -> Scenario:
    """Return a scenario by its name, alias or file; a string can be a file's name.

    Raises RefusedError, NotFoundError or ScenarioError.
    """
    if isinstance(name, Path) or is_file(name):
        file = Path(name)
        check_name(file)
        return load_scenario(file)
    return builtin.find(name)


def runner(sim_server: SimServer, expect: ExpectName, *, since: Micros = 0) -> Runner:
    """Return a runner of scenarios in a simulated server.

    Actions of clients before `since` do not count.
    """
    time = (
        VirtualTime(sim_server, rest_seconds=REST_SECONDS)
        if isinstance(sim_server.engine, World)
        else RunningTime(sim_server)
    )
    return Runner(sim_server, time, expected=Expected(expect), since=since)


async def play(runner: Runner, scenario: Scenario) -> Result:
    """Run a scenario as soon as a client has polled.

    If nothing is expected of clients, it begins at once.
    """
    if runner.expected is not Expected.NONE:
        await runner.wait_for_clients([scenario], seconds=CLIENT_SECONDS)
    return await runner.run(scenario)


class Playing:
    """The scenario that a world began with, running or finished."""

    def __init__(self, core: Core, scenario: Scenario, expect: ExpectName) -> None:
        """Begin the scenario as soon as a client has polled; `expect`: see
        `ExpectName`.

        On a virtual clock it advances when the test advances the time.
        """
        self._core = core
        self._scenario = scenario
        self._stepped: Stepped | None = None
        if isinstance(core.sim_server.engine, World):
            stepped = Stepped(core.sim_server, scenario, expected=Expected(expect))
            self._stepped, self._runner = stepped, stepped.runner
            self._begun: Future[Result] = stepped.over
            core.call(stepped.await_first)
        else:
            self._runner = runner(core.sim_server, expect)
            self._begun = core.begin_running(play(self._runner, scenario))

    async def end(self, timeout: Length | None) -> Result:
        """Wait for the end of the scenario, on the loop; raises NotSeenError if it
        fails."""
        stepped = self._stepped
        ending: asyncio.Future[Result] = (
            asyncio.wrap_future(self._begun)
            if stepped is None
            else asyncio.ensure_future(_to_its_end(stepped, self._scenario))
        )
        try:
            await _over(self._core, self._scenario, self._runner, ending, timeout)
        finally:
            if stepped is not None and not ending.done():
                ending.cancel()
                await asyncio.wait([ending])
        result = ending.result()
        _judge(self._core, result.scenario, result.failures)
        return result

    def judge(self) -> None:
        """Raise NotSeenError if the scenario has failed so far; call it on the loop.

        Actions that a client has not done yet count as failures too. If only approvals
        are expected, later events do not count. Raises the exception that ended it, if
        there was one.
        """
        if self._stepped is not None:
            # Actions of clients at this instant may end the scenario.
            self._stepped.act()
        is_over = self._begun.done()
        if is_over:
            self._begun.result()
        else:
            self._runner.check()
        failures = [finding for finding in self._runner.findings if finding.failed]
        if failures or is_over:
            _judge(self._core, self._scenario, failures, is_over=is_over)
            return
        unseen, hint = self._unseen()
        if not unseen:
            return
        lines = [f"scenario {self._scenario.name} is not finished and still expects:"]
        lines += [f"  {expectation}" for expectation in unseen]
        lines.append(f"hint: {hint}")
        raise failure_report.failure(self._core, "\n".join(lines), vms=[])

    def _unseen(self) -> tuple[Sequence[str], str]:
        """Return the unmet expectations about clients, and a hint."""
        runner, scenario = self._runner, self._scenario
        expected = runner.expected
        if expected is Expected.NONE:
            return [], ""
        if not (runner.has_begun or runner.may_begin([scenario])):
            return [NO_CLIENT], "Give the client its VM's address or use expect='none'."
        unseen = runner.undecided
        if not runner.has_begun and expected is not Expected.ASKED:
            # It is about to begin.
            unseen = ["its events"]
        hint = "Use world.wait_for_scenario() to wait for its end"
        if self._stepped is not None:
            hint = "Use world.advance(), since the virtual clock stands still. " + hint
        if expected is Expected.SCENARIO:
            unseen = unseen or ["its end"]
            hint += ", or expect='approved' or 'asked' to demand less"
        return unseen, hint


async def _to_its_end(stepped: Stepped, scenario: Scenario) -> Result:
    """Advance the time to the end of a scenario, with pauses for clients on sockets."""
    if not stepped.has_begun:
        await stepped.runner.wait_for_clients([scenario], seconds=CLIENT_SECONDS)
        stepped.begin()
    while not stepped.over.done():
        stepped.turn()
        await asyncio.sleep(REST_SECONDS)
    return stepped.over.result()


async def run(
    core: Core, scenario: Scenario, timeout: Length | None, expect: ExpectName
) -> Result:
    """Run a scenario to its end, on the loop; raises NotSeenError if it fails."""
    # VMs of this world play the roles of the scenario.
    fleet = core.engine.read(fleet_now)
    scenario = next(casting.casts(scenario, fleet, order=core.addresses()))
    running = runner(core.sim_server, expect, since=core.engine.now)
    playing = asyncio.ensure_future(play(running, scenario))
    try:
        await _over(core, scenario, running, playing, timeout)
    finally:
        if not playing.done():
            playing.cancel()
            await asyncio.wait([playing])
    result = playing.result()
    _judge(core, scenario, result.failures)
    return result


async def _over(
    core: Core,
    scenario: Scenario,
    runner: Runner,
    playing: asyncio.Future[Result],
    timeout: Length | None,
) -> None:
    """Wait for the end of a scenario; raises NotSeenError after the timeout."""
    seconds = SCENARIO_SECONDS if timeout is None else seconds_of(timeout)
    await asyncio.wait([playing], timeout=seconds)
    if not playing.done() and timeout is None:
        # Calculate this only after a timeout: it takes longer than most scenarios.
        more = await _length(core, scenario)
        seconds += more
        await asyncio.wait([playing], timeout=more)
    if not playing.done():
        sentence = f"scenario {scenario.name} did not end within {seconds:g} s"
        if why := runner.waits_for():
            sentence += f"; it waited for: {'; '.join(why)}"
        raise failure_report.failure(core, sentence, vms=[])


async def _length(core: Core, scenario: Scenario) -> float:
    """Return how many seconds a scenario takes in this world without clients."""
    if isinstance(core.sim_server.engine, World):
        return 0.0  # A virtual clock does not wait.
    # The calculation uses a virtual clock, which has no minimum notices and impacts.
    orders = [
        step.act.targets for step in scenario.steps if isinstance(step.act, Order)
    ]
    floors = core.sim_server.floors.lengthen() * sum(map(len, orders))
    return (await rehearsal.length(scenario, core.setup) + floors) / SECOND


def _judge(
    core: Core,
    scenario: Scenario,
    failures: Sequence[Finding],
    *,
    is_over: bool = True,
) -> None:
    """Raise NotSeenError for unmet expectations of a scenario."""
    if not failures:
        return
    end = "" if is_over else " before its end"
    lines = [f"scenario {scenario.name} failed{end}:"]
    lines += [
        f"  {finding.sentence} ({scenario.file}:{finding.line})" for finding in failures
    ]
    raise failure_report.failure(core, "\n".join(lines), vms=[])
