"""Scenarios in a world: found by name or file, run on its stage, and judged."""

import asyncio
from concurrent.futures import Future
from pathlib import Path

from forewarn.sim.scenario import catalog
from forewarn.sim.scenario.file import load_scenario
from forewarn.sim.scenario.model import Scenario
from forewarn.sim.scenario.run import Result, Runner
from forewarn.sim.scenario.time import RunningTime, TurnedTime
from forewarn.sim.stage import Stage
from forewarn.sim.world import World
from forewarn.testing.kit import telling
from forewarn.testing.kit.core import Core

REST_SECONDS = 0.02
"""Of the machine's time after each turn of a virtual clock: programs under test live
by the machine's, and see each step of a scenario if they poll as often."""


def find_scenario(name: str | Path) -> Scenario:
    """Return a scenario by its name or alias, or of a file: a path, or *.toml.

    Raises NotFoundError or ScenarioError.
    """
    if isinstance(name, Path) or name.endswith(".toml"):
        return load_scenario(Path(name))
    return catalog.find(name)


def runner(stage: Stage) -> Runner:
    """Return who runs scenarios on a stage."""
    time = (
        TurnedTime(stage, rest_seconds=REST_SECONDS)
        if isinstance(stage.engine, World)
        else RunningTime(stage)
    )
    return Runner(stage, time)


async def play(core: Core, scenario: Scenario) -> Result:
    """Run a scenario to its end, on the loop; return how it went."""
    return await runner(core.stage).run(scenario)


async def run(core: Core, scenario: Scenario, seconds: float) -> Result:
    """Run a scenario to its end, on the loop; raise NotSeenError if it fails."""
    __tracebackhide__ = True
    try:
        async with asyncio.timeout(seconds):
            result = await play(core, scenario)
    except TimeoutError:
        raise _not_over(core, scenario.name, seconds) from None
    judge(core, result)
    return result


async def end_of(core: Core, begun: Future[Result], seconds: float) -> Result:
    """Wait on the loop for the end of a scenario; raise NotSeenError if it fails."""
    __tracebackhide__ = True
    if not begun.done():
        await asyncio.wait([asyncio.wrap_future(begun)], timeout=seconds)
    if not begun.done():
        raise _not_over(core, "of this world", seconds)
    result = begun.result()
    judge(core, result)
    return result


def _not_over(core: Core, name: str, seconds: float) -> telling.NotSeenError:
    sentence = f"scenario {name} was not over within {seconds:g} s"
    return telling.failure(core, sentence, vms=[])


def judge(core: Core, result: Result) -> None:
    """Raise NotSeenError unless everything was as the scenario expects."""
    __tracebackhide__ = True
    if result.passed:
        return
    scenario = result.scenario
    lines = [f"scenario {scenario.name} failed:"]
    lines += [
        f"  {finding.sentence} ({scenario.file}:{finding.line})"
        for finding in result.failures
    ]
    raise telling.failure(core, "\n".join(lines), vms=[])
