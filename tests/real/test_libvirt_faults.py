"""Faults of real libvirts: each story ends right, and operators read what to do."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.processes import eventually
from tests.support.real_libvirts import OFF, PAUSED, RUNNING, RealLibvirts, why_not
from tests.support.served_libvirts import World

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "it is all here"),
]


class Imaged:
    """A VM whose disk is above a base image, and its service."""

    def __init__(self, directory: Path, libvirts: RealLibvirts) -> None:
        self.libvirts = libvirts
        self.image = libvirts.start_with_image("web_0", "h1")
        self._directory = directory

    def world(self, **settings: str) -> World:
        """Start the service."""
        self.served = World(self._directory, self.libvirts, **settings)
        return self.served

    def is_whole(self) -> bool:
        """Return whether the image is above its base image and not damaged."""
        info = self.libvirts.qemu_img("info", "-U", str(self.image))
        return "backing file: " in info and "base.raw" in info

    def end(self) -> None:
        """End the service."""
        self.served.service.kill()


@pytest.fixture
def imaged(tmp_path: Path, hosts: RealLibvirts) -> Iterator[Imaged]:
    new_imaged = Imaged(tmp_path, hosts)
    yield new_imaged
    new_imaged.end()
    hosts.remove_all()


Start = Callable[..., World]


@pytest.fixture
def started(tmp_path: Path, libvirts: RealLibvirts) -> Iterator[Start]:
    """Return a function that starts the service with settings."""
    worlds: list[World] = []

    def start(**settings: str) -> World:
        worlds.append(World(tmp_path, libvirts, **settings))
        return worlds[-1]

    yield start
    for world in worlds:
        world.service.kill()


# A reimage that is killed between the deletion of the disk and its creation


def test_reimage_ends_although_the_service_is_killed(imaged: Imaged) -> None:
    world, libvirts = imaged.world(), imaged.libvirts
    libvirts.hold_images("h1")
    name = world.order("reimage", vms=["web_0"])
    libvirts.wait_for_image("h1")
    world.service.kill()
    libvirts.release_images("h1")
    world.begin()
    assert world.ended(name)["state"] == "Done"
    assert (libvirts.state("web_0", "h1") or [0])[0] == RUNNING
    assert imaged.is_whole()


def test_repeated_reimage_replaces_the_disk_that_a_lost_host_wrote_in_part(
    imaged: Imaged,
) -> None:
    world, libvirts = imaged.world(driver_attempts="9"), imaged.libvirts
    libvirts.hold_images("h1")
    name = world.order("reimage", vms=["web_0"])
    libvirts.wait_for_image("h1")
    libvirts.kill_program("work")
    libvirts.kill("h1")
    assert not imaged.is_whole()
    libvirts.release_images("h1")
    libvirts.begin("h1")
    assert world.ended(name)["state"] == "Done"
    assert (libvirts.state("web_0", "h1") or [0])[0] == RUNNING
    assert imaged.is_whole()


def test_failed_reimage_is_explained_and_a_reboot_creates_the_disk(
    imaged: Imaged,
) -> None:
    world, libvirts = imaged.world(), imaged.libvirts
    libvirts.hold_images("h1")
    name = world.order("reimage", vms=["web_0"])
    libvirts.wait_for_image("h1")
    libvirts.kill_program("work")
    libvirts.kill("h1")
    libvirts.release_images("h1")
    libvirts.begin("h1")
    assert world.ended(name)["state"] == "Failed"
    assert str(imaged.image) in world.explained(name)
    # The VM is down, and nothing has started it without its disk.
    world.read(world.problems, "VM web_0 is down", '"restore", "redeploy"')
    assert world.ended(world.order("reboot", vms=["web_0"]))["state"] == "Failed"
    assert (libvirts.state("web_0", "h1") or [0])[0] == OFF
    world.read(world.history, f"`virsh vol-delete {imaged.image}`, then reboot the VM")
    libvirts.ask("h1", "vol-delete", path=str(imaged.image))
    assert world.ended(world.order("reboot", vms=["web_0"]))["state"] == "Done"
    assert (libvirts.state("web_0", "h1") or [0])[0] == RUNNING
    assert imaged.is_whole()
    eventually(world.problems, lambda text: "web_0" not in text, what="a VM that is up")


# Hosts and guests


def test_killed_guest_fails_although_nobody_asked_for_it(
    world: World, libvirts: RealLibvirts
) -> None:
    libvirts.kill_qemu("web_0")
    [event] = eventually(world.events, bool, what="the failure")
    assert (event["EventStatus"], event["EventSource"]) == ("Started", "Platform")
    world.read(world.history, "libvirt: QEMU was killed or has crashed")
    world.read(world.problems, "VM web_0 is down", '"restore", "redeploy"')
    world.read(lambda: world.explained("web_0"), "forewarn restore web_0")
    # The hint for the operator works: the VM is started, and is seen to run.
    assert world.ended(world.order("reboot", vms=["web_0"]))["state"] == "Done"
    eventually(world.events, lambda found: not found, what="no failure")
    assert "web_0" not in world.problems()


def test_host_without_libvirt_is_a_problem_until_it_is_back(
    world: World, libvirts: RealLibvirts
) -> None:
    libvirts.kill("h2")
    message = eventually(world.problems, lambda text: "libvirt: " in text, what="it")
    assert (
        "h2 cannot be reached: " in message
        or "the connection to h2 was lost" in message
    )
    world.read(lambda: world.explained("h2"), "calls for its VMs fail until it is")
    libvirts.begin("h2")
    eventually(world.problems, lambda text: "libvirt: " not in text)
    assert "calls for its VMs fail" not in world.explained("h2")
    # Its VMs were not touched, and nothing was concluded about them.
    assert world.events() == []


def test_connection_lost_during_a_freeze_leaves_no_guest_paused(
    started: Start, libvirts: RealLibvirts
) -> None:
    world = started(driver_libvirt_freeze="3s")
    name = world.start("freeze")
    eventually(
        lambda: libvirts.state("web_0", "h1"), lambda found: found == [PAUSED, 1]
    )
    libvirts.kill("h1")
    libvirts.begin("h1")
    assert world.ended(name)["state"] == "Done"
    assert (libvirts.state("web_0", "h1") or [0])[0] == RUNNING
    assert world.events() == []


def test_host_that_hangs_fails_its_call_in_time_and_is_a_problem(
    started: Start, libvirts: RealLibvirts
) -> None:
    world = started(driver_libvirt_connect_timeout="2s")
    libvirts.hang("h1")
    name = world.start("freeze")
    assert world.ended(name)["state"] == "Failed"
    why = "h1 did not answer within 2 s"
    assert why in world.explained(name)
    world.read(world.problems, "libvirt: ", "h1")
    libvirts.go_on("h1")
    eventually(world.problems, lambda text: "libvirt: " not in text, what="no problem")
    # Nothing was concluded about its VM, and the next freeze works.
    assert world.events() == []
    assert world.maintain("freeze")["state"] == "Done"


@pytest.mark.parametrize("way", ["rename", "undefine"])
def test_domain_that_is_renamed_or_undefined_by_hand_is_named_with_a_remedy(
    imaged: Imaged, way: str
) -> None:
    world, libvirts = imaged.world(), imaged.libvirts
    xml = libvirts.ask("h1", "xml", vm="web_0")
    libvirts.shut_down_from_inside("web_0", "h1")
    libvirts.ask("h1", way, vm="web_0", to="web_x")
    operation = world.maintain("reboot")
    assert operation["state"] == "Failed"
    sentence = (
        "h1 has no domain web_0: it was undefined, renamed or moved by hand; "
        "`virsh list --all` on h1 shows the domains"
    )
    assert sentence in world.explained(operation["operation"])
    world.read(world.history, sentence)
    # The operator repairs it.
    if way == "rename":
        libvirts.ask("h1", "rename", vm="web_x", to="web_0")
    else:
        libvirts.ask("h1", "define", xml=xml)
    assert world.maintain("reboot")["state"] == "Done"


def test_guest_that_shuts_itself_down_has_not_failed_and_stays_off(
    imaged: Imaged,
) -> None:
    world, libvirts = imaged.world(), imaged.libvirts
    libvirts.shut_down_from_inside("web_0", "h1")
    # It is in the history although no work has met the VM.
    world.read(world.history, "vm shut down", "the guest was shut down from inside")
    world.read(lambda: world.explained("web_0"), "it was shut down by its user")
    operation = world.maintain("reboot")
    assert operation["state"] == "Done"
    assert libvirts.state("web_0", "h1") == [OFF, 1]
    assert world.events() == []
    assert "web_0" not in world.problems()
    assert "web_0 did not run before, and stays so" in world.history()


def test_migration_with_unknown_outcome_waits_for_an_operator(
    started: Start, libvirts: RealLibvirts, tmp_path: Path
) -> None:
    world = started(driver_libvirt_connect_timeout="2s", driver_timeout="20s")
    # The source waits for its destination. Then it is lost with the programs of the call.
    libvirts.hang("h2")
    name = world.start("live-migrate")
    libvirts.wait_for_program("work")
    libvirts.kill("h1")
    libvirts.kill_shims(tmp_path)
    libvirts.kill_program("work")
    world.read(world.problems, f"outcome-unknown:{name}", '"resolve"')
    world.read(lambda: world.explained(name), f"forewarn resolve {name} ")
    libvirts.begin("h1")
    libvirts.go_on("h2")
    # Neither host has done anything: the operator sees it, and says so.
    assert (libvirts.state("web_0", "h1") or [0])[0] == RUNNING
    assert libvirts.state("web_0", "h2") is None
    world.service.admin("/v1/resolve", {"operation": name, "outcome": "failed"})
    assert world.ended(name)["state"] == "Failed"
    assert world.maintain("freeze")["state"] == "Done"
