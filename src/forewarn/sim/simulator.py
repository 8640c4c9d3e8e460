"""A simulator: a stage on the machine's clock, its addresses, and the operator API.

It begins again as often as it is told, with the same fleet or another one, and the
n-th VM is always at the same address. A VM that joins the fleet in whatever way gets an
address; one that was deleted keeps it, as it may come back. Nothing is global, nothing
is printed: whoever runs it subscribes to what it hears.
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
from forewarn.control.transactions.messages import Publication
from forewarn.control.transactions.work import Who
from forewarn.metadata.connection import Connection
from forewarn.metadata.server import Address
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.service.admin import AdminServer
from forewarn.sim import fleets, profiles, vms
from forewarn.sim.faults.fault import Playbook
from forewarn.sim.positions import PORTS_TRIED, Addresses, Positions, not_there
from forewarn.sim.profiles import Profile
from forewarn.sim.routes import router
from forewarn.sim.scenario.setup import Setup, running_stage
from forewarn.sim.sim_server import SimServer
from forewarn.sim.vms import NewVm

SPEED = 60.0
"""Unless somebody says otherwise: a quarter of an hour's notice is a quarter of a
minute's, and a reboot takes a second."""

RETENTION = "1h"
"""What has ended is kept for so long, that a simulation may run for ever."""


