"""The core of a world that runs the real service in a simulated server."""

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
"""The actor of a test's requests in the history."""


class Core(AnyCore):
    """A simulated server on the shared loop."""

    def __init__(self, loop: LoopThread, sim_server: SimServer, setup: Setup) -> None:
        """Use `sim_server`, which runs on `loop`. Call it on that loop."""
        super().__init__(
            loop,
            journal=sim_server.journal,
            faults=sim_server.faults,
            ending=Ending(lambda: _end(sim_server)),
        )
        self.setup = setup
        """The initial fleet and settings."""
        self.sim_server = sim_server
        self.engine = sim_server.engine
        ring = self.bell.ring
        sim_server.on_publish = lambda _publication: ring()
        sim_server.withheld.on_keep = lambda _approval: ring()
        tell = sim_server.engine.on_change

        def changed(operations: Sequence[str]) -> None:
            tell(operations)
            ring()

        sim_server.engine.on_change = changed

    @classmethod
    def begin(cls, loop: LoopThread, wanted: Wanted, played: Scenario | None) -> "Core":
        """Begin a new world; raises as `Wanted.setup` and `set_up`."""

        async def made() -> Core:
            setup = wanted.setup(played)
            return cls(loop, await set_up(wanted, setup), setup)

        return loop.wait(made())

    # From other threads

    def read(self, ask: Callable[[Reader], T]) -> T:
        """Read from the store."""
        return self.call(lambda: self.engine.read(ask))

    def order(self, decide: Callable[[Work], T]) -> T:
        """Make a request as an operator; raises as its verb."""
        return self.call(lambda: self.ordered(decide))

    # Implementation of AnyCore

    @property
    def instant(self) -> Micros:
        """Return the world's time as an instant."""
        return self.engine.now

    def addresses(self) -> Mapping[str, Address]:
        """Return the address of each VM's endpoint; call it on the loop."""
        return self.sim_server.server.addresses()

    def find_event(self, event_id: str) -> StoredEvent | None:
        """Return an event by its ID, or None; call it on the loop."""
        return self.engine.read(lambda reader: reader.get(StoredEvent, event_id))

    def live_events(self) -> list[StoredEvent]:
        """Return the current events, the oldest first; call it on the loop."""
        found = self.engine.read(lambda reader: list(every(reader, kinds.LIVE_EVENTS)))
        return sorted(found, key=lambda event: event.place)

    def reasons(self, operation_id: str) -> list[str]:
        """Return the reasons why an operation waits, as text; call it on the loop."""

        def ask(reader: Reader) -> list[str]:
            operation = reader.get(Operation, operation_id)
            if operation is None:
                return []
            said = explanations.of_operation(reader, operation, now=self.engine.now)
            return list(said["blocked_by"])

        return self.engine.read(ask)

    def kept_back(self, event_id: str) -> tuple[str, Micros]:
        """Return the VM whose approval is withheld, or "", and the time."""
        return self.sim_server.withheld.kept(event_id)

    def leapt(self, event: StoredEvent, until: Micros) -> Micros:
        """Return the time that `advance` skipped between an event and `until`."""
        return self.sim_server.leapt(event.created, until)

    def glance(self, vm: str, request: HttpRequest) -> object:
        """Return the immediate answer to a VM, on the loop, without recording it."""
        engine = self.engine
        return engine.endpoint.handle(
            request,
            Source(address="", vm=vm),
            now=engine.now,
            monotonic=engine.clock.monotonic(),
        )

    def advance(self, by: Micros) -> None:
        """Advance the time at once, on the loop; see `SimServer.advance`."""
        self.sim_server.advance(by)
        self.bell.ring()

    def step(self) -> Micros:
        """Advance the time to the next timer, on the loop; return by how much."""
        return self.sim_server.step()

    def pause(self) -> None:
        """Stop all timers until `resume`; call it on the loop."""
        self.sim_server.pause()

    def resume(self) -> None:
        """Continue after a pause; call it on the loop."""
        self.sim_server.resume()

    # On the loop

    def ordered(self, decide: Callable[[Work], T]) -> T:
        """Make a request as an operator; call it on the loop."""
        result = self.engine.plane.order(TEST, decide, now=self.engine.now)
        self.sim_server.wake()
        return result

    def vm(self, name: str) -> StoredVm:
        """Return a VM, on the loop; raises NotFoundError for an unknown one."""
        found = self.engine.read(lambda reader: reader.get(StoredVm, name))
        if found is None:
            raise unknown("VM", name, vms_of(self.engine))
        return found

    def events_of(self, request: str) -> list[StoredEvent]:
        """Return the events of a request, sorted by operation; call it on the loop."""

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
        """Open listeners for new VMs, on the loop; raises StartError."""
        bound = self.addresses()
        for vm in vms_of(self.engine):
            if vm not in bound:
                await listen(self.sim_server, vm)


def live(core: AnyCore) -> Core:
    """Return the core of a world that accepts requests; raises RefusedError if not."""
    if not isinstance(core, Core):
        raise RefusedError(
            "this world replays a recording, and its events cannot be changed",
            hint="Begin a world without `replay`.",
        )
    return core


async def _end(sim_server: SimServer) -> None:
    ticker = sim_server.ticker
    broken = ticker is not None and ticker.done()
    await sim_server.end()
    if broken and ticker is not None:
        # Only a bug in forewarn ends the ticker: then the test must fail.
        ticker.result()
