"""How long two replicas on PostgreSQL do not decide when the one that leads ends.

A probe asks the replica that follows: a POST that it cannot pass on gets 503, so the
longest time between two other answers is what a fail-over or a hand-over takes. A VM asks
it for its document meanwhile. PostgreSQL flushes its commits to a disk.
"""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import pairwise
from pathlib import Path

from bench import client, fleets, postgres
from bench.report import Report, Table, percentile, rounded
from bench.service import Service, eventually

HOSTS = 100
PROBE_SECONDS = 0.01
LEASE_SECONDS = 3
SETTLED_SECONDS = 1.0
"""After both replicas are ready, before the next leader ends."""

ANSWER_SECONDS = 10.0

HEADERS = {"Metadata": "true", "Content-Type": "application/json"}

BODY = '{"StartRequests": [{"EventId": "00000000-0000-4000-8000-000000000000"}]}'
"""The approval of an event that does not exist: the leader refuses it."""


def measure(report: Report, folder: Path, *, rounds: int) -> None:
    """Measure fail-overs and hand-overs."""
    if why := postgres.missing():
        report.note(f"replicas were not measured: {why}")
        return
    place = folder / "replicas"
    place.mkdir()
    print("\nReplicas on PostgreSQL")
    with postgres.running() as server:
        _measure_ends(report, place, server.url, rounds)


class _Pair:
    """Two replicas, one of which leads."""

    def __init__(self, place: Path, url: str, fleet: str, more: dict[str, str]) -> None:
        self._place, self._fleet = place, fleet
        self._settings = {
            "store_url": url,
            "metadata_listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "metadata_rate_limit": "1000000",
            "driver_simulated_reboot": "1h",
            "cluster_lease": f"{LEASE_SECONDS}s",
            "log_format": "text",
            **more,
        }
        self._made = 0
        self.leader = self._new()
        self.follower = self._new()

    def _new(self) -> Service:
        self._made += 1
        name = f"r{self._made}"
        settings = {**self._settings, "cluster_name": name}
        return Service(self._place / name, self._fleet, settings)

    def replace(self) -> None:
        """The other replica leads now; let a new one follow."""
        self.leader, self.follower = self.follower, self._new()

    def end(self) -> None:
        """Stop both."""
        self.follower.end()
        self.leader.end()


@contextmanager
def _pair(place: Path, url: str, fleet: str, **more: str) -> Generator[_Pair]:
    pair = _Pair(place, url, fleet, more)
    try:
        yield pair
    finally:
        pair.end()


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


def _measure_ends(report: Report, place: Path, url: str, rounds: int) -> None:
    times: dict[str, list[float]] = {"kill -9": [], "SIGTERM": []}
    gets = failed = 0
    with _pair(place, url, fleets.pairs(HOSTS)) as pair:
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
        f"Until another replica decides, lease {LEASE_SECONDS} s, {rounds} times each",
        ("how the leader ends", "median s", "p90 s", "maximum s"),
    )
    for what, found in times.items():
        cells = (percentile(found, 0.5), percentile(found, 0.9), max(found))
        table.rows.append((what, *map(rounded, cells)))
    report.show(table)
    report.note(
        f"while leaders ended, the other replica answered {gets - failed} of {gets} GETs"
        " with the document"
    )
    killed, ended = times["kill -9"], times["SIGTERM"]
    report.judge("fail-over by kill, p90", percentile(killed, 0.9), 3.0, "s")
    report.judge("planned hand-over, p90", percentile(ended, 0.9), 0.5, "s")
    report.judge("GETs without a document meanwhile", failed, 0)
