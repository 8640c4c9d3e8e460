"""The core of a world: its loop, its recorded requests, waits, and its server.

Tests run in their own threads and loops. All code that touches a world runs on the
shared loop. A call from another thread takes a fraction of a millisecond. `Core` runs the
real service in a simulated server; `replayed.ReplayCore` replays a recording.
"""

import asyncio
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from datetime import datetime
from typing import Any, TypeVar

from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.model import Vm as StoredVm
from forewarn.instants import Micros
from forewarn.metadata.http import Request
from forewarn.metadata.identity import Source
from forewarn.metadata.server import Address
from forewarn.protocol.actors import operator
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.protocol.events import Event as StoredEvent
from forewarn.protocol.operations import Operation
from forewarn.reporting import explanations
from forewarn.sim.journal import JournalEntry
from forewarn.sim.loop import LoopThread
from forewarn.sim.replay import Replay
from forewarn.sim.scenario.model import Scenario
from forewarn.sim.scenario.setup import Setup
from forewarn.sim.sim_server import SimServer
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.testing.kit.durations import moment_of
from forewarn.testing.kit.ending import SHARED_LOOP, Ending
from forewarn.testing.kit.forms import unknown
from forewarn.testing.kit.setup import Wanted, listen, set_up, vms_of

__tracebackhide__ = True
"""pytest shows the line of the test that failed, and no line of this module."""

T = TypeVar("T")

CLOSED = "Use the world before its `with` block or its test ends."


class Bell(asyncio.Event):
    """Wakes all waits after each change in the world. Used on its loop only."""

    def ring(self) -> None:
        """Wake all waits."""
        self.set()
        self.clear()


class AnyCore(ABC):
    """The core of a world on the shared loop, used by the objects that tests have."""

    def __init__(
        self, loop: LoopThread, served: SimServer | Replay, *, ending: Ending
    ) -> None:
        """Use `loop` until the end of the world, and then return its lease. Call it on
        that loop."""
        self._loop = loop
        self._served = served
        self.journal = served.journal
        """Every request of the VMs."""
        self.faults = served.faults
        """Faults between the VMs and the endpoint."""
        self.bell = Bell()
        self.ending = ending
        """Whether the world has ended, and what must end with it."""
        # Code on the loop must hold no reference to this object: it would never be
        # collected.
        ring = self.bell.ring
        self.journal.on_seen.append(lambda _seen: ring())
        self.journal.on_again = ring
        self._abandoned = weakref.finalize(self, ending.abandon, loop)
        self._abandoned.atexit = False

    # From other threads
    def call(self, act: Callable[[], T]) -> T:
        """Run a function on the loop; return its result or raise its exception.

        Raises RefusedError if the world has ended.
        """
        self.refuse_if_gone()
        try:
            return self._loop.call(act)
        except ForewarnError as error:
            raise error.with_traceback(None) from error.__cause__

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; an interrupt of the test cancels it.

        Raises RefusedError if the world has ended or ends during the wait.
        """
        running = self.begin_running(work)
        try:
            return running.result()
        except ForewarnError as error:
            # Frames of the loop's thread would not help the author of a test.
            raise error.with_traceback(None) from error.__cause__
        except CancelledError:
            raise self._closed_meanwhile() from None
        finally:
            running.cancel()

    def begin_running(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop until it finishes or the world ends."""
        try:
            self.refuse_if_gone()
        except RefusedError:
            work.close()
            raise
        running = self._loop.submit(work)
        self.ending.add(running)
        return running

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, for a test on another asyncio loop."""
        running = self.begin_running(work)
        try:
            return await asyncio.wrap_future(running)
        except ForewarnError as error:
            raise error.with_traceback(None) from error.__cause__
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.ending.has_ended or (task is not None and task.cancelling()):
                # The test itself was cancelled.
                raise
            raise self._closed_meanwhile() from None

    def end(self) -> None:
        """End the world: stop its listeners, waits and tasks.

        In a forked process, end nothing: the world belongs to the parent process.
        """
        self._abandoned.detach()
        if self.ending.is_forked:
            return
        try:
            self.ending.begin()
            self._loop.wait(self.ending.run())
        finally:
            SHARED_LOOP.give_back()

    def refuse_if_gone(self) -> None:
        """Raise RefusedError if the world has ended or belongs to another process."""
        if self.ending.has_ended:
            raise RefusedError("this world is closed", hint=CLOSED)
        if self.ending.is_forked:
            raise RefusedError(
                f"this world belongs to process {self.ending.process}, and this is "
                f"process {os.getpid()}, a fork of it",
                hint="Begin another world here, or use its VMs through their URLs.",
            )

    def _closed_meanwhile(self) -> RefusedError:
        return RefusedError("this world was closed while this waited", hint=CLOSED)

    def now(self) -> datetime:
        """Return the world's time in UTC."""
        moment = moment_of(self.instant)
        assert moment is not None, "worlds do not begin in 1970"
        return moment

    # Different in each kind of world

    @property
    @abstractmethod
    def instant(self) -> Micros:
        """Return the world's time as an instant."""

    @abstractmethod
    def find_event(self, event_id: str) -> StoredEvent | None:
        """Return an event by its ID, or None; call it on the loop."""

    @abstractmethod
    def live_events(self) -> list[StoredEvent]:
        """Return the current events, the oldest first; call it on the loop."""

    @abstractmethod
    def reasons(self, operation_id: str) -> list[str]:
        """Return the reasons why an operation waits, as text; call it on the loop."""

    @abstractmethod
    def kept_back(self, event_id: str) -> tuple[str, Micros]:
        """Return the VM whose approval is withheld, or "", and the time."""

    @abstractmethod
    def jumped(self, event: StoredEvent, until: Micros) -> Micros:
        """Return the time that `advance` skipped between an event and `until`.

        Instants of the machine's clock do not contain it.
        """

    @abstractmethod
    def glance(self, vm: str, request: Request) -> object:
        """Return the immediate answer to a VM, on the loop, without recording it."""

    @abstractmethod
    def advance(self, by: Micros) -> None:
        """Advance the time at once; call it on the loop."""

    @abstractmethod
    def step(self) -> Micros:
        """Advance the time to the next timer, on the loop; return by how much."""

    # On the loop

    def addresses(self) -> Mapping[str, Address]:
        """Return the address of each VM's endpoint; call it on the loop."""
        return self._served.server.addresses()

    def pause(self) -> None:
        """Stop all timers until `resume`; call it on the loop."""
        self._served.pause()

    def resume(self) -> None:
        """Continue after a pause; call it on the loop."""
        self._served.resume()

    def event(self, event_id: str) -> StoredEvent:
        """Return an event, on the loop; raises NotFoundError for an unknown one."""
        stored = self.find_event(event_id)
        if stored is None:
            known = [found.event_id for found in self.live_events()]
            raise unknown("event", event_id, known)
        return stored

    def check_vm(self, name: str) -> None:
        """Raise NotFoundError if there is no such VM; call it on the loop."""
        known = self.addresses()
        if name not in known:
            raise unknown("VM", name, known)

    def requests(self, vms: Sequence[str]) -> list[JournalEntry]:
        """Return the recorded requests of some VMs, or of all; call it on the loop."""
        return [entry for entry in self.journal if not vms or entry.vm in vms]

    async def until(self, ask: Callable[[], T | None], *, seconds: float) -> T | None:
        """Wait on the loop until `ask` returns a value; return None after the timeout.

        `ask` is called now, after each change, and once more at the end.
        """
        try:
            async with asyncio.timeout(seconds):
                while (answer := ask()) is None:
                    await self.bell.wait()
                return answer
        except TimeoutError:
            return ask()


