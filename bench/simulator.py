"""The simulator: its GET, compared with the service and a Flask mock, and a virtual day."""

import importlib.util
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench import fleets, loads, machine
from bench.client import PATH
from bench.peers import HERE, free_port
from bench.report import Report, Table, rounded
from bench.service import PATIENCE_SECONDS, direct_get, eventually, serving
from forewarn.control.requests.verbs import DECISIONS
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import Vm
from forewarn.instants import DAY
from forewarn.protocol.published import Publication
from forewarn.store.memory import MemoryStore
from forewarn.verbs.model import VerbRequest
from tests.support.worlds import World

SERVICE, SIMULATOR, MOCK = "forewarn serve", "forewarn simulate", "a mock on Flask"

MOCK_BAR = 30
"""Minimum factor over the requests per second of a Flask mock."""

SERVED_BAR = 0.95
"""Minimum share of the service's requests per second: checking and recording each request
may cost at most 0.35 of the 7 µs of a request."""

DAY_SECONDS_BAR = 30
VMS = 1_000
SCOPE_VMS = 10
OPERATIONS = 10_000

FLEET = """
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
listen = "127.0.0.1:{port}"
"""

_SERVING = re.compile(r"serving +(\S+) at (http://\S+)")


def measure(report: Report, directory: Path, *, rounds: int, seconds: float) -> None:
    """Measure the GET, then the day."""
    _measure_gets(report, directory / "simulator", rounds=rounds, seconds=seconds)
    _measure_day(report)


# GETs


def _measure_gets(
    report: Report, directory: Path, *, rounds: int, seconds: float
) -> None:
    print(f"\nGET of a simulated VM, {loads.CONNECTIONS} connections")
    directory.mkdir(exist_ok=True)
    fleet, port = FLEET.format(port=free_port()), free_port()
    settings = {"metadata_rate_limit": "0", "metadata_listen": ""}
    with (
        serving(directory / "service", fleet, **settings) as service,
        _simulating(directory, FLEET.format(port=port)) as simulated,
        _mocking() as mock,
    ):
        urls = {SERVICE: service.urls["VM web_0"], SIMULATOR: simulated}
        if mock:
            urls[MOCK] = mock
        else:
            report.note(
                "a baseline was skipped: flask is not installed (pip install flask)"
            )
        for url in urls.values():
            direct_get(url + PATH)
        service.admin("/v1/reboot", {"vms": ["web_0"], "not_before": "+24h"})
        urls = {name: url + PATH for name, url in urls.items()}
        found = loads.take_turns(urls, rounds=rounds, seconds=seconds)
    table = Table(
        "A simulator's GET, keep-alive",
        ("server", "requests/s", "simulator ÷ it", "p99 ms"),
    )
    for name, loads_of_server in found.items():
        rate = statistics.median(load.rate for load in loads_of_server)
        p99 = statistics.median(load.p99_ms for load in loads_of_server)
        ratio = loads.ratio(found[SIMULATOR], loads_of_server)
        table.rows.append((name, rounded(rate), rounded(ratio), rounded(p99)))
    report.show(table)
    ratio = loads.ratio(found[SIMULATOR], found[SERVICE])
    report.judge(
        "simulator's GET ÷ the service's", ratio, SERVED_BAR, "x", at_most=False
    )
    ratio = loads.ratio(found[SIMULATOR], found[MOCK]) if mock else float("nan")
    report.judge(
        "simulator's GET ÷ a Flask mock's", ratio, MOCK_BAR, "x", at_most=False
    )


