"""The engine of a simulation: the service's own parts, joined without threads.

The same plane, endpoint and driver as the service, on a clock and a store that
are given. Nothing here runs by itself: whoever holds the engine says when to look
at the clock. It can crash at any checkpoint and begin again on what was durable;
the driver, like a hypervisor, lives on.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from forewarn.clock import Clock
from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.messages import Publication
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.port import Driver
from forewarn.fleet.changes import MergePlan
from forewarn.fleet.file import read_fleet
from forewarn.ids import RandomIds
from forewarn.instants import Micros
from forewarn.metadata.endpoint import Endpoint
from forewarn.protocol.actors import operator
from forewarn.sim.notices import NoticeEnds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader, Store

T = TypeVar("T")


class CrashError(Exception):
    """The process of the service ended here, without a word."""


class LastingStore(MemoryStore):
    """A store in memory that outlives the crashes of a simulation."""

    def close(self) -> None:
        """Keep everything."""


@dataclass(slots=True)
class PlaneListener:
    """Hears for the endpoint, and remembers which operations changed."""

    endpoint: Endpoint
    heard: list[str] = field(default_factory=list[str])
    has_news: bool = False
    """Something was published since somebody set this back."""
    on_publish: Callable[[Publication], None] = lambda _publication: None
    """Told after the endpoint: listeners of VMs, who waits for a change."""
    on_change: Callable[[Sequence[str]], None] = lambda _operations: None

    def publish(self, publication: Publication) -> None:
        """Serve what changed from now on."""
        self.endpoint.publish(publication)
        self.has_news = True
        self.on_publish(publication)

    def changed(self, operations: Sequence[str]) -> None:
        """Note that these operations changed."""
        self.heard.extend(operations)
        self.on_change(operations)


class Engine:
    """Plane, store, endpoint and driver on a clock."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Callable[[], Store],
        driver: Driver,
        ids: RandomIds,
        policy: Policy | None = None,
        rate_limit: float = 0,
    ) -> None:
        """Begin on what `store` opens; it is opened again after each crash."""
        self.clock = clock
        self.policy = policy or Policy()
        self.driver = driver
        self.notice_ends = NoticeEnds()
        self.crash_at: Callable[[str, int], bool] = lambda _place, _count: False
        """Asked at each checkpoint, with how often it was passed so far."""
        self.passed: Counter[str] = Counter()
        self.witness: Callable[[str], None] = lambda _place: None
        """Told of each checkpoint that was reached, before a crash there."""
        self._open_store = store
        self._ids = ids
        self._rate_limit = rate_limit
        self.store = store()
        self.begin()

    @property
    def now(self) -> Micros:
        """Return the present instant."""
        return self.clock.now()

    def begin(self) -> None:
        """Start the service on what is durable."""
        self.endpoint = Endpoint(rate_limit=self._rate_limit, own_events=True)
        self.ears = PlaneListener(self.endpoint)
        self.plane = Plane(
            store=self.store,
            driver=self.driver,
            policy=self.policy,
            ids=self._ids,
            listener=self.ears,
            checkpoint=self._checkpoint,
            not_before=self.notice_ends.not_before,
        )
        self.read_clocks()
        self.plane.start(now=self.now)

    def restart(self) -> None:
        """Crash now, wherever it is, and start again."""
        self.crash_at = lambda _place, _count: False
        self.store.close()
        self.store = self._open_store()
        self.begin()

    def _checkpoint(self, place: str) -> None:
        self.passed[place] += 1
        self.witness(place)
        if self.crash_at(place, self.passed[place]):
            raise CrashError(f"crashed at {place} number {self.passed[place]}")

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
