"""The actions of the driver on one VM, by QMP.

Each action leaves the mark of its call before it changes anything, and again when it
has ended. It can be repeated after a failure. After SIGTERM, it lets a
frozen guest run and cancels a migration.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from forewarn.drivers.marks import Mark, MarkState
from forewarn.drivers.qemu.places import Places, destination_of
from forewarn.drivers.qemu.processes import (
    PAUSE_SECONDS,
    ask_to_shut_down,
    end_process,
    find,
    process_of,
    read_mark,
    state_of,
    status_of,
    until_started,
    wait_until_here,
    write_mark,
)
from forewarn.drivers.qemu.qmp import (
    Event,
    Monitor,
    MonitorError,
    NoMonitorError,
)
from forewarn.drivers.qemu.states import Presence
from forewarn.drivers.records import DONE_STATUS, DOWN_STATUS, RUNS_STATUS
from forewarn.protocol.operations import Action
from forewarn.texts import readable

UNKNOWN_STATUS = 2
"""Exit status if it is unknown whether the VM runs."""

START_SECONDS = 60.0
"""Maximum seconds for a program that starts QEMU, and for the monitor of its process."""

_ENDING = frozenset({Action.REDEPLOY, Action.START, Action.STOP})
"""The actions after which a VM without a socket is known not to run."""

EVENT_SECONDS = 5.0
"""Maximum seconds for an event that follows a command at once."""

SAID_BYTES_MAX = 4096
"""Maximum bytes of a program's output that go into the message about its failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The action on one VM."""

    action: Action
    vm: str
    host: str
    to_host: str
    seconds: int
    mark: Mark


async def carry_out(places: Places, order: Order) -> int:
    """Do the work, print its result, and return the exit status."""
    try:
        lines = await WORKS[order.action](places, order)
    except MonitorError as error:
        print(error)  # noqa: T201 - the output of a program
        return await _status_after_failure(places, order)
    for line in lines:
        print(line)  # noqa: T201 - the output of a program
    return DONE_STATUS


async def _status_after_failure(places: Places, order: Order) -> int:
    where = await find(places, order.vm)
    if where.host:
        print(f"vm-host: {where.host}")  # noqa: T201 - the output of a program
        with contextlib.suppress(MonitorError):
            async with process_of(places, order.vm, where.host) as monitor:
                await write_mark(monitor, replace(order.mark, state=MarkState.FAILED))
    if where.running is None:
        # QEMU removes its sockets when it ends by itself.
        has_ended = order.action in _ENDING and not places.hosts_of(order.vm)
        return DOWN_STATUS if has_ended else UNKNOWN_STATUS
    return RUNS_STATUS if where.running else DOWN_STATUS


# Actions that keep the memory


async def _freeze(places: Places, order: Order) -> list[str]:
    seconds = places.freeze
    if order.seconds >= 0:
        # The VM was announced at most this duration.
        seconds = min(seconds, float(order.seconds))
    async with process_of(places, order.vm, order.host) as monitor:
        if await _is_paused_by_others(monitor):
            await write_mark(monitor, replace(order.mark, state=MarkState.DONE))
            return [f"{order.vm} was paused already, and stays paused"]
        await write_mark(monitor, order.mark)
        monitor.take_events()
        try:
            # The guest can stand still before the answer to `stop` is there.
            await monitor.execute("stop")
            began = await monitor.wait_for({"STOP"}, seconds=EVENT_SECONDS)
            # Nothing but the end of QEMU ends the wait early.
            await monitor.wait_for((), seconds=seconds)
        finally:
            await monitor.execute("cont")
        ended = await monitor.wait_for({"RESUME"}, seconds=EVENT_SECONDS)
        await write_mark(monitor, replace(order.mark, state=MarkState.DONE))
    return _pause_between(began, ended)


async def _is_paused_by_others(monitor: Monitor) -> bool:
    """Return whether a guest stands still, but not because a freeze was interrupted."""
    if await status_of(monitor) != "paused":
        return False
    mark = await read_mark(monitor)
    return mark is None or (mark.work, mark.state) != (
        Action.FREEZE.value,
        MarkState.BEGUN,
    )