@contextmanager
def _simulating(directory: Path, fleet: str) -> Generator[str]:
    """Run a simulator; yield the URL of its VM."""
    (directory / "simulated.toml").write_text(fleet, encoding="utf-8")
    log = directory / "log"
    words = ("simulate", "--fleet=simulated.toml", "--admin=127.0.0.1:0", "--speed=1")
    with log.open("wb") as opened:
        process = subprocess.Popen(
            machine.pinned(
                machine.SERVER_CORE, [sys.executable, "-m", "forewarn", *words]
            ),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=opened,
            stderr=opened,
        )
    try:
        eventually(lambda: " ready" in log.read_text(), what="a simulator")
        urls = dict(_SERVING.findall(log.read_text()))
        direct_get(urls["web_0"] + PATH)
        environment = ["--url", urls["operators"]]
        order = ["sim", "event", "Reboot", "web_0", "--notice", "24h", *environment]
        subprocess.run(
            [sys.executable, "-m", "forewarn", *order],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        yield urls["web_0"]
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


@contextmanager
def _mocking() -> Generator[str]:
    """Run the mock; yield its URL, or nothing if Flask is not installed."""
    if importlib.util.find_spec("flask") is None:
        yield ""
        return
    port = free_port()
    command = [sys.executable, str(HERE / "mock_imitation.py"), str(port)]
    process = subprocess.Popen(
        machine.pinned(machine.SERVER_CORE, command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return b"Events" in direct_get(url + PATH)
        except OSError:
            return False

    try:
        eventually(answers, what="a mock")
        yield url
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)


# A day


def _measure_day(report: Report) -> None:
    print(f"\nA virtual day: {VMS:,} VMs, {OPERATIONS:,} operations")
    day = _Day()
    begin = time.perf_counter()
    day.live()
    spent = time.perf_counter() - begin
    table = Table("A virtual day", ("operations", "approvals", "GETs", "seconds"))
    cells = (day.ordered, day.approved, day.asked)
    table.rows.append((*(f"{cell:,}" for cell in cells), rounded(spent)))
    report.show(table)
    assert day.ordered == OPERATIONS
    report.judge(
        f"a virtual day of {VMS:,} VMs and {OPERATIONS:,} operations",
        spent,
        DAY_SECONDS_BAR,
        "s",
        at_most=True,
    )


class _Day:
    """A fleet, a client in each scope that polls after each change, and requests."""

    def __init__(self) -> None:
        parts: list[str] = []
        for number in range(VMS):
            scope = f"s{number // SCOPE_VMS}"
            if number % SCOPE_VMS == 0:
                parts.append(fleets.scope_text(scope))
            host, domain = f"h{number}", number % SCOPE_VMS % 3
            parts += [
                fleets.host_text(host),
                fleets.vm_text(number, host, scope, domain),
            ]
        self._world = World(
            store=MemoryStore, driver=SimulatedDriver(), fleet="".join(parts)
        )
        self._client_of: dict[str, str] = {}
        for vm in self._vms():
            self._client_of.setdefault(vm.view, vm.name)
        self._names = [vm.name for vm in self._vms()]
        self._changed: dict[str, None] = {}
        self.ordered = self.approved = self.asked = 0

    def _vms(self) -> list[Vm]:
        return [self._world.stored_vm(f"vm_{number}") for number in range(VMS)]

    def live(self) -> None:
        """Run a day: a request every few seconds, and clients that respond at once."""
        world = self._world
        for name in self._client_of.values():
            world.vm(name).get()
        world.on_publish = self._hear
        begin, gap = world.now, DAY // OPERATIONS
        for number in range(OPERATIONS):
            world.advance_to(begin + number * gap)
            self._answer()
            self._order(number)
            self._answer()
        world.advance_to(begin + DAY)
        self._answer()

    def _hear(self, publication: Publication) -> None:
        for view in publication.views:
            self._changed[view.view_id] = None

    def _order(self, number: int) -> None:
        # Neighbors belong to different scopes, so that the guard never holds an operation.
        place = number * SCOPE_VMS % VMS + number * SCOPE_VMS // VMS % SCOPE_VMS
        name = self._names[place]
        if number % 2:
            verb, given = "reboot", VerbRequest(targets=(name,))
        else:
            verb, given = (
                "maintain",
                VerbRequest(targets=(f"h{place}",), values={"impact": "freeze"}),
            )
        self._world.order(lambda work: DECISIONS[verb](work, given))
        self.ordered += 1

    def _answer(self) -> None:
        while self._changed:
            view = next(iter(self._changed))
            del self._changed[view]
            client = self._world.vm(self._client_of[view])
            self.asked += 1
            events = json.loads(client.get().body)["Events"]
            waiting = [e["EventId"] for e in events if e["EventStatus"] == "Scheduled"]
            if waiting:
                client.approve(*waiting)
                self.approved += len(waiting)
