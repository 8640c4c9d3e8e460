"""A stage: an engine that VMs reach through sockets, on one event loop.

Every VM has a listener of its own, so a program finds "its" VM by the address that
it is given. The clock is the machine's, and then timers run by themselves; or it is
virtual, and then time passes when `advance` says so. Many stages share one loop;
nothing is global. A stage prints nothing and reads no settings.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from forewarn.clock import VirtualClock
from forewarn.control.transactions.messages import Publication
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import SECOND, Micros, round_up_to_second
from forewarn.metadata.server import Address, Server
from forewarn.protocol.actors import service_part
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, Request
from forewarn.service.watching import Watchers
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
from forewarn.sim.redating import ENDS_MAX
from forewarn.sim.staged import Staged, Stop
from forewarn.store import kinds

T = TypeVar("T")

LEAPS_MAX = 10_000
"""Leaps of the machine's clock that are remembered: no test makes as many between an
event and its approval."""

TICK_SECONDS_MAX = 1.0
"""How long the ticker sleeps at most: the machine's clock may be set."""

HOST = "127.0.0.1"
"""Where VMs are served unless somebody says otherwise: nobody else reaches it."""

SIMULATOR = Who(actor=service_part("simulator"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """The shortest times that a speed makes of longer ones; 0: it divides them all.

    A client that polls once a second is correct, and no speed makes it faster. A virtual
    clock waits for its clients, so it needs no floors, and a service divides exactly.
    """

    notice: Micros = 0
    """Of a notice, from the order to NotBefore."""
    impact: Micros = 0
    """Of an impact, during which an event is shown as Started."""

    def lengthen(self) -> Micros:
        """Return by how much the two may make one operation longer at most."""
        return self.notice + self.impact


NONE = Floors()

CLIENTS = Floors(notice=5 * SECOND, impact=2 * SECOND)
"""What a client that polls once a second can meet. Notice: 1 s until a poll shows the
event, 3 s to prepare, and 1 s for the answer to a poll and the approval to arrive.
Impact: at least one poll falls into it, also if the one before was late by a second."""


class Actor(Protocol):
    """Who lives on a virtual clock: a client, or a scenario."""

    def next_at(self) -> Micros | None:
        """Return when it wants to act; None: when something has happened."""
        ...

    def act(self) -> None:
        """Do what is to be done now."""
        ...


class SimServer:
    """An engine on sockets. It is made and used on a running loop."""

    def __init__(
        self, engine: Engine, driver: SimulatedDriver, *, floors: Floors = NONE
    ) -> None:
        """Serve `engine`, whose driver is `driver`; listen nowhere yet.

        `floors` bounded what the speed divided in both of them.
        """
        self.engine = engine
        self.driver = driver
        self.floors = floors
        self.withheld = Withheld()
        self.watchers = Watchers()
        self.journal = Journal()
        """Every request that VMs have sent."""
        self.faults = Player(
            now=lambda: self.reckoned, vms=engine.endpoint.directory.by_vm.keys()
        )
        """What goes wrong between them and the endpoint."""
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
        engine.on_change = self.watchers.tell
        self._paused_at: Micros | None = None
        self._leapt: Micros = 0
        self._leaps: deque[tuple[Micros, Micros]] = deque(maxlen=LEAPS_MAX)
        """When time was let pass on the machine's clock, and by how much."""
        self._alarm = asyncio.Event()
        self.ticker: asyncio.Task[None] | None = None
        """What runs the timers: before `end`, it ends only by a fault of ours."""
        self.actors: list[Actor] = []
        """They act whenever time passes by order."""
        self.publications = 0
        """How often documents were published: no event begins or ends without."""
        self.on_publish: Callable[[Publication], None] = lambda _publication: None
        """Told of every publication after it is served: a live view, a recorder."""

    # Listening

    async def open(self, vm: str, *, host: str = HOST, port: int = 0) -> Address:
        """Listen for a VM; return where. Raises OSError."""
        return await self.server.serve_guest(vm, host, port)

    def begin(self) -> None:
        """Have timers run by themselves: for the machine's clock."""
        assert not isinstance(self.engine.clock, VirtualClock), "time is turned by hand"
        self.ticker = asyncio.get_running_loop().create_task(self._tick())

    async def end(self, *, grace_seconds: float = 0.0) -> None:
        """Stop serving; requests under way have the grace."""
        if self.ticker is not None:
            self.ticker.cancel()
            await asyncio.wait([self.ticker])
        self.watchers.close()
        await self.server.stop(grace_seconds=grace_seconds)
        self.engine.store.close()

    # Time

    def wake(self) -> None:
        """Look at timers and held answers now: something has changed."""
        self._alarm.set()
        self.server.wake()

    @property
    def is_paused(self) -> bool:
        """Tell whether model time stands still by order."""
        return self._paused_at is not None

    @property
    def reckoned(self) -> Micros:
        """Return the present instant with all jumps and pauses reckoned in.

        What counts time from a beginning counts by this: NotBefore never does.
        """
        paused = self._paused_at
        return (self.engine.now if paused is None else paused) + self._leapt

    def leapt(self, begin: Micros, end: Micros) -> Micros:
        """Return how much time was let pass between two instants of the engine.

        A virtual clock has it in its instants; the machine's has not.
        """
        return sum(by for at, by in self._leaps if begin < at <= end)

    def pause(self) -> None:
        """Have nothing fall due until `resume`; requests are answered as ever."""
        if self._paused_at is None:
            self._paused_at = self.engine.now

    def resume(self) -> None:
        """Go on: what is pending is put off by as long as the pause took."""
        if self._paused_at is not None:
            paused, self._paused_at = self._paused_at, None
            self._bring_nearer(paused - self.engine.now)

    def advance(self, by: Micros) -> None:
        """Let `by` pass at once: what takes as long as that, or less, is over then.

        On a virtual clock it passes. On the machine's, everything that is pending
        comes nearer by it, timer by timer, in the order in which it would have come.

        A notice that is over has its NotBefore up to a second later. Nobody waits for
        that rest of a second: a virtual clock passes it in addition to `by`, and on
        the machine's clock NotBefore comes nearer by it.
        """
        self._pass(0)
        self._act()
        left, is_stuck = by, False
        while left > 0:
            due = self._next_end()
            leap = left if due is None else min(left, max(due - self.engine.now, 0))
            if leap == 0 and is_stuck:
                leap = min(left, SECOND)
            is_stuck = leap == 0
            self._pass(leap)
            self._act()
            left -= leap
        self.wake()

    def turn(self, by: Micros) -> None:
        """Let exactly `by` pass on a virtual clock, whatever ends meanwhile."""
        assert isinstance(self.engine, World), "the machine's clock goes by itself"
        self.engine.advance(by)
        self._act()
        self.wake()

    def _pass(self, by: Micros) -> None:
        """Let `by` pass, and what remains until the NotBefore of ended notices."""
        engine = self.engine
        if not isinstance(engine, World):
            if by:
                self._leaps.append((engine.now, by))
            self._bring_nearer(by)
            engine.settle()
            return
        engine.advance(by)
        second = round_up_to_second(engine.now)
        if any(ends <= engine.now for ends in self._notice_ends(second)):
            engine.advance_to(second)

    def _next_end(self) -> Micros | None:
        """Return when the next timer ends, a notice at its end and not at NotBefore."""
        due = self.engine.plane.next_due()
        ends = [] if due is None else self._notice_ends(round_up_to_second(due))
        return min(self._instants(due, *ends), default=None)

    def _instants(self, *due: Micros | None) -> list[Micros]:
        """Return those that there are of some instants and those of actors."""
        wanted = [*due, *(actor.next_at() for actor in self.actors)]
        return [at for at in wanted if at is not None]

    def _act(self) -> None:
        for actor in self.actors:
            actor.act()

    def _notice_ends(self, until: Micros) -> list[Micros]:
        """Return the ends of the notices whose NotBefore is at or before `until`."""
        due = self.engine.read(
            lambda reader: reader.due(kinds.OPERATIONS_DUE, until, limit=ENDS_MAX)
        )
        return [
            self.engine.notice_ends.of(operation)
            for operation in due
            if operation.due_at == operation.not_before
        ]

    def step(self) -> Micros:
        """Jump to the next timer; return how far it was, 0 where there is none."""
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
        self._leapt += by
        self.driver.bring_nearer(by, now=now)
        ends = self.engine.notice_ends
        self._order(lambda work: redating.bring_nearer(work, by, ends))

    # Events

    def stage(self, wanted: Staged) -> Request:
        """Publish an event by hand; see `staged`."""
        return self._order(lambda work: staged.stage(work, wanted))

    def move(self, operation_id: str, stop: Stop) -> Operation:
        """Have an operation go on to `stop` now; see `staged.move`.

        Where the guard holds it, it goes as far as it may: the operation that is
        returned tells how far.
        """
        engine = self.engine
        moved = self._order(lambda work: staged.move(work, operation_id, stop))
        for _ in Stop:
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
        """Let go what was withheld of a VM; return the refusals."""
        approvals = self.withheld.release(vm)
        engine = self.engine
        refusals = engine.plane.approve(approvals, now=engine.now) if approvals else ()
        self.wake()
        return [refusal for refusal in refusals if refusal is not None]

    # Inside

    def _operation(self, operation_id: str) -> Operation:
        found = self.engine.read(lambda reader: reader.get(Operation, operation_id))
        assert found is not None, "operations of a simulation are kept"
        return found

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
"""More than any time that a driver takes: its work is over at once."""
