"""The engine of a simulation: the service's own parts, joined without threads.

The same plane, endpoint and driver as the service, on a clock and a store that
are given. An `Engine` runs nothing by itself: whoever holds it says when to look at
the clock. A `World` has a clock that is turned by hand: time passes when `advance`
says so, and then everything that falls due happens in order.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

from forewarn.clock import Clock, VirtualClock
from forewarn.control.gateway import Health
from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.idempotency import Once
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.messages import Publication
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.port import Driver
from forewarn.fleet.changes import MergePlan
from forewarn.fleet.file import FleetText, read_fleet
from forewarn.fleet.instance import InstanceFacts
from forewarn.ids import RandomIds
from forewarn.instants import Micros, parse_duration, parse_instant
from forewarn.metadata.endpoint import Endpoint
from forewarn.protocol.actors import operator
from forewarn.protocol.own_events import OwnEvents
from forewarn.reporting import event_details, reports
from forewarn.service.watching import Watchers
from forewarn.sim.redating import NoticeEnds
from forewarn.store.port import Reader, Store

T = TypeVar("T")

START = parse_instant("2030-01-01T00:00:00Z")
"""When a world begins, unless told otherwise: a Tuesday at midnight."""

TURNS_MAX = 100_000
"""Timers of one `advance`: a story that needs more is going round in circles."""


class Engine:
    """Plane, store, endpoint and driver on a clock. It is the plane's listener."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        driver: Driver,
        ids: RandomIds,
        policy: Policy | None = None,
        rate_limit: float = 0,
    ) -> None:
        """Begin on what is in `store`."""
        self.clock = clock
        self.policy = policy or Policy()
        self.driver = driver
        self.notice_ends = NoticeEnds()
        self.on_publish: Callable[[Publication], None] = lambda _publication: None
        """Told after the endpoint: listeners of VMs, who waits for a change."""
        self.on_change: Callable[[Sequence[str]], None] = lambda _operations: None
        self._ids = ids
        self._rate_limit = rate_limit
        self.store = store
        self.begin()

    @property
    def now(self) -> Micros:
        """Return the present instant."""
        return self.clock.now()

    def begin(self) -> None:
        """Start the service on what is durable."""
        self.endpoint = Endpoint(rate_limit=self._rate_limit, own_events=True)
        self.plane = Plane(
            store=self.store,
            driver=self.driver,
            policy=self.policy,
            ids=self._ids,
            listener=self,
            checkpoint=self.checkpoint,
            not_before=self.notice_ends.not_before,
        )
        self.read_clocks()
        self.plane.start(now=self.now)

    def checkpoint(self, place: str) -> None:
        """Do nothing where a crash is possible: tests let it crash there."""

    def publish(self, publication: Publication) -> None:
        """Serve what changed from now on."""
        self.endpoint.publish(publication)
        self.on_publish(publication)

    def changed(self, operations: Sequence[str]) -> None:
        """Tell that these operations changed."""
        self.on_change(operations)

    def order(
        self,
        decide: Callable[[Work], T],
        *,
        actor: str = "operator",
        reason: str = "",
    ) -> T:
        """Give an order, as the operator API does."""
        return self.plane.order(
            Who(actor=operator(actor), reason=reason), decide, now=self.now
        )

    def apply_fleet(self, text: str, *, name: str = "fleet.toml") -> MergePlan:
        """Apply a fleet file."""
        wanted = read_fleet(text, name=name)
        return self.order(lambda work: fleet_changes.apply(work, wanted))

    def read(self, ask: Callable[[Reader], T]) -> T:
        """Read what is durable."""
        return self.store.read(ask)

    def settle(self) -> None:
        """Do what is due at the present instant."""
        self.read_clocks()
        self.plane.note_last_seen(self.endpoint.take_last_seen(), now=self.now)
        while self.plane.advance(now=self.now):
            pass

    def read_clocks(self) -> None:
        """Have the plane notice a step of the clock, as a service does in each turn."""
        self.plane.read_clocks(now=self.now, monotonic=self.clock.monotonic())


class World(Engine):
    """The service on a virtual clock."""

    clock: VirtualClock

    def __init__(
        self,
        *,
        store: Store,
        driver: Driver,
        fleet: str = "",
        policy: Policy | None = None,
        seed: int | None = 0,
        start: Micros = START,
        rate_limit: float = 0,
    ) -> None:
        """Begin with a fleet, on what is in `store`."""
        super().__init__(
            clock=VirtualClock(start),
            store=store,
            driver=driver,
            ids=RandomIds(seed),
            policy=policy,
            rate_limit=rate_limit,
        )
        if fleet:
            self.apply_fleet(fleet)

    # Time

    def advance(self, duration: str | Micros) -> None:
        """Let time pass; whatever falls due on the way happens at its instant."""
        if isinstance(duration, str):
            duration = parse_duration(duration)
        self.advance_to(self.now + duration)

    def advance_to(self, target: Micros) -> None:
        """Let time pass until `target`."""
        self.settle()
        for _turn in range(TURNS_MAX):
            due = self.plane.next_due()
            if due is None or due > target:
                self.clock.advance_to(target)
                return
            self.clock.advance_to(max(due, self.now))
            self.settle()
        raise AssertionError("the world goes round in circles")


