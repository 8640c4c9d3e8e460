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
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from forewarn.admin.gateways import ClusterGateway
from forewarn.admin.meters import Reading
from forewarn.admin.tokens import Tokens
from forewarn.clock import Clock, SystemClock
from forewarn.control.call_gate import OPEN, CallGate
from forewarn.control.gateway import Health
from forewarn.control.requests import fleet_changes
from forewarn.control.rules.sightings import NOTHING_SEEN
from forewarn.control.transactions.work import Who
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import MergePlan
from forewarn.ids import RandomIds
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.server import Address, Server
from forewarn.protocol.actors import service_part
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.published import Publication
from forewarn.service import components, limits, secret_files
from forewarn.service.api import Answers, Api
from forewarn.service.api_channel import Setup
from forewarn.service.api_process import ApiProcess
from forewarn.service.asked_abilities import asking
from forewarn.service.checking import refuse_empty_store
from forewarn.service.cluster.showing import NoCluster
from forewarn.service.deciding import Around, Deciding
from forewarn.service.fleets import PlanningError
from forewarn.service.gateways import ThreadedOperatorGateway
from forewarn.service.guests import GuestListeners
from forewarn.service.listening import address_of, refused, url_of
from forewarn.service.metrics import Metrics, Parts
from forewarn.service.readings import Watchers
from forewarn.service.relay_news import RelayNews
from forewarn.service.runner import Runner, runner_problem
from forewarn.service.settings import Settings
from forewarn.service.tls import certificate_of
from forewarn.service.webhooks.signing import WebhookSecrets
from forewarn.store import kinds
from forewarn.store.open import source_of
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
        self._api: Api | None = None
        self._api_apart = api_apart and store is None
        self._deciding: Deciding | None = None
        self.metrics = Metrics(self.clock)
        self._relay_news = RelayNews()
        self._hooks: Mapping[str, WebhookSecrets] = {}
        self.endpoint: Endpoint
        self.server: Server

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
        self._hooks = hooks
        await self._begin(api, fleet)

    async def _begin(self, api: Api, fleet: StartFleet) -> None:
        """Open the store, publish everything, and begin to decide."""
        loop = asyncio.get_running_loop()
        stored = await loop.run_in_executor(self._threads, self._open_store)
        await self._guests.open(
            await loop.run_in_executor(self._threads, stored.read, guest_listeners)
        )
        deciding = self._deciding = Deciding(self._around(), stored)
        await deciding.publish()
        self.server.attach(deciding.guests)
        has_fleet = await self.gateway.read(fleet_changes.has_fleet)
        if not has_fleet:
            # VMs can get no documents before there is a fleet.
            await self._apply_at_start(fleet)
        self.endpoint.open()
        await self._guests.begin()
        if secret_files.authenticates(self.settings):
            await deciding.end_unauthenticated()
        await api.begin(self._answers(deciding))
        await deciding.resume()
        self._is_ready = True
        # The API is last, since neither VMs nor timers wait for it.
        await api.ready()
        if has_fleet:
            await self._update_at_start(deciding, fleet)
        deciding.repeat_inventory()

    def _around(self, gate: CallGate = OPEN) -> Around:
        return Around(
            settings=self.settings,
            clock=self.clock,
            ids=self._ids,
            threads=self._threads,
            endpoint=self.endpoint,
            metrics=self.metrics,
            watchers=self.watchers,
            relay_news=self._relay_news,
            hooks=self._hooks,
            has_process=self._store is None,
            publish=self._publish,
            health=self.health,
            on_failure=self._fail,
            gate=gate,
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
        if self._api_apart and source_of(self.settings.store.url) is not None:
            return ApiProcess(setup, clock=self.clock)
        from forewarn.service.admin import ApiHere  # noqa: PLC0415 - loads slowly

        return ApiHere(setup, clock=self.clock)

    def _answers(self, deciding: Deciding) -> Answers:
        return Answers(
            gateway=deciding.gateway,
            webhooks=deciding.webhooks,
            checks=deciding.checks,
            cluster=self._cluster(),
            relays=self._relay_news.through(deciding.gateway),
            collect=lambda: self.metrics.collect(self._parts()),
            watchers=self.watchers,
            ask_abilities=asking(deciding.runner),
        )

    def _cluster(self) -> ClusterGateway:
        return NoCluster()

    def _parts(self) -> Parts:
        assert self._api is not None, "the service has started"
        return Parts(
            endpoint=self.endpoint,
            server=self.server,
            api=self._api,
            deciding=self._deciding.parts() if self._deciding else None,
            is_ready=lambda: self.health().ready,
            listeners_failed=lambda: len(self._guests.failed),
            cluster=self._cluster_readings,
        )

    def _cluster_readings(self) -> Iterable[Reading]:
        return ()

    # Running

    @property
    def gateway(self) -> ThreadedOperatorGateway:
        """Return the gateway of operators."""
        assert self._deciding is not None, "the service has started"
        return self._deciding.gateway

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

    async def _update_at_start(self, deciding: Deciding, fleet: StartFleet) -> None:
        """Apply the file of the start; if it is refused, the stored fleet stays."""
        try:
            await self._apply_at_start(fleet)
        except (FleetFileError, RefusedError, PlanningError) as error:
            assert fleet is not None, "there is a file to refuse"
            is_text = isinstance(fleet, FleetText)
            name = fleet.name if is_text else fleet.problems[0].file
            deciding.refused(name, error)

    def wake(self) -> None:
        """Read the clock now, since it has jumped."""
        if (runner := self._runner()) is not None:
            runner.wake()
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
        runner = self._runner()
        return None if runner is None else runner.failure

    def _runner(self) -> Runner | None:
        return None if self._deciding is None else self._deciding.running()

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
        runner = self._runner()
        problems = [runner_problem(runner)]
        if not self._is_ready:
            problems.append("the service is starting or stopping")
        if runner is not None:
            problems += self._listener_problems()
        if self._deciding is not None:
            problems += self._deciding.troubles()
        alive = runner is not None and runner.failure is None and runner.is_alive()
        return Health(
            alive=alive,
            ready=alive and self._is_ready and not problems[0],
            problems=tuple(filter(None, problems)),
            unreachable={} if self._deciding is None else self._deciding.unreachable(),
            seen=NOTHING_SEEN if runner is None else runner.seen(),
        )

    def _listener_problems(self) -> list[str]:
        return [
            f"no listener for VM {vm}: {error.strerror}"
            for vm, error in self._guests.failed.items()
        ]

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
            logger.info("serving VM %s at %s", vm, url_of(self.addresses()[vm]))

    def _fail(self, error: BaseException) -> None:
        self._is_ready = False
        if not self._failed.done():
            self._failed.set_result(error)

    # Stopping

    async def stop(self) -> None:
        """Stop in order; can be called at any time and repeatedly."""
        self._is_ready = False
        if self._deciding is not None:
            await self._deciding.hush()
        if self._has_listeners:
            await self._close_listeners()
        if self._deciding is not None and not await self._deciding.end():
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


def guest_listeners(reader: Reader) -> dict[str, str]:
    """Return the listen addresses of stored VMs with their own listener."""
    return {vm.name: vm.listen for vm in every(reader, kinds.VMS_WITH_LISTENER)}
