"""A gateway over a small fleet in memory, with a virtual clock."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

from forewarn.campaigns.plan_drift import SeenPlans
from forewarn.campaigns.plan_progress import Progress
from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignText
from forewarn.clock import VirtualClock
from forewarn.control.gateway import Health, start_prepared
from forewarn.control.plane import Plane
from forewarn.control.requests import campaign_starts, fleet_changes
from forewarn.control.requests.idempotency import Once, Result
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Check, Who, Work
from forewarn.drivers.port import (
    NOWHERE,
    Call,
    Expected,
    HostVms,
    Observations,
    Probe,
    ProbeState,
    Report,
    Sighting,
    Verdict,
)
from forewarn.fleet.file import FleetText, read_fleet
from forewarn.fleet.merge import MergePlan
from forewarn.ids import RandomIds
from forewarn.instants import Micros, parse_duration, parse_instant
from forewarn.protocol.abilities import Ability
from forewarn.protocol.actors import operator
from forewarn.protocol.host_steps import NO_STEPS, StepRules
from forewarn.protocol.operations import Action
from forewarn.protocol.published import Publication
from forewarn.reporting import campaign_plans
from forewarn.service.simulation.fleet_copy import copy_fleet
from forewarn.service.simulation.play import SimulationRequest, simulated
from forewarn.settings.amounts import Amount
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader

T = TypeVar("T")

START = parse_instant("2030-01-01T00:00:00Z")

FLEET = """\
[[tenant]]
name = "shop"

[[tenant]]
name = "bank"

