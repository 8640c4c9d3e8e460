"""A world whose VMs are told what is ordered: the service itself, on a stage."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.model import Vm as StoredVm
from forewarn.instants import Micros
from forewarn.metadata.http import Request as HttpRequest
from forewarn.metadata.identity import Source
from forewarn.metadata.server import Address
from forewarn.protocol.actors import operator
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import Event as StoredEvent
from forewarn.protocol.operations import Operation
from forewarn.reporting import explanations
from forewarn.sim.loop import LoopThread
from forewarn.sim.scenario.model import Scenario
from forewarn.sim.scenario.setup import Setup
from forewarn.sim.sim_server import SimServer
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.testing.kit.any_core import AnyCore
from forewarn.testing.kit.ending import Ending
from forewarn.testing.kit.forms import unknown
from forewarn.testing.kit.setup import Wanted, listen, set_up, vms_of

T = TypeVar("T")

TEST = Who(actor=operator("test"))
"""Who gives the orders, as the history tells it."""


class Core(AnyCore):
    """A stage on the shared loop."""

    def __init__(self, loop: LoopThread, stage: SimServer, setup: Setup) -> None:
        """Stand on `stage`, which lives on `loop`. Made on that loop."""
        super().__init__(
            loop,
            journal=stage.journal,
            faults=stage.faults,
            ending=Ending(lambda: _end(stage)),
        )
        self.setup = setup
        """The fleet and settings that the world began with."""
        self.stage = stage
        self.engine = stage.engine
        ring = self.bell.ring
        stage.on_publish = lambda _publication: ring()
        stage.withheld.on_keep = lambda _approval: ring()
        tell = stage.engine.on_change

        def changed(operations: Sequence[str]) -> None:
            tell(operations)
            ring()

        stage.engine.on_change = changed

    @classmethod
    def begin(cls, loop: LoopThread, wanted: Wanted, played: Scenario | None) -> "Core":
        """Return the core of a new world; raises as `Wanted.setup` and `set_up`."""

        async def made() -> Core:
            setup = wanted.setup(played)
            return cls(loop, await set_up(wanted, setup), setup)

        return loop.wait(made())

    # From outside

    def read(self, ask: Callable[[Reader], T]) -> T:
        """Read what is durable."""
        return self.call(lambda: self.engine.read(ask))

    def order(self, decide: Callable[[Work], T]) -> T:
        """Give an order, as an operator does; raises what the verb raises."""
        return self.call(lambda: self.ordered(decide))

    # What kind of world it is

    @property
    def instant(self) -> Micros:
        """Return the world's time as an instant."""
        return self.engine.now

    def addresses(self) -> Mapping[str, Address]:
        """Return where each VM is served, on the loop."""
        return self.stage.server.addresses()

    def find_event(self, event_id: str) -> StoredEvent | None:
        """Return an event by its id, on the loop."""
        return self.engine.read(lambda reader: reader.get(StoredEvent, event_id))

    def live_events(self) -> list[StoredEvent]:
        """Return the events that documents show, the oldest first, on the loop."""
        found = self.engine.read(lambda reader: list(every(reader, kinds.LIVE_EVENTS)))
        return sorted(found, key=lambda event: event.place)

    def reasons(self, operation_id: str) -> list[str]:
        """Return every reason that holds an operation, in sentences, on the loop."""

        def ask(reader: Reader) -> list[str]:
            operation = reader.get(Operation, operation_id)
            if operation is None:
                return []
            said = explanations.of_operation(reader, operation, now=self.engine.now)
            return list(said["blocked_by"])

        return self.engine.read(ask)

    def kept_back(self, event_id: str) -> tuple[str, Micros]:
        """Return who approved an event and was kept back, and when, or ""."""
        return self.stage.withheld.kept(event_id)

    def leapt(self, event: StoredEvent, until: Micros) -> Micros:
        """Return what was let pass since an event was made, and is in no instant."""
        return self.stage.leapt(event.created, until)

    def glance(self, vm: str, request: HttpRequest) -> object:
        """Return what a VM would be answered at once, on the loop; nobody notes it."""
        engine = self.engine
        return engine.endpoint.handle(
            request,
            Source(address="", vm=vm),
            now=engine.now,
            monotonic=engine.clock.monotonic(),
        )

    def advance(self, by: Micros) -> None:
        """Let time pass at once, on the loop; see `Stage.advance`."""
        self.stage.advance(by)
        self.bell.ring()

    def step(self) -> Micros:
        """Let time pass until something is due, on the loop; return how much did."""
        return self.stage.step()

    def pause(self) -> None:
        """Have nothing fall due until `resume`, on the loop."""
        self.stage.pause()

    def resume(self) -> None:
        """Go on after a pause, on the loop."""
        self.stage.resume()

    # On the loop

    def ordered(self, decide: Callable[[Work], T]) -> T:
        """Give an order, on the loop."""
        result = self.engine.plane.order(TEST, decide, now=self.engine.now)
        self.stage.wake()
        return result

    def vm(self, name: str) -> StoredVm:
        """Return a VM, on the loop; refuse one that is not in the fleet."""
        found = self.engine.read(lambda reader: reader.get(StoredVm, name))
        if found is None:
            raise unknown("VM", name, vms_of(self.engine))
        return found

    def events_of(self, request: str) -> list[StoredEvent]:
        """Return the events of a request, on the loop, in the order of operations."""

        def ask(reader: Reader) -> list[StoredEvent]:
            return [
                event
                for operation in every(reader, kinds.OPERATIONS_OF_REQUEST, request)
                for event in every(
                    reader, kinds.EVENTS_OF_OPERATION, operation.operation_id
                )
            ]

        return self.engine.read(ask)

    async def open_all(self) -> None:
        """Listen for VMs that have come, on the loop; raises StartError."""
        bound = self.addresses()
        for vm in vms_of(self.engine):
            if vm not in bound:
                await listen(self.stage, vm)


def live(core: AnyCore) -> Core:
    """Return a world as one that takes orders; raises RefusedError for any other."""
    if not isinstance(core, Core):
        raise RefusedError(
            "this world replays a recording, and what comes in it cannot be changed",
            hint="begin a world without `replay` for that",
        )
    return core


async def _end(stage: SimServer) -> None:
    ticker = stage.ticker
    broken = ticker is not None and ticker.done()
    await stage.end()
    if broken and ticker is not None:
        # Only a fault of ours ends it: no test may pass beside one.
        ticker.result()
