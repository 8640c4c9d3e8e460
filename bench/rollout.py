"""The effect of a rollout of many hosts on other callers: close to nothing.

It runs `maintain` for all hosts of one scope with five fault domains, then for as many
hosts whose VMs have no scope. Meanwhile an unrelated VM polls, and operators request
reboots of other VMs, which approve. The service has one core; the client and the process
of the operator API share the other one.

The targets are measured with a store in memory. With a disk, each transaction waits for a
flush, and on a shared disk a single flush can take up to a second even on an idle
machine. The figures with a disk are shown too.
"""

import asyncio
import itertools
import json
import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Coroutine
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvloop

from bench import client, fleets, machine
from bench.client import Wire
from bench.report import Report, Table, percentile, rounded
from bench.service import Service, eventually, serving

DOMAINS = 5
AT_ONCE = 200
SPEED = "600"

OTHERS = 200
"""VMs that are rebooted and approve, one after the other: each is back long before its
next reboot."""

GETS_A_SECOND = 100.0
ORDERS_A_SECOND = 8.0
STREAMS = 2
"""Clients that request and approve reboots, each at that rate: 300 samples in 20 s."""

NOTICED_IN_BETWEEN = 0.05
"""Seconds between a request and its approval, so that they do not share an iteration of
the control thread."""

IDLE_SECONDS_PER_ROUND = 10

PATIENCE_SECONDS = 900.0

TURN_BAR_MILLISECONDS = 50.0
RATIO_BAR = 2.0

_TURNS = re.compile(
    r'^forewarn_control_turn_seconds_bucket\{le="([^"]+)"\} (\S+)', re.MULTILINE
)

_IDLE = "idle"
_KINDS = ("GET", "approval", "order")


@dataclass(slots=True, kw_only=True)
class _Found:
    """Response times of other callers in one phase, and the lengths of iterations."""

    times: dict[str, list[float]] = field(
        default_factory=lambda: {kind: [] for kind in _KINDS}
    )
    """Milliseconds until each response."""
    seconds: float = 0
    is_over: bool = False
    turns: Counter[float] = field(default_factory=Counter[float])
    """Number of iterations by bucket of their length in seconds."""

    def longest(self) -> float:
        """Return the upper bound of the longest iteration, in milliseconds."""
        return max(bound for bound, count in self.turns.items() if count) * 1000

    def longer_than(self, milliseconds: float) -> int:
        """Return the number of iterations longer than a bucket's bound."""
        turns = self.turns.items()
        return int(sum(count for bound, count in turns if bound * 1000 > milliseconds))


def measure(report: Report, directory: Path, *, hosts: int, rounds: int) -> None:
    """Measure two rollouts of `hosts` hosts and their effect on other callers."""
    print(f"\nRollouts of {hosts:,} hosts, {AT_ONCE} at once, at speed {SPEED}")
    with machine.memory_directory() as memory:
        found = _measured(memory, hosts=hosts, rounds=rounds)
    report.show(_table(f"Others beside a rollout of {hosts:,} hosts", found))
    _judge(report, found)
    with_disk = _measured(directory, hosts=hosts, rounds=rounds)
    report.show(_table("The same with the store on the disk", with_disk))


def _measured(directory: Path, *, hosts: int, rounds: int) -> dict[str, _Found]:
    settings = {
        "metadata_rate_limit": "1000000",
        "timing_speed": SPEED,
    }
    with serving(directory / "rollout", _fleet(hosts), **settings) as service:
        _move_api(service)
        story = _Story(service, directory / "rollout" / "forewarn.db", hosts)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(story.run(IDLE_SECONDS_PER_ROUND * rounds))


def _table(title: str, found: dict[str, _Found]) -> Table:
    table = Table(
        f"{title}, p99 in ms",
        ("rollout", "s", *_KINDS, "turns", "longest, ms", "> 50 ms"),
    )
    for what, measured in found.items():
        p99s = [rounded(percentile(measured.times[kind], 0.99)) for kind in _KINDS]
        numbers = (
            str(int(measured.turns.total())),
            f"≤ {rounded(measured.longest())}",
            str(measured.longer_than(TURN_BAR_MILLISECONDS)),
        )
        table.rows.append((what, rounded(measured.seconds), *p99s, *numbers))
    return table


def _judge(report: Report, found: dict[str, _Found]) -> None:
    idle = found[_IDLE]
    for what, measured in found.items():
        if what == _IDLE:
            continue
        report.judge(
            f"rollout of {what}: longest turn of the control thread",
            measured.longest(),
            TURN_BAR_MILLISECONDS,
            "ms",
        )
        for kind in _KINDS:
            ratio = percentile(measured.times[kind], 0.99) / percentile(
                idle.times[kind], 0.99
            )
            report.judge(
                f"rollout of {what}: {kind}, p99 ÷ idle", ratio, RATIO_BAR, "x"
            )


def _fleet(hosts: int) -> str:
    """Return hosts of one scope, as many unrelated ones, and one with other VMs."""
    parts = [fleets.scope_text("web")]
    for number in range(hosts):
        parts += [
            fleets.host_text(f"web{number}"),
            fleets.vm_text(number, f"web{number}", "web", number % DOMAINS),
        ]
    for number in range(hosts, 2 * hosts):
        parts += [
            fleets.host_text(f"alone{number - hosts}"),
            fleets.vm_text(number, f"alone{number - hosts}"),
        ]
    parts.append(fleets.host_text("calm"))
    parts += [
        fleets.vm_text(number, "calm")
        for number in range(2 * hosts, 2 * hosts + OTHERS + 1)
    ]
    return "".join(parts)


