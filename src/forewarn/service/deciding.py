"""The deciding part of a service: the driver, the control thread, and what follows them.

A single service has one from its start to its end; a replica has one while it leads.
Everything that VMs and operators connect to is outside it, in `service`.

Start: the driver, the control thread and the publication of all documents (`publish`).
Then the driver is asked for the results of its calls, and timers run (`resume`).

End: no new work of its own (`hush`); then the last-seen times are stored, and the control
thread and the driver end (`end`). A crash in between leaves what a killed service leaves.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from forewarn.clock import Clock
from forewarn.control.call_gate import OPEN, CallGate
from forewarn.control.gateway import Health
from forewarn.control.plane import Plane
from forewarn.control.tokens import revoke_unauthenticated
from forewarn.control.transactions.work import Who
from forewarn.drivers.port import Driver, LateStarter
from forewarn.ids import RandomIds
from forewarn.metadata.endpoint import Endpoint
from forewarn.protocol.actors import service_part
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.published import Publication
from forewarn.service import components, driver_kinds, limits
from forewarn.service.asked_abilities import asking
from forewarn.service.audit_log import AuditLog
from forewarn.service.checks.asker import Checks
from forewarn.service.fleets import Fleets, FleetWrites
from forewarn.service.gateways import ThreadedControlGateway, ThreadedOperatorGateway
from forewarn.service.guests import LastSeen
from forewarn.service.inventory import Inventory
from forewarn.service.metrics import DecidingParts, Metrics
from forewarn.service.observed import ObservedStore
from forewarn.service.readings import Readings, Watchers
from forewarn.service.relay_news import RelayNews
from forewarn.service.runner import Runner
from forewarn.service.settings import Settings, policy
from forewarn.service.watched_hosts import WatchedHosts
from forewarn.service.webhooks.commits import Pending, Tenants
from forewarn.service.webhooks.receivers import Webhooks
from forewarn.service.webhooks.signing import WebhookSecrets
from forewarn.store.port import Store

logger = logging.getLogger("forewarn.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The parts of a service that outlive its deciding part."""

    settings: Settings
    clock: Clock
    ids: RandomIds
    threads: Executor
    endpoint: Endpoint
    metrics: Metrics
    watchers: Watchers
    relay_news: RelayNews
    hooks: Mapping[str, WebhookSecrets]
    """The secrets of the receivers of webhooks."""
    has_process: bool
    """Whether other processes can read the store."""
    publish: Callable[[Publication], None]
    """Serves changes; called on the event loop."""
    health: Callable[[], Health]
    gate: CallGate = OPEN
    """Lets driver calls begin when all replicas serve their documents."""
    on_failure: Callable[[BaseException], None]
    """Gets the error that ended the control thread, on the event loop."""


