"""The listeners: one for all VMs, or one for each, added and removed at run time."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import TypeAlias

from forewarn.clock import Clock
from forewarn.metadata import limits
from forewarn.metadata.connection import Connection
from forewarn.metadata.desk import Desk
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.hub import Hub
from forewarn.metadata.limits import Limits

Address: TypeAlias = tuple[str, int]
"""A host and a port; port 0 lets the system choose."""

logger = logging.getLogger("forewarn.metadata")


class Server:
    """The metadata endpoint on sockets. It is made and used on a running loop."""

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        desk: Desk,
        clock: Clock,
        bounds: Limits | None = None,
    ) -> None:
        """Serve `endpoint`, asking control through `desk`; listen nowhere yet."""
        self._hub = Hub(
            endpoint=endpoint, desk=desk, clock=clock, bounds=bounds or Limits()
        )
        self._shared: asyncio.Server | None = None
        self._guests: dict[str, tuple[Address, asyncio.Server]] = {}

    async def serve_shared(self, host: str, port: int) -> Address:
        """Listen for every VM, known by its address; return what was bound.

        Raises OSError where the address cannot be had.
        """
        assert self._shared is None, "there is one shared listener"
        self._shared = await self._listen((host, port), vm="")
        return _bound(self._shared)

    async def serve_guest(self, vm: str, host: str, port: int) -> Address:
        """Listen for `vm` alone: whoever reaches the port is that VM."""
        assert vm not in self._guests, "a VM has one listener"
        listener = await self._listen((host, port), vm=vm)
        self._guests[vm] = ((host, port), listener)
        return _bound(listener)

    async def set_guest_listeners(
        self, wanted: Mapping[str, Address]
    ) -> dict[str, OSError]:
        """Make the VMs' own listeners these; return those that could not be had.

        What is there already stays untouched, with its connections. Call it
        again to retry: a port may be free later.
        """
        for vm in [vm for vm, (at, _) in self._guests.items() if wanted.get(vm) != at]:
            _, listener = self._guests.pop(vm)
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
                logger.warning("no listener for %r at %s:%d: %s", vm, host, port, error)
                failed[vm] = error
        return failed

    def addresses(self) -> dict[str, Address]:
        """Return what is bound, by VM; the shared listener is at the empty name."""
        bound = {vm: _bound(listener) for vm, (_, listener) in self._guests.items()}
        if self._shared is not None:
            bound[""] = _bound(self._shared)
        return bound

    @property
    def open_connections(self) -> int:
        """Return how many connections are open, for the metrics."""
        return self._hub.open

    def wake(self) -> None:
        """Answer what was held for a time that has come, after the clock jumped."""
        self._hub.holds.wake()

    async def stop(self, *, grace_seconds: float) -> None:
        """Take nothing new, finish what is under way, then close.

        What is held for a first answer is told to ask again. After the grace,
        connections are cut.
        """
        hub = self._hub
        hub.is_stopping = True
        for _, listener in self._guests.values():
            listener.close()
        if self._shared is not None:
            self._shared.close()
        hub.holds.release()
        for connection in [*hub.connections]:
            connection.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await hub.is_empty.wait()
        for connection in [*hub.connections]:
            connection.abort()
        # One turn of the loop, for the cut ones to be gone.
        await asyncio.sleep(0)

    async def _listen(self, address: Address, *, vm: str) -> asyncio.Server:
        host, port = address
        return await asyncio.get_running_loop().create_server(
            lambda: Connection(self._hub, vm=vm),
            # An empty host is every address of the machine.
            host or None,
            port,
            backlog=limits.BACKLOG,
        )


def _bound(listener: asyncio.Server) -> Address:
    host, port, *_ = listener.sockets[0].getsockname()
    return host, port