def _pause_between(began: Event | None, ended: Event | None) -> list[str]:
    if began is None or ended is None:
        # An earlier freeze was interrupted, so it is unknown how long it stood still.
        return []
    return [f"paused: {max(0, round((ended.at - began.at) * 1000))}ms"]


async def _pause(places: Places, order: Order) -> list[str]:
    return await _execute(places, order, "stop")


async def _resume(places: Places, order: Order) -> list[str]:
    return await _execute(places, order, "cont")


async def _execute(places: Places, order: Order, command: str) -> list[str]:
    async with process_of(places, order.vm, order.host) as monitor:
        await write_mark(monitor, order.mark)
        await monitor.execute(command)
        await write_mark(monitor, replace(order.mark, state=MarkState.DONE))
    return []


# Actions that restart or end the guest


async def _reboot(places: Places, order: Order) -> list[str]:
    async with process_of(places, order.vm, order.host) as monitor:
        await write_mark(monitor, order.mark)
        has_shut_down = False
        if places.shutdown > 0:
            async with _staying_after_shutdown(monitor):
                has_shut_down = await ask_to_shut_down(monitor, seconds=places.shutdown)
                await _reset(monitor)
        else:
            await _reset(monitor)
        await write_mark(monitor, replace(order.mark, state=MarkState.DONE))
    if places.shutdown > 0 and not has_shut_down:
        return [f"{order.vm} did not shut down in time, and was reset"]
    return []


@asynccontextmanager
async def _staying_after_shutdown(monitor: Monitor) -> AsyncGenerator[None]:
    """Let QEMU keep the process of a guest that shuts down, and later end it again.

    A crash inside leaves a QEMU that does not end with its guest, until
    the next reboot of the VM.
    """
    await monitor.execute("set-action", {"shutdown": "pause"})
    try:
        yield
    finally:
        # If QEMU does not answer any more, the first error says more.
        with contextlib.suppress(MonitorError):
            await monitor.execute("set-action", {"shutdown": "poweroff"})


async def _reset(monitor: Monitor) -> None:
    monitor.take_events()
    await monitor.execute("system_reset")
    # Until the reset, a guest that was shut down cannot continue.
    await monitor.wait_for({"RESET"}, seconds=EVENT_SECONDS)
    await monitor.execute("cont")


async def _delete(places: Places, order: Order) -> list[str]:
    with contextlib.suppress(NoMonitorError):
        async with process_of(places, order.vm, order.host) as monitor:
            await write_mark(monitor, order.mark)
            await end_process(monitor)
    return []


async def _stop(places: Places, order: Order) -> list[str]:
    with contextlib.suppress(NoMonitorError):
        async with process_of(places, order.vm, order.host) as monitor:
            await write_mark(monitor, order.mark)
            if places.shutdown > 0:
                await ask_to_shut_down(monitor, seconds=places.shutdown)
            await end_process(monitor)
    return []


async def _start(places: Places, order: Order) -> list[str]:
    await _start_on(places, order, order.host)
    return [f"vm-host: {order.host}"]


async def _redeploy(places: Places, order: Order) -> list[str]:
    await _stop(places, order)
    await _start_on(places, order, order.to_host)
    return [f"vm-host: {order.to_host}"]


async def _start_on(places: Places, order: Order, host: str) -> None:
    """Start a VM on a host, unless it runs there."""
    with contextlib.suppress(NoMonitorError):
        async with process_of(places, order.vm, host) as monitor:
            if (await state_of(monitor)).presence is Presence.HERE:
                await write_mark(monitor, replace(order.mark, state=MarkState.DONE))
                return
            await end_process(monitor)
    await run_program(places.words_of(places.start, order.vm, host))
    async with await until_started(
        places, order.vm, host, seconds=START_SECONDS
    ) as monitor:
        await monitor.execute("cont")
        await write_mark(monitor, replace(order.mark, state=MarkState.DONE))


async def run_program(command: tuple[str, ...]) -> None:
    """Run a program that starts QEMU; raises MonitorError."""
    # A file, because QEMU could hold a pipe open.
    with tempfile.TemporaryFile() as output:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(START_SECONDS):
                    status = await process.wait()
            except BaseException:
                await _kill(process)
                raise
        except TimeoutError:
            raise MonitorError(
                f"{command[0]} did not end within {START_SECONDS:g} s: it must leave QEMU "
                "running in the background, as with -daemonize"
            ) from None
        except OSError as error:
            raise MonitorError(f"{command[0]}: {error.strerror}") from error
        if status:
            output.seek(0)
            text = readable(output.read(SAID_BYTES_MAX).decode("utf-8", "replace"))
            raise MonitorError(f"{command[0]} ended with status {status}: {text}")


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a program that has not ended; a QEMU in the background has its own session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