class Deciding:
    """The driver, the control thread and their helpers; used on one event loop."""

    gateway: ThreadedOperatorGateway
    """The gateway of operators; set by `publish`, as all parts below."""
    guests: ThreadedControlGateway
    runner: Runner
    webhooks: Webhooks
    checks: Checks

    def __init__(self, around: Around, store: Store) -> None:
        """Prepare to decide about `store`, which the caller closes."""
        self._around = around
        self._store = store
        self._owned = contextlib.ExitStack()
        self._pending = Pending()
        self._tenants = Tenants(around.settings)
        self._fleet_writes = FleetWrites()
        self._watched_hosts = WatchedHosts()
        self.checks = Checks(around.settings, clock=around.clock)
        self._inventory = Inventory(around.settings, clock=around.clock)
        self._last_seen: LastSeen | None = None
        self._webhooks: Webhooks | None = None
        self._runner: Runner | None = None
        self._fleets: Fleets | None = None
        self._end_by: float | None = None
        """The time of the loop until which the control thread may still work; None: it is
        not to end."""

    # Starting

    async def publish(self, stale: Sequence[str] | None = None) -> None:
        """Open the driver, start the control thread, and publish all documents.

        If all but some views are published already, `stale` has these. Raises
        ForewarnError; `end` is needed in any case.
        """
        loop = asyncio.get_running_loop()
        # The readers' threads may be busy for seconds.
        driver = await asyncio.to_thread(self._open_driver)
        store = self._observed()
        runner = self._build(loop, store, driver)
        self._join(runner, store)
        runner.start()
        await runner.call(lambda plane, now: plane.publish(now=now, stale=stale))

    def _open_driver(self) -> Driver:
        """Open the driver, and load the counts that are kept in memory."""
        settings, store = self._around.settings, self._store
        driver = self._owned.enter_context(
            contextlib.closing(driver_kinds.kind_of(settings).open(settings))
        )
        if isinstance(driver, LateStarter):
            driver.start_only_while(self._around.gate.may_act)
        self._watched_hosts.attach(driver, store)
        self._around.metrics.begin_tally(store)
        self._pending.load(store)
        self._tenants.load(store)
        return driver

    def _observed(self) -> Store:
        """Return the store for the plane, with the log and the metrics as listeners."""
        around = self._around
        listeners = (
            AuditLog(),
            around.metrics.tally,
            self._pending,
            self._tenants,
            self._fleet_writes,
            around.relay_news,
            self._watched_hosts,
        )
        return ObservedStore(self._store, clock=around.clock, listeners=listeners)

    def _build(
        self, loop: asyncio.AbstractEventLoop, store: Store, driver: Driver
    ) -> Runner:
        """Create the plane and its thread."""
        around = self._around
        outbound = components.Outbound(
            loop, publish=around.publish, changed=around.watchers.queue
        )
        inquirer = driver_kinds.inquirer_of(around.settings, driver)
        plane = Plane(
            store=store,
            driver=driver,
            policy=policy(around.settings),
            ids=around.ids,
            listener=outbound,
            inquirer=inquirer,
            checks=self.checks.board,
            gate=around.gate,
        )
        take, clock = around.endpoint.take_last_seen, around.clock
        runner = self.runner = self._runner = Runner(
            plane=plane,
            clock=clock,
            loop=loop,
            # A request that waits for a change counts as seen now.
            take_last_seen=lambda: take(now=clock.now()),
            on_failure=around.on_failure,
        )
        driver.on_report(runner.wake)
        if inquirer is not None:
            inquirer.on_answer(runner.wake)
        return runner

    def _join(self, runner: Runner, store: Store) -> None:
        """Create everything that uses the control thread."""
        around = self._around
        settings, clock = around.settings, around.clock
        readings = Readings(store=store, threads=around.threads)
        self.guests = ThreadedControlGateway(
            runner=runner,
            readings=readings,
            approvals=around.metrics.approvals,
            clock=clock,
        )
        self._fleets = Fleets(
            runner=runner,
            readings=readings,
            writes=self._fleet_writes,
            planner=components.planner_of(settings) if around.has_process else None,
            count_vms=lambda: len(around.endpoint.directory.by_vm),
        )
        self._campaigns = components.campaign_plans_of(
            settings, readings, in_memory=not around.has_process
        )
        self._campaigns.ask_abilities = asking(runner)
        self.gateway = ThreadedOperatorGateway(
            runner=runner,
            readings=readings,
            fleets=self._fleets,
            campaigns=self._campaigns,
            watchers=around.watchers,
            clock=clock,
            ask_health=around.health,
        )
        self.webhooks = self._webhooks = Webhooks(
            settings,
            secrets_of=around.hooks,
            pending=self._pending,
            tenants=self._tenants,
            gateway=self.gateway,
            clock=clock,
            ids=around.ids,
        )

    async def end_unauthenticated(self) -> None:
        """Revoke the tokens that any user of this machine could create."""
        who = Who(actor=service_part("service"), reason="callers must authenticate now")
        ended = await self.runner.call(
            lambda plane, now: plane.order(who, revoke_unauthenticated, now=now)
        )
        if ended:
            logger.warning(
                "revoked %d tokens whose creators were not authenticated", ended
            )

    async def resume(self) -> None:
        """Continue the work of the last process, and let timers run."""
        while await self.runner.call(lambda plane, now: plane.resume(now=now)):
            pass
        self._last_seen = LastSeen(
            self.runner,
            take=self._around.endpoint.take_last_seen,
            disable_after=self._around.settings.metadata.disable_after,
        )
        self._last_seen.begin()
        self.webhooks.begin()
        self.checks.begin(self.runner.call)
        self.runner.tick()

    def repeat_inventory(self) -> None:
        """Begin to merge the inventory of another system again and again."""
        self._inventory.begin(self.gateway.merge_fleet)

    # Running

    def refused(self, name: str, error: ForewarnError) -> None:
        """Remember that the fleet file of the start was refused."""
        assert self._fleets is not None, "it has been joined"
        self._fleets.refused(name, error)

    def parts(self) -> DecidingParts:
        """Return the components that a scrape of the metrics reads."""
        return DecidingParts(
            runner=self.runner,
            readings=self.gateway.readings,
            webhooks=self.webhooks,
            checks=self.checks,
            inventory=self._inventory,
        )

    def running(self) -> Runner | None:
        """Return the control thread; None: it has not been created."""
        return self._runner

    def troubles(self) -> list[str]:
        """Return the problems of the fleet file, the driver's hosts and the inventory."""
        refusal = self._fleets.refusal if self._fleets is not None else ""
        return [
            refusal,
            *self._watched_hosts.troubles(),
            *self._inventory.troubles(),
        ]

    def unreachable(self) -> Mapping[str, str]:
        """Return why the driver cannot reach hosts, by host."""
        return self._watched_hosts.unreachable()

    # Ending

    async def hush(self) -> None:
        """Begin no work of its own any more. Can be called at any time and again."""
        if self._fleets is not None:
            self._fleets.close()
            self._campaigns.close()
        await self.checks.end()
        await self._inventory.end()
        if self._last_seen is not None:
            await self._last_seen.end()

    async def end(self) -> bool:
        """Finish the waiting tasks and end; return whether the thread has ended.

        All calls together wait THREAD_SECONDS for a thread that hangs.
        """
        await self.hush()
        loop = asyncio.get_running_loop()
        if self._end_by is None:
            self._end_by = loop.time() + limits.THREAD_SECONDS
        if self._last_seen is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._end_by):
                    await self._last_seen.note()
        if self._webhooks is not None:
            await self._webhooks.end()
        left = max(self._end_by - loop.time(), 0.0)
        if self._runner is not None and not await self._runner.stop(left):
            return False
        await asyncio.to_thread(self._owned.close)
        return True
