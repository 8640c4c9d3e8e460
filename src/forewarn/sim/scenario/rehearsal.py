"""Whether a fleet can play a scenario: it is tried on a virtual clock, unapproved.

What a fleet lacks shows late, or never: a VM that is to be moved waits for a place for
ever. So whoever brings a fleet is told before anything begins.
"""

import asyncio
from collections.abc import Sequence

from forewarn.protocol.errors import RefusedError
from forewarn.sim.scenario import casting, open_work
from forewarn.sim.scenario.model import OTHERS, Expected, Scenario
from forewarn.sim.scenario.run import Runner
from forewarn.sim.scenario.setup import setup_for, virtual_stage
from forewarn.sim.scenario.time import TurnedTime
from forewarn.sim.virtual_client import VirtualClient
from forewarn.sim.world import World

CASTS_MAX = 8
"""Casts of one scenario that are tried before it is refused. Each takes as long as it
takes to begin with the fleet."""


def playable(scenario: Scenario, text: str, *, names: Sequence[str] = ()) -> Scenario:
    """Return the scenario as a fleet can play it.

    `names`: the VMs that play the first roles. Raises RefusedError with the reason.
    Must not be called on a running event loop.
    """
    first = ""
    for number, played in enumerate(casting.casts(scenario, text, names=names)):
        why = asyncio.run(why_not(played))
        if not why:
            return played
        first = first or why
        if number + 1 == CASTS_MAX:
            break
    raise RefusedError(
        f"{scenario.name} cannot be played on this fleet: {first}",
        hint="change the fleet, or leave it out; `forewarn simulate --show "
        f"{scenario.name}` prints what the scenario does",
    )


async def why_not(scenario: Scenario) -> str:
    """Return why a scenario's fleet cannot play it; empty: it can."""
    stage = virtual_stage(setup_for([scenario]))
    try:
        for client in scenario.clients:
            if client.vm != OTHERS:
                VirtualClient(stage, client.vm).get()
        runner = Runner(stage, TurnedTime(stage), expected=Expected.NONE)
        result = await runner.run(scenario)
        if result.failures:
            return result.failures[0].sentence
        engine = stage.engine
        assert isinstance(engine, World), "a rehearsal is on a virtual clock"
        made = engine.operations()
        return engine.read(lambda reader: open_work.hindered(reader, made))
    finally:
        await stage.end()
