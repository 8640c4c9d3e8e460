"""One QEMU process through its monitor: its state, its mark, and its end.

The mark of a call is an object of the type `authz-simple`, which has a text and does
nothing. It is in the memory of QEMU, so it lasts as long as the process.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from forewarn.drivers.marks import (
    LaterTermError,
    Mark,
    check_replacing,
    parse_mark,
)
from forewarn.drivers.qemu.places import Places
from forewarn.drivers.qemu.qmp import (
    ClosedError,
    CommandError,
    Monitor,
    MonitorError,
    NoMonitorError,
    open_monitor,
)
from forewarn.drivers.qemu.states import (
    Presence,
    ProcessState,
    Whereabouts,
    process_state,
    whereabouts,
)

MARK = "forewarn"
"""ID of the object that has the mark."""

END_SECONDS = 10.0
"""Maximum seconds for the end of a QEMU after the command `quit`: it may have to write to
its disks."""

ASK_SECONDS = 5.0
"""Maximum seconds to reach a monitor that is only asked."""

PAUSE_SECONDS = 0.05
"""Seconds between two questions to a process that changes its state."""


@asynccontextmanager
async def process_of(places: Places, vm: str, host: str) -> AsyncGenerator[Monitor]:
    """Connect to the process of a VM on a host; raises MonitorError."""
    async with await open_monitor(
        places.monitor_of(vm, host), seconds=ASK_SECONDS
    ) as monitor:
        yield monitor


async def state_of(monitor: Monitor) -> ProcessState:
    """Return the state of a process; raises MonitorError."""
    return process_state(await status_of(monitor))


async def status_of(monitor: Monitor) -> str:
    """Return the run state that QEMU names; raises MonitorError."""
    return str((await monitor.execute("query-status"))["status"])


async def find(places: Places, vm: str, expected: Sequence[str] = ()) -> Whereabouts:
    """Return where a VM is.

    Other hosts are asked only if it runs on none of those on which it is `expected`.
    """
    known = [host for host in expected if places.has_monitor(vm, host)]
    where = await _find_on(places, vm, known)
    return where if where.running else await _find_on(places, vm, places.hosts_of(vm))


async def _find_on(places: Places, vm: str, hosts: Sequence[str]) -> Whereabouts:
    states: dict[str, ProcessState] = {}
    unknown: list[str] = []
    for host in hosts:
        try:
            async with process_of(places, vm, host) as monitor:
                states[host] = await state_of(monitor)
        except NoMonitorError:
            states[host] = ProcessState(presence=Presence.DOWN)
        except MonitorError:
            unknown.append(host)
    return whereabouts(states, unknown=unknown)


async def write_mark(monitor: Monitor, mark: Mark) -> None:
    """Leave a mark in a process; raises MonitorError.

    It does not replace the mark of a later term. QEMU serves one client of a monitor at a
    time, so nothing comes between the look and the write.
    """
    if mark.term:
        try:
            check_replacing(mark, await read_mark(monitor))
        except LaterTermError as error:
            raise MonitorError(str(error)) from error
    text = f"{mark.text} {mark.state.value}"
    if mark.term:
        text += f" {mark.term} {mark.store}"
    try:
        await monitor.execute(
            "qom-set",
            {"path": f"/objects/{MARK}", "property": "identity", "value": text},
        )
    except CommandError as error:
        if error.kind != "DeviceNotFound":
            raise
        await monitor.execute(
            "object-add", {"qom-type": "authz-simple", "id": MARK, "identity": text}
        )


async def read_mark(monitor: Monitor) -> Mark | None:
    """Return the mark in a process; None: it has none. Raises MonitorError."""
    try:
        text = await monitor.execute(
            "qom-get", {"path": f"/objects/{MARK}", "property": "identity"}
        )
        name, state, term, store, *_ = [*str(text).split(" "), "0", ""]
        return parse_mark(name, state, term=int(term), store=store)
    except CommandError as error:
        if error.kind != "DeviceNotFound":
            raise
    except ValueError:
        # Another program made the object.
        pass
    return None


async def end_process(monitor: Monitor) -> None:
    """End QEMU, and wait for its end; raises MonitorError."""
    with contextlib.suppress(ClosedError):
        await monitor.execute("quit", seconds=END_SECONDS)
        await monitor.wait_for((), seconds=END_SECONDS)
        raise MonitorError(f"QEMU did not end within {END_SECONDS:g} s")


async def ask_to_shut_down(monitor: Monitor, *, seconds: float) -> bool:
    """Press the power button; return whether the guest has shut down in time.

    QEMU may end with the guest. Raises MonitorError.
    """
    try:
        await monitor.execute("system_powerdown")
        return await monitor.wait_for({"SHUTDOWN"}, seconds=seconds) is not None
    except ClosedError:
        return True


async def until_started(
    places: Places, vm: str, host: str, *, seconds: float
) -> Monitor:
    """Return the monitor of a process that has just been started, with its VM in it.

    Raises MonitorError.
    """
    last: MonitorError | None = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await open_monitor(places.monitor_of(vm, host))
                except MonitorError as error:
                    last = error
                await asyncio.sleep(PAUSE_SECONDS)
    raise MonitorError(f"{vm} did not start on {host} within {seconds:g} s: {last}")


async def wait_until_here(monitor: Monitor, *, seconds: float) -> None:
    """Return when the VM of a migration is in its destination; raises MonitorError."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if (await state_of(monitor)).presence is Presence.HERE:
                    return
                await asyncio.sleep(PAUSE_SECONDS)
    except TimeoutError:
        raise MonitorError(f"the VM did not arrive within {seconds:g} s") from None
