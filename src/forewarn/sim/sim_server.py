"""A simulated server: an engine that VMs reach through sockets, on one event loop.

Each VM has its own listener, so its address identifies it. With the machine's clock,
timers run automatically. With a virtual clock, time passes only when `advance` is
called. Many servers can share one loop, and there is no global state. A server prints
nothing and reads no settings.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from forewarn.clock import VirtualClock
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import SECOND, Micros, round_up_to_second
from forewarn.metadata.server import Address, Server
from forewarn.protocol.actors import service_part
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, Request
from forewarn.protocol.published import Publication
from forewarn.service.readings import Watchers
from forewarn.sim import redating, staged
from forewarn.sim.deviations import Inspector
from forewarn.sim.engine import (
    Engine,
    EngineControlGateway,
    EngineOperatorGateway,
    Withheld,
    World,
)
from forewarn.sim.faults.player import Player
from forewarn.sim.front import Front
from forewarn.sim.journal import Journal
from forewarn.store import kinds

T = TypeVar("T")

JUMPS_MAX = 10_000
"""Maximum number of remembered jumps on the machine's clock: more than any test makes
between an event and its approval."""

TICK_SECONDS_MAX = 1.0
"""Maximum sleep of the timer task, because the machine's clock may be changed."""

HOST = "127.0.0.1"
"""Default address of VMs; other machines cannot reach it."""

