"""The engine of a simulation: the components of the service, without threads.

It joins the plane, endpoint and driver of the service with a given clock and store. An
`Engine` runs nothing by itself: its owner calls `settle` when timers may be due. A
`World` has a virtual clock: time passes only when `advance` is called, and all timers
fire in order. The gateways connect VMs and operators to the engine on its event loop.
They need no threads: a decision takes microseconds, and the store is in memory.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

from forewarn.campaigns.plan_drift import SeenPlans
from forewarn.campaigns.plan_progress import Progress
from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignText
from forewarn.clock import Clock, VirtualClock
from forewarn.control.call_gate import OPEN, CallGate
from forewarn.control.gateway import Health, start_prepared
from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.idempotency import Once, Result
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Check, Who, Work
from forewarn.drivers.port import Driver
from forewarn.fleet.file import FleetText, read_fleet
from forewarn.fleet.instance import InstanceFacts
from forewarn.fleet.merge import MergePlan
from forewarn.ids import RandomIds
from forewarn.instants import Micros, parse_duration, parse_instant
from forewarn.metadata.endpoint import Endpoint
from forewarn.protocol.actors import operator
from forewarn.protocol.own_events import OwnEvents
from forewarn.protocol.published import Publication
from forewarn.reporting import event_details, reports
from forewarn.service.readings import Watchers
from forewarn.settings.amounts import Amount
from forewarn.sim.redating import NoticeEnds
from forewarn.store.port import Reader, Store

T = TypeVar("T")

START = parse_instant("2030-01-01T00:00:00Z")
"""The default start of a world: a Tuesday at midnight."""

TURNS_MAX = 100_000
"""Maximum number of timers in one `advance`. More timers mean an endless loop."""


class Engine:
    """A plane, store, endpoint and driver on a clock. It is the listener of the plane."""

    gate: CallGate = OPEN
    """Lets driver calls begin: at once, because a simulation has no replicas."""

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
        """Start on the records in `store`."""
        self.clock = clock
        self.policy = policy or Policy()
        self.driver = driver
        self.notice_ends = NoticeEnds()
        self.on_publish: Callable[[Publication], None] = lambda _publication: None
        """Called after the endpoint: updates listeners of VMs, and wakes waiting requests."""
        self.on_change: Callable[[Sequence[str]], None] = lambda _operations: None
        self._ids = ids
        self._rate_limit = rate_limit
        self.store = store
        self.begin()

    @property
    def now(self) -> Micros:
        """Return the current instant."""
        return self.clock.now()

    def begin(self) -> None:
        """Start the service on the durable records."""
        self.endpoint = self.new_endpoint()
        self.plane = Plane(
            store=self.store,
            driver=self.driver,
            policy=self.policy,
            ids=self._ids,
            listener=self,
            checkpoint=self.checkpoint,
            not_before=self.notice_ends.not_before,
            gate=self.gate,
        )
        self.read_clocks()
        self.plane.start(now=self.now)

    def new_endpoint(self) -> Endpoint:
        """Return the endpoint of a service that starts."""
        return Endpoint(rate_limit=self._rate_limit, own_events=True)

    def checkpoint(self, place: str) -> None:
        """Do nothing. Tests override this to simulate a crash at a checkpoint."""

    def publish(self, publication: Publication) -> None:
        """Serve the changes from now on."""
        self.endpoint.publish(publication)
        self.on_publish(publication)

    def changed(self, operations: Sequence[str]) -> None:
        """Report that these operations changed."""
        self.on_change(operations)

    def order(
        self,
        decide: Callable[[Work], T],
        *,
        actor: str = "operator",
        reason: str = "",
    ) -> T:
        """Make a request, as the operator API does."""
        return self.plane.order(
            Who(actor=operator(actor), reason=reason), decide, now=self.now
        )

    def apply_fleet(self, text: str, *, name: str = "fleet.toml") -> MergePlan:
        """Apply a fleet file."""
        wanted = read_fleet(text, name=name)
        return self.order(lambda work: fleet_changes.apply(work, wanted))

    def read(self, ask: Callable[[Reader], T]) -> T:
        """Read the durable records."""
        return self.store.read(ask)

    def settle(self) -> None:
        """Fire the timers that are due now."""
        self.read_clocks()
        self.plane.note_last_seen(self.endpoint.take_last_seen(), now=self.now)
        while self.plane.advance(now=self.now):
            pass

    def read_clocks(self) -> None:
        """Let the plane detect a step of the clock, as a service does in each iteration."""
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
        """Start with a fleet, on the records in `store`."""
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
        """Let time pass, and fire each timer at its instant."""
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
        raise AssertionError("timers of the world fire without end")


class Withheld:
    """The VMs whose approvals are withheld, and their withheld approvals.

    A VM cannot know whether its approval was the last one needed: another tenant on the
    same host may not have approved yet (clause 3.4). A test simulates this by
    withholding: the VM gets the usual answer, and nothing starts before `release`.
    """

    def __init__(self) -> None:
        """Withhold nothing."""
        self._vms: set[str] = set()
        self._kept: list[Approval] = []
        self._since: dict[str, tuple[str, Micros]] = {}
        self.on_keep: Callable[[Approval], None] = lambda _approval: None
        """Called with each withheld approval."""

    @property
    def vms(self) -> frozenset[str]:
        """Return the VMs whose approvals are withheld."""
        return frozenset(self._vms)

    def withhold(self, vm: str) -> None:
        """Withhold the approvals of the VM from now on."""
        self._vms.add(vm)

    def keep(self, approval: Approval, *, now: Micros) -> bool:
        """Return whether the approval is withheld, and store it if so."""
        if approval.vm not in self._vms:
            return False
        self._kept.append(approval)
        for event_id in approval.event_ids:
            self._since.setdefault(event_id, (approval.vm, now))
        self.on_keep(approval)
        return True

    def kept(self, event_id: str) -> tuple[str, Micros]:
        """Return the VM of the first withheld approval of an event, and its time, or ""."""
        return self._since.get(event_id, ("", 0))

    def release(self, vm: str) -> list[Approval]:
        """Stop withholding approvals of this VM; return those that were withheld."""
        self._vms.discard(vm)
        released = [approval for approval in self._kept if approval.vm == vm]
        self._kept = [approval for approval in self._kept if approval.vm != vm]
        self._since = {
            event_id: first for event_id, first in self._since.items() if first[0] != vm
        }
        return released


class EngineControlGateway:
    """The gateway of the metadata endpoint to the plane (`ControlGateway`)."""

    def __init__(
        self, engine: Engine, *, withheld: Withheld, wake: Callable[[], None]
    ) -> None:
        """Use `engine`; `wake` its timers after each change. `withheld` keeps approvals."""
        self._engine = engine
        self._withheld = withheld
        self._wake = wake

    async def enable(self, vm: str) -> None:
        """Enable the view of `vm` (7.1)."""
        self._engine.plane.enable(vm, now=self._engine.now)
        self._wake()

    async def approve(self, vm: str, event_ids: Sequence[str]) -> str | None:
        """Approve events for `vm`; return None, or the reason of a refusal."""
        approval = Approval(vm=vm, event_ids=tuple(event_ids))
        if self._withheld.keep(approval, now=self._engine.now):
            return None
        refusal = self._engine.plane.approve([approval], now=self._engine.now)[0]
        self._wake()
        return refusal

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return the instance facts of `vm`, or None if it is deleted."""
        return self._engine.read(lambda reader: reports.instance_facts(reader, vm))

    async def own_events(self, vm: str) -> OwnEvents | None:
        """Return the event details that `vm` may see, or None if it is deleted."""
        now = self._engine.now
        return self._engine.read(
            lambda reader: event_details.own_events(reader, vm, now=now)
        )


