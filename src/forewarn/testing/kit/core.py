"""What the handles of one world share: its stage, its loop, and how to wait on it.

Tests run in threads and loops of their own. Everything that touches a world runs on
the shared loop; from outside, a call takes a fraction of a millisecond.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any, TypeVar

from forewarn.control import reports
from forewarn.control.work import Who, Work
from forewarn.fleet.model import Vm as StoredVm
from forewarn.instants import Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.protocol.events import Event as StoredEvent
from forewarn.protocol.operations import Operation, Request
from forewarn.sim.journal import Seen
from forewarn.sim.loop import LoopThread
from forewarn.sim.scenario.model import Scenario
from forewarn.sim.scenario.setup import Setup
from forewarn.sim.stage import Stage
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.testing.kit.durations import moment_of
from forewarn.testing.kit.setup import Wanted, listen, set_up, vms_of
from forewarn.testing.kit.waits import Bell, until

T = TypeVar("T")

TEST = Who(actor=operator("test"))
"""Who gives the orders, as the history tells it."""


class Core:
    """A stage on the shared loop, as its handles use it."""

    def __init__(self, loop: LoopThread, stage: Stage, setup: Setup) -> None:
        """Stand on `stage`, which lives on `loop`. Made on that loop."""
        self._loop = loop
        self.setup = setup
        """The fleet and settings that the world began with."""
        self.stage = stage
        self.engine = stage.engine
        self.bell = Bell()
        self._running: set[Future[Any]] = set()
        self._has_ended = False
        self.on_end: list[Callable[[], Awaitable[None]]] = []
        """What must end before the stage does."""
        stage.on_publish = lambda _publication: self.bell.ring()
        stage.withheld.on_keep = lambda _approval: self.bell.ring()
        stage.journal.on_seen = lambda _seen: self.bell.ring()
        stage.journal.on_again = self.bell.ring
        tell = self.engine.ears.on_change

        def changed(operations: Sequence[str]) -> None:
            tell(operations)
            self.bell.ring()

        self.engine.ears.on_change = changed

    @classmethod
    def begin(cls, loop: LoopThread, wanted: Wanted, played: Scenario | None) -> "Core":
        """Return the core of a new world; raises as `Wanted.setup` and `set_up`."""

        async def made() -> Core:
            setup = wanted.setup(played)
            return cls(loop, await set_up(wanted, setup), setup)

        return loop.wait(made())

    # From outside

    def call(self, act: Callable[[], T]) -> T:
        """Run a function on the loop; return its result or raise its exception.

        Raises RefusedError once the world has ended.
        """
        __tracebackhide__ = True
        self._refuse_if_ended()
        try:
            return self._loop.call(act)
        except ForewarnError as error:
            raise error.with_traceback(None) from error.__cause__

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; an interrupt of the test ends it.

        Raises RefusedError once the world has ended.
        """
        __tracebackhide__ = True
        running = self.begin_running(work)
        try:
            return running.result()
        except ForewarnError as error:
            # What the loop's thread did to find out is of no use to a test's author.
            raise error.with_traceback(None) from error.__cause__
        finally:
            running.cancel()

    def begin_running(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop, until it is over or the world ends."""
        __tracebackhide__ = True
        try:
            self._refuse_if_ended()
        except RefusedError:
            work.close()
            raise
        running = self._loop.submit(work)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return running

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, for a test on an asyncio loop of its own."""
        __tracebackhide__ = True
        try:
            return await asyncio.wrap_future(self.begin_running(work))
        except ForewarnError as error:
            raise error.with_traceback(None) from error.__cause__

    def end(self) -> None:
        """End the world: nothing of it listens, waits or runs any more."""
        self._has_ended = True
        for running in [*self._running]:
            running.cancel()
        self._loop.wait(self._end())

    def _refuse_if_ended(self) -> None:
        """Refuse: nothing happens in a world that has ended, so no wait would end."""
        __tracebackhide__ = True
        if self._has_ended:
            raise RefusedError(
                "this world is closed", hint="ask before its `with` or its test ends"
            )

    async def _end(self) -> None:
        for end in reversed(self.on_end):
            await end()
        ticker = self.stage.ticker
        broken = ticker is not None and ticker.done()
        await self.stage.end()
        if broken and ticker is not None:
            # Only a fault of ours ends it: no test may pass beside one.
            ticker.result()

    def read(self, ask: Callable[[Reader], T]) -> T:
        """Read what is durable."""
        return self.call(lambda: self.engine.read(ask))

    def order(self, decide: Callable[[Work], T]) -> T:
        """Give an order, as an operator does; raises what the verb raises."""
        return self.call(lambda: self.ordered(decide))

    def now(self) -> datetime:
        """Return the world's time."""
        moment = moment_of(self.engine.now)
        assert moment is not None, "worlds do not begin in 1970"
        return moment

    # On the loop

    def ordered(self, decide: Callable[[Work], T]) -> T:
        """Give an order, on the loop."""
        result = self.engine.plane.order(TEST, decide, now=self.engine.now)
        self.stage.wake()
        return result

    def event(self, event_id: str) -> StoredEvent:
        """Return an event, on the loop; refuse one that is not known any more."""
        found = self.engine.read(lambda reader: reader.get(StoredEvent, event_id))
        if found is None:
            raise RefusedError(f"the world knows no event {event_id}")
        return found

    def vm(self, name: str) -> StoredVm:
        """Return a VM, on the loop; refuse one that is not in the fleet."""
        found = self.engine.read(lambda reader: reader.get(StoredVm, name))
        if found is None:
            raise RefusedError(f"there is no vm {name} in this world")
        return found

    def events_of(self, made: Request | Operation) -> list[StoredEvent]:
        """Return the events of an order, on the loop, in the order of operations."""

        def ask(reader: Reader) -> list[StoredEvent]:
            operations = (
                [made]
                if isinstance(made, Operation)
                else list(every(reader, kinds.OPERATIONS_OF_REQUEST, made.request_id))
            )
            return [
                event
                for operation in operations
                for event in every(
                    reader, kinds.EVENTS_OF_OPERATION, operation.operation_id
                )
            ]

        return self.engine.read(ask)

    def live_events(self) -> list[StoredEvent]:
        """Return the events that documents show, the oldest first, on the loop."""
        found = self.engine.read(lambda reader: list(every(reader, kinds.LIVE_EVENTS)))
        return sorted(found, key=lambda event: (event.created, event.event_id))

    def requests(self, vms: Sequence[str]) -> list[Seen]:
        """Return what is remembered of the requests of VMs, or of all, on the loop."""
        return [seen for seen in self.stage.journal if not vms or seen.vm in vms]

    def reasons(self, operation_id: str) -> list[str]:
        """Return every reason that holds an operation, in sentences, on the loop."""

        def ask(reader: Reader) -> list[str]:
            operation = reader.get(Operation, operation_id)
            if operation is None:
                return []
            said = reports.explanation(reader, operation, now=self.engine.now)
            return list(said["blocked_by"])

        return self.engine.read(ask)

    async def until(self, ask: Callable[[], T | None], *, seconds: float) -> T | None:
        """Wait on the loop until `ask` returns something; None: it never did."""
        return await until(self.bell, ask, seconds=seconds)

    async def open_all(self) -> None:
        """Listen for VMs that have come, on the loop; raises StartError."""
        bound = self.stage.server.addresses()
        for vm in vms_of(self.engine):
            if vm not in bound:
                await listen(self.stage, vm)

    def advance(self, by: Micros) -> None:
        """Let time pass at once, on the loop; see `Stage.advance`."""
        self.stage.advance(by)
        self.bell.ring()
