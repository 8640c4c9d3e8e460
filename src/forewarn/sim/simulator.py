"""A simulator: a simulated server on the machine's clock, addresses, and an operator API.

A simulator can restart any number of times, with the same fleet or another one, and the
n-th VM always has the same address. Every VM that joins the fleet gets an address. A
deleted VM keeps its address, because a VM of this name may be added again. There is no
global state and no output: the caller subscribes to the callbacks.
"""

import asyncio
import contextlib
import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from forewarn import __version__
from forewarn.admin.app import create_app
from forewarn.clock import Clock, SystemClock
from forewarn.console.pages import console_pages
from forewarn.control.transactions.work import Who
from forewarn.metadata.connection import Connection
from forewarn.metadata.server import Address
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.protocol.published import Publication
from forewarn.service.admin import AdminServer
from forewarn.sim import fleets, profiles, vms
from forewarn.sim.console_routes import console_router
from forewarn.sim.faults.fault import Playbook
from forewarn.sim.positions import PORTS_TRIED, Addresses, Positions, not_there
from forewarn.sim.routes import router
from forewarn.sim.scenario.setup import Setup, running_stage
from forewarn.sim.sim_server import SimServer
from forewarn.sim.vms import NewVm

SPEED = 60.0
"""Default speed: a notice of 15 minutes takes 15 seconds, and a reboot one second."""

RETENTION = "1h"
"""How long ended operations are kept, so that memory stays bounded."""


