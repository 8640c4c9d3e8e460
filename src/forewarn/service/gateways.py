"""What VMs and operators may ask, over the control thread."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from forewarn.clock import Clock
from forewarn.control.gateway import Health
from forewarn.control.requests.idempotency import Once
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.changes import MergePlan
from forewarn.fleet.file import FleetText
from forewarn.fleet.instance import InstanceFacts
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.own_events import OwnEvents
from forewarn.reporting import event_details, reports
from forewarn.service.fleets import Fleets
from forewarn.service.readings import Readings
from forewarn.service.runner import Runner
from forewarn.service.watching import Watchers
from forewarn.store.port import Reader

T = TypeVar("T")


class ThreadedControlGateway:
    """The metadata endpoint's way to control (metadata.desk.Desk)."""

    def __init__(
        self,
        *,
        runner: Runner,
        readings: Readings,
        approvals: Counter[str],
        clock: Clock,
    ) -> None:
        """Ask `runner`, read through `readings`, and count answers in `approvals`."""
        self._clock = clock
        self._runner = runner
        self._readings = readings
        self._approvals = approvals

    async def enable(self, vm: str) -> None:
        """Enable what `vm` is served; return after it has been published."""
        await self._runner.enable(vm)

    def approve(
        self, vm: str, event_ids: Sequence[str]
    ) -> "asyncio.Future[str | None]":
        """Approve the events for `vm`: None, or the sentence of a refusal."""
        verdict = self._runner.approve(vm, tuple(event_ids))
        verdict.add_done_callback(self._count)
        return verdict

    def _count(self, verdict: "asyncio.Future[str | None]") -> None:
        """Count an approval that was answered; nobody waits for a cancelled one."""
        if verdict.cancelled():
            return
        if verdict.exception() is not None:
            self._approvals["unavailable"] += 1
        else:
            self._approvals["accepted" if verdict.result() is None else "refused"] += 1

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return what the instance endpoint tells `vm` of itself; None: gone."""
        return await self._readings.read(
            lambda reader: reports.instance_facts(reader, vm)
        )

    async def own_events(self, vm: str) -> OwnEvents | None:
        """Return what `vm` may know of its own events; None: gone."""
        return await self._readings.read(
            lambda reader: event_details.own_events(reader, vm, now=self._clock.now())
        )


@dataclass(frozen=True, kw_only=True)
class ReadingGateway:
    """What the operator API reads the same way in whichever process it runs."""

    readings: Readings
    fleets: Fleets
    watchers: Watchers
    clock: Clock

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Read from a consistent view of the store, off the plane's thread."""
        return await self.readings.read(ask)

    async def count_fleet(self, text: FleetText) -> Mapping[str, int]:
        """Return how many objects of each kind a fleet file has."""
        return await self.fleets.count(text)

    def now(self) -> Micros:
        """Return the model time."""
        return self.clock.now()

    def changes(self) -> AsyncIterator[tuple[str, ...]]:
        """Yield ids of operations that changed; an empty tuple: read anew."""
        return self.watchers.watch()


@dataclass(frozen=True, kw_only=True)
class ThreadedOperatorGateway(ReadingGateway):
    """The operator API's way to control (control.desk.OperatorGateway)."""

    runner: Runner
    ask_health: Callable[[], Health]

    async def order(self, who: Who, decide: Callable[[Work], T]) -> T:
        """Carry out one order; raises what `decide` raises, and BusyError.

        Return when the lists of hosts are whole that were not when it was carried out:
        it may have made one, or be the repetition of an order that did.
        """
        result, left = await self.runner.call(
            lambda plane, now: (plane.order(who, decide, now=now), plane.unplanned)
        )
        with contextlib.suppress(ForewarnError):
            # It is durable: that the service is busy or ends must not deny it.
            while left:
                left = await self.runner.call(
                    lambda plane, _now, left=left: left & plane.unplanned
                )
        return result

    async def merge_fleet(
        self, text: FleetText, *, who: Who | None, once: Once | None = None
    ) -> MergePlan:
        """Apply a fleet file for `who`; for nobody it is only planned."""
        return await self.fleets.merge(text, who=who, once=once)

    async def health(self) -> Health:
        """Tell whether the ticker and the store work."""
        return self.ask_health()
