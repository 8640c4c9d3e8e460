"""Work that two replicas on PostgreSQL carry: a rollout over a fail-over, and a steady load.

In the rollout, the driver runs a program that appends a line to a file for each call, so a
call that is made twice, or not at all, is found whatever the replicas say.
"""

import asyncio
import shlex
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import uvloop

from bench import client, fleets, pairs, postgres
from bench.pairs import Pair
from bench.report import Report, Table, rounded
from bench.service import eventually

NOTICE = "2s"
"""Time after which an operation starts without approvals: the load sends none."""

AT_ONCE = 50
"""Hosts of the rollout that are announced or in work together."""

ROLLOUT_SECONDS = 1_200.0

TOGETHER = 20
"""VMs of one order of the steady load."""

VMS = 2_000
"""VMs of the steady load; each is restarted again when its last restart is over."""

WATCHED = 20
"""VMs whose documents are read from both replicas in turn."""

WATCH_SECONDS = 0.05


def measure(
    report: Report, directory: Path, *, hosts: int, rate: int, minutes: float
) -> None:
    """Measure a rollout over `hosts`, and `rate` operations a second."""
    if why := postgres.missing():
        report.note(f"replicas with work were not measured: {why}")
        return
    _measure_rollout(report, directory / "rollout", hosts)
    _measure_steady(report, directory / "steady", rate, minutes)


def _settings(place: Path, impact: str) -> dict[str, str]:
    """Return the settings of replicas whose calls are lines of the file `calls`."""
    program = f'echo "$1 $2 $3" >> {shlex.quote(str(place / "calls"))}; {impact}'
    call = ["/bin/sh", "-c", program, "call", "{operation}", "{generation}", "{vm}"]
    return {
        "driver_kind": "command",
        "driver_command_reboot": shlex.join(call),
        # Both replicas are on one machine, so the new leader knows what was begun.
        "driver_command_records": str(place / "records"),
        "timing_reboot_notice": NOTICE,
        "timing_recovery": "200ms",
    }


def _calls(place: Path) -> Counter[str]:
    """Return how often each call of a VM was made."""
    file = place / "calls"
    return Counter(file.read_text("ascii").splitlines() if file.exists() else ())


def _measure_rollout(report: Report, place: Path, hosts: int) -> None:
    print(f"\nA rollout over {hosts:,} hosts, whose leader is killed half-way")
    with (
        postgres.running() as server,
        pairs.running(
            place, server.url, fleets.pairs(hosts), **_settings(place, "sleep 1")
        ) as pair,
    ):
        order = {
            "hosts": [f"h{number}" for number in range(hosts)],
            "impact": "reboot",
            "at_once": AT_ONCE,
        }
        began = time.perf_counter()
        pair.leader.admin("/v1/maintain", order)

        def done(share: float) -> bool:
            found = server.count("operations", "state = 'Done'")
            return found >= share * hosts

        def wait(share: float) -> None:
            what = f"{share:.0%} of the hosts"
            eventually(
                lambda: done(share), what=what, seconds=ROLLOUT_SECONDS, pause=1.0
            )

        wait(0.5)
        pair.leader.kill()
        pair.replace()
        wait(1.0)
        took = time.perf_counter() - began
        again = server.count(
            "(SELECT host FROM operations GROUP BY host HAVING count(*) > 1) AS more",
            "true",
        )
        problems = _problems(server.url)
    calls = _calls(place)
    twice = sum(count > 1 for count in calls.values())
    vms = {call.rpartition(" ")[2] for call in calls}
    table = Table(
        f"A rollout over {hosts:,} hosts and a fail-over", ("what", "measured")
    )
    table.rows += [
        (f"until all are done, {AT_ONCE} at once, s", rounded(took)),
        ("calls of the driver", f"{calls.total():,}"),
        ("VMs without a call", str(2 * hosts - len(vms))),
        ("hosts with a second operation", str(again)),
    ]
    report.show(table)
    report.judge("calls made twice over a fail-over", twice, 0)
    lost = 2 * hosts - len(vms)
    report.judge("VMs without their call over a fail-over", lost, 0)
    report.judge("problems of the store after it", problems, 0)


def _problems(url: str) -> int:
    """Return the number of problems that `store check` finds."""
    done = subprocess.run(
        [sys.executable, "-m", "forewarn", "store", "check", url],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(done.stdout, done.stderr, file=sys.stderr)
    return len(done.stdout.splitlines()) if done.returncode else 0


def _measure_steady(report: Report, place: Path, rate: int, minutes: float) -> None:
    print(f"\n{rate} operations a second for {minutes:g} minutes")
    with (
        postgres.running() as server,
        pairs.running(
            place,
            server.url,
            fleets.pairs(VMS // 2),
            timing_reboot_notice=NOTICE,
            timing_recovery="200ms",
            driver_simulated_reboot="200ms",
        ) as pair,
    ):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            load = _Steady(pair, rate, minutes * 60)
            runner.run(load.run())
        ended = server.count("operations", "state = 'Done'")
        open_ones = server.count("operations", "ended_at = 0")
        problems = _problems(server.url)
    reached = ended / load.took
    table = Table(
        f"{rate} operations a second for {minutes:g} minutes", ("what", "measured")
    )
    table.rows += [
        ("operations that ended, a second", rounded(reached)),
        ("open in the end", str(open_ones)),
        ("documents read at both replicas", f"{load.read:,}"),
    ]
    report.show(table)
    report.judge("operations a second", reached, 0.95 * rate, at_most=False)
    report.judge("incarnations that went back", load.back, 0)
    report.judge("problems of the store after a steady load", problems, 0)


class _Steady:
    """Orders restarts at a rate, and reads documents from both replicas."""

    def __init__(self, pair: Pair, rate: int, seconds: float) -> None:
        self._pair, self._rate, self._seconds = pair, rate, seconds
        self.took = 0.0
        self.read = self.back = 0

    async def run(self) -> None:
        for service in (self._pair.leader, self._pair.follower):
            await _ask_all(service.address)
        watching = asyncio.create_task(self._watch())
        began = time.perf_counter()
        due, first = began, 0
        while time.perf_counter() < began + self._seconds:
            names = [f"vm_{(first + number) % VMS}" for number in range(TOGETHER)]
            first += TOGETHER
            await asyncio.to_thread(self._order, names)
            due += TOGETHER / self._rate
            await asyncio.sleep(max(due - time.perf_counter(), 0))
        self.took = time.perf_counter() - began
        watching.cancel()

    def _order(self, names: list[str]) -> None:
        self._pair.leader.admin("/v1/reboot", {"vms": names})

    async def _watch(self) -> None:
        """Ask both replicas in turn; count incarnations of one replica that go back."""
        latest: Counter[tuple[int, int]] = Counter()
        wires = [
            [
                await client.connect(*service.address, source=fleets.address(number))
                for number in range(WATCHED)
            ]
            for service in (self._pair.leader, self._pair.follower)
        ]
        while True:
            for replica, of_replica in enumerate(wires):
                for number, wire in enumerate(of_replica):
                    reply = await wire.ask(client.get())
                    if reply.status != 200:
                        continue
                    found = reply.json["DocumentIncarnation"]
                    self.back += found < latest[replica, number]
                    latest[replica, number] = found
                    self.read += 1
            await asyncio.sleep(WATCH_SECONDS)


async def _ask_all(address: tuple[str, int]) -> None:
    """Enable the scopes of the watched VMs, and no others: those need no approval."""
    for number in range(WATCHED):
        wire = await client.connect(*address, source=fleets.address(number))
        await wire.ask(client.get())
        wire.close()
