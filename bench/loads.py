"""Loads on URLs, by wrk if it is installed, else by `generator`."""

import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench import machine

WRK = shutil.which("wrk")
CONNECTIONS = 64

_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
_PERCENTILE = re.compile(r"^\s+(\d+)%\s+([\d.]+)(us|ms|s|m)\s*$", re.MULTILINE)
_RATE = re.compile(r"^Requests/sec:\s+([\d.]+)", re.MULTILINE)
_TOTAL = re.compile(r"^\s*(\d+) requests in", re.MULTILINE)
_BAD = re.compile(r"Non-2xx or 3xx responses: (\d+)")
_ERRORS = re.compile(
    r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The results of a load."""

    rate: float
    """Requests per second."""
    median_ms: float
    p99_ms: float
    requests: int
    failures: int


def name() -> str:
    """Return the name of the load generator, and how to get a better one."""
    if WRK is None:
        return "own asyncio generator (slower than wrk: apt-get install wrk)"
    return machine.version_of(WRK, "-v").partition(" Copyright")[0]


def run(url: str, *, seconds: float, headers: Mapping[str, str], fresh: bool) -> Load:
    """Send requests to `url` over 64 connections; with `fresh`, one per request."""
    sent = {**headers, "Connection": "close"} if fresh else dict(headers)
    return _own(url, seconds, sent) if WRK is None else _wrk(WRK, url, seconds, sent)


def take_turns(
    urls: Mapping[str, str], *, rounds: int, seconds: float
) -> dict[str, list[Load]]:
    """Measure servers in turn, with the GET of a VM; return the results by server.

    Each meets what the machine does at that time, so results of one round compare.
    """
    found: dict[str, list[Load]] = {server: [] for server in urls}
    for _ in range(rounds):
        for server, url in urls.items():
            load = run(url, seconds=seconds, headers={"Metadata": "true"}, fresh=False)
            found[server].append(load)
    return found


def ratio(mine: Sequence[Load], its: Sequence[Load]) -> float:
    """Return the median ratio of the rates of two servers that were measured in turn."""
    pairs = zip(mine, its, strict=True)
    return statistics.median(one.rate / other.rate for one, other in pairs)


def _wrk(wrk: str, url: str, seconds: float, headers: Mapping[str, str]) -> Load:
    command = [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}s", "--latency"]
    for header, value in headers.items():
        command += ["-H", f"{header}: {value}"]
    done = subprocess.run(
        machine.pinned(machine.LOAD_CORE, [*command, url]),
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    return read_wrk(done.stdout)


def read_wrk(text: str) -> Load:
    """Parse the output of wrk."""
    times = {
        int(share): float(number) * _UNITS[unit]
        for share, number, unit in _PERCENTILE.findall(text)
    }
    rate, total = _RATE.search(text), _TOTAL.search(text)
    assert rate is not None, text
    assert total is not None, text
    bad, errors = _BAD.search(text), _ERRORS.search(text)
    failures = int(bad[1]) if bad else 0
    # wrk counts closed connections at the end of the run as read errors.
    failures += sum(int(errors[place]) for place in (1, 3, 4)) if errors else 0
    return Load(
        rate=float(rate[1]),
        median_ms=times[50],
        p99_ms=times[99],
        requests=int(total[1]),
        failures=failures,
    )


def _own(url: str, seconds: float, headers: Mapping[str, str]) -> Load:
    command = [sys.executable, "-m", "bench.generator", url, f"--seconds={seconds}"]
    command += [f"--connections={CONNECTIONS}"]
    command += [f"--header={header}: {value}" for header, value in headers.items()]
    done = subprocess.run(
        machine.pinned(machine.LOAD_CORE, command),
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    return Load(**json.loads(done.stdout))
