"""Scenarios in a world: found by name or file, run on its stage, and judged."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from forewarn.instants import SECOND, Micros
from forewarn.sim.engine import World
from forewarn.sim.scenario import builtin, casting, timeline
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
from forewarn.testing.kit.durations import Length, seconds_of
from forewarn.testing.kit.files import check_name
from forewarn.testing.kit.setup import ExpectName
from forewarn.testing.kit.waits import CLIENT_SECONDS, SCENARIO_SECONDS

REST_SECONDS = 0.02
"""Of the machine's time after each turn of a virtual clock: programs under test live
by the machine's, and see each step of a scenario if they poll as often."""


def find_scenario(name: str | Path) -> Scenario:
    """Return a scenario by its name or alias, or of a file: a path, or text like one.

    Raises RefusedError, NotFoundError or ScenarioError.
    """
    if isinstance(name, Path) or is_file(name):
        file = Path(name)
        check_name(file)
        return load_scenario(file)
    return builtin.find(name)


def runner(stage: SimServer, expect: ExpectName, *, since: Micros = 0) -> Runner:
    """Return who runs scenarios on a stage.

    What clients did before `since` does not count.
    """
    time = (
        VirtualTime(stage, rest_seconds=REST_SECONDS)
        if isinstance(stage.engine, World)
        else RunningTime(stage)
    )
    return Runner(stage, time, expected=Expected(expect), since=since)


async def play(runner: Runner, scenario: Scenario) -> Result:
    """Run a scenario, when a client has asked for its events.

    Where nothing is expected of clients, it begins at once.
    """
    if runner.expected is not Expected.NONE:
        await runner.wait_for_clients([scenario], seconds=CLIENT_SECONDS)
    return await runner.run(scenario)


class Playing:
    """The scenario that a world began with: on its way, or over."""

    def __init__(self, core: Core, scenario: Scenario, expect: ExpectName) -> None:
        """Begin it when a client has asked; `expect`: see `ExpectName`.

        On a virtual clock it goes on when the test lets time pass.
        """
        self._core = core
        self._scenario = scenario
        self._stepped: Stepped | None = None
        if isinstance(core.stage.engine, World):
            stepped = Stepped(core.stage, scenario, expected=Expected(expect))
            self._stepped, self._runner = stepped, stepped.runner
            self._begun: Future[Result] = stepped.over
            core.call(stepped.await_first)
        else:
            self._runner = runner(core.stage, expect)
            self._begun = core.begin_running(play(self._runner, scenario))

    async def end(self, timeout: Length | None) -> Result:
        """Wait on the loop for its end; raise NotSeenError if it fails."""
        __tracebackhide__ = True
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
        """Raise NotSeenError for what has failed so far, on the loop.

        It also fails for what a client has yet to do: nobody has seen it do so. Where
        only approvals are expected, later events do not count. Raises what ended it
        otherwise.
        """
        __tracebackhide__ = True
        if self._stepped is not None:
            # What clients have done at this instant may be its end.
            self._stepped.act()
        is_over = self._begun.done()
        if is_over:
            self._begun.result()
        else:
            self._runner.look()
        failures = [each for each in self._runner.findings if each.failed]
        if failures or is_over:
            _judge(self._core, self._scenario, failures, is_over=is_over)
            return
        unseen, hint = self._unseen()
        if not unseen:
            return
        name = self._scenario.name
        lines = [f"scenario {name} was not over, and this was not seen yet:"]
        lines += [f"  {each}" for each in unseen]
        lines.append(f"hint: {hint}")
        raise failure_report.failure(self._core, "\n".join(lines), vms=[])

    def _unseen(self) -> tuple[Sequence[str], str]:
        """Return what is expected of clients and was not seen, and what helps."""
        runner, scenario = self._runner, self._scenario
        expected = runner.expected
        if expected is Expected.NONE:
            return [], ""
        if not (runner.has_begun or runner.may_begin([scenario])):
            return [NO_CLIENT], "give the client its VM's address, or say expect='none'"
        unseen = runner.undecided
        if not runner.has_begun and expected is not Expected.ASKED:
            # It begins in a moment.
            unseen = ["its events"]
        hint = "world.wait_for_scenario() waits for its end"
        if self._stepped is not None:
            hint = "time stands still until world.advance(); " + hint
        if expected is Expected.SCENARIO:
            unseen = unseen or ["its end"]
            hint += ", and expect='approved' or 'asked' demands less"
        return unseen, hint


async def _to_its_end(stepped: Stepped, scenario: Scenario) -> Result:
    """Let time pass until a scenario is over, with a rest for clients on sockets."""
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
    """Run a scenario to its end, on the loop; raise NotSeenError if it fails."""
    __tracebackhide__ = True
    # What the scenario is about is who can play it in this world.
    fleet = core.engine.read(fleet_now)
    scenario = next(casting.casts(scenario, fleet, order=core.addresses()))
    running = runner(core.stage, expect, since=core.engine.now)
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
    """Wait until a scenario is over; raise NotSeenError if it is not in time."""
    __tracebackhide__ = True
    seconds = SCENARIO_SECONDS if timeout is None else seconds_of(timeout)
    await asyncio.wait([playing], timeout=seconds)
    if not playing.done() and timeout is None:
        # Only now, since it takes longer to find out than most scenarios take.
        more = await _length(core, scenario)
        seconds += more
        await asyncio.wait([playing], timeout=more)
    if not playing.done():
        sentence = f"scenario {scenario.name} was not over within {seconds:g} s"
        if why := runner.waits_for():
            sentence += f", and waited for: {'; '.join(why)}"
        raise failure_report.failure(core, sentence, vms=[])


async def _length(core: Core, scenario: Scenario) -> float:
    """Return how many seconds a scenario takes by itself, in a world such as this."""
    if isinstance(core.stage.engine, World):
        return 0.0  # Its clock waits for nobody.
    # A virtual clock knows no floors of notices and impacts.
    orders = [
        step.act.targets for step in scenario.steps if isinstance(step.act, Order)
    ]
    floors = core.stage.floors.lengthen() * sum(map(len, orders))
    return (await timeline.length(scenario, core.setup) + floors) / SECOND


def _judge(
    core: Core,
    scenario: Scenario,
    failures: Sequence[Finding],
    *,
    is_over: bool = True,
) -> None:
    """Raise NotSeenError if anything was not as the scenario expects."""
    __tracebackhide__ = True
    if not failures:
        return
    end = "" if is_over else ", and was not over"
    lines = [f"scenario {scenario.name} failed{end}:"]
    lines += [
        f"  {finding.sentence} ({scenario.file}:{finding.line})" for finding in failures
    ]
    raise failure_report.failure(core, "\n".join(lines), vms=[])
