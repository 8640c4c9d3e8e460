"""The listeners of VMs that have one of their own, kept as the fleet wants them."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from forewarn.control.transactions.messages import Publication
from forewarn.fleet.validators import split_listener
from forewarn.metadata.server import Address, Server
from forewarn.service import limits

logger = logging.getLogger("forewarn.service")


class GuestListeners:
    """Follows publications; used on one event loop."""

    def __init__(self, server: Server, *, on_open: Callable[[str], None]) -> None:
        """Keep the listeners of `server`; `on_open` hears of each new one's VM."""
        self._server = server
        self._on_open = on_open
        self._wanted: dict[str, Address] = {}
        self._is_dirty = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.failed: dict[str, OSError] = {}
        """VMs whose listener could not be had, and why."""

    def follow(self, publication: Publication) -> None:
        """Note what VMs came, went or changed."""
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
        """Listen for VMs before anything is published; `listeners` has their settings.

        The endpoint answers 503 until it is open, so a VM that asks during a start is
        told when to ask again.
        """
        for vm, listen in listeners.items():
            self._want(vm, split_listener(listen))
        await self._listen()

    async def begin(self) -> None:
        """Listen for the VMs that were published, and follow from now on."""
        if self._is_dirty.is_set():
            await self._listen()
        self._task = asyncio.create_task(self._keep())

    async def end(self) -> None:
        """Follow no more; the server closes the listeners itself."""
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
