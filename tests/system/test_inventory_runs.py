"""[inventory] of a real service: its program is run again and again, and merged."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.support.processes import Serving, eventually

pytestmark = pytest.mark.system

PROGRAM = """#!/bin/sh
echo run >> {directory}/runs
. {directory}/how
cat {directory}/inventory.json
"""


class World:
    """A service with an inventory that the test writes."""

    def __init__(self, directory: Path, *, vms: int = 3) -> None:
        self.directory = directory
        program = directory / "program"
        program.write_text(PROGRAM.format(directory=directory), encoding="utf-8")
        program.chmod(0o700)
        self.do("")
        self.write({f"v{number}": "h1" for number in range(vms)})
        self.service = self.start()

    def start(self) -> Serving:
        """Start the service, which has no fleet but that of the inventory."""
        (self.directory / "forewarn.toml").write_text(
            f'[inventory]\nprogram = ["{self.directory}/program"]\nevery = "1s"\n'
            'timeout = "60s"\nremovals_max = 1\n',
            encoding="utf-8",
        )
        return Serving(self.directory, "").wait_ready()

    def do(self, script: str) -> None:
        """Let the program do something before it prints."""
        (self.directory / "next").write_text(script, encoding="utf-8")
        (self.directory / "next").replace(self.directory / "how")

    def write(self, hosts_of: dict[str, str]) -> None:
        """Write the inventory: the host of each VM."""
        vms = [
            {"name": vm, "host": host, "address": f"192.0.2.{number}"}
            for number, (vm, host) in enumerate(hosts_of.items(), start=1)
        ]
        hosts = [{"name": "h1"}, {"name": "h2"}]
        text = json.dumps({"hosts": hosts, "vms": vms})
        (self.directory / "next").write_text(text, encoding="utf-8")
        (self.directory / "next").replace(self.directory / "inventory.json")

    def hosts_of(self) -> dict[str, str]:
        """Return the recorded host of each VM."""
        return {vm["name"]: vm["host"] for vm in self.service.admin("/v1/fleet")["vms"]}

    def until(self, hosts_of: dict[str, str]) -> None:
        """Return when these VMs are recorded on these hosts."""
        eventually(self.hosts_of, lambda found: found == hosts_of, what="the inventory")

    def problems(self) -> list[str]:
        """Return the problems of the service."""
        listed = self.service.admin("/v1/problems")["problems"]
        return [json.dumps(problem) for problem in listed]

    def until_problem(self, part: str) -> None:
        """Return when the only problem contains a text."""
        eventually(
            self.problems,
            lambda values: len(values) == 1 and part in values[0],
            what=part,
        )

    def until_runs(self, more: int) -> None:
        """Return when the program has been run several times more."""
        log = self.directory / "runs"

        def count() -> int:
            return len(log.read_text(encoding="utf-8").splitlines())

        last = count() + more
        eventually(count, lambda found: found >= last, what="further runs")

    def history(self) -> list[Any]:
        """Return the history of the fleet."""
        entries: list[Any] = self.service.admin("/v1/history")["entries"]
        return entries

    def metric(self, name: str) -> float:
        """Return the value of a series."""
        with urlopen(f"{self.service.urls['operators']}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        [value] = [line.split()[-1] for line in lines if line.startswith(f"{name} ")]
        return float(value)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.service.kill()


def test_inventory_is_merged_at_the_start_and_again(world: World) -> None:
    world.until({"v0": "h1", "v1": "h1", "v2": "h1"})
    world.write({"v0": "h1", "v1": "h2", "v3": "h2"})
    # A VM that is missing is removed, within the limit.
    world.until({"v0": "h1", "v1": "h2", "v3": "h2"})
    assert world.metric('forewarn_inventory_runs_total{outcome="applied"}') >= 1
    assert world.metric('forewarn_inventory_runs_total{outcome="failed"}') == 0


def test_run_that_changes_nothing_writes_nothing(world: World) -> None:
    world.until({"v0": "h1", "v1": "h1", "v2": "h1"})
    before = world.history()
    world.until_runs(3)
    assert world.history() == before
    assert {entry["actor"] for entry in before} == {"inventory"}


def test_run_that_would_remove_too_much_is_refused_until_it_is_whole_again(
    world: World,
) -> None:
    whole = {"v0": "h1", "v1": "h1", "v2": "h1"}
    world.until(whole)
    world.write({"v0": "h1"})
    world.until_problem("would remove 2 of 3 VMs; one run may remove 1")
    assert world.hosts_of() == whole
    assert world.metric('forewarn_inventory_runs_total{outcome="failed"}') >= 1
    world.write(whole)
    eventually(world.problems, lambda found: not found, what="no problem")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo out of memory >&2; exit 3", "failed with status 3: out of memory"),
        ("echo '{'; exit 0", "is not JSON"),
        ("echo '{}'; exit 0", "hosts"),
    ],
)
def test_failed_run_is_a_problem_and_changes_nothing(
    world: World, script: str, said: str
) -> None:
    whole = {"v0": "h1", "v1": "h1", "v2": "h1"}
    world.until(whole)
    world.do(script)
    world.until_problem(said)
    assert world.hosts_of() == whole
    world.do("")
    eventually(world.problems, lambda found: not found, what="no problem")


@pytest.mark.parametrize("end", [Serving.kill, Serving.terminate])
def test_service_that_ends_during_a_run_merges_the_inventory_at_its_next_start(
    world: World, end: Callable[[Serving], object]
) -> None:
    world.until({"v0": "h1", "v1": "h1", "v2": "h1"})
    world.write({"v0": "h2", "v1": "h1", "v2": "h1"})
    world.do(f"echo $$ > {world.directory}/begun; exec sleep 50")
    eventually((world.directory / "begun").exists, bool, what="a run that takes long")
    assert world.hosts_of()["v0"] in {"h1", "h2"}
    end(world.service)
    world.do("")
    world.service = world.start()
    world.until({"v0": "h2", "v1": "h1", "v2": "h1"})
