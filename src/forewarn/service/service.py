"""One service: its components are joined, started and stopped in a fixed order.

Start: the shared listener of VMs, whose requests get 503 with Retry-After; the store;
the VMs' own listeners; the driver, the control thread and the publication of all
documents. From then on, VMs get their documents. Then the operator API starts, and the
driver is asked for the results of its calls, in parallel to everything else. Then timers
run, and the service is ready. If a fleet is stored, the fleet file comes last.

Stop: report not ready, accept no new requests, finish running ones, store the last-seen
times, end the control thread, close the driver and the store.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from forewarn.admin.tokens import Tokens
from forewarn.clock import Clock, SystemClock
from forewarn.control.gateway import Health
from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes
from forewarn.control.tokens import revoke_unauthenticated
from forewarn.control.transactions.work import Who
from forewarn.drivers.port import Driver
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import MergePlan
from forewarn.ids import RandomIds
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.server import Address, Server
from forewarn.protocol.actors import service_part
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.published import Publication
from forewarn.service import components, driver_kinds, limits, secret_files
from forewarn.service.api import Answers, Api
from forewarn.service.api_channel import Setup
from forewarn.service.api_process import ApiProcess
from forewarn.service.asked_abilities import asking
from forewarn.service.audit_log import AuditLog
from forewarn.service.campaign_plans import CampaignPlans
from forewarn.service.checking import refuse_empty_store
from forewarn.service.checks.asker import Checks
from forewarn.service.fleets import Fleets, FleetWrites, PlanningError
from forewarn.service.gateways import ThreadedControlGateway, ThreadedOperatorGateway
from forewarn.service.guests import GuestListeners, LastSeen
from forewarn.service.inventory import Inventory
from forewarn.service.listening import address_of, refused, url_of
from forewarn.service.metrics import Metrics, Parts
from forewarn.service.observed import ObservedStore
from forewarn.service.readings import Readings, Watchers
from forewarn.service.relay_news import RelayNews
from forewarn.service.runner import Runner, runner_problem
from forewarn.service.settings import Settings, policy
from forewarn.service.tls import certificate_of
from forewarn.service.watched_hosts import WatchedHosts
from forewarn.service.webhooks.commits import Pending, Tenants
from forewarn.service.webhooks.receivers import Webhooks
from forewarn.service.webhooks.signing import WebhookSecrets
from forewarn.store import kinds
from forewarn.store.open import path_of
from forewarn.store.port import Reader, Store, every

logger = logging.getLogger("forewarn.service")

StartFleet: TypeAlias = FleetText | FleetFileError | None
"""The fleet file of a start, its error, or None."""


class Service:
    """A running service; created, used and stopped on one event loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        store: Store | None = None,
        api_apart: bool = False,
    ) -> None:
        """Prepare the components; those not given are created from the settings.

        The caller closes a store that it passes. With `api_apart`, the operator API
        runs in a separate process, unless the store is in memory.
        """
        self.settings = settings
        self.clock = clock or SystemClock()
        self._ids = RandomIds()
        self._store = store
        self._owned = contextlib.ExitStack()
        self._is_ready = False
        self._has_listeners = False
        self._failed: asyncio.Future[BaseException]
        self._threads = ThreadPoolExecutor(
            limits.READERS, thread_name_prefix="forewarn-read"
        )
        self._last_seen: LastSeen | None = None
        self._api: Api | None = None
        self._api_apart = api_apart and store is None
        self._runner: Runner | None = None
        self.metrics = Metrics(self.clock)
        self._fleet_writes = FleetWrites()
        self._watched_hosts = WatchedHosts()
        self._fleets: Fleets | None = None
        self._campaigns: CampaignPlans | None = None
        self._pending = Pending()
        self._tenants = Tenants(settings)
        self._webhooks: Webhooks | None = None
        self._relay_news = RelayNews()
        self._checks = Checks(settings, clock=self.clock)
        self._inventory = Inventory(settings, clock=self.clock)
        self.endpoint: Endpoint
        self.server: Server
        self.gateway: ThreadedOperatorGateway

    # Starting

    async def start(self, *, fleet: StartFleet = None) -> None:
        """Start everything; raises ForewarnError and then leaves nothing running.

        If `fleet` is the file that was applied last, it is not parsed.
        """
        self._failed = asyncio.get_running_loop().create_future()
        try:
            await self._start(fleet)
        except BaseException:
            await self.stop()
            if self.failure is not None:
                # The first error says only that the thread has ended, not why.
                raise self.failure from None
            raise

    async def _start(self, fleet: StartFleet) -> None:
        tokens = secret_files.read_tokens_of(self.settings)
        secret = secret_files.read_proxy_secret(self.settings)
        hooks = secret_files.read_webhook_secrets(self.settings)
        loop = asyncio.get_running_loop()
        self.endpoint = Endpoint(
            rate_limit=self.settings.metadata.rate_limit,
            secret=secret,
            waits=components.waits_of(self.settings),
            own_events=self.settings.metadata.event_details,
            is_open=False,
        )
        api = self._make_api(tokens)
        self.server = Server(
            endpoint=self.endpoint,
            clock=self.clock,
            bounds=components.metadata_limits(api),
        )
        self._guests = GuestListeners(self.server, on_open=self._log_listener)
        self.watchers = Watchers()
        self._has_listeners = True
        await self._listen_for_vms()
        # The process of the operator API loads while the store is opened.
        self._api = api
        with refused("admin.listen", self.settings.admin.listen):
            await api.listen()
        stored = await loop.run_in_executor(self._threads, self._open_store)
        await self._guests.open(
            await loop.run_in_executor(self._threads, stored.read, _guest_listeners)
        )
        driver = await loop.run_in_executor(self._threads, self._open_driver, stored)
        runner, webhooks = self._build(loop, self._observed(stored), driver, hooks, api)
        runner.start()
        await runner.call(lambda plane, now: plane.publish(now=now))
        has_fleet = await self.gateway.read(fleet_changes.has_fleet)
        if not has_fleet:
            # VMs can get no documents before there is a fleet.
            await self._apply_at_start(fleet)
        self.endpoint.open()
        await self._guests.begin()
        if secret_files.authenticates(self.settings):
            await self._end_unauthenticated(runner)
        await api.begin(self._answers(webhooks))
        while await runner.call(lambda plane, now: plane.resume(now=now)):
            pass
        self._last_seen = LastSeen(
            runner,
            take=self.endpoint.take_last_seen,
            disable_after=self.settings.metadata.disable_after,
        )
        self._last_seen.begin()
        webhooks.begin()
        self._checks.begin(runner.call)
        runner.tick()
        self._is_ready = True
        # The API is last, since neither VMs nor timers wait for it.
        await api.ready()
        if has_fleet:
            await self._update_at_start(fleet)
        self._inventory.begin(self.gateway.merge_fleet)

    def _build(
        self,
        loop: asyncio.AbstractEventLoop,
        store: Store,
        driver: Driver,
        hooks: Mapping[str, WebhookSecrets],
        api: Api,
    ) -> tuple[Runner, Webhooks]:
        """Create the plane, its thread and everything that uses it."""
        outbound = components.Outbound(
            loop, publish=self._publish, changed=self.watchers.tell
        )
        inquirer = driver_kinds.inquirer_of(self.settings, driver)
        plane = Plane(
            store=store,
            driver=driver,
            policy=policy(self.settings),
            ids=self._ids,
            listener=outbound,
            inquirer=inquirer,
            checks=self._checks.board,
        )
        runner = self._runner = Runner(
            plane=plane,
            clock=self.clock,
            loop=loop,
            # A request that waits for a change counts as seen now.
            take_last_seen=lambda: self.endpoint.take_last_seen(now=self.clock.now()),
            on_failure=self._fail,
        )
        driver.on_report(runner.wake)
        if inquirer is not None:
            inquirer.on_answer(runner.wake)
        return runner, self._join(runner, store, hooks, api)

    async def _end_unauthenticated(self, runner: Runner) -> None:
        """Revoke the tokens that any user of this machine could create."""
        who = Who(actor=service_part("service"), reason="callers must authenticate now")
        ended = await runner.call(
            lambda plane, now: plane.order(who, revoke_unauthenticated, now=now)
        )
        if ended:
            logger.warning(
                "revoked %d tokens whose creators were not authenticated", ended
            )

    def _open_store(self) -> Store:
        """Open the store before other files, since it holds the lock."""
        if self._store is not None:
            return self._store
        store = self._owned.enter_context(
            contextlib.closing(components.open_store_of(self.settings))
        )
        refuse_empty_store(self.settings, store)
        return store

    def _open_driver(self, store: Store) -> Driver:
        """Open the driver, and load the counts that are kept in memory."""
        driver = self._owned.enter_context(
            contextlib.closing(driver_kinds.kind_of(self.settings).open(self.settings))
        )
        self._watched_hosts.attach(driver, store)
        self.metrics.tally.load(store)
        self._pending.load(store)
        self._tenants.load(store)
        return driver

    def _observed(self, store: Store) -> Store:
        """Return the store for the plane, with the log and the metrics as listeners."""
        listeners = (
            AuditLog(),
            self.metrics.tally,
            self._pending,
            self._tenants,
            self._fleet_writes,
            self._relay_news,
            self._watched_hosts,
        )
        return ObservedStore(store, clock=self.clock, listeners=listeners)

    def _join(
        self,
        runner: Runner,
        store: Store,
        hooks: Mapping[str, WebhookSecrets],
        api: Api,
    ) -> Webhooks:
        readings = Readings(store=store, threads=self._threads)
        self.server.attach(
            ThreadedControlGateway(
                runner=runner,
                readings=readings,
                approvals=self.metrics.approvals,
                clock=self.clock,
            )
        )
        self._fleets = Fleets(
            runner=runner,
            readings=readings,
            writes=self._fleet_writes,
            planner=None if self._store else components.planner_of(self.settings),
            count_vms=lambda: len(self.endpoint.directory.by_vm),
        )
        self._campaigns = components.campaign_plans_of(
            self.settings, readings, in_memory=self._store is not None
        )
        self._campaigns.ask_abilities = asking(runner)
        self.gateway = ThreadedOperatorGateway(
            runner=runner,
            readings=readings,
            fleets=self._fleets,
            campaigns=self._campaigns,
            watchers=self.watchers,
            clock=self.clock,
            ask_health=self.health,
        )
        webhooks = self._webhooks = Webhooks(
            self.settings,
            secrets_of=hooks,
            pending=self._pending,
            tenants=self._tenants,
            gateway=self.gateway,
            clock=self.clock,
            ids=self._ids,
        )
        self._parts = Parts(
            endpoint=self.endpoint,
            server=self.server,
            runner=runner,
            readings=readings,
            api=api,
            webhooks=webhooks,
            checks=self._checks,
            inventory=self._inventory,
            is_ready=lambda: self.health().ready,
            listeners_failed=lambda: len(self._guests.failed),
        )
        return webhooks

    async def _listen_for_vms(self) -> None:
        """Open the shared listener; until documents are published, VMs get 503."""
        listen = self.settings.metadata.listen
        if listen:
            with refused("metadata.listen", listen):
                await self.server.serve_shared(*address_of(listen))

    def _make_api(self, tokens: Tokens | None) -> Api:
        # Report an invalid certificate before anything is started.
        certificate_of(self.settings)
        setup = Setup(settings=self.settings, tokens=tokens)
        if self._api_apart and path_of(self.settings.store.url) is not None:
            return ApiProcess(setup, clock=self.clock)
        from forewarn.service.admin import ApiHere  # noqa: PLC0415 - loads slowly

        return ApiHere(setup, clock=self.clock)

    def _answers(self, webhooks: Webhooks) -> Answers:
        return Answers(
            gateway=self.gateway,
            webhooks=webhooks,
            checks=self._checks,
            relays=self._relay_news.through(self.gateway),
            collect=lambda: self.metrics.collect(self._parts),
            watchers=self.watchers,
            ask_abilities=asking(self._parts.runner),
        )

    # Running

    async def apply(self, fleet: FleetText) -> MergePlan:
        """Apply a fleet file, as the service does at its start."""
        return await self.gateway.merge_fleet(
            fleet, who=Who(actor=service_part("fleet file"))
        )

    async def _apply_at_start(self, fleet: StartFleet) -> None:
        if isinstance(fleet, FleetFileError):
            raise fleet
        if fleet is not None and not await self.gateway.read(
            lambda reader: fleet_changes.is_applied(reader, fleet)
        ):
            await self.apply(fleet)

    async def _update_at_start(self, fleet: StartFleet) -> None:
        """Apply the file of the start; if it is refused, the stored fleet stays."""
        assert self._fleets is not None, "the service was joined"
        try:
            await self._apply_at_start(fleet)
        except (FleetFileError, RefusedError, PlanningError) as error:
            assert fleet is not None, "there is a file to refuse"
            is_text = isinstance(fleet, FleetText)
            name = fleet.name if is_text else fleet.problems[0].file
            self._fleets.refused(name, error)

    def wake(self) -> None:
        """Read the clock now, since it has jumped."""
        if self._runner is not None:
            self._runner.wake()
            self.server.wake()

    async def wait_failed(self) -> BaseException:
        """Wait until the control thread fails; return its error."""
        return await asyncio.shield(self._failed)

    @property
    def failure(self) -> BaseException | None:
        """Return the error that ended the control thread, if any."""
        if self._failed.done():
            return self._failed.result()
        # The loop may not know yet.
        return None if self._runner is None else self._runner.failure

    def addresses(self) -> Mapping[str, Address]:
        """Return the listen addresses by VM; the shared one has an empty name."""
        return self.server.addresses()

    @property
    def admin_address(self) -> Address:
        """Return the address of the operator API."""
        assert self._api is not None, "the service has not started"
        return self._api.listener.address

    @property
    def admin_url(self) -> str:
        """Return the URL of the operator API."""
        assert self._api is not None, "the service has not started"
        return self._api.listener.url

    def health(self) -> Health:
        """Return the health of the service."""
        runner, problems = self._runner, [runner_problem(self._runner)]
        if not self._is_ready:
            problems.append("the service is starting or stopping")
        if runner is not None:
            problems += [
                f"no listener for VM {vm}: {error.strerror}"
                for vm, error in self._guests.failed.items()
            ]
        if self._fleets is not None:
            problems.append(self._fleets.refusal)
        problems += (*self._watched_hosts.troubles(), *self._inventory.troubles())
        alive = runner is not None and runner.failure is None and runner.is_alive()
        return Health(
            alive=alive,
            ready=alive and self._is_ready and not problems[0],
            problems=tuple(filter(None, problems)),
            withheld=None if runner is None else runner.withheld(),
        )

    def status(self) -> str:
        """Return a status line for the supervisor."""
        vms, open_ = len(self.endpoint.directory.by_vm), len(self.metrics.tally.open())
        return f"serving {vms} VMs; {open_} open operations"

    def _publish(self, publication: Publication) -> None:
        self.metrics.published += len(publication.views)
        self.endpoint.publish(publication)
        self._guests.follow(publication)

    def _log_listener(self, vm: str) -> None:
        if self._is_ready:
            url = url_of(self.addresses()[vm])
            logger.info("VM %s has its metadata endpoint at %s", vm, url)

    def _fail(self, error: BaseException) -> None:
        self._is_ready = False
        if not self._failed.done():
            self._failed.set_result(error)

    # Stopping

    async def stop(self) -> None:
        """Stop in order; can be called at any time and repeatedly."""
        self._is_ready = False
        for planner in filter(None, (self._fleets, self._campaigns)):
            planner.close()
        await self._checks.end()
        await self._inventory.end()
        if self._last_seen is not None:
            await self._last_seen.end()
        if self._has_listeners:
            await self._close_listeners()
        if self._last_seen is not None:
            await self._last_seen.note()
        if self._webhooks is not None:
            await self._webhooks.end()
        if self._runner is not None and not await self._runner.stop():
            logger.error("the control thread does not end, so the store stays open")
            return
        await asyncio.to_thread(self._owned.close)
        self._threads.shutdown(wait=False)

    async def _close_listeners(self) -> None:
        await self._guests.end()
        self.watchers.close()
        self._relay_news.close()
        stops = [self.server.stop(grace_seconds=limits.GRACE_SECONDS)]
        if self._api is not None:
            stops.append(self._api.stop())
        await asyncio.gather(*stops)


def _guest_listeners(reader: Reader) -> dict[str, str]:
    """Return the listen addresses of stored VMs with their own listener."""
    return {vm.name: vm.listen for vm in every(reader, kinds.VMS_WITH_LISTENER)}
