"""A simulator: a stage on the machine's clock, its addresses, and the operator API.

It begins again as often as it is told, with the same fleet or another one, and every
VM keeps its address. A VM that joins the fleet in whatever way gets an address; one
that was deleted keeps it, as it may come back. Nothing is global, nothing is printed:
whoever runs it subscribes to what it hears.
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from forewarn import __version__
from forewarn.admin.app import create_app
from forewarn.clock import SystemClock
from forewarn.control.messages import Publication
from forewarn.control.work import Who
from forewarn.fleet.values import split_listener
from forewarn.metadata.server import Address
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.service import open_files
from forewarn.service.admin import AdminServer
from forewarn.service.listening import StartError
from forewarn.sim import vms
from forewarn.sim.places import Places
from forewarn.sim.routes import router
from forewarn.sim.stage import Stage
from forewarn.sim.terms import Terms
from forewarn.sim.vms import NewVm

GRACE_SECONDS = 0.5
"""For requests under way when a world ends: they take milliseconds, but for those
that a fault holds up."""

PORTS_TRIED = 100
"""Ports that may be others' before no more are tried."""

_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - to know it, not to bind
"""Who listens there has the port at every address of the machine."""

ADMIN: Address = ("127.0.0.1", 8200)
"""Where operators are served unless somebody says otherwise, as at the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a simulator listens."""

    vms: Places
    vms_may_move: bool = False
    """A port that is taken is passed over; else it is an error."""
    first: Address | None = None
    """Of the first VM, in the place of the first of these."""
    admin: Address | None = ADMIN
    """None: no operator API."""
    admin_may_move: bool = False


