"""Trial runs of a scenario on a virtual clock, in which nothing is approved.

A trial run checks whether a fleet can play the scenario. In a real run a missing resource
shows late or never: for example, a VM may wait for a destination host without end. So an
unsuitable fleet is refused before the start.

A trial run also gives the timeline: the events that VMs see if no client approves.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from forewarn.control.transactions.named import need
from forewarn.instants import HOUR, SECOND, Micros, describe_duration
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import DURATION_UNKNOWN, Event, EventStatus
from forewarn.protocol.views import View
from forewarn.sim import fleets
from forewarn.sim.engine import World
from forewarn.sim.news import ShownEvents
from forewarn.sim.scenario import casting, describe
from forewarn.sim.scenario.model import OTHERS, Expected, Fleet, Scenario
from forewarn.sim.scenario.run import Runner
from forewarn.sim.scenario.setup import Setup, setup_for, virtual_stage
from forewarn.sim.scenario.time import VirtualTime
from forewarn.sim.sim_server import SimServer
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
    tables = fleets.read(scenario.fleet.text)
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
    names_kept = {*play, *beside[:HOSTS_BESIDE]}
    tables["host"] = {n: host for n, host in tables["host"].items() if n in names_kept}
    tables["vm"] = {n: vm for n, vm in tables["vm"].items() if vm["host"] in names_kept}
    scopes = {vm.get("scope") for vm in tables["vm"].values()}
    tables["scope"] = {n: s for n, s in tables["scope"].items() if n in scopes}
    return replace(scenario, fleet=Fleet(text=fleets.write(tables)))


async def why_not(scenario: Scenario) -> str:
    """Return why the fleet of a scenario cannot play it; empty: it can."""
    stage = virtual_stage(setup_for([scenario]))
    try:
        for client in scenario.clients:
            if client.vm != OTHERS:
                VirtualClient(stage, client.vm).get()
        result = await Runner(stage, VirtualTime(stage), expected=Expected.NONE).run(
            scenario
        )
        if result.failures:
            return result.failures[0].sentence
        return stage.engine.read(
            lambda reader: describe.hindered(
                reader, every(reader, kinds.ALL_OPERATIONS), now=stage.engine.now
            )
        )
    finally:
        await stage.end()


ASKS_EVERY: Micros = HOUR
"""Polling interval of a client that approves nothing, so that events stay enabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A change that VMs see."""

    at: Micros
    """Time from the start of the scenario."""
    what: str


def play(scenario: Scenario) -> tuple[Moment, ...]:
    """Return the timeline of a scenario at speed 1."""
    moments, _ = asyncio.run(_play(scenario, setup_for([scenario], speed=1.0)))
    return moments


async def length(scenario: Scenario, setup: Setup) -> Micros:
    """Return the duration of a scenario with this setup."""
    _, took = await _play(scenario, setup)
    return took


def lines_of(moments: tuple[Moment, ...]) -> list[str]:
    """Return the lines of a timeline."""
    return [f"{describe_duration(moment.at)}: {moment.what}" for moment in moments]


async def _play(scenario: Scenario, setup: Setup) -> tuple[tuple[Moment, ...], Micros]:
    stage = virtual_stage(setup)
    try:
        listener = _Listener(stage)
        listener.act()
        time = VirtualTime(stage, actors=[listener])
        result = await Runner(stage, time, expected=Expected.NONE).run(scenario)
        return tuple(listener.moments), result.took
    finally:
        await stage.end()


class _Listener:
    """A client in each view that polls and notes changes."""

    def __init__(self, stage: SimServer) -> None:
        assert isinstance(stage.engine, World)
        self._stage = stage
        self._world = stage.engine
        self._began = self._world.now
        self._asked_at = self._began
        self._shown = ShownEvents()
        self.moments: list[Moment] = []
        stage.on_publish = lambda _publication: self._record_events()

    def next_at(self) -> Micros:
        return self._asked_at + ASKS_EVERY

    def act(self) -> None:
        """Poll for every VM at each interval, and for VMs whose view is disabled."""
        world = self._world
        is_time = world.now >= self.next_at() or world.now == self._began
        if is_time:
            self._asked_at = world.now
        views = world.read(lambda reader: list(every(reader, kinds.ALL_VIEWS)))
        silent = {view.view_id for view in views if not view.is_enabled}
        for vm in world.read(lambda reader: list(every(reader, kinds.ALL_VMS))):
            if is_time or vm.view in silent:
                # A deleted VM gets 404, which is harmless.
                VirtualClient(self._stage, vm.name).get()
                if vm.view in silent and world.now > self._began:
                    view = world.read(lambda r, name=vm.view: need(r, View, name))
                    self._note(f"{vm.name} asks again, incarnation {view.incarnation}")
                silent.discard(vm.view)

    def _record_events(self) -> None:
        for event in self._world.read(self._shown.changed):
            ended = "removed" if event.started_at else "removed before it started"
            gone = f"{event.event_type.value} of {_named(event)} is {ended}"
            self._note(_told(event) if event.is_live else gone)

    def _note(self, text: str) -> None:
        self.moments.append(Moment(at=self._world.now - self._began, what=text))


def _told(event: Event) -> str:
    parts = [f"{event.event_type.value} {event.status.value} for {_named(event)}"]
    if event.status is EventStatus.SCHEDULED:
        notice = event.not_before - event.created
        parts.append(f"NotBefore in {describe_duration(notice - notice % SECOND)}")
        parts.append(f"by {event.source.value}")
        if event.duration_seconds != DURATION_UNKNOWN:
            parts.append(f"{event.duration_seconds} s")
    return ", ".join(parts)


def _named(event: Event) -> str:
    return ", ".join(resource.name for resource in event.resources)
