"""GETs per second, compared with the baselines in alternating rounds."""

import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from bench import loads, machine, peers
from bench.client import PATH
from bench.loads import Load
from bench.peers import Answer, Peer
from bench.report import Report, Table, rounded
from bench.service import Service, direct_get, serving

OURS = "forewarn"
UNCHANGED = "forewarn, 304"

FLEET = """
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
address = "127.0.0.1"
"""


@dataclass(slots=True)
class Rounds:
    """The results of one server in each round."""

    loads: list[Load] = field(default_factory=list[Load])
    cpu_us: list[float] = field(default_factory=list[float])

    @property
    def rate(self) -> float:
        """Return the median of requests per second."""
        return statistics.median(load.rate for load in self.loads)

    @property
    def p99_ms(self) -> float:
        """Return the median of the 99th percentiles."""
        return statistics.median(load.p99_ms for load in self.loads)


def measure(report: Report, directory: Path, *, rounds: int, seconds: float) -> None:
    """Compare keep-alive and new connections."""
    print(f"\nGET, {loads.CONNECTIONS} connections; load by {loads.name()}")
    settings = {"metadata_rate_limit": "1000000"}
    with serving(directory / "service", FLEET, **settings) as service:
        url = "http://{}:{}".format(*service.address) + PATH
        answer = _prepare(service, url)
        with peers.running(answer, directory) as (others, skipped):
            for sentence in skipped:
                report.note(f"a baseline was skipped: {sentence}")
            servers = [Peer(name=OURS, url=url, pid=service.pid), *others]
            unchanged = Peer(name=UNCHANGED, url=url, pid=service.pid)
            kept = _run([*servers, unchanged], answer, rounds, seconds, fresh=False)
            _show(report, "Keep-alive", kept)
            _judge_kept(report, kept)
            new = _run(servers, answer, rounds, seconds, fresh=True)
            _show(report, "A new connection for each request", new)
            _judge_new(report, new)


def _prepare(service: Service, url: str) -> Answer:
    """Publish a document with one event; return the response."""
    direct_get(url)
    order = {"hosts": ["h1"], "impact": "reboot", "not_before": "+24h"}
    service.admin("/v1/maintain", order)
    body = direct_get(url)
    return Answer(body=body, etag='"2"')


def _run(
    servers: list[Peer], answer: Answer, rounds: int, seconds: float, *, fresh: bool
) -> dict[str, Rounds]:
    found: dict[str, Rounds] = defaultdict(Rounds)
    for number in range(rounds):
        # Rotate the order, so that no server always follows the same one.
        turned = servers[number % len(servers) :] + servers[: number % len(servers)]
        for server in turned:
            headers = {"Metadata": "true"}
            if server.name == UNCHANGED:
                headers["If-None-Match"] = answer.etag
            before = machine.cpu_seconds(server.pid)
            load = loads.run(server.url, seconds=seconds, headers=headers, fresh=fresh)
            spent = machine.cpu_seconds(server.pid) - before
            assert load.failures == 0, f"{server.name}: {load.failures} failures"
            found[server.name].loads.append(load)
            found[server.name].cpu_us.append(spent / load.requests * 1e6)
    return {server.name: found[server.name] for server in servers}


def _show(report: Report, title: str, found: dict[str, Rounds]) -> None:
    heads = ("server", "requests/s", "forewarn ÷ it", "median ms", "p99 ms", "CPU µs")
    table = Table(title, heads)
    for name, rounds in found.items():
        table.rows.append(
            (
                name,
                rounded(rounds.rate),
                rounded(_ratio(found, name)),
                rounded(statistics.median(load.median_ms for load in rounds.loads)),
                rounded(rounds.p99_ms),
                rounded(statistics.median(rounds.cpu_us)),
            )
        )
    report.show(table)


def _ratio(found: dict[str, Rounds], other: str, ours: str = OURS) -> float:
    """Return the ratio of both rates: the median of the rounds' ratios."""
    if other not in found:
        return float("nan")
    pairs = zip(found[ours].loads, found[other].loads, strict=True)
    return statistics.median(mine.rate / its.rate for mine, its in pairs)


def _slower(found: dict[str, Rounds], other: str) -> float:
    if other not in found:
        return float("nan")
    pairs = zip(found[OURS].loads, found[other].loads, strict=True)
    return statistics.median(mine.p99_ms / its.p99_ms for mine, its in pairs)


def _judge_kept(report: Report, found: dict[str, Rounds]) -> None:
    def bar(what: str, measured: float, wanted: float, *, at_most: bool) -> None:
        report.judge(what, measured, wanted, "x", at_most=at_most)

    bar("GET keep-alive ÷ nginx", _ratio(found, "nginx"), 0.95, at_most=False)
    go, bare = _ratio(found, "Go net/http"), _ratio(found, "uvicorn, bare ASGI")
    bar("GET keep-alive ÷ Go net/http", go, 1.7, at_most=False)
    bar("GET keep-alive ÷ uvicorn", bare, 1.7, at_most=False)
    bar("p99 of GET keep-alive ÷ nginx", _slower(found, "nginx"), 2, at_most=True)
    unchanged = _ratio(found, OURS, ours=UNCHANGED)
    bar("304 ÷ 200, requests/s", unchanged, 1, at_most=False)


def _judge_new(report: Report, found: dict[str, Rounds]) -> None:
    ratio = _ratio(found, "nginx")
    report.judge("GET, new connections ÷ nginx", ratio, 0.85, "x", at_most=False)