TEST = Who(actor=operator("test"))
"""The actor of a test's requests in the history."""


class Core(AnyCore):
    """A simulated server on the shared loop."""

    def __init__(self, loop: LoopThread, sim_server: SimServer, setup: Setup) -> None:
        """Use `sim_server`, which runs on `loop`. Call it on that loop."""
        super().__init__(loop, sim_server, ending=Ending(lambda: _end(sim_server)))
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
        """Begin a new world; raises the errors of `Wanted.setup` and `set_up`."""

        async def begun() -> Core:
            setup = wanted.setup(played)
            return cls(loop, await set_up(wanted, setup), setup)

        return loop.wait(begun())

    # From other threads

    def read(self, ask: Callable[[Reader], T]) -> T:
        """Read from the store."""
        return self.call(lambda: self.engine.read(ask))

    def order(self, decide: Callable[[Work], T]) -> T:
        """Make a request as an operator; raises the errors of its verb."""
        return self.call(lambda: self.ordered(decide))

    # Implementation of AnyCore

    @property
    def instant(self) -> Micros:
        """Return the world's time as an instant."""
        return self.engine.now

    def find_event(self, event_id: str) -> StoredEvent | None:
        """Return an event by its ID, or None; call it on the loop."""
        return self.engine.read(lambda reader: reader.get(StoredEvent, event_id))

    def live_events(self) -> list[StoredEvent]:
        """Return the current events, the oldest first; call it on the loop."""
        events = self.engine.read(lambda reader: list(every(reader, kinds.LIVE_EVENTS)))
        return sorted(events, key=lambda event: event.place)

    def reasons(self, operation_id: str) -> list[str]:
        """Return the reasons why an operation waits, as text; call it on the loop."""

        def ask(reader: Reader) -> list[str]:
            operation = reader.get(Operation, operation_id)
            if operation is None:
                return []
            explanation = explanations.of_operation(
                reader, operation, now=self.engine.now
            )
            return list(explanation["blocked_by"])

        return self.engine.read(ask)

    def kept_back(self, event_id: str) -> tuple[str, Micros]:
        """Return the VM whose approval is withheld, or "", and the time."""
        return self.sim_server.withheld.kept(event_id)

    def jumped(self, event: StoredEvent, until: Micros) -> Micros:
        """Return the time that `advance` skipped between an event and `until`."""
        return self.sim_server.jumped(event.created, until)

    def glance(self, vm: str, request: Request) -> object:
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

    # On the loop

    def ordered(self, decide: Callable[[Work], T]) -> T:
        """Make a request as an operator; call it on the loop."""
        result = self.engine.plane.order(TEST, decide, now=self.engine.now)
        self.sim_server.wake()
        return result

    def vm(self, name: str) -> StoredVm:
        """Return a VM, on the loop; raises NotFoundError for an unknown one."""
        stored = self.engine.read(lambda reader: reader.get(StoredVm, name))
        if stored is None:
            raise unknown("VM", name, vms_of(self.engine))
        return stored

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
