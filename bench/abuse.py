"""The effect of attacks on the operator API on a VM's requests: at most a millisecond.

The service has one core. The polling client shares the other core with the operator
API's process and the attackers. So the figures show the effect of shared files, memory,
store and channel, and not of the processor.
"""

import asyncio
import contextlib
import multiprocessing
import os
import time
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

from bench import client, fleets, machine
from bench.report import Report, Table, percentile, rounded
from bench.service import Service, serving

ATTACKERS = 8
HALF_OPEN = 600
"""Connections with an incomplete head, as in the test of this limit."""

BODY_BYTES = 60 << 20
RATE = 200.0
"""GETs per second of the VM."""

BAR_MILLISECONDS = 1.0
SERVICE_BAR_MIB = 40
"""Maximum growth of the service's memory during attacks on its other process."""
API_BAR_MIB = 200

ATTACKERS_NICENESS = 15
WARM_SECONDS = 1.0

_IDLE = "idle"


class _Target:
    def __init__(self, service: Service, token: str) -> None:
        url = urlsplit(service.operators)
        self.host, self.port = url.hostname or "", url.port or 0
        self.token = token

    def head(self, path: str, length: int, token: str = "") -> bytes:
        lines = [
            f"POST {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "Content-Type: application/json",
            f"Content-Length: {length}",
        ]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        return "\r\n".join([*lines, "", ""]).encode()

    async def send(self, head: bytes, piece: bytes, most: int) -> None:
        """Send a head and as much data as the server reads, then wait for the end."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(head)
            for _ in range(0, most, len(piece)):
                writer.write(piece)
                await writer.drain()
            await asyncio.wait_for(reader.read(1), 1)
        except (OSError, TimeoutError):
            pass
        finally:
            writer.transport.abort()


async def _nested(target: _Target) -> None:
    head = target.head("/v1/fleet/apply", BODY_BYTES, target.token)
    await target.send(head, b"[" * 65536, BODY_BYTES)


async def _small(target: _Target) -> None:
    head = target.head("/v1/reboot", 60_000, target.token)
    await target.send(head, b"[]," * 20_000, 60_000)


async def _endless_head(target: _Target) -> None:
    await target.send(b"GET / HTTP/1.1\r\n", b"X-A: b\r\n" * 1000, 4 << 20)


async def _half_open(target: _Target) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(HALF_OPEN // ATTACKERS):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(target.host, target.port)
                stack.callback(writer.transport.abort)
                writer.write(b"GET /v1/operations HTTP/1.1\r\nHost: lo")
        await asyncio.sleep(1)


_ATTACKS = {
    "60 MiB of nested JSON, a tenant's read-only token": _nested,
    "60 KB of empty lists, the same token": _small,
    "endless heads, no token": _endless_head,
    f"{HALF_OPEN} half-sent heads, no token": _half_open,
}


def measure(report: Report, directory: Path, *, seconds: float) -> None:
    """Measure a VM's GETs during each kind of attack on the operator API."""
    print("\nA VM's GETs while the operator API is attacked")
    fleet = fleets.host_text("calm") + fleets.vm_text(0, "calm")
    with serving(directory / "abuse", fleet, metadata_rate_limit="0") as service:
        api = api_process(service)
        token = service.admin("/v1/tokens", {"tenant": "default", "read_only": True})
        target = _Target(service, token["token"])
        before = machine.rss_mib(service.pid)
        times: dict[str, list[float]] = {}
        with first_on_its_core():
            times[_IDLE] = asyncio.run(poll(service, seconds))
        for what in _ATTACKS:
            times[what] = _under(service, target, what, seconds)
        gained = machine.rss_mib(service.pid) - before
        held = machine.rss_mib(api)
    table = Table(
        "A VM's GET beside attacks on the operator API, milliseconds",
        ("attack", "GETs", "median", "p99"),
    )
    idle = percentile(times[_IDLE], 0.99)
    for what, sample in times.items():
        median, most = percentile(sample, 0.5), percentile(sample, 0.99)
        table.rows.append((what, str(len(sample)), rounded(median), rounded(most)))
        if what != _IDLE:
            beyond = max(0.0, most - idle)
            report.judge(f"{what}: p99 beyond idle", beyond, BAR_MILLISECONDS, "ms")
    report.show(table)
    report.judge("attacks: the service gains", gained, SERVICE_BAR_MIB, "MiB")
    report.judge("attacks: RSS of the API's process", held, API_BAR_MIB, "MiB")


def api_process(service: Service) -> int:
    """Move the process of the operator API to the other core; return its ID."""
    children = Path(f"/proc/{service.pid}/task/{service.pid}/children")
    api = int(children.read_text("ascii"))
    for thread in Path(f"/proc/{api}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {machine.LOAD_CORE})
    return api


def _under(service: Service, target: _Target, what: str, seconds: float) -> list[float]:
    """Return the times of a VM's GETs while another process attacks the API."""
    attacker = multiprocessing.get_context("spawn").Process(
        target=_attack, args=(target, what), daemon=True
    )
    attacker.start()
    try:
        time.sleep(WARM_SECONDS)
        with first_on_its_core():
            return asyncio.run(poll(service, seconds))
    finally:
        attacker.kill()
        attacker.join()


@contextlib.contextmanager
def first_on_its_core(*servers: int) -> Generator[None]:
    """Give the client a higher priority if the system allows it, and servers with it.

    Otherwise the figures include the time that the client waits for its core, which it
    shares with the attackers. Other programs on the core of a server delay it too.
    """
    tasks = [
        int(thread.name)
        for pid in servers
        for thread in Path(f"/proc/{pid}/task").iterdir()
    ]
    try:
        for task in (0, *tasks):
            os.sched_setscheduler(task, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        print("  the client shares its core: only root may let it go first")
        yield
        return
    try:
        yield
    finally:
        for task in (0, *tasks):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setscheduler(task, os.SCHED_OTHER, os.sched_param(0))


def _attack(target: _Target, what: str) -> None:
    """Attack until the process is killed."""
    machine.pin_this_process()
    # The VM's client, which shares the core, must not wait for the attackers.
    os.nice(ATTACKERS_NICENESS)
    attack = _ATTACKS[what]

    async def again_and_again() -> None:
        while True:
            await attack(target)

    async def all_together() -> None:
        await asyncio.gather(*[again_and_again() for _ in range(ATTACKERS)])

    asyncio.run(all_together())


async def poll(service: Service, seconds: float) -> list[float]:
    """Return the milliseconds of each GET of a VM that polls at a constant rate."""
    wire = await client.connect(*service.address, source=fleets.address(0))
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        reply = await wire.ask(client.get())
        times.append((time.perf_counter() - began) * 1000)
        assert reply.status == 200, reply
        await asyncio.sleep(1 / RATE)
    wire.close()
    return times
