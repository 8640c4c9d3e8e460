"""A million VMs on 100,000 hosts in PostgreSQL: loaded by one replica, followed by another.

It takes minutes and gigabytes, so it runs only when it is asked for.
"""

from pathlib import Path

from bench import fleets, machine, pairs, postgres
from bench.report import Report, Table, rounded

LOADED_BAR = 60
FOLLOWER_BAR_MIB = 1536


def measure(report: Report, directory: Path, *, vms: int) -> None:
    """Measure two replicas of a fleet with ten VMs a host."""
    if why := postgres.missing():
        report.note(f"{vms:,} VMs on PostgreSQL were not measured: {why}")
        return
    print(f"\n{vms:,} VMs on {vms // fleets.VMS_PER_HOST:,} hosts, PostgreSQL")
    with postgres.running() as server:
        before = server.cpu_seconds
        with pairs.running(
            directory / "million", server.url, fleets.mixed(vms)
        ) as pair:
            leader, follower = pair.leader.pid, pair.follower.pid
            table = Table(f"{vms:,} VMs on PostgreSQL", ("what", "measured"))
            table.rows += [
                (
                    "the first replica has loaded the file and leads, s",
                    rounded(pair.loaded_after),
                ),
                (
                    "another one has started and follows, s",
                    rounded(pair.followed_after),
                ),
                (
                    "processor time of the follower, s",
                    rounded(machine.cpu_seconds(follower)),
                ),
                (
                    "processor time of PostgreSQL, s",
                    rounded(server.cpu_seconds - before),
                ),
                ("RSS of the leader, MiB", rounded(machine.rss_mib(leader))),
                ("RSS of the follower, MiB", rounded(machine.rss_mib(follower))),
            ]
            report.show(table)
            what = f"{vms:,} VMs on PostgreSQL"
            report.judge(f"{what}: loaded", pair.loaded_after, LOADED_BAR, "s")
            rss = machine.rss_mib(follower)
            report.judge(f"{what}: RSS of a follower", rss, FOLLOWER_BAR_MIB, "MiB")
