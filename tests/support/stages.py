"""A simulated fleet on sockets, for synchronous tests."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import MINUTE
from forewarn.protocol.events import Event, EventSource, EventType
from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from forewarn.sim.sim_server import SimServer
from forewarn.sim.staged import Staged
from forewarn.store.memory import MemoryStore
from tests.support.worlds import World

T = TypeVar("T")


class StagedFleet:
    """A simulated server on a virtual clock, with the addresses of its VMs."""

    def __init__(self, loop: LoopThread, *, vms: int = 3) -> None:
        self.loop = loop
        self.at: dict[str, tuple[str, int]] = {}
        self.stage = loop.wait(self._open(vms))

    async def _open(self, vms: int) -> SimServer:
        driver, store = SimulatedDriver(), MemoryStore()
        fleet = fleets.fleet_text(vms)
        stage = SimServer(
            World(store=lambda: store, driver=driver, fleet=fleet), driver
        )
        for vm in fleets.vm_names(vms):
            self.at[vm] = await stage.open(vm)
        return stage

    def call(self, act: Callable[[SimServer], T]) -> T:
        """Call a function with the server on its loop."""
        return self.loop.call(lambda: act(self.stage))

    def set(self, vm: str, line: str) -> None:
        self.call(lambda stage: stage.faults.set(vm, line))

    def event(self, vm: str = "web_0", event_type: EventType = EventType.REBOOT) -> str:
        """Publish an event; return its id."""
        wanted = Staged(
            event_type=event_type,
            vms=(vm,),
            source=EventSource.PLATFORM,
            notice=15 * MINUTE,
        )
        before = {event.event_id for event in self.events()}
        self.call(lambda stage: stage.inject(wanted))
        (event_id,) = {event.event_id for event in self.events()} - before
        return event_id

    def events(self) -> list[Event]:
        """Return the events that documents show."""

        def live(stage: SimServer) -> list[Event]:
            assert isinstance(stage.engine, World)
            return stage.engine.live_events()

        return self.call(live)

    def end(self) -> None:
        self.loop.wait(self.stage.end())


@contextmanager
def staged_fleet(loop: LoopThread, *, vms: int = 3) -> Generator[StagedFleet]:
    """Provide a simulated server during a block."""
    fleet = StagedFleet(loop, vms=vms)
    try:
        yield fleet
    finally:
        fleet.end()
