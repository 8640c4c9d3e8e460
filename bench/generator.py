"""The load generator without wrk: connections that send requests without pauses."""

import argparse
import asyncio
import json
import time
from urllib.parse import urlsplit

import uvloop

from bench import client
from bench.report import percentile


def main() -> None:
    """Read the arguments, send requests, and print the results as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--header", action="append", default=[])
    wanted = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(_run(wanted))))


async def _run(wanted: argparse.Namespace) -> dict[str, float]:
    url = urlsplit(str(wanted.url))
    host, port = url.hostname or "", url.port or 80
    lines: list[str] = wanted.header
    headers = dict(line.split(": ", 1) for line in lines)
    headers.pop("Metadata", None)
    fresh = headers.get("Connection") == "close"
    request = client.get(headers, path=f"{url.path}?{url.query}")
    times: list[float] = []
    failures = 0
    end = time.perf_counter() + wanted.seconds

    async def ask() -> None:
        nonlocal failures
        wire = None if fresh else await client.connect(host, port)
        while (began := time.perf_counter()) < end:
            current = wire or await client.connect(host, port)
            reply = await current.ask(request)
            times.append(time.perf_counter() - began)
            failures += reply.status >= 400
            if wire is None:
                current.close()

    began = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(wanted.connections)))
    return {
        "rate": len(times) / (time.perf_counter() - began),
        "median_ms": percentile(times, 0.5) * 1000,
        "p99_ms": percentile(times, 0.99) * 1000,
        "requests": len(times),
        "failures": failures,
    }


if __name__ == "__main__":
    main()
