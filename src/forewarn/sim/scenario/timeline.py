"""The timeline of a scenario: the events that VMs see if no client approves.

The scenario runs on a virtual clock, so the timeline is always accurate.
"""

import asyncio
from dataclasses import dataclass

from forewarn.control.transactions.work import need
from forewarn.instants import HOUR, SECOND, Micros, describe_duration
from forewarn.protocol.events import DURATION_UNKNOWN, Event, EventStatus
from forewarn.protocol.views import View
from forewarn.sim.engine import World
from forewarn.sim.news import ShownEvents
from forewarn.sim.scenario.model import Expected, Scenario
from forewarn.sim.scenario.run import Runner
from forewarn.sim.scenario.setup import Setup, setup_for, virtual_stage
from forewarn.sim.scenario.time import VirtualTime
from forewarn.sim.sim_server import SimServer
from forewarn.sim.virtual_client import VirtualClient
from forewarn.store import kinds
from forewarn.store.port import every

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
        runner = Runner(stage, time, expected=Expected.NONE)
        result = await runner.run(scenario)
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
        stage.on_publish = lambda _publication: self._look()

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

    def _look(self) -> None:
        for event in self._world.read(self._shown.changed):
            ended = "removed" if event.started_at else "removed before it started"
            gone = f"{event.event_type.value} of {_named(event)} is {ended}"
            self._note(_told(event) if event.is_live else gone)

    def _note(self, what: str) -> None:
        self.moments.append(Moment(at=self._world.now - self._began, what=what))


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
