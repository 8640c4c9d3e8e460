"""The cost of a large fleet: memory, start, a request, a change of its file."""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from bench import client, durability, fleets, machine
from bench.report import Report, Table, percentile, rounded
from bench.service import Service, serving

ORDERS = 30
"""Number of requests of each size for a median."""

IDLE_VMS = 100

PROBE_SECONDS = 0.001
"""Pause between two GETs while a fleet file is applied: 1,000 per second."""

SLOW_MS = 50.0


@dataclass(slots=True)
class Cost:
    """The cost of a fleet of one size."""

    first_load: float = 0.0
    start: float = 0.0
    start_with_file: float = 0.0
    rss: float = 0.0
    rss_enabled: float = 0.0
    rss_peak: float = 0.0
    store_mib: float = 0.0
    apply_unchanged: float = 0.0
    apply: float = 0.0
    gets: list[float] = field(default_factory=list[float])
    orders: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    @property
    def slowest_verb(self) -> float:
        """Return the median of the slowest verb."""
        return max(statistics.median(times) for times in self.orders.values())


def measure(report: Report, directory: Path, *, sizes: list[int]) -> None:
    """Measure fleets of these sizes, and an idle service."""
    print("\nFleets of ten VMs a host, half alone, half in sets of ten; SQLite")
    costs = {size: _cost(directory / f"scale-{size}", size) for size in sizes}
    _show(report, costs)
    largest = max(sizes)
    cost, what = costs[largest], f"{largest:,} VMs"
    report.judge(f"{what}: RSS, all of them enabled", cost.rss_enabled, 400, "MiB")
    report.judge(f"{what}: start", cost.start, 5, "s")
    report.judge(f"{what}: start with --fleet, unchanged", cost.start_with_file, 5, "s")
    report.judge(f"{what}: the slowest verb, median", cost.slowest_verb, 50, "ms")
    report.judge(f"{what}: fleet apply of one change", cost.apply, 5, "s")
    report.judge(f"{what}: slowest GET meanwhile", max(cost.gets), SLOW_MS, "ms")
    report.judge(f"idle with {IDLE_VMS} VMs: RSS", _idle(directory / "idle"), 75, "MiB")


def _idle(directory: Path) -> float:
    with serving(directory, fleets.mixed(IDLE_VMS)) as service:
        return machine.rss_mib(service.pid)


def _settings(directory: Path) -> dict[str, str]:
    directory.mkdir(exist_ok=True)
    (directory / "secret").write_text(durability.SECRET, encoding="ascii")
    return {
        "metadata_signed_secret_file": "secret",
        "metadata_rate_limit": "1000000",
        "driver_simulated_reboot": "1h",
    }


def _cost(directory: Path, vms: int) -> Cost:
    cost, settings, fleet = Cost(), _settings(directory), fleets.mixed(vms)
    print(f"  {vms} VMs: first load", flush=True)
    began = time.perf_counter()
    with serving(directory, fleet, **settings) as service:
        cost.first_load = time.perf_counter() - began
        print("  enabling all", flush=True)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(durability.enable_all(service.address, range(vms)))
    cost.store_mib = (directory / "forewarn.db").stat().st_size / (1 << 20)
    print("  starting again", flush=True)
    began = time.perf_counter()
    with serving(directory, fleet, **settings):
        cost.start_with_file = time.perf_counter() - began
    began = time.perf_counter()
    with serving(directory, None, **settings) as service:
        cost.start = time.perf_counter() - began
        cost.rss = machine.rss_mib(service.pid)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(durability.enable_all(service.address, range(vms)))
        cost.rss_enabled = machine.rss_mib(service.pid)
        print("  orders", flush=True)
        _give_orders(service, cost, vms)
        print("  fleet apply", flush=True)
        _apply(service, cost, fleet, directory)
        cost.rss_peak = machine.rss_mib(service.pid)
    return cost


