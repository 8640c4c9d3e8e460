"""How soon VMs get their documents after a crash.

The service is killed with thousands of open operations, together with the programs of
its driver, as in a power failure. It restarts with a driver whose probes hang. Meanwhile
a VM polls: it gets no connection, then 503, then its document.
"""

import asyncio
import contextlib
import itertools
import json
import os
import shlex
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import uvloop

from bench import client, durability, fleets
from bench.report import Report, Table, rounded
from bench.service import PATIENCE_SECONDS, Service, eventually

CALLS = 4
"""Programs that run during the crash, one per VM."""

OPERATIONS_PER_ORDER = 500
"""VMs of one request, so that its body stays below the limit."""

HOST_IN_IMPACT = "h0"
"""The host whose VMs have running calls during the crash, which the start probes."""

POLL_SECONDS = 0.02

BAR_SECONDS = 5.0

_HANGS = shlex.join(["/bin/sh", "-c", "exec sleep 60", "program", "{vm}"])


def measure(report: Report, directory: Path, *, vms: int, operations: int) -> None:
    """Measure one start with `vms` VMs and as many open operations."""
    print(f"\nA start after a crash: {vms:,} VMs, {operations:,} open operations")
    place = directory / "starts"
    place.mkdir()
    (place / "secret").write_text(durability.SECRET, encoding="ascii")
    settings = {
        "metadata_listen": f"127.0.0.1:{_free_port()}",
        "admin_listen": "127.0.0.1:0",
        "log_format": "text",
        "metadata_rate_limit": "1000000",
        "metadata_signed_secret_file": "secret",
        "timing_reboot_notice": "1s",
        "driver_kind": "command",
        "driver_command_reboot": _HANGS,
        "driver_command_probe": _HANGS,
        "driver_command_observe": _HANGS,
    }
    fleet = fleets.mixed(vms)
    with _killed_in_the_end(Service(place, fleet, settings)) as service:
        asked = _order(service, vms, operations)
        _begin_calls(service, place)
    _kill_programs(place)
    table = Table(
        f"A start after a crash, {vms:,} VMs, {operations:,} open operations, s",
        ("what", "first answer", "first document", "ready", "503s"),
    )
    for name, text in (("the store alone", None), ("the fleet file too", fleet)):
        poll = _Poll(settings["metadata_listen"], asked)
        with _killed_in_the_end(Service(place, text, settings)):
            ready = time.perf_counter() - poll.began
            poll.end()
        refusals = poll.statuses[HTTPStatus.SERVICE_UNAVAILABLE]
        times = map(rounded, (poll.connected, poll.answered, ready))
        table.rows.append((name, *times, str(refusals)))
        what = f"{vms:,} VMs: start after a crash, {name}"
        report.judge(f"{what}: first document", poll.answered, BAR_SECONDS, "s")
        others = poll.statuses.total() - refusals - 1
        report.judge(f"{what}: wrong answers before it", others, 0, "")
    report.show(table)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def _killed_in_the_end(service: Service) -> Generator[Service]:
    try:
        yield service
    finally:
        service.kill()


def _order(service: Service, vms: int, operations: int) -> int:
    """Announce the reboot of VMs without a scope; return one of them."""
    hosts = -(-vms // fleets.VMS_PER_HOST)
    alone = (
        number
        for number in range(vms)
        if (number // fleets.SET_VMS) % 2 and number % hosts
    )
    numbers = list(itertools.islice(alone, operations))
    assert len(numbers) == operations, "too few VMs stand alone"
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(durability.enable_all(service.address, numbers))
    for some in durability.chunks(numbers, OPERATIONS_PER_ORDER):
        names = [f"vm_{number}" for number in some]
        service.admin("/v1/reboot", {"vms": names, "not_before": "+24h"})
    return numbers[0]


def _begin_calls(service: Service, place: Path) -> None:
    """Make the driver run programs that do not end."""
    order = {"hosts": [HOST_IN_IMPACT], "impact": "reboot", "emergency": True}
    service.admin("/v1/maintain", order)
    eventually(
        lambda: len(_programs(place)) >= CALLS,
        what="the programs of the driver",
    )


def _programs(place: Path) -> list[int]:
    """Return the running processes of the driver's programs."""
    found = (place / "forewarn.db.command").glob("*/*.program")
    return [json.loads(text)["pid"] for file in found if (text := file.read_text())]


def _kill_programs(place: Path) -> None:
    """Kill the programs, and before them the processes that record their exits."""
    starts = (place / "forewarn.db.command").glob("*/*.start")
    witnesses = [json.loads(file.read_text())["pid"] for file in starts]
    for pid in [*witnesses, *_programs(place)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class _Poll:
    """A VM with an event, which polls until it gets its document."""

    def __init__(self, where: str, vm: int) -> None:
        self._host, _, port = where.partition(":")
        self._port, self._vm = int(port), vm
        self.began = time.perf_counter()
        self.connected = self.answered = 0.0
        """Seconds until a connection was accepted, and until the document arrived."""
        self.statuses: Counter[int] = Counter()
        """The statuses of all responses; 0: a document without the event."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._thread.join(PATIENCE_SECONDS * 5)
        assert self.answered, f"no document came: {self.statuses}"

    def _run(self) -> None:
        while not self.answered:
            try:
                self._ask()
            except (OSError, HTTPException):
                time.sleep(POLL_SECONDS)

    def _ask(self) -> None:
        wire = HTTPConnection(self._host, self._port, timeout=PATIENCE_SECONDS)
        with contextlib.closing(wire):
            headers = {"Metadata": "true", **durability.signed(self._vm)}
            wire.request("GET", client.PATH, headers=headers)
            answer = wire.getresponse()
            body = answer.read()
            passed = time.perf_counter() - self.began
            self.connected = self.connected or passed
            is_whole = answer.status != HTTPStatus.OK or json.loads(body)["Events"]
            self.statuses[answer.status if is_whole else 0] += 1
            if answer.status == HTTPStatus.OK and is_whole:
                self.answered = passed
        time.sleep(POLL_SECONDS)
