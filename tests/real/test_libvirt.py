"""The driver for libvirt with two real libvirts, whose guests are only firmware."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.clock import SystemClock
from forewarn.drivers.libvirt.commands import Connections, programs_of, worker_words
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.drivers.port import HostVms
from forewarn.protocol.abilities import Ability, Able
from forewarn.protocol.operations import Action
from tests.support.processes import eventually
from tests.support.real_libvirts import OFF, RUNNING, RealLibvirts, why_not
from tests.support.served_libvirts import World

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "it is all here"),
]


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
        message = eventually(
            world.problems, lambda text: "h1" in text, what="a problem"
        )
        assert "ertificate" in message
        assert world.maintain("freeze")["state"] == "Failed"
    finally:
        world.service.kill()
    assert (libvirts.state("web_0", "h1") or [0])[0] == RUNNING


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
        command = (*self._programs.probe[:-5], *about)
        return subprocess.run(command, capture_output=True, check=False).returncode


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


HOSTDEV = """
<hostdev mode='subsystem' type='pci' managed='yes'>
<source><address domain='0' bus='0' slot='3' function='0'/></source></hostdev>
"""


def test_libvirts_tell_the_abilities_of_their_vms(
    libvirts: RealLibvirts, tmp_path: Path
) -> None:
    libvirts.ask("h1", "define", xml=libvirts.domain_xml("bound", devices=HOSTDEV))
    # Its process continues, without a definition.
    libvirts.ask("h1", "undefine", vm="web_0")
    connections = Connections(uri=libvirts.uri)
    driver = LibvirtDriver(
        programs_of(libvirts.python, connections),
        python=libvirts.python,
        connections=connections,
        records=tmp_path / "records",
        clock=SystemClock(),
    )
    try:
        driver.watch_hosts(["h1", "h2"])
        vms = ("web_0", "bound", "none")
        questions = [HostVms(host="h1", vms=vms), HostVms(host="h2", vms=())]
        abilities = eventually(
            lambda: driver.abilities(questions), lambda found: len(found) > 1
        )
    finally:
        driver.close()
    assert abilities["h2"] == (Ability(able=Able.YES),)
    limits = {
        (ability.vm, ability.action): ability.reason for ability in abilities["h1"]
    }
    assert limits == {
        ("", None): "",
        ("web_0", None): "",
        ("web_0", Action.STOP): "it has no persistent domain",
        ("web_0", Action.REIMAGE): "it has no persistent domain",
        ("bound", None): "",
        ("bound", Action.LIVE_MIGRATE): "it has a passthrough device (pci)",
        ("none", None): "the host has no domain of this name",
    }


def test_module_is_found(libvirts: RealLibvirts) -> None:
    command = (*worker_words(libvirts.python), "", "check")
    assert subprocess.run(command, check=False).returncode == 0
