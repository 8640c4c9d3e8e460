"""The cost of planning a campaign for a large fleet: processor time and memory.

The process that the service starts for each plan is measured, including the reading of
the store. The baseline reads the same columns of the VMs with plain sqlite3 and does
nothing with them.
"""

import os
import pickle
import random
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from bench.report import Report, Table, rounded
from forewarn.campaigns.model import Impact
from forewarn.campaigns.planner import Terms
from forewarn.campaigns.text import CampaignText
from forewarn.fleet.model import Host, Scope, ScopeKind, Tenant, Vm, capacity_of
from forewarn.instants import DAY, MINUTE
from forewarn.reporting.campaign_plans import Planned, PlanRequest
from forewarn.service import planning_process
from forewarn.store.codec import CODECS, Codec
from forewarn.store.connection import Connection
from forewarn.store.questions import Record
from forewarn.store.sqlite import SqliteStore

R = TypeVar("R", bound=Record)

VMS_PER_HOST = 10
HOSTS_PER_CLUSTER = 1_000
HOSTS_PER_RACK = 20
SET_VMS = 20
"""VMs of an availability set, on any hosts of a cluster."""
DOMAINS = 5
TENANTS = 500

ROWS_AT_ONCE = 10_000

SECONDS_BAR = 10.0
MEMORY_BAR = 512.0
RATIO_BAR = 6.0
"""Processor time of a plan, divided by that of the plain read."""

CAMPAIGN = """\
[campaign]
name = "bios-2.19"
reason = "CVE-2026-1234"
impact = "{impact}"
select = {{ all = true }}
[campaign.budget]
in_flight = "5%"
[[campaign.budget.by]]
label = "rack"
max = 4
"""

_BASELINE = """\
import sqlite3, sys
file = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
rows = file.execute(
    "SELECT host, scope, tenant, fault_domain, state, moving_to, vcpu, memory, movable "
    "FROM vms"
)
for _ in rows:
    pass
"""


@dataclass(slots=True)
class _Cost:
    """The processor time and the memory of one kind of process."""

    seconds: list[float] = field(default_factory=list[float])
    mib: list[float] = field(default_factory=list[float])

    @property
    def median(self) -> float:
        """Return the median of the seconds."""
        return statistics.median(self.seconds)


def measure(report: Report, directory: Path, *, hosts: int, rounds: int) -> None:
    """Measure plans for a fleet of `hosts` hosts, in turns with the baseline."""
    vms = hosts * VMS_PER_HOST
    print(f"\nPlans of a campaign: {hosts:,} hosts, {vms:,} VMs", flush=True)
    store = directory / "plan.db"
    write_fleet(store, hosts)
    plain, plans = _Cost(), {impact: _Cost() for impact in ("reboot", "live-migrate")}
    for _ in range(rounds):
        _run([sys.executable, "-c", _BASELINE, str(store)], b"", plain)
        for impact, cost in plans.items():
            answer = _run(planning_process.command(MODULE, store), _asked(impact), cost)
            assert isinstance(pickle.loads(answer), Planned), answer
    report.show(_table(f"Plans for {hosts:,} hosts", {"plain sqlite3": plain} | plans))
    for impact, cost in plans.items():
        what = f"plan of {impact}, {hosts:,} hosts"
        report.judge(f"{what}: processor time", cost.median, SECONDS_BAR, "s")
        report.judge(f"{what}: memory", max(cost.mib), MEMORY_BAR, "MiB")
        ratio = cost.median / plain.median
        report.judge(f"{what}: ÷ plain read of the VMs", ratio, RATIO_BAR, "x")


MODULE = "forewarn.service.campaign_planning"


def _table(title: str, found: dict[str, _Cost]) -> Table:
    table = Table(title, ("process", "processor s", "MiB"))
    for what, cost in found.items():
        table.rows.append((what, rounded(cost.median), rounded(max(cost.mib))))
    return table


def _asked(impact: str) -> bytes:
    request = PlanRequest(
        text=CampaignText(name="bios.toml", text=CAMPAIGN.format(impact=impact)),
        hosts_max=1_000,
        terms=Terms(notices=dict.fromkeys(Impact, 15 * MINUTE)),
        now=20_000 * DAY,
    )
    return pickle.dumps(request)