# Live migration


async def _live_migrate(places: Places, order: Order) -> list[str]:
    async with process_of(places, order.vm, order.host) as source:
        if (await state_of(source)).presence is not Presence.HERE:
            raise MonitorError(f"{order.vm} does not run on {order.host}")
        await write_mark(source, order.mark)
        await _end_waiting(places, order)
        await run_program(places.words_of(places.receive, order.vm, order.to_host))
        async with await until_started(
            places, order.vm, order.to_host, seconds=START_SECONDS
        ) as destination:
            try:
                downtime = await _migrate(places, order, source, destination)
            except BaseException:
                await _call_off(source, destination)
                raise
            try:
                await write_mark(destination, replace(order.mark, state=MarkState.DONE))
            finally:
                # The guest has left it, whatever the destination answers.
                await end_process(source)
    return [f"paused: {downtime}ms", f"vm-host: {order.to_host}"]


async def _end_waiting(places: Places, order: Order) -> None:
    """End a destination that an earlier attempt left."""
    with contextlib.suppress(NoMonitorError):
        async with process_of(places, order.vm, order.to_host) as monitor:
            if (await state_of(monitor)).presence is Presence.HERE:
                raise MonitorError(f"another {order.vm} runs on {order.to_host}")
            await end_process(monitor)


async def _migrate(
    places: Places, order: Order, source: Monitor, destination: Monitor
) -> int:
    """Move the guest; return the milliseconds that it stood still."""
    address = places.migration_of(order.vm, order.to_host)
    await destination.execute("migrate-incoming", {"uri": address})
    target = destination_of(address, await _port_of(destination))
    await source.execute(
        "migrate-set-parameters", {"downtime-limit": round(places.downtime * 1000)}
    )
    await source.execute("migrate", {"uri": target})
    migration = await _until_migration(
        source, is_in=("completed", "failed", "cancelled")
    )
    if migration["status"] != "completed":
        why = migration.get("error-desc", "")
        raise MonitorError(
            f"the migration is {migration['status']}: {why}".rstrip(": ")
        )
    # The source has sent everything; the destination runs at once.
    await wait_until_here(destination, seconds=EVENT_SECONDS)
    return int(migration.get("downtime", 0))


async def _port_of(destination: Monitor) -> str:
    """Return the port on which a migration is awaited; empty for a Unix socket."""
    migration = await destination.execute("query-migrate")
    listening: list[dict[str, str]] = migration.get("socket-address", [])
    return next((socket_["port"] for socket_ in listening if "port" in socket_), "")


async def _until_migration(
    source: Monitor, *, is_in: tuple[str, ...] = (), is_not: str = ""
) -> dict[str, Any]:
    """Return the migration when it has one of these states, or has left another."""
    while True:
        migration = await source.execute("query-migrate")
        status = migration.get("status", "")
        if status in is_in or (is_not and status != is_not):
            return migration
        await asyncio.sleep(PAUSE_SECONDS)


async def _call_off(source: Monitor, destination: Monitor) -> None:
    """Cancel a migration, unless it is complete; the destination ends only without it."""
    with contextlib.suppress(MonitorError):
        await source.execute("migrate_cancel")
        await _until_migration(source, is_not="cancelling")
        if (await state_of(source)).presence is Presence.HERE:
            await end_process(destination)


WORKS: Mapping[Action, Callable[[Places, Order], Awaitable[list[str]]]] = {
    Action.FREEZE: _freeze,
    Action.LIVE_MIGRATE: _live_migrate,
    Action.REBOOT: _reboot,
    Action.REDEPLOY: _redeploy,
    Action.DELETE: _delete,
    Action.PAUSE: _pause,
    Action.RESUME: _resume,
    Action.STOP: _stop,
    Action.START: _start,
}
"""The actions of the driver. A disk is not replaced by QMP, so there is no reimage."""