class Simulator:
    """One simulated world after the other, at the same addresses.

    It is made, used and stopped on one event loop.
    """

    def __init__(self, terms: Terms, addresses: Addresses) -> None:
        """Be ready to begin; raises SettingsError, FleetFileError, RefusedError."""
        self.terms = terms
        """How the present world began, and `reset` begins again."""
        self._addresses = addresses
        self._clock = SystemClock()
        self._numbers: dict[str, int] = {}
        """The place of each VM that ever was."""
        self._passed_over: set[int] = set()
        self._wanted: dict[str, Address] = {}
        self._bound: dict[str, Address] = {}
        """Where each VM that ever was has listened, also at ports that were chosen."""
        self._changing = asyncio.Lock()
        self._has_news = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._admin: AdminServer | None = None
        self._app: Any = None
        self.on_publish: list[Callable[[Publication], None]] = []
        """Told of every publication after it is served."""
        self.on_stage: list[Callable[[Stage], None]] = []
        """Told of each new stage before anything is served from it."""
        self.playing = ""
        """The scenarios that are played now, by name."""
        self.stage = self._staged(terms)

    # Beginning and ending

    async def start(self) -> None:
        """Listen for VMs and operators; raises StartError, and nothing is left."""
        try:
            await self._begin()
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
        """Begin anew with other terms; VMs of the same name keep their addresses.

        Raises SettingsError, FleetFileError, RefusedError: then nothing is changed.
        """
        async with self._changing:
            stage = self._staged(terms)
            await self.stage.end(grace_seconds=GRACE_SECONDS)
            self.terms, self.stage = terms, stage
            self._wanted.clear()
            await self._begin()

    def _staged(self, terms: Terms) -> Stage:
        stage = terms.staged(self._clock)
        stage.on_publish = self._published
        return stage

    async def _begin(self) -> None:
        stage = self.stage
        if self._app is not None:
            self._app.state.desk = stage.desk
        for told in self.on_stage:
            told(stage)
        if failed := await self._listen():
            raise next(iter(failed.values()))
        stage.begin()

    async def _serve_operators(self) -> None:
        wanted = self._addresses.admin
        if wanted is None:
            return
        self._app = create_app(
            self.stage.desk,
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
                    raise _not_there(host, port, error, way="--admin") from error
                port += 1

    # What it is

    @property
    def admin_address(self) -> Address | None:
        """Return where operators are served; None: nowhere."""
        return self._admin.address if self._admin is not None else None

    def addresses(self) -> Mapping[str, Address]:
        """Return where each VM is served."""
        return self.stage.server.addresses()

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
            was_wanted, was_known = name in self._wanted, name in self._numbers
            try:
                if not was_wanted:
                    self._wanted[name] = self._place(name, "")
                # It listens before it is there, so that none is there that cannot.
                if why := (await self._bind()).get(name):
                    raise why
                await self.stage.desk.order(who, lambda work: vms.add(work, new))
            except ForewarnError:
                if not was_wanted:
                    self._wanted.pop(name, None)
                if not was_known:
                    # The place is for another.
                    self._numbers.pop(name, None)
                await self._bind()
                raise
            await self._listen()
        return self.addresses()[name]

    async def remove_vm(self, name: str, *, who: Who) -> None:
        """Take a VM out of the fleet, and its listener away; raises NotFoundError."""
        async with self._changing:
            await self.stage.desk.order(who, lambda work: vms.remove(work, name))
            await self._listen()

    async def settled(self) -> None:
        """Return when every VM that the fleet has now was given its address."""
        while self._has_news.is_set() or self._changing.locked():
            async with self._changing:
                pass
            await asyncio.sleep(0)

    # Addresses

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
        """Have a listener for each VM of the fleet; return why some have none."""
        self._has_news.clear()
        known = await self.stage.desk.read(vms.listeners)
        self._wanted = {vm: at for vm, at in self._wanted.items() if vm in known}
        failed: dict[str, ForewarnError] = {}
        for vm, listen in known.items():
            if vm not in self._wanted:
                try:
                    self._wanted[vm] = self._place(vm, listen)
                except RefusedError as why:
                    failed[vm] = why
        return failed | await self._bind()

    async def _bind(self) -> dict[str, ForewarnError]:
        """Have a listener for each that wants one; return why some have none.

        Those want none any more, until the fleet is looked at again.
        """
        lost: dict[str, ForewarnError] = {}
        while failed := await self.stage.server.set_guest_listeners(self._wanted):
            for vm, error in failed.items():
                try:
                    self._move(vm, error)
                except ForewarnError as why:
                    lost[vm] = why
        self._bound.update(self.addresses())
        return lost

    def _place(self, vm: str, listen: str) -> Address:
        if listen:
            address = split_listener(listen)
            assert address is not None, "the fleet was checked"
            return address
        places = self._addresses.vms
        number = self._numbers.get(vm)
        if number is None:
            number = self._free_number(vm)
            self._numbers[vm] = number
        first = self._addresses.first
        if number == 0 and first is not None:
            return first
        if not places.port and vm in self._bound:
            return self._bound[vm]
        return places.at(number)

    def _free_number(self, vm: str) -> int:
        """Return the number of a place for `vm`; raises RefusedError.

        A VM that has left finds its place again, unless there is no other.
        """
        taken = {*self._numbers.values(), *self._passed_over}
        places = self._addresses.vms
        for number in range(len(places)):
            if number not in taken and not self._is_ours(places.at(number)):
                return number
        gone = next((name for name in self._numbers if name not in self._wanted), None)
        if gone is None:
            raise RefusedError(
                f"there is no address left for vm {vm}",
                hint="give more by --listen, such as 127.0.1.0/24:8301",
            )
        return self._numbers.pop(gone)

    def _is_ours(self, address: Address) -> bool:
        """Tell whether operators are served at an address, or are to be."""
        wanted = None if self._addresses.admin_may_move else self._addresses.admin
        ours = self.admin_address or wanted
        if ours is None or not ours[1] or address[1] != ours[1]:
            return False
        return address[0] in {ours[0], *_EVERYWHERE}

    def _move(self, vm: str, error: OSError) -> None:
        """Have a VM listen elsewhere than where it could not; raises StartError."""
        host, port = self._wanted.pop(vm)
        number = self._numbers.get(vm)
        is_taken = error.errno == errno.EADDRINUSE
        if (
            not is_taken
            or number is None
            or not self._addresses.vms_may_move
            or len(self._passed_over) >= PORTS_TRIED
        ):
            raise _not_there(host, port, error, way="--listen") from error
        self._passed_over.add(number)
        del self._numbers[vm]
        self._wanted[vm] = self._place(vm, "")


def _not_there(host: str, port: int, error: OSError, *, way: str) -> StartError:
    # The loop's own sentence has the address in it once more.
    why = os.strerror(error.errno) if error.errno else str(error)
    return StartError(
        f"cannot listen at {host}:{port}: {why}",
        hint=open_files.hint(
            error, f"stop what listens there, or choose another address: {way}"
        ),
    )