def _move_api(service: Service) -> None:
    """Move the operator API's process to the client's core."""
    children = Path(f"/proc/{service.pid}/task/{service.pid}/children")
    for child in children.read_text("ascii").split():
        for thread in Path(f"/proc/{child}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {machine.LOAD_CORE})


class _Story:
    def __init__(self, service: Service, file: Path, hosts: int) -> None:
        self._service = service
        self._file = file
        self._hosts = hosts
        self._others = itertools.cycle(range(2 * hosts + 1, 2 * hosts + 1 + OTHERS))

    async def run(self, idle_seconds: float) -> dict[str, _Found]:
        await self._enable_all()
        found = {_IDLE: await self._watch(asyncio.sleep(idle_seconds))}
        for what, prefix in (("one scope", "web"), ("unrelated hosts", "alone")):
            names = [f"{prefix}{number}" for number in range(self._hosts)]
            found[what] = await self._watch(self._roll_out(names))
        return found

    async def _connect(self, number: int) -> Wire:
        address = fleets.address(number)
        return await client.connect(*self._service.address, source=address)

    async def _enable_all(self) -> None:
        for number in range(2 * self._hosts + 1 + OTHERS):
            wire = await self._connect(number)
            assert (await wire.ask(client.get())).status == 200
            wire.close()

    async def _watch(self, until: Coroutine[Any, Any, None]) -> _Found:
        """Measure other callers until a task has ended."""
        found = _Found()
        before = await asyncio.to_thread(_turns_of, self._service)
        began = time.perf_counter()
        watching = [
            asyncio.create_task(coroutine)
            for coroutine in (
                self._poll(found),
                *(self._order_and_approve(found) for _ in range(STREAMS)),
            )
        ]
        ended = asyncio.create_task(until)
        done, _ = await asyncio.wait(
            [ended, *watching], return_when=asyncio.FIRST_COMPLETED
        )
        found.is_over = True
        for task in done:
            task.result()
        await asyncio.gather(*watching)
        found.seconds = time.perf_counter() - began
        found.turns = await asyncio.to_thread(_turns_of, self._service)
        found.turns.subtract(before)
        return found

    async def _poll(self, found: _Found) -> None:
        """Poll as an unrelated VM at a constant rate."""
        wire = await self._connect(2 * self._hosts)
        pace = _Pace(GETS_A_SECOND)
        while not found.is_over:
            began = time.perf_counter()
            reply = await wire.ask(client.get())
            found.times["GET"].append((time.perf_counter() - began) * 1000)
            assert reply.status == 200, reply
            await pace.wait()

    async def _order_and_approve(self, found: _Found) -> None:
        """Request reboots of other VMs, and approve each as its VM."""
        url = urlsplit(self._service.operators)
        operators = await client.connect(url.hostname or "", url.port or 0)
        pace = _Pace(ORDERS_A_SECOND)
        while not found.is_over:
            number = next(self._others)
            order = {"vms": [f"vm_{number}"], "not_before": "+24h"}
            began = time.perf_counter()
            reply = await operators.ask(_post("/v1/reboot", order))
            found.times["order"].append((time.perf_counter() - began) * 1000)
            assert reply.status == 201, reply
            await asyncio.sleep(NOTICED_IN_BETWEEN)
            wire = await self._connect(number)
            [event] = (await wire.ask(client.get())).json["Events"]
            began = time.perf_counter()
            reply = await wire.ask(client.approve(event["EventId"]))
            found.times["approval"].append((time.perf_counter() - began) * 1000)
            assert reply.status == 200, reply
            wire.close()
            await pace.wait()

    async def _roll_out(self, names: list[str]) -> None:
        before = self._done()
        order = {"hosts": names, "impact": "reboot", "at_once": AT_ONCE}
        await asyncio.to_thread(self._service.admin, "/v1/maintain", order)
        await asyncio.to_thread(
            eventually,
            lambda: self._done() == before + len(names),
            what="the end of the rollout",
            seconds=PATIENCE_SECONDS,
        )

    def _done(self) -> int:
        """Return the number of finished hosts, without work for the service."""
        uri = f"file:{self._file}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as database:
            [[found]] = database.execute(
                "SELECT count(*) FROM operations WHERE state = 'Done' "
                "AND verb = 'maintain'"
            )
        return found


class _Pace:
    """A constant rate, independent of the time of each step."""

    def __init__(self, rate: float) -> None:
        self._pause = 1 / rate
        self._due = time.perf_counter()

    async def wait(self) -> None:
        now = time.perf_counter()
        self._due = max(self._due + self._pause, now)
        await asyncio.sleep(self._due - now)


def _post(path: str, body: object) -> bytes:
    """Return the bytes of a request."""
    data = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + data


def _turns_of(service: Service) -> Counter[float]:
    """Return the number of iterations so far, by bucket."""
    found: Counter[float] = Counter()
    below = 0
    for bound, count in _TURNS.findall(service.metrics()):
        found[float(bound)] = round(float(count)) - below
        below = round(float(count))
    return found
