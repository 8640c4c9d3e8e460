"""One service: joined, started and stopped in the order that each part needs.

Start: store, driver, control thread, everything published, the fleet file, the
listeners, the operator API; only then timers run and it is ready. Stop: not
ready, take nothing new, finish what is under way, store the last sightings, end
the control thread, close driver and store.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from forewarn import __version__
from forewarn.admin import app as admin_app
from forewarn.admin.tokens import Tokens
from forewarn.clock import Clock, SystemClock
from forewarn.control import fleet_changes
from forewarn.control.desk import Health
from forewarn.control.messages import Publication
from forewarn.control.plane import Plane
from forewarn.control.work import Who
from forewarn.drivers.port import Driver
from forewarn.fleet.changes import MergePlan
from forewarn.fleet.file import FleetText, WantedFleet
from forewarn.ids import RandomIds
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.server import Address, Server
from forewarn.service import limits, parts, secret_files
from forewarn.service.admin import AdminServer
from forewarn.service.desks import ServiceDesk, VmDesk
from forewarn.service.fleets import Fleets, FleetWrites
from forewarn.service.guests import GuestListeners
from forewarn.service.listening import address_of, refused
from forewarn.service.metrics import Metrics, Parts
from forewarn.service.observed import ObservedStore
from forewarn.service.readings import Readings
from forewarn.service.runner import Runner
from forewarn.service.settings import Settings, policy
from forewarn.service.sightings import Sightings
from forewarn.service.trail import Trail
from forewarn.service.watching import Watchers
from forewarn.service.webhooks.deliveries import Webhooks
from forewarn.service.webhooks.pending import Pending
from forewarn.service.webhooks.tenants import Tenants
from forewarn.store.port import Store

logger = logging.getLogger("forewarn.service")


class Service:
    """A running service. It is made, used and stopped on one event loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        store: Store | None = None,
    ) -> None:
        """Join the parts; those that are not given are made as the settings say.

        A store that is given stays the giver's to close.
        """
        self.settings = settings
        self.clock = clock or SystemClock()
        self._ids = RandomIds()
        self._store = store
        self._owned = contextlib.ExitStack()
        self._is_ready = False
        self._failed: asyncio.Future[BaseException]
        self._threads = ThreadPoolExecutor(
            limits.READERS, thread_name_prefix="forewarn-read"
        )
        self._sightings: Sightings | None = None
        self._admin: AdminServer | None = None
        self._runner: Runner | None = None
        self.metrics = Metrics(self.clock)
        self._fleet_writes = FleetWrites()
        self._fleets: Fleets | None = None
        self._pending = Pending()
        self._tenants = Tenants(settings)
        self._webhooks: Webhooks | None = None
        self.endpoint: Endpoint
        self.server: Server
        self.desk: ServiceDesk

    # Starting

    async def start(self, *, fleet: WantedFleet | FleetText | None = None) -> None:
        """Start everything; raises ForewarnError, and then nothing is left.

        A file that was applied last is not even read.
        """
        self._failed = asyncio.get_running_loop().create_future()
        try:
            await self._start(fleet)
        except BaseException:
            await self.stop()
            if self.failure is not None:
                # Who asked was only told that the thread had ended, not why.
                raise self.failure from None
            raise

    async def _start(self, fleet: WantedFleet | FleetText | None) -> None:
        tokens = secret_files.read_tokens_of(self.settings)
        secret = secret_files.read_proxy_secret(self.settings)
        keys = secret_files.read_webhook_keys(self.settings)
        loop = asyncio.get_running_loop()
        stored, driver = await loop.run_in_executor(self._threads, self._open)
        store = self._observed(stored)
        self.endpoint = Endpoint(
            rate_limit=self.settings.metadata.rate_limit,
            secret=secret,
            waits=parts.waits_of(self.settings),
            own_events=self.settings.metadata.own_events,
        )
        self.watchers = Watchers()
        voice = parts.Voice(loop, publish=self._publish, changed=self.watchers.tell)
        plane = Plane(
            store=store,
            driver=driver,
            policy=policy(self.settings),
            ids=self._ids,
            listener=voice,
        )
        runner = self._runner = Runner(
            plane=plane,
            clock=self.clock,
            loop=loop,
            # Before silence is judged, who waits has been seen just now.
            take_sightings=lambda: self.endpoint.take_sightings(now=self.clock.now()),
            on_failure=self._fail,
        )
        driver.on_report(runner.wake)
        webhooks = self._join(runner, store, keys)
        runner.start()
        await runner.call(lambda plane, now: plane.start(now=now))
        if fleet is not None and not await self._is_applied(fleet):
            await self.apply(fleet)
        await self._listen(tokens)
        self._sightings = Sightings(
            runner,
            take=self.endpoint.take_sightings,
            disable_after=self.settings.metadata.disable_after,
        )
        self._sightings.begin()
        webhooks.begin()
        runner.tick()
        self._is_ready = True

    def _open(self) -> tuple[Store, Driver]:
        """Open store and driver; the store first, since it locks the files."""
        store = self._store
        if store is None:
            store = self._owned.enter_context(
                contextlib.closing(parts.open_store_of(self.settings))
            )
        driver = self._owned.enter_context(
            contextlib.closing(parts.open_driver_of(self.settings))
        )
        self.metrics.tally.load(store)
        self._pending.load(store)
        self._tenants.load(store)
        return store, driver

    def _observed(self, store: Store) -> Store:
        """Return the store as the plane uses it: the log and the metrics hear of it."""
        listeners = (
            Trail(),
            self.metrics.tally,
            self._pending,
            self._tenants,
            self._fleet_writes,
        )
        return ObservedStore(store, clock=self.clock, listeners=listeners)

    def _join(
        self, runner: Runner, store: Store, keys: Mapping[str, Sequence[bytes]]
    ) -> Webhooks:
        readings = Readings(store=store, threads=self._threads)
        self.server = Server(
            endpoint=self.endpoint,
            desk=VmDesk(
                runner=runner,
                readings=readings,
                approvals=self.metrics.approvals,
                clock=self.clock,
            ),
            clock=self.clock,
        )
        self._guests = GuestListeners(self.server, on_open=self._tell_of_guest)
        self._fleets = Fleets(
            runner=runner,
            readings=readings,
            writes=self._fleet_writes,
            planner=None if self._store else parts.planner_of(self.settings),
            count_vms=lambda: len(self.endpoint.directory.by_vm),
        )
        self.desk = ServiceDesk(
            runner=runner,
            readings=readings,
            fleets=self._fleets,
            watchers=self.watchers,
            clock=self.clock,
            health=self.health,
        )
        webhooks = self._webhooks = Webhooks(
            self.settings,
            keys=keys,
            pending=self._pending,
            tenants=self._tenants,
            desk=self.desk,
            clock=self.clock,
            ids=self._ids,
        )
        self._parts = Parts(
            endpoint=self.endpoint,
            server=self.server,
            runner=runner,
            readings=readings,
            watchers=self.watchers,
            webhooks=webhooks,
            is_ready=lambda: self.health().ready,
            listeners_failed=lambda: len(self._guests.failed),
        )
        return webhooks

    async def _listen(self, tokens: Tokens | None) -> None:
        metadata, admin = self.settings.metadata, self.settings.admin
        if metadata.listen:
            with refused("metadata.listen", metadata.listen):
                await self.server.serve_shared(*address_of(metadata.listen))
        await self._guests.begin()
        self._admin = AdminServer(
            admin_app.create_app(
                self.desk,
                tokens=tokens,
                version=__version__,
                collect=lambda: self.metrics.collect(self._parts),
                answered=self.metrics.answered,
                receivers=self._webhooks,
                clock=self.clock,
            ),
            grace_seconds=limits.GRACE_SECONDS,
        )
        with refused("admin.listen", admin.listen):
            await self._admin.start(*address_of(admin.listen))

    # Running

    async def apply(self, fleet: WantedFleet | FleetText) -> MergePlan:
        """Apply a fleet file, as the service does at its start."""
        who = Who(actor="fleet file")
        if isinstance(fleet, FleetText):
            return await self.desk.merge_fleet(fleet, who=who)
        return await self.desk.order(who, lambda work: fleet_changes.apply(work, fleet))

    async def _is_applied(self, fleet: WantedFleet | FleetText) -> bool:
        return isinstance(fleet, FleetText) and await self.desk.read(
            lambda reader: fleet_changes.is_applied(reader, fleet)
        )

    def wake(self) -> None:
        """Look at the clock now: it has jumped."""
        if self._runner is not None:
            self._runner.wake()
            self.server.wake()

    async def wait_failed(self) -> BaseException:
        """Return what ended the control thread, when it has."""
        return await asyncio.shield(self._failed)

    @property
    def failure(self) -> BaseException | None:
        """Return what ended the control thread before its time, if anything did."""
        if self._failed.done():
            return self._failed.result()
        # The loop may not have been told yet.
        return None if self._runner is None else self._runner.failure

    def addresses(self) -> Mapping[str, Address]:
        """Return where VMs are listened for, by VM; the shared one has no name."""
        return self.server.addresses()

    @property
    def admin_address(self) -> Address:
        """Return where operators are listened for."""
        assert self._admin is not None, "the service has not started"
        return self._admin.address

    def health(self) -> Health:
        """Tell whether the service does its work."""
        runner = self._runner
        alive = runner is not None and runner.failure is None and runner.is_alive()
        idle = runner is not None and runner.idle_seconds() >= limits.IDLE_SECONDS
        problems: list[str] = []
        if runner is not None and runner.failure is not None:
            problems.append(f"the control thread ended: {runner.failure}")
        elif runner is not None and idle and runner.is_held:
            problems.append("the store cannot be written: another program holds it")
        elif not alive:
            problems.append("the control thread gives no sign of life")
        elif idle:
            problems.append("timers do not run: the control thread is busy or stuck")
        if not self._is_ready:
            problems.append("the service is starting or stopping")
        if runner is not None:
            problems += [
                f"no listener for vm {vm}: {error.strerror}"
                for vm, error in self._guests.failed.items()
            ]
        return Health(
            alive=alive,
            ready=alive and self._is_ready and not idle,
            problems=tuple(problems),
        )

    def status(self) -> str:
        """Return in one line what it does, for whoever supervises it."""
        vms, open_ = len(self.endpoint.directory.by_vm), len(self.metrics.tally.open())
        return f"serving {vms} VMs; {open_} operations under way"

    def _publish(self, publication: Publication) -> None:
        self.metrics.published += len(publication.views)
        self.endpoint.publish(publication)
        self._guests.follow(publication)

    def _tell_of_guest(self, vm: str) -> None:
        if self._is_ready:
            logger.info("vm %s is served at %s", vm, parts.url(self.addresses()[vm]))

    def _fail(self, error: BaseException) -> None:
        self._is_ready = False
        if not self._failed.done():
            self._failed.set_result(error)

    # Stopping

    async def stop(self) -> None:
        """Stop in order; may be called at any time, and again."""
        self._is_ready = False
        if self._fleets is not None:
            self._fleets.close()
        if self._runner is not None:
            if self._sightings is not None:
                await self._sightings.end()
            await self._close_listeners()
            if self._sightings is not None:
                await self._sightings.note()
            if self._webhooks is not None:
                await self._webhooks.end()
            if not await self._runner.stop():
                logger.error("the control thread does not end; the store stays open")
                return
        await asyncio.to_thread(self._owned.close)
        self._threads.shutdown(wait=False)

    async def _close_listeners(self) -> None:
        await self._guests.end()
        self.watchers.close()
        stops = [self.server.stop(grace_seconds=limits.GRACE_SECONDS)]
        if self._admin is not None:
            stops.append(self._admin.stop())
        await asyncio.gather(*stops)
