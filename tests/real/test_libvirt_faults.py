"""Faults of real libvirts: each story ends right, and operators read what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import eventually
from tests.support.real_libvirts import OFF, RUNNING, RealLibvirts, why_not
from tests.support.served_libvirts import World

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "it is all here"),
]


class Imaged:
    """A VM whose disk is above a base image, and its service."""

    def __init__(self, folder: Path, libvirts: RealLibvirts) -> None:
        self.libvirts = libvirts
        self.image = libvirts.start_with_image("web_0", "h1")
        self._folder = folder

    def world(self, **settings: str) -> World:
        """Start the service."""
        self.served = World(self._folder, self.libvirts, **settings)
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
    made = Imaged(tmp_path, hosts)
    yield made
    made.end()
    hosts.remove_all()


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
    # What the operator reads works: the VM is started, and is seen to run.
    assert world.ended(world.order("reboot", vms=["web_0"]))["state"] == "Done"
    eventually(world.events, lambda found: not found, what="no failure")
    assert "web_0" not in world.problems()


def test_host_without_libvirt_is_a_problem_until_it_is_back(
    world: World, libvirts: RealLibvirts
) -> None:
    libvirts.kill("h2")
    told = eventually(world.problems, lambda text: "libvirt: " in text, what="it")
    assert "h2 cannot be reached: " in told or "the connection to h2 was lost" in told
    libvirts.begin("h2")
    eventually(world.problems, lambda text: "libvirt: " not in text)
    # Its VMs were not touched, and nothing was concluded about them.
    assert world.events() == []