def _run(command: Sequence[str], given: bytes, cost: _Cost) -> bytes:
    """Run a process and add its cost; return its output."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(given)
        process.stdin.close()
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    cost.seconds.append(used.ru_utime + used.ru_stime)
    cost.mib.append(used.ru_maxrss / 1024)
    return output


def write_fleet(store: Path, hosts: int) -> None:
    """Write a store with a fleet: a fleet file of a million VMs would take minutes.

    Half of the VMs have no scope of their own, the others are in sets of SET_VMS.
    """
    SqliteStore(store).close()
    codecs: dict[type, Codec[Any]] = {codec.kind: codec for codec in CODECS}
    with closing(Connection(store)) as connection:
        connection.begin(immediate=True)
        for records in (
            (Tenant(name=f"tenant{number}") for number in range(TENANTS)),
            _hosts(hosts),
            _scopes(hosts),
            _vms(hosts),
        ):
            rows = iter(records)
            while page := list(islice(rows, ROWS_AT_ONCE)):
                codec = codecs[type(page[0])]
                connection.write(codec.add, [codec.encode(record) for record in page])
        capacities = codecs[type(capacity_of(Host(name="h")))]
        rooms = (
            capacity_of(host, use=(VMS_PER_HOST, 4 * VMS_PER_HOST, 16 * VMS_PER_HOST))
            for host in _hosts(hosts)
        )
        connection.write(capacities.add, [capacities.encode(room) for room in rooms])
        connection.commit()


def _hosts(hosts: int) -> Iterator[Host]:
    for number in range(hosts):
        cluster = f"c{number // HOSTS_PER_CLUSTER}"
        yield Host(
            name=f"h{number}",
            zone=f"z{number // HOSTS_PER_CLUSTER % 3}",
            cluster=cluster,
            rack=f"{cluster}-r{number // HOSTS_PER_RACK}",
            pool=cluster,
            capacity=16,
            vcpu=96,
            memory=512 * 1024,
            labels=(("model", f"m{number % 4}"),),
        )


def _scopes(hosts: int) -> Iterable[Scope]:
    vms = hosts * VMS_PER_HOST // 2
    for number in range(vms):
        yield Scope(
            name=f"vm_{number}",
            tenant=f"tenant{number % TENANTS}",
            kind=ScopeKind.STANDALONE,
            implied=True,
        )
    for number in range(vms // SET_VMS):
        yield Scope(
            name=f"set{number}",
            tenant=f"tenant{number % TENANTS}",
            kind=ScopeKind.AVAILABILITY_SET,
        )


def _vms(hosts: int) -> Iterator[Vm]:
    drawn = random.Random(1)
    vms = hosts * VMS_PER_HOST // 2
    for number in range(vms):
        yield _vm(number, f"vm_{number}", number % TENANTS, number % hosts)
    taken: dict[tuple[int, int], int] = {}
    for number in range(vms):
        scope, member = divmod(number, SET_VMS)
        first = scope % (hosts // HOSTS_PER_CLUSTER) * HOSTS_PER_CLUSTER
        domain = member % DOMAINS
        host = first + drawn.randrange(HOSTS_PER_CLUSTER)
        # A host has one fault domain of a scope.
        while taken.setdefault((scope, host), domain) != domain:
            host = first + drawn.randrange(HOSTS_PER_CLUSTER)
        yield _vm(vms + number, f"set{scope}", scope % TENANTS, host, domain)


def _vm(number: int, scope: str, tenant: int, host: int, fault_domain: int = 0) -> Vm:
    return Vm(
        name=f"vm_{number}",
        wire_name=f"vm_{number}",
        host=f"h{host}",
        scope=scope,
        tenant=f"tenant{tenant}",
        view=f"{scope}/",
        fault_domain=fault_domain,
        size="standard",
        vcpu=4,
        memory=16 * 1024,
        vm_id=f"00000000-0000-4000-8000-{number:012x}",
        tags=(("role", "web"),),
        location="here",
        addresses=(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",),
        applied='{"host":"h1","address":"10.0.0.1","size":"standard","vcpu":4}',
    )