def usual_setup(vms: int | None = None, *, speed: float = SPEED) -> Setup:
    """Return the fleet of a simulation that names none, at this speed."""
    return Setup(fleet=fleets.fleet_text(vms or fleets.VMS), speed=speed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a world begins."""

    setup: Setup = field(default_factory=usual_setup)
    """Its settings have their way before the profile's."""
    profile: Profile = Profile.LENIENT
    faults: tuple[Playbook, ...] = ()
    """What is wrong with answers from the beginning."""
    first: tuple[str, ...] = ()
    """VMs that are at the first addresses, in this order; the others follow."""

    def staged(self, clock: Clock) -> SimServer:
        """Return a stage that begins so; it listens nowhere, and nothing runs yet.

        Raises SettingsError, FleetFileError, RefusedError, and FaultFileError where
        a fault names no VM.
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
"""For requests under way when a world ends: they take milliseconds, but for those
that a fault holds up."""

_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - to know it, not to bind
"""Who listens there has the port at every address of the machine."""


class Simulator:
    """One simulated world after the other, at the same addresses.

    It is made, used and stopped on one event loop.
    """

    def __init__(self, terms: Terms, addresses: Addresses, *, places: int = 0) -> None:
        """Be ready to begin; raises SettingsError, FleetFileError, RefusedError.

        As many addresses as `places` says are bound at the start, for later worlds
        that have more VMs.
        """
        self.terms = terms
        """How the present world began, and `reset` begins again."""
        self._addresses = addresses
        self._clock = SystemClock()
        self._positions = Positions(
            addresses,
            connect=self._connection,
            is_taken=self._is_ours,
        )
        self._places = places
        self._told: dict[str, Address] = {}
        """Where each VM of this world was told to be."""
        self._changing = asyncio.Lock()
        self._has_news = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._admin: AdminServer | None = None
        self._app: Any = None
        self.on_publish: list[Callable[[Publication], None]] = []
        """Told of every publication after it is served."""
        self.on_stage: list[Callable[[SimServer], None]] = []
        """Told of each new stage before anything is served from it."""
        self.on_served: list[Callable[[str, Address], None]] = []
        """Told where a VM is served: each one of a new world, and each that joins; and
        which positions of a new world have no VM (`places.is_vacant`)."""
        self.playing = ""
        """The scenarios that are played now, by name."""
        self.stage = self._staged(terms)

    # Beginning and ending

    async def start(self) -> None:
        """Listen for VMs and operators; raises StartError, and nothing is left."""
        try:
            front = self.stage.front
            front.is_starting = True
            wanted = await self._reserve(self.stage, self.terms)
            names = self._positions.begin(wanted)
            await asyncio.sleep(0)
            # Who has connected meanwhile has come to a position, and not to its VM.
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
        """End everything; may be called at any time."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        if self._admin is not None:
            await self._admin.stop()
            self._admin = None
        self._positions.close()
        await self.stage.end(grace_seconds=GRACE_SECONDS)

    async def reset(self) -> None:
        """Begin again as at the start: same fleet, same addresses, nothing else.

        Raises RefusedError in the middle of a scenario, whose world it is.
        """
        if self.playing:
            raise RefusedError(
                f"{self.playing} is being played",
                hint="wait for its end, or end the simulation and start it anew",
            )
        await self.begin_with(self.terms)

    async def begin_with(self, terms: Terms) -> None:
        """Begin anew with other terms; the n-th VM is where the n-th was before.

        Raises SettingsError, FleetFileError, RefusedError, and StartError where there
        is no address for another VM: then nothing is changed.
        """
        async with self._changing:
            stage = self._staged(terms)
            try:
                wanted = await self._reserve(stage, terms)
            except BaseException:
                await stage.end()
                raise
            old, self.terms, self.stage = self.stage, terms, stage
            # Who connects from now on reaches the new world.
            names = self._positions.begin(wanted)
            old.on_publish = lambda _publication: None
            failed = await self._serve()
            # So that the old server knows of a connection that was just taken.
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
        """Have a position for each VM that needs one; return those VMs in order.

        Raises StartError, RefusedError.
        """
        listeners = await stage.gateway.read(vms.listeners)
        places = {vm: place for place, vm in enumerate(terms.first)}
        wanted = [vm for vm, listener in listeners.items() if not listener]
        wanted.sort(key=lambda vm: places.get(vm, len(places)))
        await self._positions.reserve(max(len(wanted), self._places))
        return wanted

    async def _serve(self) -> dict[str, ForewarnError]:
        """Serve the present world; return why some of its VMs are not served."""
        stage = self.stage
        if self._app is not None:
            self._app.state.gateway = stage.gateway
        for told in self.on_stage:
            told(stage)
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
            extra=[router(self)],
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

    # What it is

    @property
    def admin_address(self) -> Address | None:
        """Return where operators are served; None: nowhere."""
        return self._admin.listener.address if self._admin is not None else None

    def addresses(self) -> Mapping[str, Address]:
        """Return where each VM is served."""
        return self._positions.addresses()

    async def wait_broken(self) -> BaseException:
        """Return what ended the timers, should that ever happen."""
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

    # VMs that come and go

    async def add_vm(self, new: NewVm, *, who: Who) -> Address:
        """Add a VM to the fleet; return where it is served.

        Raises RefusedError, BadRequestError, and StartError where nothing can listen:
        then it was not added.
        """
        name = new.name
        async with self._changing:
            was_there = self._positions.has(name)
            try:
                # It listens before it is there, so that none is there that cannot.
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
        """Take a VM out of the fleet, and its listener away; raises NotFoundError."""
        async with self._changing:
            await self.stage.gateway.order(who, lambda work: vms.remove(work, name))
            await self._listen()

    async def settled(self) -> None:
        """Return when every VM that the fleet has now was given its address."""
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
        for told in self.on_publish:
            told(publication)

    async def _keep(self) -> None:
        """Follow a fleet that others change: by a file, by a verb."""
        while True:
            await self._has_news.wait()
            async with self._changing:
                # Whoever changed the fleet has been answered already: the list of
                # VMs shows which of them has no address.
                with contextlib.suppress(ForewarnError):
                    await self._listen()

    async def _listen(self) -> dict[str, ForewarnError]:
        """Serve each VM of the fleet; return why some are not served.

        Tell where each is that was elsewhere before, or nowhere.
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
        for told in self.on_served:
            told(name, address)

    def _is_ours(self, address: Address) -> bool:
        """Tell whether operators are served at an address, or are to be."""
        wanted = None if self._addresses.admin_may_move else self._addresses.admin
        ours = self.admin_address or wanted
        if ours is None or not ours[1] or address[1] != ours[1]:
            return False
        return address[0] in {ours[0], *_EVERYWHERE}


def _raise_first(failed: Mapping[str, ForewarnError]) -> None:
    """Raise why the first of these VMs is not served, if there is one."""
    for why in failed.values():
        raise why
