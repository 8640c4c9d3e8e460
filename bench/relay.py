"""Relays: 1,000 of them with 100 VMs each in one process, and the GET of one.

The relays are those of `forewarn relay`, without a file. They share an event loop, so the
times include the work of all of them on one core.
"""

import asyncio
import gc
import logging
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from bench import loads, machine, watchers
from bench.client import PATH
from bench.peers import free_port
from bench.report import Report, Table, rounded
from bench.service import PATIENCE_SECONDS, Service, direct_get, eventually, serving
from forewarn.protocol.published import Publication
from forewarn.relay.process import Relay
from forewarn.relay.settings import load_settings
from forewarn.service import open_files

VMS_OF_HOST = 100

ENABLED_SHARE = 10
"""One of so many relays is measured again with all of its VMs enabled. To enable 100,000
VMs would take longer than everything else."""

GET_BAR = 0.9
"""Minimum share of the service's requests per second."""

CHANGE_SECONDS_BAR = 1.0
RECONNECT_SECONDS_BAR = 10.0
SERVICE_MIB_BAR = 1024
RELAY_MIB_BAR = 45

RELAY_VMS = 200
"""The VMs of a relay for its memory and its processor time; each polls once a second."""

RELAY_CORE_BAR = 0.5
"""Maximum percentage of a core for them."""

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
    """Measure the GET, then many relays: one VM of each host has Scheduled Events enabled.

    Then a part of them is measured with all VMs enabled, since each of these views is
    looked up when a relay comes back.
    """
    directory.mkdir(exist_ok=True)
    _measure_gets(report, directory / "one", rounds=rounds, seconds=seconds)
    _measure_many(report, directory / "many", hosts=hosts, changes=changes)
    some = max(1, hosts // ENABLED_SHARE)
    _measure_many(
        report, directory / "enabled", hosts=some, changes=changes, enabled=VMS_OF_HOST
    )
    if shutil.which("openssl"):
        files = watchers.certificate(directory)
        _measure_many(
            report, directory / "tls", hosts=hosts, changes=changes, files=files
        )
    else:
        report.note("relays over TLS were not measured: openssl is not installed")


# The GET of one relay


def _measure_gets(
    report: Report, directory: Path, *, rounds: int, seconds: float
) -> None:
    print(f"\nGET through a relay, {loads.CONNECTIONS} connections")
    directory.mkdir(exist_ok=True)
    fleet = '[[host]]\nname = "h1"\n' + "".join(
        f'[[vm]]\nname = "web_{vm}"\nhost = "h1"\naddress = "{_address(vm)}"\n'
        for vm in range(RELAY_VMS)
    )
    with serving(directory / "service", fleet, **SETTINGS) as service:
        host, port = service.address
        with _relaying(directory, service, "h1") as (pid, relay):
            urls = {"forewarn serve": f"http://{host}:{port}", "forewarn relay": relay}
            for url in urls.values():
                direct_get(url + PATH)
            asyncio.run(_Polling(relay, pid).poll(seconds=1))
            vms = [f"web_{vm}" for vm in range(RELAY_VMS)]
            service.admin("/v1/reboot", {"vms": vms, "not_before": "+24h"})
            eventually(
                lambda: b"EventId" in direct_get(relay + PATH), what="a document"
            )
            urls = {name: url + PATH for name, url in urls.items()}
            found = loads.take_turns(urls, rounds=rounds, seconds=seconds)
            share = asyncio.run(_Polling(relay, pid).poll(seconds=POLLED_SECONDS))
            used = _memory(pid)
    table = Table("A GET through a relay, keep-alive", ("server", "requests/s"))
    for name, loads_of_server in found.items():
        table.rows.append(
            (name, rounded(statistics.median(load.rate for load in loads_of_server)))
        )
    report.show(table)
    ratio = loads.ratio(found["forewarn relay"], found["forewarn serve"])
    report.judge("relay's GET ÷ the service's", ratio, GET_BAR, "x", at_most=False)
    relay_name = f"a relay with {RELAY_VMS} VMs"
    report.judge(f"{relay_name}: RSS", used, RELAY_MIB_BAR, "MiB", at_most=True)
    report.judge(
        f"{relay_name} that poll: of a core", share, RELAY_CORE_BAR, "%", at_most=True
    )


def _address(vm: int) -> str:
    """Return the address of a VM of the relay, on loopback."""
    return f"127.0.0.{vm + 1}"


POLLED_SECONDS = 20
"""Time for which the VMs of a relay poll: the processor time has a resolution of 10 ms."""


class _Polling:
    """The VMs of a relay, each of which polls once a second over a kept connection."""

    def __init__(self, url: str, pid: int) -> None:
        """Use the relay at `url`, which is the process `pid`."""
        self._port = int(url.rpartition(":")[2])
        self._pid = pid

    async def poll(self, *, seconds: int) -> float:
        """Poll for some seconds; return the percentage of a core that the relay used."""
        before = machine.cpu_seconds(self._pid)
        await asyncio.gather(*(self._vm(vm, seconds) for vm in range(RELAY_VMS)))
        return (machine.cpu_seconds(self._pid) - before) / seconds * 100

    async def _vm(self, vm: int, seconds: int) -> None:
        # Spread over the second, as the polls of real VMs are.
        await asyncio.sleep(vm / RELAY_VMS)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, local_addr=(_address(vm), 0)
        )
        for _ in range(seconds):
            writer.write(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n{_HEADER}\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head, head
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            await reader.readexactly(length)
            await asyncio.sleep(1)
        writer.close()


_HEADER = "Metadata: true\r\n"


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
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
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


def _measure_many(
    report: Report,
    directory: Path,
    *,
    hosts: int,
    changes: int,
    files: tuple[Path, Path] | None = None,
    enabled: int = 1,
) -> None:
    """Measure relays; `files` are a certificate and its key, if they use TLS.

    `enabled` VMs of each host have Scheduled Events enabled.
    """
    title = f"{hosts:,} relays" + (" over TLS" if files else "")
    if enabled > 1:
        title += f" with {enabled} VMs enabled"
    print(f"\n{title}, with {VMS_OF_HOST} VMs each")
    directory.mkdir(exist_ok=True)
    open_files.allow()
    # A thousand relays say that the service has gone.
    logging.getLogger("forewarn.relay").setLevel(logging.ERROR)
    settings = {**SETTINGS, "metadata_listen": ""}
    port = free_port()
    settings["admin_listen"] = f"127.0.0.1:{port}"
    ca_file = None
    if files:
        ca_file, key = files
        settings |= {"admin_tls_certificate": str(ca_file), "admin_tls_key": str(key)}
    service = Service(directory, _fleet(hosts), settings, ca_file=ca_file)
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
            service = Service(directory, None, settings, ca_file=ca_file)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(
                _Fleet(
                    directory, service.operators, hosts, ca_file, enabled=enabled
                ).live(lambda: service, again, changes)
            )
    finally:
        service.end()
    _show(report, found, title, hosts)


def _show(report: Report, found: "_Found", title: str, hosts: int) -> None:
    table = Table(
        f"{title}, with {VMS_OF_HOST} VMs each, on one core",
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
        f"{title}: processor time of one relay's share, ms",
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
        f"{title}: a change at all, p99", p99, CHANGE_SECONDS_BAR, "s", at_most=True
    )
    report.judge(
        f"{title}: all back after a restart of the service",
        found.back,
        RECONNECT_SECONDS_BAR,
        "s",
        at_most=True,
    )
    report.judge(
        f"{title}: memory of the service with its API",
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

    def __init__(
        self,
        directory: Path,
        url: str,
        hosts: int,
        ca_file: Path | None,
        *,
        enabled: int,
    ) -> None:
        self._directory = directory
        self._enabled = enabled
        self._url = url
        self._hosts = hosts
        self._ca_file = ca_file
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
        """Request the first document of the shared scope, and of others, as VMs would."""
        self._arrived.clear()
        await self._relays[0].gateway.enable("h0_0")
        await self._all(lambda relay: relay in self._arrived)
        for host, relay in enumerate(self._relays):
            vms = [f"h{host}_{vm}" for vm in range(1, self._enabled)]
            await asyncio.gather(*map(relay.gateway.enable, vms))
            views = relay.knowledge.views.values()
            assert sum(view.enabled for view in views) == self._enabled

    def _relay(self, host: int) -> Relay:
        flags = {
            "url": self._url,
            "token_file": str(self._directory / f"token-{host}"),
            "listen": "127.0.0.1:0",
        }
        if self._ca_file:
            flags["ca_file"] = str(self._ca_file)
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
