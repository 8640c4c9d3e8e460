"""Run the measurements, print each target, and optionally write the report page."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bench import (
    abuse,
    agent,
    carrying,
    console,
    durability,
    latency,
    machine,
    million,
    plan,
    push,
    record,
    relay,
    replicas,
    rollout,
    scale,
    simulator,
    starts,
    throughput,
    worlds,
)
from bench.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The size of the measurements."""

    rounds: int
    seconds: float
    approvals: int
    failures: int
    hosts: int
    sizes: tuple[int, ...]
    changes: int
    wait_seconds: int
    idle_seconds: int
    reactions: int
    starts: int
    rollout: int
    relays: int
    planned: int
    """Hosts of a planned campaign."""
    minutes: float
    """Length of the steady load of two replicas."""
    million: int
    """VMs of two replicas, in a part that runs only when it is asked for."""


FULL = Extent(
    rounds=7,
    seconds=3.0,
    approvals=300,
    failures=20,
    hosts=10_000,
    sizes=(1_000, 10_000, 100_000),
    changes=10,
    wait_seconds=60,
    idle_seconds=600,
    reactions=200,
    starts=20,
    rollout=1_000,
    relays=1_000,
    planned=100_000,
    minutes=1.0,
    million=1_000_000,
)
QUICK = Extent(
    rounds=3,
    seconds=1.0,
    approvals=60,
    failures=4,
    hosts=2_000,
    sizes=(1_000, 10_000),
    changes=3,
    wait_seconds=10,
    idle_seconds=60,
    reactions=40,
    starts=8,
    rollout=200,
    relays=200,
    planned=10_000,
    minutes=0.25,
    million=100_000,
)

OPERATIONS_A_SECOND = 200

LONG = frozenset({"million"})
"""The parts that run only if `--only` names them."""

Part = Callable[[Report, Path, Extent], None]

PARTS: Mapping[str, Part] = {
    "throughput": lambda report, directory, extent: throughput.measure(
        report, directory, rounds=extent.rounds, seconds=extent.seconds
    ),
    "latency": lambda report, directory, extent: latency.measure(
        report, directory, approvals=extent.approvals, failures=extent.failures
    ),
    "approvals": lambda report, directory, extent: durability.measure(
        report, directory, hosts=extent.hosts
    ),
    "replicas": lambda report, directory, extent: replicas.measure(
        report,
        directory,
        sizes=(400, extent.hosts),
        rounds=extent.changes,
        changes=extent.reactions,
    ),
    "carrying": lambda report, directory, extent: carrying.measure(
        report,
        directory,
        hosts=extent.rollout,
        rate=OPERATIONS_A_SECOND,
        minutes=extent.minutes,
    ),
    "million": lambda report, directory, extent: million.measure(
        report, directory, vms=extent.million
    ),
    "push": lambda report, directory, extent: push.measure(
        report, directory, changes=extent.changes, seconds=extent.wait_seconds
    ),
    "worlds": lambda report, _directory, extent: worlds.measure(
        report, rounds=extent.approvals
    ),
    "simulator": lambda report, directory, extent: simulator.measure(
        report, directory, rounds=extent.rounds, seconds=extent.seconds
    ),
    "agent": lambda report, directory, extent: agent.measure(
        report,
        directory,
        seconds=extent.idle_seconds,
        runs=extent.reactions,
        starts=extent.starts,
    ),
    "relay": lambda report, directory, extent: relay.measure(
        report,
        directory,
        hosts=extent.relays,
        changes=extent.changes,
        rounds=extent.rounds,
        seconds=extent.seconds,
    ),
    "abuse": lambda report, directory, extent: abuse.measure(
        report, directory, seconds=extent.seconds
    ),
    "console": lambda report, directory, extent: console.measure(
        report, directory, rounds=2 * extent.rounds, seconds=extent.seconds
    ),
    "rollout": lambda report, directory, extent: rollout.measure(
        report, directory, hosts=extent.rollout, rounds=extent.rounds
    ),
    "plan": lambda report, directory, extent: plan.measure(
        report, directory, hosts=extent.planned, rounds=extent.rounds
    ),
    "starts": lambda report, directory, extent: starts.measure(
        report, directory, vms=max(extent.sizes), operations=max(extent.sizes) // 10
    ),
    "scale": lambda report, directory, extent: scale.measure(
        report, directory, sizes=list(extent.sizes)
    ),
}


def main() -> int:
    """Run the measurements named by the arguments."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="minutes, not half an hour"
    )
    parser.add_argument(
        "--brief",
        action="append",
        choices=[*PARTS],
        default=[],
        help="measure this part quickly; may be repeated",
    )
    parser.add_argument(
        "--only", action="append", choices=[*PARTS], help="one part; may be repeated"
    )
    parser.add_argument(
        "--minutes", type=float, help="length of the steady load of two replicas"
    )
    parser.add_argument(
        "--record", action="store_true", help="write docs/explanation/performance.md"
    )
    parser.add_argument(
        "--strict", action="store_true", help="fail where a bar is missed"
    )
    wanted = parser.parse_args()
    report = Report(machine=machine.describe())
    print(report.machine)
    if len(machine.CORES) == 1:
        report.note("one core only: the load and the server share it")
    machine.pin_this_process()
    build = Path(".build")
    build.mkdir(exist_ok=True)
    # Next to the sources, so that the store is on a disk and not in memory.
    with tempfile.TemporaryDirectory(prefix="bench-", dir=build) as directory:
        for name in wanted.only or [name for name in PARTS if name not in LONG]:
            is_brief = wanted.quick or name in wanted.brief
            extent = QUICK if is_brief else FULL
            if wanted.minutes is not None:
                extent = replace(extent, minutes=wanted.minutes)
            PARTS[name](report, Path(directory).resolve(), extent)
            if name in wanted.brief:
                report.note(f"the part `{name}` was measured briefly")
    table = report.bars_table()
    print(f"\n{table.text()}")
    if wanted.record:
        record.write(report, quick=wanted.quick)
    missed = any(bar.verdict == "missed" for bar in report.bars)
    return int(wanted.strict and missed)


if __name__ == "__main__":
    sys.exit(main())
