"""The listeners: one for all VMs, or one for each VM, added and removed at run time."""

import asyncio
import contextlib
import errno
import functools
import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import TypeAlias

from forewarn.clock import Clock
from forewarn.metadata import limits
from forewarn.metadata.connection import Connection
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.gateway import ControlGateway
from forewarn.metadata.hub import Hub
from forewarn.metadata.interceptor import Interceptor

Address: TypeAlias = tuple[str, int]
"""A host and a port; with port 0, the system chooses one."""

logger = logging.getLogger("forewarn.metadata")


class Server:
    """The metadata endpoint on sockets. It is created and used on a running loop."""

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        gateway: ControlGateway | None = None,
        clock: Clock,
        bounds: limits.Limits | None = None,
        interceptor: Interceptor | None = None,
    ) -> None:
        """Serve `endpoint` with control behind `gateway`; do not listen yet.

        Without a `gateway`, `attach` one before the endpoint is opened.

        `interceptor` sees all requests and answers; without one it costs nothing.
        """
        self._hub = Hub(
            endpoint=endpoint,
            gateway=gateway,
            clock=clock,
            bounds=bounds or limits.Limits(),
            interceptor=interceptor,
        )
        self._shared: asyncio.Server | None = None
        self._guests: dict[str, tuple[Address, asyncio.Server]] = {}

    def attach(self, gateway: ControlGateway) -> None:
        """Use control through `gateway` from now on."""
        self._hub.gateway = gateway

    async def serve_shared(self, host: str, port: int) -> Address:
        """Listen for all VMs, identified by their address; return the bound address.

        Raises OSError if the address is not available.
        """
        assert self._shared is None, "there is one shared listener"
        self._shared = await self._listen((host, port), vm="")
        return bound(self._shared)

    async def serve_guest(self, vm: str, host: str, port: int) -> Address:
        """Listen for `vm` only: every client of the port counts as that VM."""
        assert vm not in self._guests, "a VM has one listener"
        listener = await self._listen((host, port), vm=vm)
        self._guests[vm] = ((host, port), listener)
        self._hub.listeners = len(self._guests)
        return bound(listener)

    async def set_guest_listeners(
        self, wanted: Mapping[str, Address]
    ) -> dict[str, OSError]:
        """Add and remove listeners of single VMs; return the failed ones.

        Existing listeners that are still wanted keep their connections. Call it
        again to retry, because a port may be free later.
        """
        for vm in [vm for vm, (at, _) in self._guests.items() if wanted.get(vm) != at]:
            _, listener = self._guests.pop(vm)
            self._hub.listeners = len(self._guests)
            listener.close()
            for connection in [*self._hub.connections]:
                if connection.source.vm == vm:
                    connection.finish()
        failed: dict[str, OSError] = {}
        for vm, (host, port) in wanted.items():
            if vm in self._guests:
                continue
            try:
                await self.serve_guest(vm, host, port)
            except OSError as error:
                logger.warning(
                    "cannot listen for VM %r at %s:%d: %s", vm, host, port, error
                )
                failed[vm] = error
        return failed

    def addresses(self) -> dict[str, Address]:
        """Return the bound addresses by VM; the shared listener has the empty name."""
        addresses = {vm: bound(listener) for vm, (_, listener) in self._guests.items()}
        if self._shared is not None:
            addresses[""] = bound(self._shared)
        return addresses

    def connection(self, vm: str) -> Connection:
        """Return the server's end of a new connection to `vm`.

        It is for a listener outside this server, which outlives it. If no VM has the
        name, the client is an unknown caller.
        """
        return Connection(self._hub, vm)

    def hand_over(self, other: "Server", names: Mapping[str, str]) -> None:
        """Pass idle connections to another server.

        `names` maps the names of this server's listeners to those of the other
        server; connections with other names stay.
        """
        for connection in [*self._hub.connections]:
            name = names.get(connection.source.vm)
            if name is not None and (transport := connection.detach()) is not None:
                there = other.connection(name)
                transport.set_protocol(there)
                there.connection_made(transport)

    @property
    def open_connections(self) -> int:
        """Return the number of open connections, for the metrics."""
        return self._hub.open

    @property
    def refused(self) -> Mapping[str, int]:
        """Return the number of refused connections by reason, for the metrics."""
        return self._hub.refused

    def wake(self) -> None:
        """Send delayed responses that are due, after the clock jumped."""
        self._hub.dates.forget()
        self._hub.delayed_responses.wake()
        self._hub.wakeups.wake()

    async def stop(self, *, grace_seconds: float) -> None:
        """Accept no new connections, finish the current requests, then close.

        A delayed first response becomes 503, and a request that waits for a change
        gets its response without a change. After the grace, connections are aborted.
        """
        hub = self._hub
        hub.is_stopping = True
        for _, listener in self._guests.values():
            listener.close()
        if self._shared is not None:
            self._shared.close()
        hub.delayed_responses.release()
        hub.wakeups.release()
        for connection in [*hub.connections]:
            connection.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await hub.is_empty.wait()
        hub.idle_sweep.end()
        for connection in [*hub.connections]:
            connection.abort()
        # Aborted connections close in the next iteration of the loop.
        await asyncio.sleep(0)

    async def _listen(self, address: Address, *, vm: str) -> asyncio.Server:
        listener = await listen(address, functools.partial(Connection, self._hub, vm))
        if self._hub.endpoint.waits.longest_seconds:
            _keep_alive(listener)
        return listener


async def listen(address: Address, make: Callable[[], Connection]) -> asyncio.Server:
    """Listen at an address, with `make` for each connection; raises OSError."""
    host, port = address
    listener = await asyncio.get_running_loop().create_server(
        make,
        # An empty host is every address of the machine.
        host or None,
        port,
        backlog=limits.BACKLOG,
    )
    if not listener.sockets:
        listener.close()
        raise _no_socket(host)
    _disable_pacing(listener)
    return listener


def bound(listener: asyncio.Server) -> Address:
    """Return the address of a listener, with the port that the system has chosen."""
    host, port, *_ = listener.sockets[0].getsockname()
    return host, port


def _no_socket(host: str) -> OSError:
    """Return why no socket could be created; the event loop ignores this error.

    Usually the process has no free file descriptors, or the machine has no IPv6.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.socket(family, socket.SOCK_STREAM).close()
    except OSError as error:
        return error
    # The socket is available now: a retry may succeed.
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def _disable_pacing(listener: asyncio.Server) -> None:
    """Make the kernel send a response without a pacing timer.

    A machine with BBR as its default sets a timer for each packet, which takes 0.2 of
    the 7 µs of a GET. A response is a packet or two to a nearby guest, so congestion
    control is not needed.
    """
    for socket_ in listener.sockets:
        # If it is not available, the machine's default also works.
        with contextlib.suppress(OSError):
            socket_.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_CONGESTION, limits.CONGESTION
            )


def _keep_alive(listener: asyncio.Server) -> None:
    """Make the kernel detect clients that disappear while they wait.

    The accepted connections inherit the options of the listening socket.
    """
    for socket_ in listener.sockets:
        socket_.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, limits.KEEPALIVE_IDLE_SECONDS),
            (socket.TCP_KEEPINTVL, limits.KEEPALIVE_INTERVAL_SECONDS),
            (socket.TCP_KEEPCNT, limits.KEEPALIVE_PROBES),
        ):
            socket_.setsockopt(socket.IPPROTO_TCP, option, value)