class EngineOperatorGateway:
    """The gateway of the operator API to the plane (`OperatorGateway`)."""

    def __init__(
        self, engine: Engine, *, watchers: Watchers, wake: Callable[[], None]
    ) -> None:
        """Use `engine`; `wake` its timers after each request."""
        self._engine = engine
        self._watchers = watchers
        self._wake = wake
        self._seen = SeenPlans()

    async def order(self, who: Who, decide: Callable[[Work], T]) -> T:
        """Carry out one request; raises what `decide` raises."""
        result = self._engine.plane.order(who, decide, now=self._engine.now)
        self._wake()
        return result

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Read from a consistent view of the store."""
        return self._engine.read(ask)

    @property
    def reserve(self) -> Amount:
        """Return the free capacity that routine work leaves in each pool."""
        return self._engine.plane.policy.reserve

    @property
    def second_person(self) -> bool:
        """Return whether another operator than its starter must approve a campaign."""
        return self._engine.plane.policy.second_person

    async def count_fleet(self, text: FleetText) -> Mapping[str, int]:
        """Return the number of objects of each kind in a fleet file."""
        return text.read().count()

    async def merge_fleet(
        self,
        text: FleetText,
        *,
        who: Who | None,
        once: Once | None = None,
        check: Check | None = None,
    ) -> MergePlan:
        """Apply a fleet file for `who`. If `who` is None, only plan it."""
        wanted, digest = text.read(), text.digest()
        if who is None:
            return await self.read(lambda reader: fleet_changes.preview(reader, wanted))
        return await self.order(
            who,
            lambda work: fleet_changes.apply(
                work, wanted, digest=digest, once=once, check=check
            ),
        )

    async def plan_campaign(self, text: CampaignText, *, hosts_max: int) -> str:
        """Return the plan of a campaign file as JSON."""
        # Few simulations plan campaigns, and the planner takes long to load.
        from forewarn.control.requests import campaign_starts  # noqa: PLC0415
        from forewarn.reporting import campaign_plans  # noqa: PLC0415

        request = campaign_starts.plan_request(
            text,
            self._engine.plane.policy,
            now=self._engine.now,
            hosts_max=hosts_max,
            host_steps=self._engine.driver.host_steps(),
        )
        plan = await self.read(lambda reader: campaign_plans.planned(reader, request))
        self._seen.keep(plan.outline)
        return plan.text

    async def simulate_campaign(
        self, text: CampaignText, assumed: Assumptions, *, hosts_max: int
    ) -> str:
        """Return what happens in a simulation of a campaign file, as JSON."""
        from forewarn.service.simulation import fleet_copy, play  # noqa: PLC0415

        request = play.SimulationRequest(
            text=text,
            assumed=assumed,
            policy=self._engine.plane.policy,
            now=self._engine.now,
            hosts_max=hosts_max,
            host_steps=self._engine.driver.host_steps(),
        )
        copied = await self.read(lambda reader: fleet_copy.copy_fleet(reader, text))
        return await asyncio.to_thread(play.simulated, copied, request)

    async def campaign_progress(self, key: str) -> Progress | None:  # noqa: ARG002
        """Return nothing: the worlds of simulations are small."""
        return None

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
        from forewarn.control.requests import campaign_starts  # noqa: PLC0415

        plan = campaign_starts.plan_request(
            text,
            self._engine.plane.policy,
            now=self._engine.now,
            host_steps=self._engine.driver.host_steps(),
        )
        request = campaign_starts.StartRequest(
            plan=plan, digest=digest, seen=self._seen.of(digest)
        )
        return await start_prepared(
            self,
            lambda: self.read(lambda reader: campaign_starts.prepared(reader, request)),
            who=who,
            once=once,
            check=check,
        )

    def now(self) -> Micros:
        """Return the model time."""
        return self._engine.now

    def changes(self) -> AsyncIterator[tuple[str, ...]]:
        """Yield IDs of changed operations; an empty tuple means: read everything again."""
        return self._watchers.watch()

    async def health(self) -> Health:
        """Report that the service works: no component can fail separately."""
        return Health(alive=True, ready=True)
