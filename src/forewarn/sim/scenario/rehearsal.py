"""Whether a fleet can play a scenario: it is tried on a virtual clock, unapproved.

What a fleet lacks shows late, or never: a VM that is to be moved waits for a place for
ever. So whoever brings a fleet is told before anything begins.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from forewarn.protocol.errors import RefusedError
from forewarn.sim import fleet_text
from forewarn.sim.scenario import casting, describe
from forewarn.sim.scenario.model import OTHERS, Expected, Fleet, Scenario
from forewarn.sim.scenario.run import Runner
from forewarn.sim.scenario.setup import setup_for, virtual_stage
from forewarn.sim.scenario.time import VirtualTime
from forewarn.sim.virtual_client import VirtualClient
from forewarn.store import kinds
from forewarn.store.port import every

CASTS_MAX = 8
"""Casts of one scenario that are tried before it is refused. Each takes as long as it
takes to begin with the fleet."""


LARGE = 200
"""VMs of a fleet of which a part is tried first: to begin with ten thousand takes
seconds."""

HOSTS_BESIDE = 50
"""Hosts of that part beside those that play, those with most room first."""


def playable(scenario: Scenario, text: str, *, names: Sequence[str] = ()) -> Scenario:
    """Return the scenario as a fleet can play it.

    `names`: the VMs that play the first roles. Raises RefusedError with the reason.
    Must not be called on a running event loop.
    """
    first = ""
    for number, played in enumerate(casting.casts(scenario, text, names=names)):
        part = _part(played)
        if part is not None and not asyncio.run(why_not(part)):
            return played
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


def _part(scenario: Scenario) -> Scenario | None:
    """Return the scenario on a part of its fleet; None: it is small enough.

    What can be played there can be played on the whole, where there is more room.
    """
    tables = fleet_text.read(scenario.fleet.text)
    vms = tables["vm"].values()
    if len(vms) <= LARGE:
        return None
    used = Counter(str(vm["host"]) for vm in vms)
    names = casting.names_in(scenario)
    play = {str(vm["host"]) for vm in vms if vm["name"] in names}
    play |= names & tables["host"].keys()

    def room(name: str) -> float:
        capacity = tables["host"][name].get("capacity")
        return (math.inf if capacity is None else float(capacity)) - used[name]

    beside = [name for name in tables["host"] if name not in play]
    beside.sort(key=lambda name: (-room(name), used[name]))
    kept = {*play, *beside[:HOSTS_BESIDE]}
    tables["host"] = {n: host for n, host in tables["host"].items() if n in kept}
    tables["vm"] = {n: vm for n, vm in tables["vm"].items() if vm["host"] in kept}
    scopes = {vm.get("scope") for vm in tables["vm"].values()}
    tables["scope"] = {n: s for n, s in tables["scope"].items() if n in scopes}
    return replace(scenario, fleet=Fleet(text=fleet_text.write(tables)))


async def why_not(scenario: Scenario) -> str:
    """Return why a scenario's fleet cannot play it; empty: it can."""
    stage = virtual_stage(setup_for([scenario]))
    try:
        for client in scenario.clients:
            if client.vm != OTHERS:
                VirtualClient(stage, client.vm).get()
        runner = Runner(stage, VirtualTime(stage), expected=Expected.NONE)
        result = await runner.run(scenario)
        if result.failures:
            return result.failures[0].sentence
        return stage.engine.read(
            lambda reader: describe.hindered(
                reader, every(reader, kinds.ALL_OPERATIONS)
            )
        )
    finally:
        await stage.end()
