"""What VMs and operators ask of an engine, answered on its own loop.

The ports are those of the service (`metadata.desk`, `control.desk`); behind them
there is no thread, since a simulation's decisions take microseconds and its store
is in memory. Nothing here decides anything.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

from forewarn.control.gateway import Health
from forewarn.control.requests import fleet_changes
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.idempotency import Once
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.changes import MergePlan
from forewarn.fleet.file import FleetText
from forewarn.fleet.instance import InstanceFacts
from forewarn.instants import Micros
from forewarn.protocol.own_events import OwnEvents
from forewarn.reporting import event_details, reports
from forewarn.service.watching import Watchers
from forewarn.sim.engine import Engine
from forewarn.sim.withheld import Withheld
from forewarn.store.port import Reader

T = TypeVar("T")


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