[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"

[[scope]]
name = "db"
tenant = "bank"
kind = "scale-set"
terminate_notice = "5m"
os_image_notice = "15m"

[[host]]
name = "h1"

[[host]]
name = "h2"

[[host]]
name = "same"

[[vm]]
name = "web_0"
host = "h1"
scope = "web"
fault_domain = 0

[[vm]]
name = "web_1"
host = "h2"
scope = "web"
fault_domain = 1

[[vm]]
name = "db_0"
host = "h1"
scope = "db"
spot = true

[[vm]]
name = "db_1"
host = "h2"
scope = "db"

[[vm]]
name = "same"
host = "h2"
tenant = "bank"
"""


class ObedientDriver:
    """A driver that completes each call at once."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.is_silent = False
        self.forgets = False
        self._reports: list[Report] = []

    @property
    def kind(self) -> str:
        return "obedient"

    @property
    def memory(self) -> str:
        return "obedient"

    def actions(self) -> frozenset[Action]:
        return frozenset(Action)

    def host_steps(self) -> StepRules:
        return NO_STEPS

    @property
    def tells_abilities(self) -> bool:
        return False

    def abilities(self, hosts: Sequence[HostVms]) -> Mapping[str, tuple[Ability, ...]]:
        return {}

    def begin(self, call: Call, *, now: Micros) -> None:
        self.calls.append(call)
        if not self.is_silent:
            self._reports.append(
                Report(
                    operation_id=call.operation_id,
                    generation=call.generation,
                    verdict=Verdict.DONE,
                )
            )

    def probe(self, call: Call, *, now: Micros, memory: str) -> Probe:
        return Probe(state=ProbeState.UNKNOWN if self.forgets else ProbeState.RUNNING)

    def abort(self, operation_id: str, generation: int, *, now: Micros) -> bool:
        return True

    def observe(self, vms: Sequence[str], expected: Expected = NOWHERE) -> Observations:
        return {}

    def reports(self, *, now: Micros) -> Sequence[Report]:
        taken, self._reports = self._reports, []
        return taken

    def sightings(self, *, now: Micros) -> Sequence[Sighting]:
        return ()

    def next_report_at(self) -> Micros | None:
        return START if self._reports else None

    def on_report(self, wake: Callable[[], None]) -> None:
        pass

    def close(self) -> None:
        pass


class LocalGateway:
    """An operator gateway to a plane in the same thread."""

    def __init__(self, fleet: str = FLEET) -> None:
        self.clock = VirtualClock(START)
        self.driver = ObedientDriver()
        self.store = MemoryStore()
        self.state = Health(alive=True, ready=True)
        self.plans = SeenPlans()
        self.broken: Exception | None = None
        self.progress: dict[str, Progress] = {}
        """The error of the next requests and reads."""
        self.told: list[object] = []
        """Publications of the plane, and the operations that it called changed."""
        self.watchers: list[asyncio.Queue[tuple[str, ...]]] = []
        self.plane = Plane(
            store=self.store,
            driver=self.driver,
            policy=Policy(),
            ids=RandomIds(7),
            listener=self,
        )
        self.plane.start(now=START)
        if fleet:
            wanted = read_fleet(fleet, name="fleet.toml")
            self.plane.order(
                Who(actor=operator("test")),
                lambda work: fleet_changes.apply(work, wanted),
                now=START,
            )

    # The plane's listener

    def publish(self, publication: Publication) -> None:
        self.told.append(publication)

    def changed(self, operations: Sequence[str]) -> None:
        self.told.append(tuple(operations))
        for watcher in self.watchers:
            watcher.put_nowait(tuple(operations))

    # OperatorGateway

    async def order(self, who: Who, decide: Callable[[Work], T]) -> T:
        if self.broken:
            raise self.broken
        return self.plane.order(who, decide, now=self.now())

    async def read(self, ask: Callable[[Reader], T]) -> T:
        if self.broken:
            raise self.broken
        return self.store.read(ask)

    async def count_fleet(self, text: FleetText) -> Mapping[str, int]:
        return text.read().count()

    async def plan_campaign(self, text: CampaignText, *, hosts_max: int) -> str:
        request = campaign_starts.plan_request(
            text, Policy(), now=self.now(), hosts_max=hosts_max
        )
        plan = await self.read(lambda reader: campaign_plans.planned(reader, request))
        self.plans.keep(plan.outline)
        return plan.text

    async def simulate_campaign(
        self, text: CampaignText, assumed: Assumptions, *, hosts_max: int
    ) -> str:
        request = SimulationRequest(
            text=text,
            assumed=assumed,
            policy=Policy(),
            now=self.now(),
            hosts_max=hosts_max,
        )
        copied = await self.read(lambda reader: copy_fleet(reader, text))
        return simulated(copied, request)

    async def merge_fleet(
        self,
        text: FleetText,
        *,
        who: Who | None,
        once: Once | None = None,
        check: Check | None = None,
    ) -> MergePlan:
        wanted, digest = text.read(), text.digest()
        if who is None:
            return await self.read(lambda reader: fleet_changes.preview(reader, wanted))
        return await self.order(
            who,
            lambda work: fleet_changes.apply(
                work, wanted, digest=digest, once=once, check=check
            ),
        )

    async def campaign_progress(self, key: str) -> Progress | None:
        return self.progress.get(key)

    async def start_campaign(
        self,
        text: CampaignText,
        *,
        digest: str,
        who: Who,
        once: Once | None = None,
        check: Check | None = None,
    ) -> Result:
        plan = campaign_starts.plan_request(text, self.plane.policy, now=self.now())
        request = campaign_starts.StartRequest(
            plan=plan, digest=digest, seen=self.plans.of(digest)
        )
        return await start_prepared(
            self,
            lambda: self.read(lambda reader: campaign_starts.prepared(reader, request)),
            who=who,
            once=once,
            check=check,
        )

    @property
    def reserve(self) -> Amount:
        return self.plane.policy.reserve

    @property
    def second_person(self) -> bool:
        return self.plane.policy.second_person

    def now(self) -> Micros:
        return self.clock.now()

    async def changes(self) -> AsyncIterator[tuple[str, ...]]:
        queue: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()
        self.watchers.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self.watchers.remove(queue)

    async def health(self) -> Health:
        return self.state

    # Actions of the test

    def advance(self, duration: str) -> None:
        """Advance the clock, and execute each timer at its time."""
        target = self.now() + parse_duration(duration)
        while True:
            while self.plane.advance(now=self.now()):
                pass
            due = self.plane.next_due()
            if due is None or due > target:
                break
            self.clock.advance_to(max(due, self.now()))
        self.clock.advance_to(target)

    def enable(self, vm: str) -> None:
        """Read the document of a VM."""
        self.plane.enable(vm, now=self.now())