def usual_setup(vms: int | None = None, *, speed: float = SPEED) -> Setup:
    """Return the setup of a simulation with the default fleet, at this speed."""
    return Setup(fleet=fleets.fleet_text(vms or fleets.VMS), speed=speed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The initial state of a world: fleet, settings, profile and faults.

    The reader of the service's settings reads them, so a simulation accepts the same
    values as `forewarn serve`.
    """

    setup: Setup = field(default_factory=usual_setup)
    """The settings of the scenario override those of the profile."""
    profile: profiles.Profile = profiles.Profile.LENIENT
    faults: tuple[Playbook, ...] = ()
    """Faults of answers from the start."""
    first: tuple[str, ...] = ()
    """VMs at the first addresses, in this order; the other VMs follow."""

    def staged(self, clock: Clock) -> SimServer:
        """Return a simulated server in this state. It does not listen or run yet.

        Raises SettingsError, FleetFileError, RefusedError, and FaultFileError if a
        fault names an unknown VM.
        """
        setup = self.setup
        settings = {
            "store.retention": RETENTION,
            **profiles.settings_of(self.profile, speed=setup.speed),
            **setup.settings,
        }
        stage = running_stage(replace(setup, settings=settings), clock=clock)
        stage.faults.play_file(self.faults)
        return stage


GRACE_SECONDS = 0.5
"""Grace period for current requests when a world ends. They take milliseconds, unless a
fault delays them."""

_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound
"""A listener at one of these has the port at every address of the machine."""


class Simulator:
    """A sequence of simulated worlds at the same addresses.

    It is created, used and stopped on one event loop.
    """

    def __init__(self, terms: Terms, addresses: Addresses, *, places: int = 0) -> None:
        """Prepare the first world; raises SettingsError, FleetFileError, RefusedError.

        At least `places` addresses are bound at the start, for later worlds with more
        VMs.
        """
        self.terms = terms
        """The initial state of the current world, which `reset` restores."""
        self._addresses = addresses
        self._clock = SystemClock()
        self._positions = Positions(
            addresses,
            connect=self._connection,
            is_taken=self._is_ours,
        )
        self._places = places
        self._told: dict[str, Address] = {}
        """The reported address of each VM of this world."""
        self._changing = asyncio.Lock()
        self._has_news = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._admin: AdminServer | None = None
        self._app: Any = None
        self.on_publish: list[Callable[[Publication], None]] = []
        """Called with every publication after it is served."""
        self.on_stop: list[Callable[[], None]] = []
        """Called when the simulator stops, before its servers do."""
        self.on_stage: list[Callable[[SimServer], None]] = []
        """Called with each new simulated server before it serves requests."""
        self.on_served: list[Callable[[str, Address], None]] = []
        """Called with the name and address of each VM of a new world, of each VM that joins,
        and of each position of a new world without a VM (`is_vacant`)."""
        self.routers: list[Any] = []
        """More routes of the operator API, which must be added before the start."""
        self.background: set[asyncio.Task[None]] = set()
        """Tasks that routes have begun; `stop` cancels them."""
        self.playing = ""
        """The names of the running scenarios."""
        self.stage = self._staged(terms)

    # Start and stop

    async def start(self) -> None:
        """Listen for VMs and operators; raises StartError after cleaning up."""
        try:
            front = self.stage.front
            front.is_starting = True
            wanted = await self._reserve(self.stage, self.terms)
            names = self._positions.begin(wanted)
            await asyncio.sleep(0)
            # Connections from the meantime belong to a position, not yet to its VM.
            server = self.stage.server
            server.hand_over(server, names)
            _raise_first(await self._serve())
            front.is_starting = False
            self.stage.begin()
            await self._serve_operators()
        except BaseException:
            await self.stop()
            raise
        self._keeper = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Stop everything. Can be called at any time."""
        tasks = list(self.background)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        if self._admin is not None:
            # A stream lasts as long as its viewer; a server waits for its streams.
            for listener in self.on_stop:
                listener()
            self._app.state.hubs.end()
            await self._admin.stop()
            self._admin = None
        self._positions.close()
        await self.stage.end(grace_seconds=GRACE_SECONDS)

    async def reset(self) -> None:
        """Restart with the initial fleet and the same addresses.

        Raises RefusedError while a scenario runs.
        """
        if self.playing:
            raise RefusedError(
                f"the scenario {self.playing} is running",
                hint="Wait for its end, or stop the simulation and start it again.",
            )
        await self.begin_with(self.terms)

    async def begin_with(self, terms: Terms) -> None:
        """Start a new world; its n-th VM gets the address of the n-th VM before it.

        Raises SettingsError, FleetFileError, RefusedError, and StartError if there is
        no address for another VM. Then nothing is changed.
        """
        async with self._changing:
            stage = self._staged(terms)
            try:
                wanted = await self._reserve(stage, terms)
            except BaseException:
                await stage.end()
                raise
            old, self.terms, self.stage = self.stage, terms, stage
            # New connections reach the new world from now on.
            names = self._positions.begin(wanted)
            old.on_publish = lambda _publication: None
            failed = await self._serve()
            # The old server must know a connection that was just accepted.
            await asyncio.sleep(0)
            old.server.hand_over(stage.server, names)
            await old.end(grace_seconds=GRACE_SECONDS)
            stage.begin()
            _raise_first(failed)

    def _staged(self, terms: Terms) -> SimServer:
        stage = terms.staged(self._clock)
        stage.on_publish = self._published
        return stage

    async def _reserve(self, stage: SimServer, terms: Terms) -> list[str]:
        """Bind a position for each VM that needs one; return these VMs in order.

        Raises StartError, RefusedError.
        """
        listeners = await stage.gateway.read(vms.listeners)
        places = {vm: place for place, vm in enumerate(terms.first)}
        wanted = [vm for vm, listener in listeners.items() if not listener]
        wanted.sort(key=lambda vm: places.get(vm, len(places)))
        await self._positions.reserve(max(len(wanted), self._places))
        return wanted

    async def _serve(self) -> dict[str, ForewarnError]:
        """Serve the current world; return the errors of VMs that are not served."""
        stage = self.stage
        if self._app is not None:
            self._app.state.gateway = stage.gateway
        for listener in self.on_stage:
            listener(stage)
        self._told.clear()
        failed = await self._listen()
        for name, address in self._positions.vacant():
            self._tell_served(name, address)
        return failed

    async def _serve_operators(self) -> None:
        wanted = self._addresses.admin
        if wanted is None:
            return
        self._app = create_app(
            self.stage.gateway,
            tokens=None,
            version=__version__,
            title="forewarn simulator",
            extra=[router(self), console_router(self), *self.routers],
            pages=console_pages(),
            is_simulation=True,
        )
        self._admin = AdminServer(self._app, grace_seconds=GRACE_SECONDS)
        host, port = wanted
        last = port + PORTS_TRIED if self._addresses.admin_may_move else port
        while True:
            try:
                await self._admin.start(
                    f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                )
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE or port >= last:
                    self._admin = None
                    at = (host, port)
                    raise not_there(at, error, way="--admin") from error
                port += 1

    # State

    @property
    def admin_address(self) -> Address | None:
        """Return the address of the operator API, or None."""
        return self._admin.listener.address if self._admin is not None else None

    def addresses(self) -> Mapping[str, Address]:
        """Return the address of each VM."""
        return self._positions.addresses()

    async def wait_broken(self) -> BaseException:
        """Wait until the timers fail, which is a bug in forewarn; return the exception."""
        while True:
            stage = self.stage
            ticker = stage.ticker
            assert ticker is not None, "the simulator has not started"
            await asyncio.wait([ticker])
            failure = None if ticker.cancelled() else ticker.exception()
            if failure is not None:
                return failure
            async with self._changing:
                pass

    # Adding and removing VMs

    async def add_vm(self, new: NewVm, *, who: Who) -> Address:
        """Add a VM to the fleet; return its address.

        Raises RefusedError, BadRequestError, and StartError if its address cannot be
        bound. Then the VM was not added.
        """
        name = new.name
        async with self._changing:
            was_there = self._positions.has(name)
            try:
                # Listen before adding the VM, so that every VM in the fleet is reachable.
                await self._positions.place(name)
                await self.stage.gateway.order(who, lambda work: vms.add(work, new))
            except ForewarnError:
                if not was_there:
                    self._positions.release(name)
                await self._listen()
                raise
            await self._listen()
        return self.addresses()[name]

    async def remove_vm(self, name: str, *, who: Who) -> None:
        """Remove a VM and its listener; raises NotFoundError."""
        async with self._changing:
            await self.stage.gateway.order(who, lambda work: vms.remove(work, name))
            await self._listen()

    async def settled(self) -> None:
        """Wait until every VM of the current fleet has its address."""
        while self._has_news.is_set() or self._changing.locked():
            async with self._changing:
                pass
            await asyncio.sleep(0)

    # Addresses

    def _connection(self, name: str) -> Connection:
        return self.stage.server.connection(name)

    def _published(self, publication: Publication) -> None:
        if publication.guests or publication.guests_gone:
            self._has_news.set()
        for listener in self.on_publish:
            listener(publication)

    async def _keep(self) -> None:
        """Follow changes of the fleet by files and verbs."""
        while True:
            await self._has_news.wait()
            async with self._changing:
                # The caller who changed the fleet already has an answer: the list of
                # VMs shows the VMs without an address.
                with contextlib.suppress(ForewarnError):
                    await self._listen()

    async def _listen(self) -> dict[str, ForewarnError]:
        """Serve each VM of the fleet; return the errors of VMs that are not served.

        Report each new or changed address.
        """
        self._has_news.clear()
        wanted = await self.stage.gateway.read(vms.listeners)
        failed = await self._positions.serve(wanted)
        before, self._told = self._told, self._positions.addresses()
        for vm, address in self._told.items():
            if before.get(vm) != address:
                self._tell_served(vm, address)
        return failed

    def _tell_served(self, name: str, address: Address) -> None:
        for listener in self.on_served:
            listener(name, address)

    def _is_ours(self, address: Address) -> bool:
        """Return whether an address is that of the operator API, now or later."""
        wanted = None if self._addresses.admin_may_move else self._addresses.admin
        ours = self.admin_address or wanted
        if ours is None or not ours[1] or address[1] != ours[1]:
            return False
        return address[0] in {ours[0], *_EVERYWHERE}


def _raise_first(failed: Mapping[str, ForewarnError]) -> None:
    """Raise the error of the first VM that is not served, if there is one."""
    for why in failed.values():
        raise why