SIMULATOR = Who(actor=service_part("simulator"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """Minimum times after division by the speed; 0: no minimum.

    A client that polls once a second is correct, and no speed makes it faster. A virtual
    clock waits for its clients, so it needs no minimums, and a service divides exactly.
    """

    notice: Micros = 0
    """Minimum notice, from the request to NotBefore."""
    impact: Micros = 0
    """Minimum impact, during which an event is shown as Started."""

    def lengthen(self) -> Micros:
        """Return the maximum time by which the minimums extend one operation."""
        return self.notice + self.impact


NONE = Floors()

CLIENTS = Floors(notice=5 * SECOND, impact=2 * SECOND)
"""Minimum times for a client that polls once a second. Notice: 1 s until a poll shows the
event, 3 s to prepare, and 1 s for a poll and the approval. Impact: long enough for one
poll, even if the previous poll was a second late."""


class Actor(Protocol):
    """A client or scenario on a virtual clock."""

    def next_at(self) -> Micros | None:
        """Return when the actor wants to act; None: only after a change."""
        ...

    def act(self) -> None:
        """Act now, if something is due."""
        ...


class SimServer:
    """An engine on sockets. It is created and used on a running loop."""

    def __init__(
        self, engine: Engine, driver: SimulatedDriver, *, floors: Floors = NONE
    ) -> None:
        """Serve `engine`, whose driver is `driver`, without listening yet.

        `floors` are the minimum times of both.
        """
        self.engine = engine
        self.driver = driver
        self.floors = floors
        self.withheld = Withheld()
        self.watchers = Watchers()
        self.journal = Journal()
        """Every request of the VMs."""
        self.faults = Player(
            now=lambda: self.reckoned, vms=engine.endpoint.directory.by_vm.keys()
        )
        """The faults between VMs and the endpoint."""
        self.front = Front(
            faults=self.faults,
            journal=self.journal,
            inspector=Inspector(
                route=lambda request: engine.endpoint.route(request, signed=False),
                event=lambda event_id: engine.read(
                    lambda reader: reader.get(Event, event_id)
                ),
            ),
            now=lambda: engine.now,
        )
        self.server = Server(
            endpoint=engine.endpoint,
            gateway=EngineControlGateway(
                engine, withheld=self.withheld, wake=self.wake
            ),
            clock=engine.clock,
            interceptor=self.front,
        )
        self.gateway = EngineOperatorGateway(
            engine, watchers=self.watchers, wake=self.wake
        )
        engine.on_publish = self._published
        engine.on_change = self.watchers.queue
        self._paused_at: Micros | None = None
        self._jumped: Micros = 0
        self._jumps: deque[tuple[Micros, Micros]] = deque(maxlen=JUMPS_MAX)
        """Instant and length of each jump (`advance` or `step`) on the system clock."""
        self._alarm = asyncio.Event()
        self.ticker: asyncio.Task[None] | None = None
        """The timer task. Before `end`, it ends only because of a bug in forewarn."""
        self.actors: list[Actor] = []
        """The actors act after each advance of the clock."""
        self.publications = 0
        """Number of publications. Every start and end of an event is published."""
        self.on_publish: Callable[[Publication], None] = lambda _publication: None
        """Called with every publication after it is served: a live view, a recorder."""

    # Listening

    async def open(self, vm: str, *, host: str = HOST, port: int = 0) -> Address:
        """Listen for a VM; return the address. Raises OSError."""
        return await self.server.serve_guest(vm, host, port)

    def begin(self) -> None:
        """Start the timer task, on the machine's clock."""
        assert not isinstance(self.engine.clock, VirtualClock), "the clock is virtual"
        self.ticker = asyncio.get_running_loop().create_task(self._tick())

    async def end(self, *, grace_seconds: float = 0.0) -> None:
        """Stop serving, after a grace period for current requests."""
        if self.ticker is not None:
            self.ticker.cancel()
            await asyncio.wait([self.ticker])
        self.watchers.close()
        await self.server.stop(grace_seconds=grace_seconds)
        self.engine.store.close()

    # Time

    def wake(self) -> None:
        """Recheck timers and delayed answers after a change."""
        self._alarm.set()
        self.server.wake()

    @property
    def is_paused(self) -> bool:
        """Return whether model time is paused."""
        return self._paused_at is not None

    @property
    def reckoned(self) -> Micros:
        """Return the current instant, corrected by all jumps and pauses.

        Durations since a start are measured with this instant; NotBefore is not.
        """
        paused = self._paused_at
        return (self.engine.now if paused is None else paused) + self._jumped

    def jumped(self, begin: Micros, end: Micros) -> Micros:
        """Return the total length of the jumps between two instants of the engine.

        The length is 0 on a virtual clock, whose instants include the jumps.
        """
        return sum(by for at, by in self._jumps if begin < at <= end)

    def pause(self) -> None:
        """Fire no timers until `resume`. Requests are still answered."""
        if self._paused_at is None:
            self._paused_at = self.engine.now

    def resume(self) -> None:
        """Continue, and postpone everything pending by the length of the pause."""
        if self._paused_at is not None:
            paused, self._paused_at = self._paused_at, None
            self._bring_nearer(paused - self.engine.now)

    def advance(self, by: Micros) -> None:
        """Let the duration `by` pass at once.

        A virtual clock advances by `by`. On the machine's clock, everything pending
        comes nearer by `by`, and the timers fire in their order.

        When a notice ends, its NotBefore may be up to a second later. This rest is
        skipped too: a virtual clock advances by `by` and the rest. On the machine's
        clock, NotBefore also comes nearer by the rest.
        """
        self._pass(0)
        self._act()
        left, is_stuck = by, False
        while left > 0:
            due = self._next_end()
            jump = left if due is None else min(left, max(due - self.engine.now, 0))
            if jump == 0 and is_stuck:
                jump = min(left, SECOND)
            is_stuck = jump == 0
            self._pass(jump)
            self._act()
            left -= jump
        self.wake()

    def turn(self, by: Micros) -> None:
        """Let exactly `by` pass on a virtual clock."""
        assert isinstance(self.engine, World), "the clock is not virtual"
        self.engine.advance(by)
        self._act()
        self.wake()

    def _pass(self, by: Micros) -> None:
        """Let `by` pass, and the rest until the NotBefore of ended notices."""
        engine = self.engine
        if not isinstance(engine, World):
            if by:
                self._jumps.append((engine.now, by))
            self._bring_nearer(by)
            engine.settle()
            return
        engine.advance(by)
        second = round_up_to_second(engine.now)
        if any(ends <= engine.now for ends in self._notice_ends(second)):
            engine.advance_to(second)

    def _next_end(self) -> Micros | None:
        """Return when the next timer fires. A notice counts at its end, not at NotBefore."""
        due = self.engine.plane.next_due()
        ends = [] if due is None else self._notice_ends(round_up_to_second(due))
        return min(self._instants(due, *ends), default=None)

    def _instants(self, *due: Micros | None) -> list[Micros]:
        """Return the given instants and those of actors, without None."""
        wanted = [*due, *(actor.next_at() for actor in self.actors)]
        return [at for at in wanted if at is not None]

    def _act(self) -> None:
        for actor in self.actors:
            actor.act()

    def _notice_ends(self, until: Micros) -> list[Micros]:
        """Return the ends of notices whose NotBefore is at or before `until`."""
        due = self.engine.read(
            lambda reader: reader.due(
                kinds.OPERATIONS_DUE, until, limit=redating.ENDS_MAX
            )
        )
        return [
            self.engine.notice_ends.of(operation)
            for operation in due
            if operation.due_at == operation.not_before
        ]

    def step(self) -> Micros:
        """Jump to the next timer; return the distance, or 0 if there is no timer."""
        due = min(self._instants(self.engine.plane.next_due()), default=None)
        if due is None:
            return 0
        far = max(due - self.engine.now, 0)
        self._pass(max(far, 1))
        self._act()
        self.wake()
        return far

    def _bring_nearer(self, by: Micros) -> None:
        now = self.engine.now
        self._jumped += by
        self.driver.bring_nearer(by, now=now)
        ends = self.engine.notice_ends
        self._order(lambda work: redating.bring_nearer(work, by, ends))

    # Events

    def inject(self, wanted: staged.Staged) -> Request:
        """Publish an event; see `staged.inject`."""
        return self._order(lambda work: staged.inject(work, wanted))

    def move(self, operation_id: str, stop: staged.Stop) -> Operation:
        """Advance an operation to `stop` now; see `staged.move`.

        If the guard holds the operation, it advances as far as allowed. The returned
        operation shows its state.
        """
        engine = self.engine
        moved = self._order(lambda work: staged.move(work, operation_id, stop))
        for _ in staged.Stop:
            if staged.is_at(moved, stop):
                break
            self.driver.bring_nearer(
                _FAR, now=engine.now, operation_id=moved.operation_id
            )
            engine.settle()
            moved = self._operation(operation_id)
            if not staged.is_at(moved, stop):
                moved = self._order(lambda work: staged.move(work, operation_id, stop))
        return moved

    def release(self, vm: str) -> list[str]:
        """Release the withheld approvals of a VM; return the refusals."""
        approvals = self.withheld.release(vm)
        engine = self.engine
        refusals = engine.plane.approve(approvals, now=engine.now) if approvals else ()
        self.wake()
        return [refusal for refusal in refusals if refusal is not None]

    # Helpers

    def _operation(self, operation_id: str) -> Operation:
        operation = self.engine.read(lambda reader: reader.get(Operation, operation_id))
        assert operation is not None, "a simulation keeps its operations"
        return operation

    def _order(self, decide: Callable[[Work], T]) -> T:
        result = self.engine.plane.order(SIMULATOR, decide, now=self.engine.now)
        self.wake()
        return result

    def _published(self, publication: Publication) -> None:
        self.publications += 1
        self.server.wake()
        self.on_publish(publication)

    async def _tick(self) -> None:
        while True:
            self._alarm.clear()
            if not self.is_paused:
                self.engine.settle()
            await self._sleep()

    async def _sleep(self) -> None:
        seconds = TICK_SECONDS_MAX
        due = None if self.is_paused else self.engine.plane.next_due()
        if due is not None:
            seconds = min(seconds, max((due - self.engine.now) / SECOND, 0.0))
        timer = asyncio.get_running_loop().call_later(seconds, self._alarm.set)
        await self._alarm.wait()
        timer.cancel()


_FAR: Micros = 1 << 60
"""Longer than any work of a driver, so that its work ends at once."""
