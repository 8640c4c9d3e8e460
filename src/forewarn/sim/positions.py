"""The addresses of a simulation: one for each position, for the life of the process.

The first VM of a world is at the first position, whatever its name, and so on. A
position is bound once, and never moves. Each world gives its VMs the positions in
their order; a VM that joins later gets the next free one. A VM whose fleet file names
a listener has that instead.
"""

import asyncio
import errno
import functools
import heapq
import ipaddress
import os
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from forewarn.fleet.validators import split_listener
from forewarn.metadata.connection import Connection
from forewarn.metadata.server import Address, bound, listen
from forewarn.protocol.errors import BadRequestError, ForewarnError, RefusedError
from forewarn.service import open_files
from forewarn.service.listening import StartError

PORT_MAX = 65_535
PORT = 8301
"""Of the first VM, unless somebody says otherwise; nothing well known is there."""

_EXAMPLES = "write HOST:PORT such as 127.0.0.1:8301, or a network: 127.0.1.0/24:80"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The addresses that VMs get, by number."""

    host: str = "127.0.0.1"
    port: int = PORT
    """Of the first VM; 0: the system chooses for each."""
    hosts: int = 0
    """How many addresses follow `host`, each with this port; 0: ports count up."""

    def __len__(self) -> int:
        """Return how many VMs have a place."""
        if self.hosts:
            return self.hosts
        return PORT_MAX if self.port == 0 else PORT_MAX + 1 - self.port

    def at(self, number: int) -> Address:
        """Return the address of the VM of this number, counted from 0."""
        assert 0 <= number < len(self), number
        if self.hosts:
            return str(ipaddress.ip_address(self.host) + number), self.port
        return self.host, self.port + number if self.port else 0


def parse_places(text: str) -> Places:
    """Return the places that `--listen` writes; raises BadRequestError."""
    network, _, port = text.rpartition(":")
    if "/" in network:
        try:
            found = ipaddress.ip_network(network.strip("[]"))
            number = int(port)
        except ValueError:
            raise _unreadable(text) from None
        if not 0 < number <= PORT_MAX:
            raise _unreadable(text)
        # The first and the last of a network of IPv4 are no one's.
        first = next(found.hosts())
        count = min(max(found.num_addresses - 2, 1), PORT_MAX)
        return Places(host=str(first), port=number, hosts=count)
    address = split_listener(text)
    if address is None or not address[0]:
        raise _unreadable(text)
    return Places(host=address[0], port=address[1])


def _unreadable(text: str) -> BadRequestError:
    return BadRequestError(f"{text!r} is no place for VMs", hint=_EXAMPLES)


def position_name(number: int) -> str:
    """Return what a position is called while no VM has it; no VM is called so."""
    return f"position {number}"


def is_vacant(name: str) -> bool:
    """Tell whether a name is that of a position, and of no VM."""
    return name.startswith("position ")


ADMIN: Address = ("127.0.0.1", 8200)
"""Where operators are served unless somebody says otherwise, as at the service."""

PORTS_TRIED = 100
"""Maximum ports of other programs that are passed over."""

FILES_KEPT = 64
"""Open files that no position may take: what Python and the operator API need (30),
and connections of a few clients at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a simulator listens."""

    vms: Places
    vms_may_move: bool = False
    """A port that is taken is passed over; else it is an error."""
    first: Address | None = None
    """Of the first VM, instead of the first of these."""
    admin: Address | None = ADMIN
    """None: no operator API."""
    admin_may_move: bool = False


class _Position:
    """One address, and the VM of the present world that has it."""

    __slots__ = ("at", "is_present", "listener", "number", "vm")

    def __init__(self, number: int) -> None:
        self.number = number
        self.at: Address | None = None
        """Where it is to be bound; None: not decided yet."""
        self.listener: asyncio.Server | None = None
        self.vm = ""
        """The VM that has it, or had it in this world; empty: none."""
        self.is_present = False
        """Whether the VM is in the fleet."""

    @property
    def name(self) -> str:
        return self.vm if self.is_present else position_name(self.number)


class Positions:
    """The listeners of a simulator. They are used on one event loop, one call at a time.

    `connect` is asked for the server's end of each connection, with the name of a VM,
    or of a position that has none.
    """

    def __init__(
        self,
        addresses: Addresses,
        *,
        connect: Callable[[str], Connection],
        is_taken: Callable[[Address], bool],
    ) -> None:
        """Bind nothing yet; `is_taken` tells which address is not for VMs."""
        self._addresses = addresses
        self._connect = connect
        self._is_taken = is_taken
        self._all: list[_Position] = []
        self._free: list[int] = []
        """A heap of the positions that no VM of this world has had."""
        self._of: dict[str, _Position] = {}
        self._own: dict[str, tuple[str, asyncio.Server]] = {}
        """By VM, the listener that its fleet file names."""
        self._next = 0
        """The first place that no position has tried."""
        self._passed_over = 0

    def __len__(self) -> int:
        """Return how many positions there are."""
        return len(self._all)

    async def reserve(self, count: int) -> None:
        """Bind as many positions; raises StartError and RefusedError."""
        _check_files(count)
        for position in self._all[:count]:
            await self._bind(position)
        while len(self._all) < count:
            position = _Position(len(self._all) + 1)
            await self._bind(position)
            self._all.append(position)
            heapq.heappush(self._free, position.number - 1)

    def begin(self, wanted: Iterable[str] = ()) -> dict[str, str]:
        """Begin a new world: give the positions to these VMs, for which they were made.

        All at once, so that no connection comes to a position without its VM. Return
        what each position is called now, by its name before.
        """
        before = [position.name for position in self._all]
        self._of = dict(zip(wanted, self._all, strict=False))
        for position in self._all:
            position.vm, position.is_present = "", False
        for vm, position in self._of.items():
            position.vm, position.is_present = vm, True
        self._free = [*range(len(self._of), len(self._all))]
        return dict(zip(before, (each.name for each in self._all), strict=True))

    async def serve(self, wanted: Mapping[str, str]) -> dict[str, ForewarnError]:
        """Serve these VMs and no others; return why some are not served.

        `wanted` has the listener that a fleet file names, or an empty text.
        """
        for vm in [vm for vm, (at, _) in self._own.items() if wanted.get(vm) != at]:
            self._own.pop(vm)[1].close()
        for vm, position in self._of.items():
            position.is_present = wanted.get(vm) == ""
        failed: dict[str, ForewarnError] = {}
        for vm, listener in wanted.items():
            try:
                await self._serve_own(vm, listener) if listener else await self.place(
                    vm
                )
            except ForewarnError as why:
                failed[vm] = why
        return failed

    async def place(self, vm: str) -> None:
        """Serve a VM at its position, or at the next free one.

        Raises RefusedError where there is none, and StartError where it cannot be
        bound: then it is tried again at the next call.
        """
        if vm in self._own:
            return
        position = self._of.get(vm)
        if position is None:
            position = self._of[vm] = self._take()
            position.vm = vm
        position.is_present = True
        if position.listener is None:
            _check_files(len(self._all))
            await self._bind(position)

    def has(self, vm: str) -> bool:
        """Tell whether a VM has an address, or had one in this world."""
        return vm in self._of or vm in self._own

    def release(self, vm: str) -> None:
        """Have another VM take the position of this one, which never joined."""
        position = self._of.pop(vm)
        position.vm, position.is_present = "", False
        heapq.heappush(self._free, position.number - 1)

    def addresses(self) -> dict[str, Address]:
        """Return where each VM that is there is served."""
        found = {
            vm: bound(position.listener)
            for vm, position in self._of.items()
            if position.is_present and position.listener is not None
        }
        return found | {vm: bound(each) for vm, (_, each) in self._own.items()}

    def vacant(self) -> Iterator[tuple[str, Address]]:
        """Yield the positions that are bound and have no VM, by name."""
        for position in self._all:
            if not position.is_present and position.listener is not None:
                yield position.name, bound(position.listener)

    def close(self) -> None:
        """Listen nowhere any more."""
        listeners = [position.listener for position in self._all]
        listeners += [listener for _, listener in self._own.values()]
        for listener in listeners:
            if listener is not None:
                listener.close()
        self._all.clear()
        self._own.clear()
        self.begin()

    async def _serve_own(self, vm: str, at: str) -> None:
        if vm in self._own:
            return
        address = split_listener(at)
        assert address is not None, "the fleet was checked"
        try:
            listener = await listen(address, functools.partial(self._connect, vm))
        except OSError as error:
            raise not_there(address, error, way="its `listen`") from error
        self._own[vm] = at, listener

    def _take(self) -> _Position:
        """Return a position for a VM: a free one, a new one, or that of one that left."""
        if self._free:
            return self._all[heapq.heappop(self._free)]
        position = _Position(len(self._all) + 1)
        try:
            position.at = self._next_place()
        except RefusedError:
            gone = next((each for each in self._all if not each.is_present), None)
            if gone is None:
                raise
            del self._of[gone.vm]
            return gone
        self._all.append(position)
        return position

    async def _bind(self, position: _Position) -> None:
        while position.listener is None:
            at = position.at = position.at or self._next_place()
            try:
                position.listener = await listen(
                    at, lambda: self._connect(position.name)
                )
            except OSError as error:
                if not self._may_move(at, error):
                    raise not_there(at, error, way="--listen") from error
                self._passed_over += 1
                position.at = None

    def _next_place(self) -> Address:
        """Return the next address that no position has tried; raises RefusedError."""
        places = self._addresses.vms
        while self._next < len(places):
            number = self._next
            self._next += 1
            if not number and self._addresses.first is not None:
                return self._addresses.first
            if not self._is_taken(places.at(number)):
                return places.at(number)
        raise RefusedError(
            f"there is no address left: {counted(len(self._all))} have one each",
            hint="give more by --listen, such as 127.0.1.0/24:8301",
        )

    def _may_move(self, at: Address, error: OSError) -> bool:
        return (
            error.errno == errno.EADDRINUSE
            and self._addresses.vms_may_move
            and at != self._addresses.first
            and self._passed_over < PORTS_TRIED
        )


def counted(vms: int) -> str:
    """Return a number of VMs in words."""
    return f"{vms} VM" if vms == 1 else f"{vms} VMs"


def _check_files(positions: int) -> None:
    """Raise StartError where so many listeners leave no files for anything else."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = positions + FILES_KEPT
    if allowed != resource.RLIM_INFINITY and needed > allowed:
        raise StartError(
            f"{counted(positions)} need {needed} open files, and {allowed} are allowed",
            hint=open_files.HINT,
        )


def not_there(at: Address, error: OSError, *, way: str) -> StartError:
    """Return what to say where an address cannot be had; `way` chooses another."""
    # The loop's own sentence has the address in it once more.
    why = os.strerror(error.errno) if error.errno else str(error)
    return StartError(
        f"cannot listen at {at[0]}:{at[1]}: {why}",
        hint=open_files.hint(
            error, f"stop what listens there, or choose another address: {way}"
        ),
    )
