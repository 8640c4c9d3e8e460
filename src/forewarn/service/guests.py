"""The listeners of VMs with their own listener, kept in line with the fleet."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from forewarn.control.transactions.publishing import Publication
from forewarn.fleet.validators import split_listener
from forewarn.metadata.server import Address, Server
from forewarn.service import limits

logger = logging.getLogger("forewarn.service")


class GuestListeners:
    """Opens and closes the listeners of VMs; used on one event loop."""

    def __init__(self, server: Server, *, on_open: Callable[[str], None]) -> None:
        """Manage the listeners of `server`; `on_open` gets the VM of each new one."""
        self._server = server
        self._on_open = on_open
        self._wanted: dict[str, Address] = {}
        self._is_dirty = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.failed: dict[str, OSError] = {}
        """The VMs whose listener could not be opened, with the error."""

    def follow(self, publication: Publication) -> None:
        """Record the new, deleted and changed VMs of a publication."""
        for vm in publication.guests_gone:
            self._want(vm, None)
        for guest in publication.guests:
            self._want(guest.vm, split_listener(guest.listen) if guest.listen else None)

    def _want(self, vm: str, address: Address | None) -> None:
        if address == self._wanted.get(vm):
            return
        if address is None:
            del self._wanted[vm]
        else:
            self._wanted[vm] = address
        self._is_dirty.set()

    async def open(self, listeners: Mapping[str, str]) -> None:
        """Open the stored `listeners` before anything is published.

        The endpoint responds with 503 and Retry-After until it is open, so a VM that
        sends a request during a start knows when to retry.
        """
        for vm, listen in listeners.items():
            self._want(vm, split_listener(listen))
        await self._listen()

    async def begin(self) -> None:
        """Open the listeners of published VMs, and apply changes from now on."""
        if self._is_dirty.is_set():
            await self._listen()
        self._task = asyncio.create_task(self._keep())

    async def end(self) -> None:
        """Stop applying changes; the server closes the listeners itself."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _keep(self) -> None:
        while True:
            pause = limits.LISTENERS_RETRY_SECONDS if self.failed else None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_dirty.wait(), pause)
            await self._listen()

    async def _listen(self) -> None:
        self._is_dirty.clear()
        before = self._server.addresses()
        self.failed = await self._server.set_guest_listeners(dict(self._wanted))
        for vm, address in self._server.addresses().items():
            if before.get(vm) != address:
                self._on_open(vm)
