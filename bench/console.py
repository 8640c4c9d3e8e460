"""The cost of open consoles: for the operator API's process, and for a VM's requests.

The service has one core. The polling VM shares the other core with the operator API's
process and the viewers, and goes first. Each viewer has a stream, and some also fetch
lists as an open page does.

A 99th percentile changes more with whatever else the machine does than with viewers. So
rounds with and without viewers take turns in one service, and the median of their
differences counts. How much rounds without viewers differ among themselves is the noise:
a bar below it can be neither met nor missed.
"""

import asyncio
import itertools
import json
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from bench import abuse, client, fleets, machine
from bench.report import Report, Table, percentile, rounded
from bench.service import Service, eventually, serving

HOSTS = 400
PER_RACK = 20
VMS_PER_HOST = 5

CHANGES_A_SECOND = 10.0
VIEWERS = 50
CONSOLES = 100
"""Open consoles of which only the streams are counted."""

TOPICS = "campaigns,campaign-hosts,problems,history"
LISTS = ("/v1/waits?limit=200", "/v1/capacity", "/v1/fleet/overview")
PAUSE_SECONDS = 3.0
"""A page fetches a list again after this time while there are changes."""

WARM_SECONDS = 2.0

CHANGES_SHARE_MIN = 0.8
"""With fewer of the changes, because others have the processor, nothing is judged."""

CONSOLES_BAR_PERCENT = 5.0
GET_BAR_MILLISECONDS = 1.0
"""How much later VMs may get their answers, by the 99th percentile."""
SERVICE_BAR_PERCENT = 5.0
"""How much more of its core the process for VMs may need."""


class _Cost(NamedTuple):
    """The cost of some viewers."""

    changes: float
    """Changes a second."""
    api: float
    """Share of a core that the operator API's process needs, in percent."""
    service: float
    """The same of the process for VMs."""
    get: float
    """The 99th percentile of a VM's GETs, in milliseconds."""
    half: float
    """The median of them."""


def measure(report: Report, directory: Path, *, rounds: int, seconds: float) -> None:
    """Measure changes without viewers, with streams, and with streams that fetch lists."""
    print(f"\n{HOSTS} hosts, {CHANGES_A_SECOND:g} changes a second, and open consoles")
    table = Table(
        f"Consoles with {HOSTS} hosts and {CHANGES_A_SECOND:g} changes a second",
        (
            "viewers",
            "changes a second",
            "API process, % of a core",
            "service, %",
            "VM's GET p99, ms",
            "VM's GET p50, ms",
        ),
    )
    kinds = {
        "none": (0, False),
        f"{CONSOLES} streams": (CONSOLES, False),
        f"{VIEWERS} streams that fetch lists": (VIEWERS, True),
    }
    found: dict[str, list[_Cost]] = {what: [] for what in kinds}
    limits = {"metadata_rate_limit": "0"}
    with serving(directory / "console", _fleet(), **limits) as service:
        api = abuse.api_process(service)
        for number in range(rounds):
            turn = list(kinds.items())
            # Growth over time affects each kind equally.
            for what, (viewers, fetches) in turn if number % 2 else reversed(turn):
                cost = _with(service, api, viewers, fetches=fetches, seconds=seconds)
                found[what].append(cost)
    for what, costs in found.items():
        table.rows.append((what, *map(rounded, _median(costs))))
    report.show(table)
    _judge(report, found)


def _judge(report: Report, found: Mapping[str, Sequence[_Cost]]) -> None:
    """Compare rounds with viewers with those without, if the machine was quiet enough."""
    without, streams, pages = found.values()
    noise = _noise([page.get for page in without])
    slowest = min(_median(costs).changes for costs in found.values())
    is_quiet = (
        noise <= GET_BAR_MILLISECONDS
        and slowest >= CHANGES_SHARE_MIN * CHANGES_A_SECOND
    )
    added = _beyond([page.get for page in pages], [page.get for page in without])
    api_added = _beyond(
        [stream.api for stream in streams], [stream.api for stream in without]
    )
    own_added = _beyond(
        [page.service for page in pages], [page.service for page in without]
    )
    report.note(
        f"Consoles: {len(without)} rounds of each kind took turns. The p99 of a VM's GET of two "
        f"rounds without viewers differed by {rounded(noise)} ms (median), and of a round "
        f"with {VIEWERS} viewers from one without by {rounded(added)} ms."
    )
    report.judge(
        f"{CONSOLES} streams: the API's process beyond none",
        api_added if is_quiet else math.nan,
        CONSOLES_BAR_PERCENT,
        "%",
    )
    report.judge(
        f"{VIEWERS} viewers: the service beyond none",
        own_added if is_quiet else math.nan,
        SERVICE_BAR_PERCENT,
        "%",
    )
    report.judge(
        f"{VIEWERS} viewers: p99 of a VM's GET beyond none",
        max(0.0, added) if is_quiet else math.nan,
        GET_BAR_MILLISECONDS,
        "ms",
    )


