"""Transcripts of scenarios on the virtual clock."""

import asyncio
from http import HTTPStatus

from forewarn.fleet.model import Vm
from forewarn.instants import HOUR, SECOND, Micros
from forewarn.sim.scenario.file import usual_text
from forewarn.sim.scenario.model import Scenario
from forewarn.sim.scenario.run import Result, Runner, summary
from forewarn.sim.scenario.time import VirtualTime
from forewarn.sim.sim_server import SimServer
from forewarn.sim.virtual_client import VirtualClient
from forewarn.store import kinds
from forewarn.store.port import every
from tests.support.transcripts.story import Story
from tests.support.worlds import taken_apart

REACTS_AFTER = 2 * SECOND
"""Time that a client needs to prepare for an event."""


class Clients:
    """All VMs of a story: they poll, and may approve events that name them."""

    def __init__(self, story: Story, stage: SimServer, *, approve: bool) -> None:
        self._story = story
        self._world = story.world
        self._approves = approve
        self._stage = stage
        self._asked_at: Micros = 0
        self._known: dict[str, Micros] = {}
        """When each event will be approved; 0: it is approved."""
        self._mine: dict[str, str] = {}

    def next_at(self) -> Micros | None:
        due = [at for at in self._known.values() if at]
        return min([self._asked_at + HOUR, *due])

    def act(self) -> None:
        world = self._world
        now = world.now
        if now >= self._asked_at + HOUR:
            self._asked_at = now
            self._story.audience.ask(world)
        for vm in world.read(lambda reader: list(every(reader, kinds.ALL_VMS))):
            self._look(vm)
        for event_id, at in list(self._known.items()):
            if at and at <= now:
                self._known[event_id] = 0
                self._approve(event_id)

    def _look(self, vm: Vm) -> None:
        answer = taken_apart(VirtualClient(self._stage, vm.name).get())
        if answer.status != HTTPStatus.OK or not self._approves:
            return
        for event in answer.events:
            is_mine = vm.wire_name in event["Resources"]
            is_new = event["EventId"] not in self._known
            if is_mine and is_new and event["EventStatus"] == "Scheduled":
                self._known[event["EventId"]] = self._world.now + REACTS_AFTER
                self._mine[event["EventId"]] = vm.name

    def _approve(self, event_id: str) -> None:
        vm = self._mine[event_id]
        refusal = VirtualClient(self._stage, vm).approve(event_id)
        self._story.tell(f"{vm} approves {event_id}: {refusal or 'taken'}")


def tell(scenario: Scenario, *, approve: bool) -> tuple[str, Result]:
    """Return the transcript of a scenario on the virtual clock, and its result.

    Either no VM approves, or every VM approves two seconds after it sees an event.
    """
    return asyncio.run(_tell(scenario, approve=approve))


async def _tell(scenario: Scenario, *, approve: bool) -> tuple[str, Result]:
    story = Story()
    for name, value in scenario.settings.items():
        story.set(name, value)
    world = story.world
    world.apply_fleet(usual_text(scenario.fleet))
    stage = SimServer(world, story.driver)
    for vm in world.read(lambda reader: list(every(reader, kinds.ALL_VMS))):
        story.audience.join(vm.name)
    clients = Clients(story, stage, approve=approve)
    clients.act()
    time = VirtualTime(stage, actors=[clients])
    runner = Runner(stage, time, tell=lambda line: story.tell(f"> {line}"))
    result = await runner.run(scenario)
    story.tell(summary(result))
    await stage.end()
    return story.told(), result
