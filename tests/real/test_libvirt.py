"""The driver for libvirt with two real libvirts, whose guests are only firmware."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.drivers.libvirt.commands import Connections, programs_of, worker_words
from forewarn.protocol.operations import Action
from tests.support.processes import Serving, eventually
from tests.support.real_libvirts import RealLibvirts, why_not

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "it is all here"),
]

FLEET = """
[[host]]
name = "h1"
[[host]]
name = "h2"
[[vm]]
name = "web_0"
host = "h1"
listen = "127.0.0.1:0"
"""

RUNNING, OFF = 1, 5


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLibvirts]:
    # The path of a socket is short.
    made = RealLibvirts(tmp_path_factory.mktemp("lv"))
    yield made
    made.end()


@pytest.fixture
def libvirts(hosts: RealLibvirts) -> Iterator[RealLibvirts]:
    """Return the hosts with one VM."""
    hosts.start("web_0", "h1")
    yield hosts
    hosts.remove_all()


class World:
    """A service for the hosts."""

    def __init__(self, folder: Path, libvirts: RealLibvirts, **settings: str) -> None:
        usual = {
            "driver_kind": "libvirt",
            "driver_libvirt_python": libvirts.python,
            "driver_libvirt_uri": libvirts.uri,
            "driver_libvirt_data_uri": libvirts.data_uri,
            "driver_libvirt_freeze": "1s",
            "driver_libvirt_shutdown_timeout": "1s",
            "driver_attempts": "1",
            "driver_sighting_confirm": "1s",
            "timing_recovery": "200ms",
        }
        self.service = Serving(folder, FLEET, **{**usual, **settings}).wait_ready()
        self.service.document("web_0")

    def maintain(self, impact: str) -> dict[str, Any]:
        """Maintain h1 with the approval of the VM; return the operation at its end."""
        self.service.admin("/v1/maintain", {"hosts": ["h1"], "impact": impact})
        [event] = self.service.document("web_0")["Events"]
        assert self.service.approve("web_0", event["EventId"]) == 200
        [operation] = self.service.admin("/v1/operations?vm=web_0")["operations"]
        path = f"/v1/operations/{operation['operation']}"
        ended = {"Done", "Failed", "Cancelled"}
        return eventually(
            lambda: self.service.admin(path), lambda each: each["state"] in ended
        )

    def down_seconds(self) -> float:
        [vm] = self.service.admin("/v1/availability?vm=web_0")["vms"]
        # All of it was measured.
        assert vm["at_most_seconds"] == 0
        return float(vm["down_seconds"])

    def problems(self) -> str:
        return json.dumps(self.service.admin("/v1/problems"))


@pytest.fixture
def world(tmp_path: Path, libvirts: RealLibvirts) -> Iterator[World]:
    made = World(tmp_path, libvirts)
    yield made
    made.service.kill()


def test_guest_is_frozen_restarted_and_migrated_with_approvals(
    world: World, libvirts: RealLibvirts
) -> None:
    assert world.maintain("freeze")["state"] == "Done"
    assert 1.0 <= world.down_seconds() < 10.0
    assert libvirts.state("web_0", "h1") is not None
    assert world.maintain("reboot")["state"] == "Done"
    assert (libvirts.state("web_0", "h1") or [0])[0] == RUNNING
    assert world.maintain("live-migrate")["state"] == "Done"
    assert libvirts.state("web_0", "h1") is None
    assert (libvirts.state("web_0", "h2") or [0])[0] == RUNNING
    [vm] = world.service.admin("/v1/fleet")["vms"]
    assert vm["host"] == "h2"


@pytest.mark.parametrize("migration", ["auto-converge", "post-copy"])
def test_guest_is_migrated_in_the_other_ways(
    tmp_path: Path, libvirts: RealLibvirts, migration: str
) -> None:
    world = World(tmp_path, libvirts, driver_libvirt_migration=migration)
    try:
        assert world.maintain("live-migrate")["state"] == "Done"
    finally:
        world.service.kill()
    assert libvirts.state("web_0", "h1") is None
    assert (libvirts.state("web_0", "h2") or [0])[0] == RUNNING


@pytest.mark.parametrize("way", [RealLibvirts.tls_uri, RealLibvirts.ssh_uri])
def test_hosts_are_reached_over_tls_and_ssh_also_by_each_other(
    tmp_path: Path, libvirts: RealLibvirts, way: Callable[[RealLibvirts, str], str]
) -> None:
    uris = " ".join(f"{host}={way(libvirts, host)}" for host in ("h1", "h2"))
    world = World(tmp_path, libvirts, driver_libvirt_uris=uris)
    try:
        assert world.maintain("freeze")["state"] == "Done"
        assert world.maintain("live-migrate")["state"] == "Done"
    finally:
        world.service.kill()
    assert (libvirts.state("web_0", "h2") or [0])[0] == RUNNING


def test_host_that_shows_the_certificate_of_others_is_a_problem(
    tmp_path: Path, libvirts: RealLibvirts
) -> None:
    # The certificate is for the address only.
    wrong = libvirts.tls_uri("h1").replace("127.0.0.1", "localhost")
    world = World(tmp_path, libvirts, driver_libvirt_uris=f"h1={wrong}")
    try:
        told = eventually(world.problems, lambda text: "h1" in text, what="a problem")
        assert "ertificate" in told
        assert world.maintain("freeze")["state"] == "Failed"
    finally:
        world.service.kill()
    assert (libvirts.state("web_0", "h1") or [0])[0] == RUNNING


def test_killed_guest_fails_although_nobody_asked_for_it(
    world: World, libvirts: RealLibvirts
) -> None:
    libvirts.kill_qemu("web_0")

    def events() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = world.service.document("web_0")["Events"]
        return found

    [event] = eventually(events, bool, what="the failure")
    assert (event["EventStatus"], event["EventSource"]) == ("Started", "Platform")
    told = json.dumps(world.service.admin("/v1/history?vm=web_0"))
    assert "libvirt: QEMU was killed or has crashed" in told


def test_host_without_libvirt_is_a_problem_until_it_is_back(
    world: World, libvirts: RealLibvirts
) -> None:
    libvirts.kill("h2")
    eventually(world.problems, lambda text: "libvirt: " in text and "h2" in text)
    libvirts.begin("h2")
    eventually(world.problems, lambda text: "libvirt: " not in text)
    # Its VMs were not touched, and nothing was concluded about them.
    assert world.service.document("web_0")["Events"] == []


def test_undefined_domain_is_named_in_the_failure(
    world: World, libvirts: RealLibvirts
) -> None:
    libvirts.ask("h1", "remove", all=True)
    operation = world.maintain("reboot")
    assert operation["state"] == "Failed"
    told = json.dumps(world.service.admin("/v1/history?vm=web_0"))
    assert "h1 has no domain web_0" in told


# The programs of the driver, without a service


class Programs:
    """The driver's programs for the hosts."""

    def __init__(self, libvirts: RealLibvirts) -> None:
        self._programs = programs_of(
            libvirts.python,
            Connections(
                uri=libvirts.uri, data_uri=libvirts.data_uri, freeze=0.2, shutdown=0.5
            ),
        )

    def work(
        self, action: Action, host: str, *, number: int, to_host: str = ""
    ) -> tuple[int, str]:
        """Run the program of an action on web_0."""
        call = {
            "action": action.value,
            "vm": "web_0",
            "host": host,
            "to_host": to_host or None,
            "seconds": -1,
            "mark": f"op-1.{number}.{action.value}",
        }
        done = subprocess.run(
            self._programs.actions[action],
            input=json.dumps(call),
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def probe(self, action: Action, host: str, *, number: int) -> int:
        """Run the program that tells the outcome of an action."""
        about = (action.value, "web_0", host, "", f"op-1.{number}.{action.value}")
        words = (*self._programs.probe[:-5], *about)
        return subprocess.run(words, capture_output=True, check=False).returncode


def test_memory_is_saved_and_restored_and_the_guest_stops_and_starts(
    libvirts: RealLibvirts,
) -> None:
    programs = Programs(libvirts)
    saved, restored = [OFF, 5], [RUNNING, 3]
    for number, (action, state) in enumerate(
        (
            (Action.PAUSE, saved),
            (Action.RESUME, restored),
            (Action.STOP, [OFF, 2]),
            (Action.START, [RUNNING, 1]),
        )
    ):
        status, said = programs.work(action, "h1", number=number)
        assert (status, libvirts.state("web_0", "h1")) == (0, state), said
        # The mark in the metadata of the domain tells the outcome.
        assert programs.probe(action, "h1", number=number) == 0


def test_guest_is_redeployed_and_deleted(libvirts: RealLibvirts) -> None:
    programs = Programs(libvirts)
    status, said = programs.work(Action.REDEPLOY, "h1", number=1, to_host="h2")
    assert (status, libvirts.state("web_0", "h1")) == (0, None), said
    assert libvirts.state("web_0", "h2") == [RUNNING, 1]
    assert programs.work(Action.DELETE, "h2", number=2) == (0, "")
    assert libvirts.state("web_0", "h2") is None


def test_migration_by_hand_is_seen_and_the_failed_one_leaves_the_guest(
    libvirts: RealLibvirts,
) -> None:
    programs = Programs(libvirts)
    status, said = programs.work(Action.LIVE_MIGRATE, "h1", number=1, to_host="h9")
    assert (status, (libvirts.state("web_0", "h1") or [0])[0]) == (2, RUNNING)
    assert "Failed to connect socket" in said


def test_module_is_found(libvirts: RealLibvirts) -> None:
    words = (*worker_words(libvirts.python), "", "check")
    assert subprocess.run(words, check=False).returncode == 0