def _give_orders(service: Service, cost: Cost, vms: int) -> None:
    hosts = -(-vms // fleets.VMS_PER_HOST)
    count = min(ORDERS, hosts // 4)
    for number in range(count):
        # Disjoint places: each request has a separate host and VM.
        quiet, other = f"h{number}", f"h{hosts // 2 + number}"
        alone = f"vm_{fleets.SET_VMS + 2 * fleets.SET_VMS * (count + number)}"
        orders = {
            "maintain": {"hosts": [quiet], "impact": "reboot"},
            "fail": {"kind": "host", "name": other},
            "restore": {"kind": "host", "name": other},
            "terminate": {"vms": [alone]},
        }
        for verb, body in orders.items():
            began = time.perf_counter()
            service.admin(f"/v1/{verb}", body)
            took = (time.perf_counter() - began) * 1000
            cost.orders.setdefault(verb, []).append(took)
        began = time.perf_counter()
        service.admin(f"/v1/operations?host={quiet}")
        took = (time.perf_counter() - began) * 1000
        cost.orders.setdefault("operations of a host", []).append(took)


def _apply(service: Service, cost: Cost, fleet: str, directory: Path) -> None:
    """Change the size of one VM, and poll meanwhile."""
    changed = fleet.replace('name = "vm_0"\n', 'name = "vm_0"\nsize = "large"\n', 1)
    for name, text in (("unchanged", fleet), ("changed", changed)):
        file = directory / f"{name}.json"
        file.write_text(json.dumps({"text": text, "name": "fleet.toml"}), "utf-8")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            took, gets = runner.run(_probe(service, file))
        if name == "unchanged":
            cost.apply_unchanged = took
        else:
            cost.apply, cost.gets = took, gets


async def _probe(service: Service, file: Path) -> tuple[float, list[float]]:
    wire = await client.connect(*service.address)
    request = client.get(durability.signed(1))
    assert (await wire.ask(request)).status == 200
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *machine.pinned(
            machine.LOAD_CORE,
            [
                *(sys.executable, "-m", "bench.post"),
                *(f"{service.operators}/v1/fleet/apply", str(file)),
            ],
        ),
        stdout=subprocess.PIPE,
    )
    applied = asyncio.create_task(process.communicate())
    times: list[float] = []
    while not applied.done():
        began = time.perf_counter()
        reply = await wire.ask(request)
        times.append((time.perf_counter() - began) * 1000)
        assert reply.status == 200, reply
        await asyncio.sleep(PROBE_SECONDS)
    output, _ = await applied
    assert process.returncode == 0, "fleet apply failed"
    return float(output), times


def _show(report: Report, costs: dict[int, Cost]) -> None:
    table = Table("Cost of a fleet", ("what", *(f"{size:,} VMs" for size in costs)))

    def row(what: str, values: list[float]) -> None:
        table.rows.append((what, *map(rounded, values)))

    each_cost = list(costs.values())
    row("first load of the file, s", [cost.first_load for cost in each_cost])
    row(
        "start with the file, unchanged, s",
        [cost.start_with_file for cost in each_cost],
    )
    row("start, s", [cost.start for cost in each_cost])
    row("RSS after the start, MiB", [cost.rss for cost in each_cost])
    row("RSS when all have asked, MiB", [cost.rss_enabled for cost in each_cost])
    row("RSS after applying, MiB", [cost.rss_peak for cost in each_cost])
    row("the store's file, MiB", [cost.store_mib for cost in each_cost])
    for verb in each_cost[0].orders:
        row(
            f"{verb}, median ms",
            [statistics.median(cost.orders[verb]) for cost in each_cost],
        )
        row(f"{verb}, longest ms", [max(cost.orders[verb]) for cost in each_cost])
    row("fleet apply, unchanged, s", [cost.apply_unchanged for cost in each_cost])
    row("fleet apply of one change, s", [cost.apply for cost in each_cost])
    row("GET meanwhile, median ms", [percentile(cost.gets, 0.5) for cost in each_cost])
    row("GET meanwhile, p99 ms", [percentile(cost.gets, 0.99) for cost in each_cost])
    row("GET meanwhile, longest ms", [max(cost.gets) for cost in each_cost])
    slow = [sum(took > SLOW_MS for took in cost.gets) for cost in each_cost]
    table.rows.append((f"GETs slower than {SLOW_MS:.0f} ms", *map(str, slow)))
    report.show(table)
