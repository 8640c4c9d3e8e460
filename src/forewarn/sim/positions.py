"""The addresses of a simulation: one for each position, for the life of the process.

`127.0.0.1:8301` gives the first VM port 8301, the next VM port 8302, and so on.
`127.0.1.0/24:80` gives each VM its own loopback address, all with one port, like the real
endpoint.

The n-th VM of a world has the n-th position, whatever its name. A position is bound once
and does not move. A VM that joins later gets the next free position. If the fleet file
names a listener for a VM, the VM has this listener instead.
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
"""Default port of the first VM; no well-known service uses it."""

_EXAMPLES = "Use HOST:PORT such as 127.0.0.1:8301, or a network: 127.0.1.0/24:80."


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The addresses of VMs, by number."""

    host: str = "127.0.0.1"
    port: int = PORT
    """Port of the first VM; 0: the system chooses each port."""
    hosts: int = 0
    """Number of addresses from `host` on, all with this port; 0: ports count up."""

    def __len__(self) -> int:
        """Return the maximum number of VMs."""
        return self.hosts or PORT_MAX + 1 - max(self.port, 1)

    def at(self, number: int) -> Address:
        """Return the address of the VM with this number, counted from 0."""
        assert 0 <= number < len(self), number
        if self.hosts:
            return str(ipaddress.ip_address(self.host) + number), self.port
        return self.host, self.port + number if self.port else 0


def parse_places(text: str) -> Places:
    """Parse the value of `--listen`; raises BadRequestError."""
    network, _, port = text.rpartition(":")
    if "/" in network:
        try:
            network_parsed = ipaddress.ip_network(network.strip("[]"))
            number = int(port)
        except ValueError:
            raise _unreadable(text) from None
        if not 0 < number <= PORT_MAX:
            raise _unreadable(text)
        # The first and the last address of an IPv4 network belong to no host.
        first = next(network_parsed.hosts())
        count = min(max(network_parsed.num_addresses - 2, 1), PORT_MAX)
        return Places(host=str(first), port=number, hosts=count)
    address = split_listener(text)
    if address is None or not address[0]:
        raise _unreadable(text)
    return Places(host=address[0], port=address[1])


def _unreadable(text: str) -> BadRequestError:
    return BadRequestError(f"{text!r} is not an address for VMs", hint=_EXAMPLES)


def position_name(number: int) -> str:
    """Return the name of a position without a VM. No VM can have such a name."""
    return f"position {number}"


def is_vacant(name: str) -> bool:
    """Return whether a name is that of a position without a VM."""
    return name.startswith("position ")


ADMIN: Address = ("127.0.0.1", 8200)
"""Default address of the operator API, as in the service."""

PORTS_TRIED = 100
"""Maximum number of ports in use by other programs that are skipped."""

FILES_KEPT = 64
"""Open files that positions must leave: for Python and the operator API (30), and for
connections of a few clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The listening addresses of a simulator."""

    vms: Places
    vms_may_move: bool = False
    """Skip ports in use; if False, they are errors."""
    first: Address | None = None
    """Address of the first VM, instead of the first one in `vms`."""
    admin: Address | None = ADMIN
    """None: no operator API."""
    admin_may_move: bool = False


class _Position:
    """An address, and the VM of the current world at it."""

    __slots__ = ("at", "is_present", "listener", "number", "vm")

    def __init__(self, number: int) -> None:
        self.number = number
        self.at: Address | None = None
        """The address to bind; None: not decided yet."""
        self.listener: asyncio.Server | None = None
        self.vm = ""
        """The VM that has the position, or had it in this world; empty: none."""
        self.is_present = False
        """Whether the VM is in the fleet."""

    @property
    def name(self) -> str:
        return self.vm if self.is_present else position_name(self.number)