def _median(costs: Sequence[_Cost]) -> _Cost:
    return _Cost(*map(statistics.median, zip(*costs, strict=True)))


def _beyond(some: Sequence[float], none: Sequence[float]) -> float:
    """Return the median difference of rounds that were next to each other."""
    return statistics.median(a - b for a, b in zip(some, none, strict=True))


def _noise(values: Sequence[float]) -> float:
    """Return the median difference of a value and the one of the round before."""
    return statistics.median(abs(b - a) for a, b in itertools.pairwise(values))


def _fleet() -> str:
    parts: list[str] = []
    for number in range(HOSTS):
        name = f"h{number}"
        rack = number // PER_RACK
        place = f'zone = "1"\ncluster = "c{rack // 5}"\nrack = "r{rack}"\n'
        parts += [fleets.host_text(name), place]
    parts += [
        fleets.vm_text(number, f"h{number % HOSTS}")
        for number in range(HOSTS * VMS_PER_HOST)
    ]
    return "".join(parts)


def _with(
    service: Service,
    api: int,
    viewers: int,
    *,
    fetches: bool,
    seconds: float,
) -> _Cost:
    url = urlsplit(service.operators)
    address = url.hostname or "", url.port or 0
    context = multiprocessing.get_context("spawn")
    changes = context.Value("q", 0)
    crowd = context.Process(
        target=_crowd, args=(address, viewers, fetches, changes), daemon=True
    )
    crowd.start()
    try:
        eventually(
            lambda: changes.value > 0 or not crowd.is_alive(), what="the first change"
        )
        time.sleep(WARM_SECONDS)
        pids = api, service.pid
        counted = changes.value
        before, began = [machine.cpu_seconds(pid) for pid in pids], time.perf_counter()
        with abuse.first_on_its_core(service.pid):
            times = asyncio.run(abuse.poll(service, seconds))
        took = time.perf_counter() - began
        after = [machine.cpu_seconds(pid) for pid in pids]
        assert crowd.is_alive(), "the viewers have failed"
        rate = (changes.value - counted) / took
    finally:
        crowd.kill()
        crowd.join()
    _open_all(service)
    shares = (100 * (b - a) / took for a, b in zip(before, after, strict=True))
    of_api, own = shares
    p99, half = (percentile(times, share) for share in (0.99, 0.5))
    return _Cost(rate, of_api, own, p99, half)


def _open_all(service: Service) -> None:
    """Open the host that was left cordoned, or the next crowd would be refused."""
    left = [
        host["name"] for host in service.pages("/v1/fleet?", "hosts") if host["cordons"]
    ]
    if left:
        service.admin("/v1/host-open", {"hosts": left, "reason": "next round"})


def _crowd(
    address: tuple[str, int],
    viewers: int,
    fetches: bool,  # noqa: FBT001
    changes: "Synchronized[int]",
) -> None:
    """Change hosts, and be the viewers, until the process is killed."""
    machine.pin_this_process()
    os.nice(abuse.ATTACKERS_NICENESS)

    async def all_together() -> None:
        await asyncio.gather(
            _change(address, changes),
            *(_stream(address) for _ in range(viewers)),
            *(_fetch(address) for _ in range(viewers * fetches)),
        )

    asyncio.run(all_together())


async def _change(address: tuple[str, int], changes: "Synchronized[int]") -> None:
    """Cordon and open one host after the other."""
    wire = await client.connect(*address)
    due = time.perf_counter()
    for number in itertools.count():
        verb = "open" if number % 2 else "cordon"
        path = f"/v1/hosts/h{number // 2 % HOSTS}/{verb}"
        body = json.dumps({"reason": "change"}).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        reply = await wire.ask(head.encode() + body)
        assert reply.status == 200, reply
        changes.value += 1
        due += 1 / CHANGES_A_SECOND
        await asyncio.sleep(max(0.0, due - time.perf_counter()))


async def _stream(address: tuple[str, int]) -> None:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(_get(address, f"/v1/watch?topics={TOPICS}"))
    while await reader.read(1 << 16):
        pass
    raise AssertionError("the service ended a stream")


async def _fetch(address: tuple[str, int]) -> None:
    wire = await client.connect(*address)
    while True:
        began = time.perf_counter()
        for path in LISTS:
            reply = await wire.ask(_get(address, path))
            assert reply.status == 200, reply
        left = began + PAUSE_SECONDS - time.perf_counter()
        await asyncio.sleep(max(0.0, left))


def _get(address: tuple[str, int], path: str) -> bytes:
    host = f"{address[0]}:{address[1]}"
    headers = f"Host: {host}\r\nCache-Control: max-age=1\r\n"  # as a page asks
    return f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode()