class Withheld:
    """The VMs whose approvals are kept back, and what they approved.

    A VM cannot tell whether its own approval was the last that was needed: another
    tenant on the same host may hold things up (clause 3.4). A test says so by
    withholding: the VM is answered as ever, and nothing follows before `release`.
    """

    def __init__(self) -> None:
        """Keep nothing back."""
        self._vms: set[str] = set()
        self._kept: list[Approval] = []
        self._since: dict[str, tuple[str, Micros]] = {}
        self.on_keep: Callable[[Approval], None] = lambda _approval: None
        """Told of each approval that is kept back."""

    @property
    def vms(self) -> frozenset[str]:
        """Return the VMs whose approvals are kept back."""
        return frozenset(self._vms)

    def withhold(self, vm: str) -> None:
        """Keep back what the VM approves from now on."""
        self._vms.add(vm)

    def keep(self, approval: Approval, *, now: Micros) -> bool:
        """Tell whether the approval is kept back, and remember it then."""
        if approval.vm not in self._vms:
            return False
        self._kept.append(approval)
        for event_id in approval.event_ids:
            self._since.setdefault(event_id, (approval.vm, now))
        self.on_keep(approval)
        return True

    def kept(self, event_id: str) -> tuple[str, Micros]:
        """Return who approved an event first and was kept back, and when, or ""."""
        return self._since.get(event_id, ("", 0))

    def release(self, vm: str) -> list[Approval]:
        """Keep nothing of this VM back any more; return what it had approved."""
        self._vms.discard(vm)
        kept = [approval for approval in self._kept if approval.vm == vm]
        self._kept = [approval for approval in self._kept if approval.vm != vm]
        self._since = {
            event_id: first for event_id, first in self._since.items() if first[0] != vm
        }
        return kept


class EngineControlGateway:
    """The metadata endpoint's way to the plane (metadata.desk.Desk)."""

    def __init__(
        self, engine: Engine, *, withheld: Withheld, wake: Callable[[], None]
    ) -> None:
        """Ask `engine`, unless `withheld` keeps an approval; then `wake` its timers."""
        self._engine = engine
        self._withheld = withheld
        self._wake = wake

    async def enable(self, vm: str) -> None:
        """Enable what `vm` is served (7.1)."""
        self._engine.plane.enable(vm, now=self._engine.now)
        self._wake()

    async def approve(self, vm: str, event_ids: Sequence[str]) -> str | None:
        """Approve the events for `vm`: None, or the sentence of a refusal."""
        approval = Approval(vm=vm, event_ids=tuple(event_ids))
        if self._withheld.keep(approval, now=self._engine.now):
            return None
        refusal = self._engine.plane.approve([approval], now=self._engine.now)[0]
        self._wake()
        return refusal

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return what the instance endpoint tells `vm` of itself; None: gone."""
        return self._engine.read(lambda reader: reports.instance_facts(reader, vm))

    async def own_events(self, vm: str) -> OwnEvents | None:
        """Return what `vm` may know of its own events; None: gone."""
        now = self._engine.now
        return self._engine.read(
            lambda reader: event_details.own_events(reader, vm, now=now)
        )


class EngineOperatorGateway:
    """The operator API's way to the plane (control.desk.OperatorGateway)."""

    def __init__(
        self, engine: Engine, *, watchers: Watchers, wake: Callable[[], None]
    ) -> None:
        """Ask `engine`; after each order `wake` its timers."""
        self._engine = engine
        self._watchers = watchers
        self._wake = wake

    async def order(self, who: Who, decide: Callable[[Work], T]) -> T:
        """Carry out one order; raises what `decide` raises."""
        result = self._engine.plane.order(who, decide, now=self._engine.now)
        self._wake()
        return result

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Read from a consistent view of the store."""
        return self._engine.read(ask)

    async def count_fleet(self, text: FleetText) -> Mapping[str, int]:
        """Return how many objects of each kind a fleet file has."""
        return text.read().count()

    async def merge_fleet(
        self, text: FleetText, *, who: Who | None, once: Once | None = None
    ) -> MergePlan:
        """Apply a fleet file for `who`; for nobody it is only planned."""
        wanted, digest = text.read(), text.digest()
        if who is None:
            return await self.read(lambda reader: fleet_changes.preview(reader, wanted))
        return await self.order(
            who,
            lambda work: fleet_changes.apply(work, wanted, digest=digest, once=once),
        )

    def now(self) -> Micros:
        """Return the model time."""
        return self._engine.now

    def changes(self) -> AsyncIterator[tuple[str, ...]]:
        """Yield ids of operations that changed; an empty tuple: read anew."""
        return self._watchers.watch()

    async def health(self) -> Health:
        """Tell that it works: there is no part that could fail by itself."""
        return Health(alive=True, ready=True)
