"""One service: joined, started and stopped in the order that each part needs.

Start: store, driver, control thread, everything published, the fleet file, the
listeners, the operator API; only then timers run and it is ready. Stop: not
ready, take nothing new, finish what is under way, store the last sightings, end
the control thread, close driver and store.
"""

import asyncio
import contextlib
import logging
from collections.abc import Generator, Mapping
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
from forewarn.fleet.file import WantedFleet
from forewarn.fleet.values import split_listener
from forewarn.ids import Ids, RandomIds
from forewarn.instants import SECOND
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.server import Address, Server
from forewarn.protocol.errors import ForewarnError
from forewarn.service import limits, parts
from forewarn.service.admin import AdminServer
from forewarn.service.desks import Readings, ServiceDesk, VmDesk
from forewarn.service.guests import GuestListeners
from forewarn.service.runner import Runner
from forewarn.service.settings import Settings, policy
from forewarn.service.watching import Watchers
from forewarn.store.port import Store

logger = logging.getLogger("forewarn.service")


class StartError(ForewarnError):
    """The service could not start; nothing is left running."""


class Service:
    """A running service. It is made, used and stopped on one event loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        store: Store | None = None,
        driver: Driver | None = None,
    ) -> None:
        """Join the parts; those that are not given are made as the settings say.

        A store and a driver that are given stay the giver's to close.
        """
        self.settings = settings
        self.clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._store = store
        self._driver = driver
        self._owned = contextlib.ExitStack()
        self._is_ready = False
        self._failed: asyncio.Future[BaseException]
        self._threads = ThreadPoolExecutor(
            limits.READERS, thread_name_prefix="forewarn-read"
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._admin: AdminServer | None = None
        self._runner: Runner | None = None
        self.endpoint: Endpoint
        self.server: Server
        self.desk: ServiceDesk

    # Starting

    async def start(self, *, fleet: WantedFleet | None = None) -> None:
        """Start everything; raises ForewarnError, and then nothing is left."""
        self._failed = asyncio.get_running_loop().create_future()
        try:
            await self._start(fleet)
        except BaseException:
            await self.stop()
            if self._runner is not None and self._runner.failure is not None:
                # Who asked was only told that the thread had ended, not why.
                raise self._runner.failure from None
            raise

    async def _start(self, fleet: WantedFleet | None) -> None:
        tokens = parts.read_tokens_of(self.settings)
        secret = parts.read_secret(self.settings)
        loop = asyncio.get_running_loop()
        store, driver = await loop.run_in_executor(self._threads, self._open)
        self.endpoint = Endpoint(
            rate_limit=self.settings.metadata.rate_limit, secret=secret
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
            take_sightings=self.endpoint.take_sightings,
            on_failure=self._fail,
        )
        driver.on_report(runner.wake)
        self._join(runner, store)
        runner.start()
        await runner.call(lambda plane, now: plane.start(now=now))
        if fleet is not None:
            await self.apply(fleet)
        await self._listen(tokens)
        self._tasks.append(
            asyncio.create_task(self._note_sightings_now_and_then(runner))
        )
        runner.tick()
        self._is_ready = True

    def _open(self) -> tuple[Store, Driver]:
        """Open what was not given; the store first, since it locks the files."""
        store, driver = self._store, self._driver
        if store is None:
            store = self._owned.enter_context(
                contextlib.closing(parts.open_store_of(self.settings))
            )
        if driver is None:
            driver = self._owned.enter_context(
                contextlib.closing(parts.open_driver_of(self.settings))
            )
        return store, driver

    def _join(self, runner: Runner, store: Store) -> None:
        readings = Readings(store=store, threads=self._threads)
        self.server = Server(
            endpoint=self.endpoint,
            desk=VmDesk(runner=runner, readings=readings),
            clock=self.clock,
        )
        self._guests = GuestListeners(self.server, on_open=self._tell_of_guest)
        self.desk = ServiceDesk(
            runner=runner,
            readings=readings,
            watchers=self.watchers,
            clock=self.clock,
            health=self.health,
        )

    async def _listen(self, tokens: Tokens | None) -> None:
        metadata, admin = self.settings.metadata, self.settings.admin
        if metadata.listen:
            with _refused("metadata.listen", metadata.listen):
                await self.server.serve_shared(*_address(metadata.listen))
        await self._guests.begin()
        self._admin = AdminServer(
            admin_app.create_app(self.desk, tokens=tokens, version=__version__),
            grace_seconds=limits.GRACE_SECONDS,
        )
        with _refused("admin.listen", admin.listen):
            await self._admin.start(*_address(admin.listen))

    # Running

    async def apply(self, fleet: WantedFleet) -> MergePlan:
        """Apply a fleet file, as the service does at its start."""
        return await self.desk.order(
            Who(actor="fleet file"), lambda work: fleet_changes.apply(work, fleet)
        )

    def wake(self) -> None:
        """Look at the clock now: it has jumped."""
        if self._runner is not None:
            self._runner.wake()
            self.server.wake()

    async def wait_failed(self) -> BaseException:
        """Return what ended the control thread, when it has."""
        return await asyncio.shield(self._failed)

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
        problems: list[str] = []
        if runner is not None and runner.failure is not None:
            problems.append(f"the control thread ended: {runner.failure}")
        elif not alive:
            problems.append("the control thread gives no sign of life")
        if not self._is_ready:
            problems.append("the service is starting or stopping")
        if runner is not None:
            problems += [
                f"no listener for vm {vm}: {error.strerror}"
                for vm, error in self._guests.failed.items()
            ]
        return Health(
            alive=alive, ready=alive and self._is_ready, problems=tuple(problems)
        )

    def _publish(self, publication: Publication) -> None:
        self.endpoint.publish(publication)
        self._guests.follow(publication)

    def _tell_of_guest(self, vm: str) -> None:
        if self._is_ready:
            logger.info("vm %s is served at %s", vm, parts.url(self.addresses()[vm]))

    def _fail(self, error: BaseException) -> None:
        self._is_ready = False
        if not self._failed.done():
            self._failed.set_result(error)

    # Sightings

    async def _note_sightings_now_and_then(self, runner: Runner) -> None:
        quarter = self.settings.metadata.disable_after / SECOND / 4
        pause = min(limits.SIGHTINGS_SECONDS, quarter)
        while True:
            await asyncio.sleep(pause)
            # What cannot be stored now is seen again at the next request.
            with contextlib.suppress(ForewarnError):
                await self._note_sightings(runner)

    async def _note_sightings(self, runner: Runner) -> None:
        seen = list(self.endpoint.take_sightings().items())
        for start in range(0, len(seen), limits.SIGHTINGS_TOGETHER_MAX):
            some = dict(seen[start : start + limits.SIGHTINGS_TOGETHER_MAX])
            await runner.call(
                lambda plane, now, some=some: plane.note_sightings(some, now=now)
            )

    # Stopping

    async def stop(self) -> None:
        """Stop in order; may be called at any time, and again."""
        self._is_ready = False
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()
        if self._runner is not None:
            await self._close_listeners()
            with contextlib.suppress(ForewarnError):
                await self._note_sightings(self._runner)
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


def _address(listen: str) -> Address:
    address = split_listener(listen)
    assert address is not None, listen
    return address


@contextlib.contextmanager
def _refused(key: str, listen: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StartError(
            f"cannot listen at {listen}: {error.strerror or error}",
            hint=f"Stop what listens there, or set another address: {key}.",
        ) from error
