"""The worlds of the test kit: the start time of one, the memory of a thousand."""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
import urllib.request

from bench import machine
from bench.report import Report, Table, rounded

NEXT_BAR_MS = 5.0
"""A world with three VMs, each at a real address; not the first of its process."""

TEST_BAR_MS = 50.0
"""A test of five lines: a world, a client, a Preempt, its approval, the end."""

RSS_BAR_MIB = 150.0
WORLDS = 1_000
FILES_EACH = 3
SPARE_FILES = 200
"""Open files in addition to the listeners."""


def measure(report: Report, *, rounds: int) -> None:
    """Start worlds in another process, so that its memory is only theirs."""
    worlds = _affordable(report)
    print(f"\n{worlds:,} worlds of three VMs in one process")
    done = subprocess.run(
        [sys.executable, "-m", "bench.worlds", str(rounds), str(worlds)],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)
    table = Table("Worlds of the test kit", ("what", "measured"))
    table.rows += [
        ("import and first world, ms", rounded(found["first"])),
        ("next world, median ms", rounded(found["next"])),
        ("its end, median ms", rounded(found["end"])),
        ("a test with an approval, median ms", rounded(found["test"])),
        (f"RSS of {worlds:,} worlds and Python, MiB", rounded(found["rss"])),
        ("RSS of a world, KiB", rounded(found["rss_each"])),
    ]
    report.show(table)
    report.judge("A world after the first, median", found["next"], NEXT_BAR_MS, "ms")
    report.judge("A test of five lines, median", found["test"], TEST_BAR_MS, "ms")
    what = f"{worlds:,} worlds in one process: RSS"
    report.judge(what, found["rss"], RSS_BAR_MIB * worlds / WORLDS, "MiB")


def _affordable(report: Report) -> int:
    """Return the number of worlds that the limit of open files allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WORLDS * FILES_EACH + SPARE_FILES
    if most == resource.RLIM_INFINITY or most >= wanted:
        return WORLDS
    report.note(f"worlds: {WORLDS:,} need `ulimit -Hn` of {wanted}; it is {most}")
    return (most - SPARE_FILES) // FILES_EACH


def _run(rounds: int, worlds: int) -> dict[str, float]:
    began = time.perf_counter()
    from forewarn.testing import ScheduledEvents  # noqa: PLC0415 - it is measured

    first = ScheduledEvents()
    found = {"first": _ms(began)}
    nexts: list[float] = []
    ends: list[float] = []
    tests: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        world = ScheduledEvents()
        nexts.append(_ms(began))
        began = time.perf_counter()
        world.close()
        ends.append(_ms(began))
        began = time.perf_counter()
        with ScheduledEvents() as world:
            vm = world.vm("web_0")
            event = vm.preempt()
            _approve(vm.events_url)
            event.wait_for_approval()
        tests.append(_ms(began))
    before = machine.rss_mib(os.getpid())
    many = [ScheduledEvents() for _ in range(worlds)]
    found |= {
        "next": statistics.median(nexts),
        "end": statistics.median(ends),
        "test": statistics.median(tests),
        "rss": machine.rss_mib(os.getpid()),
        "rss_each": (machine.rss_mib(os.getpid()) - before) * 1024 / worlds,
    }
    for world in [first, *many]:
        world.close()
    return found


def _ms(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def _approve(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Metadata": "true"}
    with opener.open(urllib.request.Request(url, headers=headers)) as answer:
        [event] = json.load(answer)["Events"]
    body = json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}).encode()
    opener.open(urllib.request.Request(url, data=body, headers=headers)).close()


if __name__ == "__main__":
    print(json.dumps(_run(int(sys.argv[1]), int(sys.argv[2]))))
