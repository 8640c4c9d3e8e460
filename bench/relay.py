"""Relays: 1,000 of them with 100 VMs each in one process, and the GET of one.

The relays are those of `forewarn relay`, without a file. They share an event loop, so the
times include the work of all of them on one core.
"""

import asyncio
import gc
import logging
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from bench import loads, machine
from bench.client import PATH
from bench.peers import free_port
from bench.report import Report, Table, rounded
from bench.service import PATIENCE_SECONDS, Service, direct_get, eventually, serving
from forewarn.protocol.published import Publication
from forewarn.relay.process import Relay
from forewarn.relay.settings import load_settings
from forewarn.service import open_files

VMS_OF_HOST = 100

GET_BAR = 0.9
"""Minimum share of the service's requests per second."""

CHANGE_SECONDS_BAR = 1.0
RECONNECT_SECONDS_BAR = 10.0
SERVICE_MIB_BAR = 1024
RELAY_MIB_BAR = 45

SETTINGS = {"metadata_rate_limit": "0", "log_format": "text"}


def measure(
    report: Report,
    directory: Path,
    *,
    hosts: int,
    changes: int,
    rounds: int,
    seconds: float,
) -> None:
    """Measure the GET, then many relays."""
    directory.mkdir(exist_ok=True)
    _measure_gets(report, directory / "one", rounds=rounds, seconds=seconds)
    _measure_many(report, directory / "many", hosts=hosts, changes=changes)


# The GET of one relay


def _measure_gets(
    report: Report, directory: Path, *, rounds: int, seconds: float
) -> None:
    print(f"\nGET through a relay, {loads.CONNECTIONS} connections")
    directory.mkdir(exist_ok=True)
    fleet = '[[host]]\nname = "h1"\n[[vm]]\nname = "web_0"\nhost = "h1"\n'
    fleet += 'address = "127.0.0.1"\n'
    with serving(directory / "service", fleet, **SETTINGS) as service:
        host, port = service.address
        with _relaying(directory, service, "h1") as (pid, relay):
            urls = {"forewarn serve": f"http://{host}:{port}", "forewarn relay": relay}
            for url in urls.values():
                direct_get(url + PATH)
            service.admin("/v1/reboot", {"vms": ["web_0"], "not_before": "+24h"})
            eventually(
                lambda: b"EventId" in direct_get(relay + PATH), what="a document"
            )
            urls = {name: url + PATH for name, url in urls.items()}
            found = loads.take_turns(urls, rounds=rounds, seconds=seconds)
            used = _memory(pid)
    table = Table("A GET through a relay, keep-alive", ("server", "requests/s"))
    for name, each in found.items():
        table.rows.append(
            (name, rounded(statistics.median(load.rate for load in each)))
        )
    report.show(table)
    ratio = loads.ratio(found["forewarn relay"], found["forewarn serve"])
    report.judge("relay's GET ÷ the service's", ratio, GET_BAR, "x", at_most=False)
    report.judge("memory of a relay", used, RELAY_MIB_BAR, "MiB", at_most=True)


@contextmanager
def _relaying(
    directory: Path, service: Service, host: str
) -> Generator[tuple[int, str]]:
    """Run a relay; yield its process ID and its URL."""
    token = service.admin("/v1/tokens", {"relay": host})["token"]
    (directory / "relay-token").write_text(token, encoding="ascii")
    port = free_port()
    words = (
        f"--url={service.operators}",
        f"--listen=127.0.0.1:{port}",
        "--rate-limit=0",
    )
    log = directory / "relay-log"
    with log.open("wb") as opened:
        process = subprocess.Popen(
            machine.pinned(
                machine.SERVER_CORE, [sys.executable, "-m", "forewarn", "relay", *words]
            ),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=opened,
            stderr=opened,
        )
    try:
        eventually(lambda: "answers the VMs" in log.read_text(), what="a relay")
        yield process.pid, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _memory(*pids: int) -> float:
    """Return the MiB of memory of processes."""
    total = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        (line,) = (each for each in status.splitlines() if each.startswith("VmRSS"))
        total += int(line.split()[1])
    return total / 1024


# Many relays


def _fleet(hosts: int) -> str:
    lines = ['[[scope]]\nname = "all"\nkind = "availability-set"']
    for host in range(hosts):
        lines.append(f'[[host]]\nname = "h{host}"')
        lines += [
            f'[[vm]]\nname = "h{host}_{vm}"\nhost = "h{host}"\n'
            f'address = "10.{host >> 8}.{host & 255}.{vm + 1}"'
            + ("" if vm else '\nscope = "all"')
            for vm in range(VMS_OF_HOST)
        ]
    return "\n".join(lines) + "\n"


def _measure_many(report: Report, directory: Path, *, hosts: int, changes: int) -> None:
    print(f"\n{hosts:,} relays with {VMS_OF_HOST} VMs each")
    directory.mkdir(exist_ok=True)
    open_files.allow()
    # A thousand relays say that the service has gone.
    logging.getLogger("forewarn.relay").setLevel(logging.ERROR)
    settings = {**SETTINGS, "metadata_listen": ""}
    port = free_port()
    settings["admin_listen"] = f"127.0.0.1:{port}"
    service = Service(directory, _fleet(hosts), settings)
    try:
        tokens = [
            service.admin("/v1/tokens", {"relay": f"h{host}"})["token"]
            for host in range(hosts)
        ]
        for host, token in enumerate(tokens):
            (directory / f"token-{host}").write_text(token, encoding="ascii")

        def again() -> None:
            nonlocal service
            service.end()
            service = Service(directory, None, settings)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(
                _Fleet(directory, port, hosts).live(lambda: service, again, changes)
            )
    finally:
        service.end()
    _show(report, found, hosts)


