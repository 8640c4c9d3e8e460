"""How soon VMs see changes, while other VMs send a thousand requests per second."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import uvloop

from bench import client, fleets
from bench.client import Reply, Wire
from bench.report import Report, Table, percentile, rounded
from bench.service import Service, serving

CROWD_VMS = 50
"""VMs of the failing host."""

BACKGROUND_VMS = 100
BACKGROUND_RATE = 1000.0
"""GETs per second of all other VMs."""

POLL_SECONDS = 0.001
CROWD_POLL_SECONDS = 0.01
"""The poll rate of a VM that waits for a change: one VM, or one of many."""

PATIENCE_SECONDS = 10.0


def measure(report: Report, directory: Path, *, approvals: int, failures: int) -> None:
    """Measure an approval and the failure of a host."""
    print(f"\nFrom cause to sight, beside {BACKGROUND_RATE:.0f} GET/s")
    first = 2 * approvals
    fleet = (
        fleets.pairs(approvals)
        + fleets.crowded(failures, CROWD_VMS, first=first)
        + fleets.host_text("calm")
        + "".join(
            fleets.vm_text(first + failures * CROWD_VMS + number, "calm")
            for number in range(BACKGROUND_VMS)
        )
    )
    settings = {
        "metadata_rate_limit": "1000000",
        "driver_simulated_reboot": "200ms",
        "timing_recovery": "200ms",
    }
    with serving(directory / "latency", fleet, **settings) as service:
        story = _Story(service, approvals=approvals, failures=failures)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(story.run())
    _show(report, story)


def _show(report: Report, story: "_Story") -> None:
    table = Table(
        "From cause to sight, milliseconds", ("what", "median", "p99", "longest")
    )
    for what, times in story.times.items():
        table.rows.append(
            (
                f"{what} ({len(times)})",
                rounded(percentile(times, 0.5)),
                rounded(percentile(times, 0.99)),
                rounded(max(times)),
            )
        )
    report.show(table)
    approved, failed = story.times[_APPROVED], story.times[_FAILED]
    report.judge(f"{_APPROVED}, p99", percentile(approved, 0.99), 100, "ms")
    report.judge(f"{_FAILED}, longest", max(failed), 200, "ms")


_APPROVED = "last approval → Started visible"
_ACCEPTED = "last approval → its own 200"
_FAILED = f"failure of a host → {CROWD_VMS} VMs see Started"
_ASKED = "GET beside it"


class _Story:
    def __init__(self, service: Service, *, approvals: int, failures: int) -> None:
        self._service = service
        self._approvals = approvals
        self._failures = failures
        self.times: dict[str, list[float]] = {
            name: [] for name in (_APPROVED, _ACCEPTED, _FAILED, _ASKED)
        }

    async def run(self) -> None:
        async with self._background():
            await self._approve()
            for number in range(self._failures):
                await self._fail(number)

    async def _connect(self, vm: int) -> Wire:
        return await client.connect(*self._service.address, source=fleets.address(vm))

    @contextlib.asynccontextmanager
    async def _background(self) -> AsyncGenerator[None]:
        first = 2 * self._approvals + self._failures * CROWD_VMS
        wires = [
            await self._connect(first + number) for number in range(BACKGROUND_VMS)
        ]
        tasks = [asyncio.create_task(self._ask_on(wire)) for wire in wires]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            for error in done:
                assert isinstance(error, asyncio.CancelledError), error

    async def _ask_on(self, wire: Wire) -> None:
        """Send requests at this VM's share of the rate, independent of response times."""
        loop, request = asyncio.get_running_loop(), client.get()
        pause = BACKGROUND_VMS / BACKGROUND_RATE
        due = loop.time()
        while True:
            began = time.perf_counter()
            reply = await wire.ask(request)
            self.times[_ASKED].append((time.perf_counter() - began) * 1000)
            assert reply.status == 200, reply
            due = max(due + pause, loop.time())
            await asyncio.sleep(due - loop.time())

    async def _approve(self) -> None:
        """Maintain hosts; measure the approval of the second VM of each."""
        wires: list[tuple[Wire, Wire]] = []
        for number in range(self._approvals):
            pair = await self._connect(2 * number), await self._connect(2 * number + 1)
            for wire in pair:
                assert (await wire.ask(client.get())).status == 200
            wires.append(pair)
        await asyncio.to_thread(self._service.maintain, self._hosts())
        for first, second in wires:
            for wire in (first, second):
                [event] = (await wire.ask(client.get())).json["Events"]
                request = client.approve(event["EventId"])
                if wire is first:
                    assert (await wire.ask(request)).status == 200
                    continue
                began = time.perf_counter()
                accepted = wire.ask(request)
                accepted.add_done_callback(lambda _, began=began: self._accept(began))
                await see_started(first, POLL_SECONDS)
                self._note(_APPROVED, began)
                assert (await accepted).status == 200
            first.close()
            second.close()

    def _hosts(self) -> list[str]:
        return [f"h{number}" for number in range(self._approvals)]

    def _accept(self, began: float) -> None:
        self._note(_ACCEPTED, began)

    def _note(self, what: str, began: float) -> None:
        self.times[what].append((time.perf_counter() - began) * 1000)

    async def _fail(self, number: int) -> None:
        first = 2 * self._approvals + number * CROWD_VMS
        wires = [await self._connect(first + offset) for offset in range(CROWD_VMS)]
        for wire in wires:
            assert (await wire.ask(client.get())).status == 200
        began = time.perf_counter()
        order = asyncio.create_task(
            self._order("/v1/fail", {"kind": "host", "names": [f"big{number}"]})
        )
        await asyncio.gather(*(see_started(wire, CROWD_POLL_SECONDS) for wire in wires))
        self._note(_FAILED, began)
        await order
        for wire in wires:
            wire.close()

    async def _order(self, path: str, body: object) -> None:
        await asyncio.to_thread(self._service.admin, path, body)


async def see_started(wire: Wire, pause: float) -> Reply:
    """Ask until the document shows a started event; return that answer."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            reply = await wire.ask(client.get())
            if b'"EventStatus":"Started"' in reply.body:
                return reply
            await asyncio.sleep(pause)