class Positions:
    """The listeners of a simulator. Used on one event loop, one call at a time.

    `connect` returns the protocol of a new connection, for the name of a VM or of a
    position without a VM.
    """

    def __init__(
        self,
        addresses: Addresses,
        *,
        connect: Callable[[str], Connection],
        is_taken: Callable[[Address], bool],
    ) -> None:
        """Bind nothing yet; `is_taken` returns whether an address is not for VMs."""
        self._addresses = addresses
        self._connect = connect
        self._is_taken = is_taken
        self._all: list[_Position] = []
        self._free: list[int] = []
        """A heap of the positions that no VM of this world has used."""
        self._of: dict[str, _Position] = {}
        self._own: dict[str, tuple[str, asyncio.Server]] = {}
        """The listeners from the fleet file, by VM."""
        self._next = 0
        """The first address that no position has tried."""
        self._passed_over = 0

    def __len__(self) -> int:
        """Return the number of positions."""
        return len(self._all)

    async def reserve(self, count: int) -> None:
        """Bind this number of positions; raises StartError and RefusedError."""
        _check_files(count)
        for position in self._all[:count]:
            await self._bind(position)
        while len(self._all) < count:
            position = _Position(len(self._all) + 1)
            await self._bind(position)
            self._all.append(position)
            heapq.heappush(self._free, position.number - 1)

    def begin(self, wanted: Iterable[str] = ()) -> dict[str, str]:
        """Start a new world: assign the reserved positions to these VMs.

        All are assigned at once, so that no connection reaches a position without its
        VM. Return the new name of each position by its old name.
        """
        before = [position.name for position in self._all]
        self._of = dict(zip(wanted, self._all, strict=False))
        for position in self._all:
            position.vm, position.is_present = "", False
        for vm, position in self._of.items():
            position.vm, position.is_present = vm, True
        self._free = [*range(len(self._of), len(self._all))]
        return dict(zip(before, (place.name for place in self._all), strict=True))

    async def serve(self, wanted: Mapping[str, str]) -> dict[str, ForewarnError]:
        """Serve these VMs and no others; return the errors of VMs that are not served.

        `wanted` has the listener of each VM from the fleet file, or an empty text.
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

        Raises RefusedError if there is no free position, and StartError if the position
        cannot be bound. Then the next call tries again.
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
        """Return whether a VM has an address, or had one in this world."""
        return vm in self._of or vm in self._own

    def release(self, vm: str) -> None:
        """Free the position of a VM that never joined."""
        position = self._of.pop(vm)
        position.vm, position.is_present = "", False
        heapq.heappush(self._free, position.number - 1)

    def addresses(self) -> dict[str, Address]:
        """Return the address of each VM in the fleet."""
        by_vm = {
            vm: bound(position.listener)
            for vm, position in self._of.items()
            if position.is_present and position.listener is not None
        }
        return by_vm | {vm: bound(listener) for vm, (_, listener) in self._own.items()}

    def vacant(self) -> Iterator[tuple[str, Address]]:
        """Yield the name and address of each bound position without a VM."""
        for position in self._all:
            if not position.is_present and position.listener is not None:
                yield position.name, bound(position.listener)

    def close(self) -> None:
        """Close all listeners."""
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
        """Return a position for a VM: a free one, a new one, or that of a removed VM."""
        if self._free:
            return self._all[heapq.heappop(self._free)]
        position = _Position(len(self._all) + 1)
        try:
            position.at = self._next_place()
        except RefusedError:
            gone = next((place for place in self._all if not place.is_present), None)
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
        """Return the next untried address; raises RefusedError."""
        places = self._addresses.vms
        while self._next < len(places):
            number = self._next
            self._next += 1
            if not number and self._addresses.first is not None:
                return self._addresses.first
            if not self._is_taken(places.at(number)):
                return places.at(number)
        raise RefusedError(
            f"no address is left: {counted(len(self._all))} have one each",
            hint="Use --listen for more addresses, such as 127.0.1.0/24:8301.",
        )

    def _may_move(self, at: Address, error: OSError) -> bool:
        return (
            error.errno == errno.EADDRINUSE
            and self._addresses.vms_may_move
            and at != self._addresses.first
            and self._passed_over < PORTS_TRIED
        )


def counted(vms: int) -> str:
    """Return a number of VMs as text: `1 VM`, `2 VMs`."""
    return f"{vms} VM" if vms == 1 else f"{vms} VMs"


def _check_files(positions: int) -> None:
    """Raise StartError if this many listeners need too many open files."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = positions + FILES_KEPT
    if allowed != resource.RLIM_INFINITY and needed > allowed:
        raise StartError(
            f"{counted(positions)} need {needed} open files; the limit is {allowed}",
            hint=open_files.HINT,
        )


def not_there(at: Address, error: OSError, *, way: str) -> StartError:
    """Return the error for an address that cannot be bound; `way` sets another one."""
    # The message of the event loop would repeat the address.
    why = os.strerror(error.errno) if error.errno else str(error)
    return StartError(
        f"cannot listen at {at[0]}:{at[1]}: {why}",
        hint=open_files.hint(
            error, f"Stop the other listener, or choose another address with {way}."
        ),
    )
