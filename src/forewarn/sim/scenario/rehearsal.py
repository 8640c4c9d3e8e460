"""Check whether a fleet can play a scenario, by a trial run on a virtual clock.

In a real run a missing resource shows late or never: for example, a VM may wait for a
destination host without end. So an unsuitable fleet is refused before the start. Nothing
is approved in the trial run.
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
"""Maximum number of assignments of roles that are tried. Each takes as long as a start with
the fleet."""


LARGE = 200
"""Number of VMs above which a part of the fleet is tried first. A start with ten thousand
VMs takes seconds."""

HOSTS_BESIDE = 50
"""Further hosts of this part, those with the most capacity first."""


def playable(scenario: Scenario, text: str, *, names: Sequence[str] = ()) -> Scenario:
    """Return the scenario with VMs of a fleet that can play it.

    `names` are the VMs of the first roles. Raises RefusedError with the reason. Must not
    be called on a running event loop.
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
        hint="Change the fleet, or remove it. Run `forewarn simulate --show "
        f"{scenario.name}` to see what the scenario needs.",
    )


def _part(scenario: Scenario) -> Scenario | None:
    """Return the scenario on a part of its fleet, or None if the fleet is small.

    If the part can play the scenario, the whole fleet can too, with more capacity.
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
    """Return why the fleet of a scenario cannot play it; empty: it can."""
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
