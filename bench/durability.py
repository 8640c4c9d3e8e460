"""Durable approvals per second from 64 clients.

Each client is a connection of a signing metadata proxy, which can act for many VMs. Two
VMs share each host. The approval of the first VM is only stored; the approval of the
second one also starts the impact.
"""

import asyncio
import hmac
import itertools
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import uvloop

from bench import client, fleets, machine, postgres
from bench.report import Report, Table, percentile, rounded
from bench.service import Service, serving

CLIENTS = 64
SECRET = "bench"

HOSTS_PER_ORDER = 1000
"""Hosts of one request: a large maintenance, approved before the next one starts."""


BAR = 10_000
POSTGRES_BAR = 8_000
"""Approvals a second: one process must decide more than a million VMs send in a bad hour."""


def measure(report: Report, directory: Path, *, hosts: int) -> None:
    """Measure approvals that are only stored, and approvals that start an impact."""
    print(f"\nApprovals, SQLite with synchronous=FULL, {CLIENTS} clients")
    place = directory / "approvals"
    found = _measured(report, place, hosts, "SQLite")
    _check_stored(place / "forewarn.db", 2 * hosts)
    report.judge("durable approvals a second", found.rate, BAR, at_most=False)
    report.judge("durable approvals, p99", percentile(found.times, 0.99), 10, "ms")
    if why := postgres.missing():
        report.note(f"approvals on PostgreSQL were not measured: {why}")
        return
    print(f"\nApprovals, PostgreSQL, one replica, {CLIENTS} clients")
    with postgres.running() as server:
        place = directory / "approvals-postgres"
        found = _measured(report, place, hosts, "PostgreSQL", server)
        stored = server.count("audit", "kind = 'event approved'")
    assert stored == 2 * hosts, f"{stored} of {2 * hosts} approvals are stored"
    what = "durable approvals a second, PostgreSQL"
    report.judge(what, found.rate, POSTGRES_BAR, at_most=False)
    report.judge(f"{what}: p99", percentile(found.times, 0.99), 10, "ms")


def _measured(
    report: Report,
    place: Path,
    hosts: int,
    store: str,
    server: postgres.Server | None = None,
) -> "_Found":
    """Show the figures of one store; return those of approvals that are only stored."""
    place.mkdir()
    (place / "secret").write_text(SECRET, encoding="ascii")
    flush = machine.flush_milliseconds(place)
    settings = {
        "metadata_rate_limit": "1000000",
        "metadata_signed_secret_file": "secret",
        "driver_simulated_reboot": "1h",
    }
    heads = ["what", "a second", "median ms", "p99 ms", "CPU µs of the service"]
    if server is not None:
        settings["store_url"] = server.url
        heads.append("of PostgreSQL")
    title = f"Approvals, {store}; fdatasync of the same disk: {flush:.2f} ms"
    table = Table(title, heads)
    with serving(place, fleets.pairs(hosts), **settings) as service:
        story = _Story(service, server)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(story.run(hosts))
        story.tell(table)
    report.show(table)
    return story.found[_STORED]


