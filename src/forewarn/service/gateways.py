"""The gateways of VMs and operators to the control thread."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from forewarn.campaigns.plan_progress import Progress
from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignText
from forewarn.clock import Clock
from forewarn.control.gateway import Health, start_prepared
from forewarn.control.requests.idempotency import Once, Result
from forewarn.control.transactions.work import Check, Who, Work
from forewarn.fleet.file import FleetText
from forewarn.fleet.instance import InstanceFacts
from forewarn.fleet.merge import MergePlan
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.own_events import OwnEvents
from forewarn.reporting import event_details, reports
from forewarn.service.campaign_plans import CampaignPlans
from forewarn.service.fleets import Fleets
from forewarn.service.readings import Readings, Watchers
from forewarn.service.runner import Runner
from forewarn.settings.amounts import Amount
from forewarn.store.port import Reader

T = TypeVar("T")


class ReadingGuests:
    """The part of the gateway of VMs that reads the store, in both roles of a replica."""

    def __init__(self, *, readings: Readings, clock: Clock) -> None:
        """Read with `readings`."""
        self._readings = readings
        self._clock = clock

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return the instance metadata of `vm`; None if it is deleted."""
        return await self._readings.read(
            lambda reader: reports.instance_facts(reader, vm)
        )

    async def own_events(self, vm: str) -> OwnEvents | None:
        """Return the event details that `vm` can see; None if it is deleted."""
        return await self._readings.read(
            lambda reader: event_details.own_events(reader, vm, now=self._clock.now())
        )


class ThreadedControlGateway(ReadingGuests):
    """The gateway of the metadata endpoint (metadata.gateway.ControlGateway)."""

    def __init__(
        self,
        *,
        runner: Runner,
        readings: Readings,
        approvals: Counter[str],
        clock: Clock,
    ) -> None:
        """Use `runner` and `readings`, and count the results in `approvals`."""
        super().__init__(readings=readings, clock=clock)
        self._runner = runner
        self._approvals = approvals

    async def enable(self, vm: str) -> None:
        """Enable the scopes of `vm`; return after its document is published."""
        await self._runner.enable(vm)

    def approve(
        self, vm: str, event_ids: Sequence[str]
    ) -> "asyncio.Future[str | None]":
        """Approve the events for `vm`; the result is None or the reason of a refusal."""
        verdict = self._runner.approve(vm, tuple(event_ids))
        verdict.add_done_callback(self._count)
        return verdict

    def _count(self, verdict: "asyncio.Future[str | None]") -> None:
        """Count the result of an approval, unless its caller has cancelled it."""
        if verdict.cancelled():
            return
        if verdict.exception() is not None:
            self._approvals["unavailable"] += 1
        else:
            self._approvals["accepted" if verdict.result() is None else "refused"] += 1


@dataclass(frozen=True, kw_only=True)
class ReadingGateway:
    """The part of the operator gateway that is the same in both processes."""

    readings: Readings
    fleets: Fleets
    campaigns: CampaignPlans
    watchers: Watchers
    clock: Clock

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Read from a consistent view of the store, outside the control thread."""
        return await self.readings.read(ask)

    async def count_fleet(self, text: FleetText) -> Mapping[str, int]:
        """Return how many objects of each kind a fleet file has."""
        return await self.fleets.count(text)

    async def plan_campaign(self, text: CampaignText, *, hosts_max: int) -> str:
        """Return the plan of a campaign file as JSON."""
        return await self.campaigns.plan(text, hosts_max=hosts_max, now=self.now())

    async def simulate_campaign(
        self, text: CampaignText, assumed: Assumptions, *, hosts_max: int
    ) -> str:
        """Return what happens in a simulation of a campaign file, as JSON."""
        return await self.campaigns.simulate(
            text, assumed, hosts_max=hosts_max, now=self.now()
        )

    async def campaign_progress(self, key: str) -> Progress | None:
        """Return how far the plan or simulation with a key has come."""
        return self.campaigns.progress(key)

    @property
    def reserve(self) -> Amount:
        """Return the free capacity that routine work leaves in each pool."""
        return self.campaigns.policy.reserve

    @property
    def second_person(self) -> bool:
        """Return whether another operator than its starter must approve a campaign."""
        return self.campaigns.policy.second_person

    def now(self) -> Micros:
        """Return the model time."""
        return self.clock.now()

    def changes(self) -> AsyncIterator[tuple[str, ...]]:
        """Yield IDs of changed operations; after an empty tuple, read everything again."""
        return self.watchers.watch()


@dataclass(frozen=True, kw_only=True)
class ThreadedOperatorGateway(ReadingGateway):
    """The operator gateway in the service's process (control.gateway)."""

    runner: Runner
    ask_health: Callable[[], Health]

    async def order(self, who: Who, decide: Callable[[Work], T]) -> T:
        """Execute one request; raises what `decide` raises, and BusyError.

        It returns when all lists of hosts are complete that were incomplete after the
        request: the request may have started one, or repeat a request that did.
        """
        result, left = await self.runner.call(
            lambda plane, now: (plane.order(who, decide, now=now), plane.unplanned)
        )
        with contextlib.suppress(ForewarnError):
            # The request is durable, so a busy or stopping service is not an error.
            while left:
                left = await self.runner.call(
                    lambda plane, _now, left=left: left & plane.unplanned
                )
        return result

    async def merge_fleet(
        self,
        text: FleetText,
        *,
        who: Who | None,
        once: Once | None = None,
        check: Check | None = None,
    ) -> MergePlan:
        """Apply a fleet file for `who`; without `who`, only plan it."""
        return await self.fleets.merge(text, who=who, once=once, check=check)

    async def start_campaign(
        self,
        text: CampaignText,
        *,
        digest: str,
        who: Who,
        once: Once | None = None,
        check: Check | None = None,
    ) -> Result:
        """Start the campaign of a file if its plan still has this digest."""
        return await start_prepared(
            self,
            lambda: self.campaigns.prepare(text, digest=digest, now=self.now()),
            who=who,
            once=once,
            check=check,
        )

    async def health(self) -> Health:
        """Return the health of the service."""
        return self.ask_health()
