"""The program that watches the processes of all VMs by their monitors for events.

It looks for new sockets every second, and keeps a connection to each. It prints a line
of JSON when a VM stops, runs again or is on another host.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable

from forewarn.drivers.qemu.places import Places
from forewarn.drivers.qemu.processes import state_of
from forewarn.drivers.qemu.qmp import (
    ClosedError,
    Event,
    Monitor,
    MonitorError,
    NoMonitorError,
    open_monitor,
)
from forewarn.drivers.qemu.states import (
    Presence,
    ProcessState,
    Sightings,
    Whereabouts,
    state_at_end,
)
from forewarn.fleet.validators import name_fault

SCAN_SECONDS = 1.0
"""Seconds between two looks for new sockets: a VM that starts is seen soon enough."""

CONNECT_SECONDS = 10.0
"""Maximum seconds to reach a monitor: one that hangs is tried again."""

_CHANGES = frozenset(
    {"STOP", "RESUME", "RESET", "GUEST_PANICKED", "MIGRATION", "SHUTDOWN"}
)
"""The events after which QEMU can be in another state."""


class Watching:
    """The connections to all monitors for events."""

    def __init__(
        self,
        places: Places,
        say: Callable[[str], None],
        *,
        is_heard: Callable[[], bool] = lambda: True,
    ) -> None:
        """Connect to nothing yet; `say` gets each line while `is_heard`."""
        self._places, self._print = places, say
        self._is_heard = is_heard
        self._sightings = Sightings()
        self._reasons: dict[tuple[str, str], str] = {}
        """Why each process is about to end, if it has told."""
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Watch until this is cancelled, or the service has been killed."""
        try:
            while self._is_heard():
                self.scan()
                await asyncio.sleep(SCAN_SECONDS)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def scan(self) -> None:
        """Connect to each socket that has no connection."""
        for vm, host in self._places.watched():
            task = self._tasks.get((vm, host))
            if task is not None and task.done():
                # A failure to print ends the program, so that it is started again.
                task.result()
            is_watched = task is not None and not task.done()
            if not (is_watched or name_fault(vm) or name_fault(host)):
                self._tasks[vm, host] = asyncio.create_task(self._watch(vm, host))

    async def _watch(self, vm: str, host: str) -> None:
        """Watch one process until its end."""
        path = self._places.events_of(vm, host)
        try:
            monitor = await open_monitor(path, seconds=CONNECT_SECONDS)
        except NoMonitorError:
            # QEMU removes its sockets, unless it is killed.
            if self._sightings.state_of(vm, host) is None and path.exists():
                self._note(vm, host, state_at_end(None))
            return
        except MonitorError:
            return
        async with monitor:
            with contextlib.suppress(ClosedError):
                await self._follow(vm, host, monitor)
            for event in monitor.take_events():
                self._on_event(vm, host, event)
            self._note_end(vm, host)

    async def _follow(self, vm: str, host: str, monitor: Monitor) -> None:
        """Note each state of a process; raises ClosedError at its end."""
        while True:
            try:
                self._note(vm, host, await state_of(monitor))
            except MonitorError:
                if monitor.has_ended:
                    raise ClosedError("QEMU has ended") from None
                # It hangs. Its state is unknown until it answers or ends.
            await self._next_change(monitor, vm, host)

    async def _next_change(self, monitor: Monitor, vm: str, host: str) -> None:
        """Return when QEMU can be in another state; raises ClosedError."""
        is_change = False
        while not is_change:
            await monitor.news()
            for event in monitor.take_events():
                self._on_event(vm, host, event)
                is_change |= event.name in _CHANGES

    def _on_event(self, vm: str, host: str, event: Event) -> None:
        if event.name == "SHUTDOWN":
            self._reasons[vm, host] = str(event.data.get("reason", "unknown"))

    def _note_end(self, vm: str, host: str) -> None:
        reason = self._reasons.pop((vm, host), None)
        before = self._sightings.state_of(vm, host)
        if before is not None and before.presence is Presence.ELSEWHERE:
            # Its VM is on another host.
            self._sightings.forget(vm, host)
        elif before is None or before.presence is Presence.HERE:
            self._note(vm, host, state_at_end(reason))

    def _note(self, vm: str, host: str, state: ProcessState) -> None:
        news = self._sightings.note(vm, host, state)
        if news is not None:
            self._print(line_of(vm, news))


def line_of(vm: str, where: Whereabouts) -> str:
    """Return the line about a VM."""
    line = {"vm": vm, "running": where.running, "host": where.host}
    if not where.running:
        line |= {"cause": where.seen.cause.value, "text": where.seen.text}
    return json.dumps(line)
