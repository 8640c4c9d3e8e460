"""Questions about VMs, answered from the monitors of their processes."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from forewarn.drivers.marks import MarkState
from forewarn.drivers.port import Expected
from forewarn.drivers.qemu.places import Places
from forewarn.drivers.qemu.processes import (
    end_process,
    find,
    process_of,
    read_mark,
    state_of,
)
from forewarn.drivers.qemu.qmp import MonitorError
from forewarn.drivers.qemu.states import Presence, Whereabouts
from forewarn.drivers.qemu.work import UNKNOWN_STATUS, Order
from forewarn.drivers.records import DONE_STATUS, DOWN_STATUS, RUNS_STATUS
from forewarn.protocol.operations import Action

VMS_AT_ONCE = 100
"""Maximum number of VMs that are asked at once: each holds an open file."""


async def observe(places: Places, vms: Expected) -> list[str]:
    """Return the lines of `observe_many`: the state of each VM that is known."""
    return await _lines_about(vms, lambda vm: _state_of(places, vm, vms[vm]))


async def marks(places: Places, vms: Expected) -> list[str]:
    """Return the lines of `marks`: the last mark of each VM that can be read."""
    return await _lines_about(vms, lambda vm: _mark_of(places, vm, vms[vm]))


async def _lines_about(
    vms: Iterable[str], ask: Callable[[str], Awaitable[str]]
) -> list[str]:
    """Ask about all VMs at once: one that hangs delays no other."""
    places_left = asyncio.Semaphore(VMS_AT_ONCE)

    async def line_about(vm: str) -> str:
        async with places_left:
            return await ask(vm)

    lines = await asyncio.gather(*(line_about(vm) for vm in vms))
    return [line for line in lines if line]


async def _state_of(places: Places, vm: str, expected: Sequence[str]) -> str:
    where = await find(places, vm, expected)
    if where.running is None:
        return ""
    line: dict[str, Any] = {"vm": vm, "running": where.running}
    return json.dumps(line | ({"host": where.host} if where.running else {}))


async def _mark_of(places: Places, vm: str, expected: Sequence[str]) -> str:
    where = await find(places, vm, expected)
    if not where.running:
        return ""
    with contextlib.suppress(MonitorError):
        async with process_of(places, vm, where.host) as monitor:
            mark = await read_mark(monitor)
        line: dict[str, Any] = {"vm": vm, "mark": None}
        if mark is not None:
            line |= {"mark": mark.text, "state": mark.state.value}
        return json.dumps({**line, "running": True, "host": where.host})
    return ""


async def abilities(
    places: Places, hosts: Iterable[tuple[str, list[str]]]
) -> list[str]:
    """Return the lines of `abilities`: what QEMU itself knows about each VM.

    A device or another feature of QEMU can block migrations. The rest has no obstacle
    that QEMU knows of, as far as the process of the VM answers.
    """
    by_host = dict(hosts)
    host_of = {vm: host for host, vms in by_host.items() for vm in vms}
    lines = await _lines_about(host_of, lambda vm: _ability_of(places, vm, host_of[vm]))
    return [
        *(_able(host, able="yes") for host in by_host),
        *lines,
    ]


async def _ability_of(places: Places, vm: str, host: str) -> str:
    try:
        async with process_of(places, vm, host) as monitor:
            blocked = (await monitor.execute("query-migrate")).get("blocked-reasons")
    except MonitorError as error:
        return _able(host, vm=vm, able="unknown", reason=str(error))
    lines = [_able(host, vm=vm, able="yes")]
    if blocked:
        action = Action.LIVE_MIGRATE.value
        reason = str(blocked[0])
        lines.append(_able(host, vm=vm, actions=[action], able="no", reason=reason))
    return "\n".join(lines)


def _able(host: str, **members: object) -> str:
    return json.dumps({"host": host, **members})


def hosts_in(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the hosts of the questions on standard input, with their VMs."""
    for line in lines:
        with contextlib.suppress(ValueError, KeyError):
            question = json.loads(line)
            yield question["host"], question["vms"]


def vms_in(lines: Iterable[str]) -> Expected:
    """Return the VMs of the questions on standard input, with their hosts."""
    expected: dict[str, Sequence[str]] = {}
    for line in lines:
        with contextlib.suppress(ValueError, KeyError):
            question = json.loads(line)
            expected[question["vm"]] = question.get("hosts", ())
    return expected


# Work whose program was lost


async def probe(places: Places, order: Order) -> tuple[int, str]:
    """Return the exit status and the output of `probe`.

    A frozen guest runs again, and an unfinished migration is called off.
    """
    where = await find(places, order.vm)
    if where.running is None:
        return UNKNOWN_STATUS, ""
    output = f"vm-host: {where.host}" if where.running else ""
    try:
        return await _state_of_work(places, order, where), output
    except MonitorError:
        return UNKNOWN_STATUS, ""


async def _state_of_work(places: Places, order: Order, where: Whereabouts) -> int:
    failed = RUNS_STATUS if where.running else DOWN_STATUS
    if order.action in {Action.STOP, Action.DELETE}:
        return RUNS_STATUS if where.running else DONE_STATUS
    if not where.running:
        return failed
    if order.action is Action.LIVE_MIGRATE:
        return await _settle_migration(places, order, where)
    async with process_of(places, order.vm, where.host) as monitor:
        mark = await read_mark(monitor)
        if mark is None or mark.text != order.mark.text:
            return UNKNOWN_STATUS
        if mark.state is not MarkState.BEGUN:
            return DONE_STATUS if mark.state is MarkState.DONE else failed
        if order.action is Action.FREEZE:
            await monitor.execute("cont")
        # A restart may or may not have been carried out.
        return UNKNOWN_STATUS if order.action is Action.REBOOT else failed


async def _settle_migration(places: Places, order: Order, where: Whereabouts) -> int:
    """End the process that does not have the VM."""
    has_moved = where.host == order.to_host
    if not has_moved:
        async with process_of(places, order.vm, where.host) as monitor:
            await monitor.execute("migrate_cancel")
    other = order.host if has_moved else order.to_host
    with contextlib.suppress(MonitorError):
        async with process_of(places, order.vm, other) as monitor:
            if (await state_of(monitor)).presence is Presence.ELSEWHERE:
                await end_process(monitor)
    return DONE_STATUS if has_moved else RUNS_STATUS
