"""How long two replicas on PostgreSQL do not decide when the one that leads ends.

A probe asks the replica that follows: a POST that it cannot pass on gets 503, so the
longest time between two other answers is what a fail-over or a hand-over takes. A VM asks
it for its document meanwhile. Then VMs approve at the leader, and ask the other replica
until it shows that. PostgreSQL flushes its commits to a disk.
"""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import pairwise
from pathlib import Path

import uvloop

from bench import client, fleets, pairs, postgres
from bench.client import Wire
from bench.latency import see_started
from bench.pairs import LEASE_SECONDS, Pair
from bench.report import Report, Table, percentile, rounded
from bench.service import Service, eventually

PROBE_SECONDS = 0.01
POLL_SECONDS = 0.001
"""Pause between two questions whether the other replica shows an approval."""

SETTLED_SECONDS = 1.0
"""After both replicas are ready, before the next leader ends."""

ANSWER_SECONDS = 10.0

HEADERS = {"Metadata": "true", "Content-Type": "application/json"}

BODY = '{"StartRequests": [{"EventId": "00000000-0000-4000-8000-000000000000"}]}'
"""The approval of an event that does not exist: the leader refuses it."""


def measure(
    report: Report, directory: Path, *, sizes: Sequence[int], rounds: int, changes: int
) -> None:
    """Measure fail-overs and hand-overs with fleets of some sizes, and following."""
    if why := postgres.missing():
        report.note(f"replicas were not measured: {why}")
        return
    print("\nReplicas on PostgreSQL")
    for hosts in sizes:
        place = directory / f"replicas-{hosts}"
        fleet = fleets.pairs(hosts)
        with (
            postgres.running() as server,
            pairs.running(place, server.url, fleet) as pair,
        ):
            _measure_ends(report, pair, hosts, rounds)
    place = directory / "following"
    with (
        postgres.running() as server,
        pairs.running(place, server.url, fleets.pairs(changes)) as pair,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        times = runner.run(_follow(pair, changes))
    table = Table(
        "From the answer of the leader to the same at the other replica, milliseconds",
        ("what", "median", "p99", "longest"),
    )
    cells = percentile(times, 0.5), percentile(times, 0.99), max(times)
    table.rows.append((f"an approval ({len(times)})", *map(rounded, cells)))
    report.show(table)
    report.judge("the other replica serves an approval, p99", cells[1], 100, "ms")


async def _follow(pair: Pair, hosts: int) -> list[float]:
    """Approve at the leader; return how long the follower serves the old status."""
    times: list[float] = []
    wires: list[tuple[Wire, Wire, Wire]] = []
    for number in range(hosts):
        first, last = fleets.address(2 * number), fleets.address(2 * number + 1)
        made = (
            await client.connect(*pair.leader.address, source=first),
            await client.connect(*pair.leader.address, source=last),
            await client.connect(*pair.follower.address, source=last),
        )
        for wire in made[:2]:
            assert (await wire.ask(client.get())).status == 200
        wires.append(made)
    names = [f"h{number}" for number in range(hosts)]
    await asyncio.to_thread(pair.leader.maintain, names)
    for first, last, here in wires:
        for wire in (first, last):
            [event] = (await wire.ask(client.get())).json["Events"]
            reply = await wire.ask(client.approve(event["EventId"]))
            assert reply.status == 200, reply
        answered = time.perf_counter()
        await see_started(here, POLL_SECONDS)
        times.append((time.perf_counter() - answered) * 1000)
        for wire in (first, last, here):
            wire.close()
    return times


@dataclass(slots=True)
class _Probe:
    """Asks one replica for decisions and documents, until `end` is called."""

    service: Service
    decided: list[float] = field(default_factory=list[float])
    """When an answer to a POST came that a leader decided."""
    gets: int = 0
    failed: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Ask until `end` is called."""
        address = self.service.address
        while not self._over.wait(PROBE_SECONDS):
            if _status(address, "POST", BODY) in {200, 400}:
                self.decided.append(time.perf_counter())
            self.gets += 1
            self.failed += _status(address, "GET", None) != 200

    def until_decided(self, began: float) -> float:
        """Return the longest time without a decision since just before `began`."""

        def is_over() -> bool:
            return bool(self.decided) and self.decided[-1] > began + SETTLED_SECONDS

        # The last decisions of the old leader come before the pause.
        eventually(is_over, what="a decision after the end of the leader")
        after = [at for at in self.decided if at >= began - SETTLED_SECONDS]
        return max(two - one for one, two in pairwise(after))

    def end(self) -> None:
        self._over.set()


def _status(address: tuple[str, int], method: str, body: str | None) -> int:
    """Return the status of the answer to a VM; 0: there is none."""
    link = HTTPConnection(
        *address, timeout=ANSWER_SECONDS, source_address=(fleets.address(0), 0)
    )
    try:
        link.request(method, client.PATH, body, HEADERS)
        answer = link.getresponse()
        answer.read()
    except (OSError, HTTPException):
        return 0
    else:
        return answer.status
    finally:
        link.close()


def _measure_ends(report: Report, pair: Pair, hosts: int, rounds: int) -> None:
    times: dict[str, list[float]] = {"kill -9": [], "SIGTERM": []}
    gets = failed = 0
    for number in range(2 * rounds):
        what = "SIGTERM" if number % 2 else "kill -9"
        probe = _Probe(pair.follower)
        thread = threading.Thread(target=probe.run)
        thread.start()
        eventually(lambda p=probe: bool(p.decided), what="a first decision")
        time.sleep(SETTLED_SECONDS)
        began = time.perf_counter()
        if what == "SIGTERM":
            pair.leader.end()
        else:
            pair.leader.kill()
        times[what].append(probe.until_decided(began))
        probe.end()
        thread.join()
        gets, failed = gets + probe.gets, failed + probe.failed
        pair.replace()
    table = Table(
        f"Until another replica decides: {hosts:,} hosts, lease {LEASE_SECONDS} s,"
        f" {rounds} times each",
        ("how the leader ends", "median s", "p90 s", "maximum s"),
    )
    for what, found in times.items():
        cells = (percentile(found, 0.5), percentile(found, 0.9), max(found))
        table.rows.append((what, *map(rounded, cells)))
    report.show(table)
    report.note(
        f"while leaders of {hosts:,} hosts ended, the other replica answered"
        f" {gets - failed} of {gets} GETs with the document"
    )
    killed, ended = times["kill -9"], times["SIGTERM"]
    of = f"{hosts:,} hosts"
    report.judge(f"{of}: fail-over by kill, p90", percentile(killed, 0.9), 3.0, "s")
    report.judge(f"{of}: planned hand-over, p90", percentile(ended, 0.9), 0.5, "s")
    report.judge(f"{of}: GETs without a document meanwhile", failed, 0)
