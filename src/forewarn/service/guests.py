"""Two tasks about VMs: their own listeners, and the last-seen times of their views.

The listeners are kept in line with the fleet. The time of each view's last request is read
from the endpoint and stored periodically.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from forewarn.fleet.validators import split_listener
from forewarn.instants import SECOND, Micros
from forewarn.metadata.server import Address, Server
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.published import Publication
from forewarn.service import limits
from forewarn.service.runner import Runner

logger = logging.getLogger("forewarn.service")


class _Background:
    """An object with a task on the event loop."""

    _task: asyncio.Task[None] | None = None

    async def end(self) -> None:
        """Stop the task, if it has begun."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


class GuestListeners(_Background):
    """Opens and closes the listeners of VMs; used on one event loop.

    At the end, the server closes the listeners itself.
    """

    def __init__(self, server: Server, *, on_open: Callable[[str], None]) -> None:
        """Manage the listeners of `server`; `on_open` gets the VM of each new one."""
        self._server = server
        self._on_open = on_open
        self._wanted: dict[str, Address] = {}
        self._is_dirty = asyncio.Event()
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
        # More VMs can be published while the first listeners are opened.
        while self._is_dirty.is_set():
            await self._listen()
        self._task = asyncio.create_task(self._keep())

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


class LastSeen(_Background):
    """Stores last-seen times; used on the event loop."""

    def __init__(
        self,
        runner: Runner,
        *,
        take: Callable[[], Mapping[str, Micros]],
        disable_after: Micros,
    ) -> None:
        """Store the result of `take` with `runner`, often enough to disable unused
        views in time."""
        self._runner = runner
        self._take = take
        self._pause = min(limits.LAST_SEEN_SECONDS, disable_after / SECOND / 4)

    def begin(self) -> None:
        """Start to store them periodically."""
        self._task = asyncio.create_task(self._keep())

    async def note(self) -> None:
        """Store the times now; a lost time is replaced at the next request of the
        view."""
        with contextlib.suppress(ForewarnError):
            times = list(self._take().items())
            for start in range(0, len(times), limits.LAST_SEEN_TOGETHER_MAX):
                some = dict(times[start : start + limits.LAST_SEEN_TOGETHER_MAX])
                await self._runner.call(
                    lambda plane, now, some=some: plane.note_last_seen(some, now=now)
                )

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            await self.note()