def _show(report: Report, found: "_Found", hosts: int) -> None:
    table = Table(
        f"{hosts:,} relays with {VMS_OF_HOST} VMs each, on one core",
        ("first connection s", "change p50 ms", "change p99 ms", "back s", "MiB"),
    )
    p99 = _at(found.changes, 0.99)
    table.rows.append(
        (
            rounded(found.first),
            rounded(_at(found.changes, 0.5) * 1000),
            rounded(p99 * 1000),
            rounded(found.back),
            rounded(found.used),
        )
    )
    report.show(table)
    table = Table(
        "Processor time of one relay's share, ms",
        ("part", "service", "relay"),
    )
    for part, (service_time, relay_time) in {
        "a change": (found.change_work, found.change_relays),
        "the return": (found.back_work, found.back_relays),
    }.items():
        table.rows.append(
            (
                part,
                rounded(service_time / hosts * 1000),
                rounded(relay_time / hosts * 1000),
            )
        )
    report.show(table)
    report.judge(
        "a change at all relays, p99", p99, CHANGE_SECONDS_BAR, "s", at_most=True
    )
    report.judge(
        "all relays back after a restart of the service",
        found.back,
        RECONNECT_SECONDS_BAR,
        "s",
        at_most=True,
    )
    report.judge(
        "memory of the service with its API",
        found.used,
        SERVICE_MIB_BAR,
        "MiB",
        at_most=True,
    )


def _at(times: Sequence[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


@dataclass(slots=True)
class _Found:
    """Seconds and MiB."""

    first: float = 0.0
    """Until all were connected."""
    changes: list[float] = field(default_factory=list[float])
    """Until a relay had a change."""
    back: float = 0.0
    """Until all had their documents from a restarted service."""
    used: float = 0.0
    """MiB of the service."""
    change_work: float = 0.0
    """Processor time of the service for one change at all relays."""
    change_relays: float = 0.0
    """The same for the relays."""
    back_work: float = 0.0
    back_relays: float = 0.0


class _Fleet:
    """Relays in this process, and when each got a change."""

    def __init__(self, directory: Path, port: int, hosts: int) -> None:
        self._directory = directory
        self._port = port
        self._hosts = hosts
        self._relays: list[Relay] = []
        self._arrived: dict[Relay, float] = {}

    async def live(
        self, service: Callable[[], Service], again: Callable[[], None], changes: int
    ) -> _Found:
        """Connect the relays, change something, and restart the service by `again`."""
        found = _Found()
        begin = time.perf_counter()
        self._relays = [self._relay(host) for host in range(self._hosts)]
        for relay in self._relays:
            await relay.start()
        await self._all(lambda relay: relay.upstream.is_connected)
        found.first = time.perf_counter() - begin
        gc.freeze()
        await self._enable()
        work = _processor(service()), time.process_time()
        for number in range(changes):
            found.changes += await self._change(service(), number)
        found.change_work = (_processor(service()) - work[0]) / changes
        found.change_relays = (time.process_time() - work[1]) / changes
        found.used = _memory(*_processes(service()))
        starts = {relay: _start_of(relay) for relay in self._relays}
        await asyncio.to_thread(again)
        begin, work = time.perf_counter(), (_processor(service()), time.process_time())
        await self._all(lambda relay: _start_of(relay) != starts[relay])
        found.back = time.perf_counter() - begin
        found.back_work = _processor(service()) - work[0]
        found.back_relays = time.process_time() - work[1]
        for relay in self._relays:
            await relay.stop()
        return found

    async def _enable(self) -> None:
        """Request the first document of the shared scope, as its VM would."""
        self._arrived.clear()
        await self._relays[0].desk.enable("h0_0")
        await self._all(lambda relay: relay in self._arrived)

    def _relay(self, host: int) -> Relay:
        flags = {
            "url": f"http://127.0.0.1:{self._port}",
            "token_file": str(self._directory / f"token-{host}"),
            "listen": "127.0.0.1:0",
        }
        draw = random.Random(host).random
        relay = Relay(load_settings(file="", environ={}, flags=flags), draw=draw)
        publish = relay.endpoint.publish

        def published(publication: Publication) -> None:
            publish(publication)
            if publication.views:
                self._arrived.setdefault(relay, time.perf_counter())

        relay.endpoint.publish = published
        return relay

    async def _all(self, is_so: Callable[[Relay], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS * 5):
            while not all(map(is_so, self._relays)):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def _change(self, service: Service, number: int) -> list[float]:
        """Announce the reboot of a VM; return the seconds until each relay had it.

        A VM of each host is in one scope, so the document of all relays changes.
        """
        self._arrived.clear()
        begin = time.perf_counter()
        order = {"vms": [f"h{number}_0"], "not_before": "+24h"}
        await asyncio.to_thread(service.admin, "/v1/reboot", order)
        await self._all(lambda relay: relay in self._arrived)
        return [at - begin for at in self._arrived.values()]


def _start_of(relay: Relay) -> str:
    """Return the process of the service that a relay's documents came from."""
    at = relay.knowledge.position
    return "" if at is None else at.start


def _processes(service: Service) -> list[int]:
    """Return the processes of a service."""
    pid = service.pid
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [pid, *map(int, found.split())]


def _processor(service: Service) -> float:
    """Return the seconds of processor time that a service has used."""
    ticks = 0
    for pid in _processes(service):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
        ticks += sum(map(int, text.rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")