def _check_stored(file: Path, count: int) -> None:
    """Check in another process that answered approvals are in the file."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        [[found]] = database.execute(
            "SELECT count(*) FROM audit WHERE kind = 'event approved'"
        )
    assert found == count, f"{found} of {count} approvals are stored"


def signed(number: int) -> dict[str, str]:
    """Return the headers with which the proxy acts for a VM."""
    name = fleets.vm_id(number)
    signature = hmac.new(SECRET.encode(), name.encode(), sha256).hexdigest()
    return {"x-instance-id": name, "x-instance-id-signature": signature}


_ENABLED = "first GET, enabling its scope"
_STORED = "approval, stored"
_ALONE = "the same, one client"
_STARTED = "approval, stored, starts the impact"
_REPEATED = "approval, repeated"


@dataclass(slots=True)
class _Found:
    """The times of one kind of request."""

    times: list[float] = field(default_factory=list[float])
    """Milliseconds until each response."""
    took: float = 0
    """Seconds from the first request to the last response."""
    spent: float = 0
    """Processor time of the service, in seconds."""
    server_spent: float = 0
    """The processor time of PostgreSQL."""

    @property
    def rate(self) -> float:
        """Return the responses per second."""
        return len(self.times) / self.took


class _Story:
    def __init__(self, service: Service, server: postgres.Server | None) -> None:
        self._service, self._server = service, server
        self.found: defaultdict[str, _Found] = defaultdict(_Found)

    async def run(self, hosts: int) -> None:
        await self._measure(
            _ENABLED, [client.get(signed(number)) for number in range(2 * hosts)]
        )
        # One request after the other, as in the maintenance of a large fleet.
        for start in range(0, hosts, HOSTS_PER_ORDER):
            await self._maintain(range(start, min(start + HOSTS_PER_ORDER, hosts)))

    async def _maintain(self, hosts: Sequence[int]) -> None:
        names = [f"h{number}" for number in hosts]
        await asyncio.to_thread(self._service.maintain, names, not_before="+24h")
        posts = await asyncio.to_thread(self._posts)
        first = [posts[2 * number] for number in hosts]
        alone = len(first) // 10
        await self._measure(_ALONE, first[:alone], clients=1)
        await self._measure(_STORED, first[alone:])
        await self._measure(_REPEATED, first)
        await self._measure(_STARTED, [posts[2 * number + 1] for number in hosts])

    def _posts(self) -> dict[int, bytes]:
        """Return the approval of each VM's event that has not started."""
        posts: dict[int, bytes] = {}
        for event in self._service.pages("/v1/events?state=scheduled", "events"):
            [name] = event["Resources"]
            number = int(name.removeprefix("vm_"))
            posts[number] = client.approve(event["EventId"], signed(number))
        return posts

    async def _measure(
        self, what: str, requests: Sequence[bytes], *, clients: int = CLIENTS
    ) -> None:
        before, server_before = self._spent()
        began = time.perf_counter()
        times = await _send(self._service.address, requests, clients)
        took = time.perf_counter() - began
        spent, server_spent = self._spent()
        found = self.found[what]
        found.times += times
        found.took += took
        found.spent += spent - before
        found.server_spent += server_spent - server_before

    def _spent(self) -> tuple[float, float]:
        """Return the processor times of the service and of PostgreSQL so far."""
        server = 0.0 if self._server is None else self._server.cpu_seconds
        return machine.cpu_seconds(self._service.pid), server

    def tell(self, table: Table) -> None:
        """Add the results to the report, in the order of the measurements."""
        for what, found in self.found.items():
            p99 = percentile(found.times, 0.99)
            count = len(found.times)
            row = [
                f"{what} ({count})",
                rounded(found.rate),
                rounded(percentile(found.times, 0.5)),
                rounded(p99),
                rounded(found.spent / count * 1e6),
            ]
            if self._server is not None:
                row.append(rounded(found.server_spent / count * 1e6))
            table.rows.append(row)
            print(f"  {what}: {found.rate:.0f}/s, p99 {p99:.1f} ms", flush=True)


async def _send(
    address: tuple[str, int], requests: Iterable[bytes], clients: int
) -> list[float]:
    """Send all requests, one at a time over each connection; return milliseconds."""
    waiting = iter(requests)
    times: list[float] = []

    async def ask() -> None:
        wire = await client.connect(*address)
        for request in waiting:
            began = time.perf_counter()
            reply = await wire.ask(request)
            times.append((time.perf_counter() - began) * 1000)
            assert reply.status == 200, reply
        wire.close()

    await asyncio.gather(*(ask() for _ in range(clients)))
    return times


async def enable_all(address: tuple[str, int], numbers: Iterable[int]) -> None:
    """Send one request for each VM, so that all scopes are enabled."""
    for some in chunks(numbers, 10_000):
        await _send(address, [client.get(signed(number)) for number in some], CLIENTS)


def chunks(numbers: Iterable[int], size: int) -> Iterable[list[int]]:
    """Yield the numbers in lists of at most `size`."""
    rest = iter(numbers)
    while chunk := list(itertools.islice(rest, size)):
        yield chunk
