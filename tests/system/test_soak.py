"""A simulator with all faults, many clients and a busy operator keeps working.

A usual run takes half a minute; `pytest tests/system --soak-seconds=600` is longer.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from forewarn.sim.faults.fault import FAULTS
from tests.support.processes import eventually, http

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.timeout(0),
    pytest.mark.amounts,
]

VMS = 8
CLIENTS = 64

POLL_SECONDS = 0.05
PATIENCE_SECONDS = 0.5
PIECE = 65_536

WARM_SHARE = 0.3
"""Share of the time after which memory must hardly grow."""

GROWTH_KIB_MAX = 24 * 1024
"""Limited collections fill up: journal, history, remembered documents."""

SERVED = re.compile(r"serving +(\S+) at (http://[0-9.:]+)")

REQUEST = (
    b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n"
    b"Host: x\r\nMetadata: true\r\n\r\n"
)


def faults_file(directory: Path) -> Path:
    """Write a playbook of every kind, for all VMs, over and over."""
    steps = [
        f"{kind.name} {kind.argument.example}" if kind.argument else kind.name
        for kind in FAULTS.values()
        if kind.name not in {"replace", "delay", "slow"}
    ]
    steps += ["delay 100ms", "slow 90/10ms", "ok x5"]
    listed = ", ".join(f'"{step}"' for step in steps)
    file = directory / "faults.toml"
    file.write_text(f"[[fault]]\nplaybook = [{listed}]\nloop = true\n")
    return file


async def poll(address: str, until: float, counts: Counter[str]) -> None:
    """Run a client that reconnects after errors."""
    host, _, port = address.removeprefix("http://").partition(":")
    while time.monotonic() < until:
        writer = None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                reader, writer = await asyncio.open_connection(host, int(port))
            while time.monotonic() < until:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    writer.write(REQUEST)
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = re.search(rb"Content-Length: (\d+)", head)
                    await reader.readexactly(int(length[1]) if length else 0)
                counts[head[9:12].decode()] += 1
                await asyncio.sleep(POLL_SECONDS)
        except (OSError, EOFError, TimeoutError) as error:
            counts[type(error).__name__] += 1
        finally:
            if writer is not None:
                writer.close()


async def crowd(addresses: list[str], until: float) -> Counter[str]:
    counts: Counter[str] = Counter()
    polls = (
        poll(addresses[number % len(addresses)], until, counts)
        for number in range(CLIENTS)
    )
    await asyncio.gather(*polls)
    return counts


def operate(base: str, until: float, statuses: Counter[int]) -> None:
    """Use the operator API all the time: events, faults, approvals, the journal."""
    pause = threading.Event()
    number = 0
    while time.monotonic() < until:
        number += 1
        vm = f"web_{number % VMS}"
        event = {"type": "Reboot", "vms": [vm], "notice": "2s"}
        orders: list[tuple[str, object]] = [
            ("sim/events", event),
            ("sim/faults", {"vms": [vm], "faults": "500 x3, refuse, ok"}),
            ("sim/clock", {"do": "jump", "by": "20s"}),
            ("sim/journal", None),
            ("operations", None),
        ]
        if number % 20 == 0:
            orders.append(("sim/faults/clear", {"vms": [vm]}))
        for path, body in orders:
            status, _ = http(f"{base}/v1/{path}", body)
            statuses[status] += 1
        pause.wait(POLL_SECONDS)


def resident_kib(pid: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def test_memory_stays_bounded_without_spontaneous_errors(
    tmp_path: Path, soak_seconds: int
) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "forewarn", "simulate", "--plain"]
        command += ["--vms", str(VMS), "--faults", str(faults_file(tmp_path))]
        command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        text = eventually(
            log.read_text,
            lambda text: " ready" in text or process.poll() is not None,
            what="a ready simulator",
        )
        served = dict(SERVED.findall(text))
        base = served.pop("operators")
        assert len(served) == VMS, text
        began = time.monotonic()
        until = began + soak_seconds
        statuses: Counter[int] = Counter()
        operator = threading.Thread(target=operate, args=(base, until, statuses))
        operator.start()
        warm = began + soak_seconds * WARM_SHARE
        counts = asyncio.run(crowd([*served.values()], warm))
        middle = resident_kib(process.pid)
        counts += asyncio.run(crowd([*served.values()], until))
        operator.join()
        grown = resident_kib(process.pid) - middle
        assert process.poll() is None, log.read_text()[-2_000:]
        rounds = counts["410"]
        assert rounds > CLIENTS, f"the playbook stands still: {counts}"
        assert grown < GROWTH_KIB_MAX, f"{grown} KiB more after the first third"
        assert {"200", "400", "404", "410", "429", "500", "503"} <= {*counts}, counts
        assert {"TimeoutError", "ConnectionResetError"} <= {*counts}, counts
        assert not [status for status in statuses if status >= 500], statuses
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_SECONDS * 40)
    finally:
        process.kill()
        process.wait()
    log_text = log.read_text()
    assert "Traceback" not in log_text, log_text[-4_000:]
    assert process.returncode in {0, 130, -signal.SIGINT}, log_text[-2_000:]
