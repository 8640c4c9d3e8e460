"""Guests that stand still while a program works on their host, with their memory kept."""

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

SAVED, SUSPENDED = [OFF, 5], [PAUSED, 1]
RESTORED, RESUMED = [RUNNING, 3], [RUNNING, 5]


class Firmware:
    """A host step that works until a test ends it, and that says how often it ran."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        program = directory / "flash"
        program.write_text(
            f"#!/bin/sh\ncd '{directory}'\necho run >>runs\n"
            "while [ ! -e done ]; do sleep 0.1; done\nexit $(cat done)\n"
        )
        program.chmod(0o755)
        (directory / "forewarn.toml").write_text(
            f'[host_step.flash]\nprogram = ["{program}"]\ntimeout = "5m"\n'
        )

    def runs(self) -> int:
        """Return how often the program was started."""
        file = self._directory / "runs"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def end(self, status: int = 0) -> None:
        """End the program with an exit status."""
        (self._directory / "new").write_text(str(status))
        (self._directory / "new").rename(self._directory / "done")


@pytest.fixture
def firmware(tmp_path: Path) -> Iterator[Firmware]:
    program = Firmware(tmp_path)
    yield program
    program.end()


Start = Callable[..., World]


@pytest.fixture
def started(
    tmp_path: Path, libvirts: RealLibvirts, firmware: Firmware
) -> Iterator[Start]:
    """Return a function that starts the service with settings and the host step."""
    del firmware
    worlds: list[World] = []

    def start(**settings: str) -> World:
        worlds.append(World(tmp_path, libvirts, **settings))
        return worlds[-1]

    yield start
    for world in worlds:
        world.service.kill()


def flash(world: World, firmware: Firmware) -> str:
    """Start a freeze of h1 in which the program runs; return the operation's name."""
    name = world.start("freeze", work="flash")
    eventually(firmware.runs, bool, what="the program")
    return name


@pytest.mark.parametrize(
    ("pause", "meanwhile", "after"),
    [("save", SAVED, RESTORED), ("suspend", SUSPENDED, RESUMED)],
)
def test_memory_is_kept_while_a_program_works_on_the_host(
    started: Start,
    libvirts: RealLibvirts,
    firmware: Firmware,
    pause: str,
    meanwhile: list[int],
    after: list[int],
) -> None:
    world = started(driver_libvirt_pause=pause)
    name = flash(world, firmware)
    assert libvirts.state("web_0", "h1") == meanwhile
    [event] = world.events()
    assert (event["EventType"], event["EventStatus"]) == ("Freeze", "Started")
    # A guest that stands still for the work has not failed.
    assert "web_0 is down" not in world.problems()
    firmware.end()
    assert world.ended(name)["state"] == "Done"
    assert libvirts.state("web_0", "h1") == after
    eventually(world.events, lambda found: not found, what="no event")
    assert world.down_seconds() > 0
    assert firmware.runs() == 1


def test_saved_guest_is_restored_although_the_service_is_killed_during_the_work(
    started: Start, libvirts: RealLibvirts, firmware: Firmware
) -> None:
    world = started()
    name = flash(world, firmware)
    world.service.kill()
    assert libvirts.state("web_0", "h1") == SAVED
    world.begin()
    # The new process waits for the program, and does not run it again.
    assert world.operation(name)["state"] == "Impacting"
    firmware.end()
    assert world.ended(name)["state"] == "Done"
    assert libvirts.state("web_0", "h1") == RESTORED
    assert firmware.runs() == 1


def test_saved_guest_is_restored_after_its_libvirt_was_restarted_by_the_work(
    started: Start, libvirts: RealLibvirts, firmware: Firmware
) -> None:
    world = started()
    name = flash(world, firmware)
    libvirts.kill("h1")
    libvirts.begin("h1")
    # The new libvirtd does not know why the guest is off. Its memory is on the disk.
    assert libvirts.state("web_0", "h1") == [OFF, 0]
    firmware.end()
    assert world.ended(name)["state"] == "Done"
    assert libvirts.state("web_0", "h1") == RESTORED


def test_guest_is_restored_after_failed_work_and_the_operator_reads_why(
    started: Start, libvirts: RealLibvirts, firmware: Firmware
) -> None:
    world = started()
    name = flash(world, firmware)
    firmware.end(3)
    world.read(lambda: world.explained(name), "step work failed: exit status 3")
    eventually(lambda: libvirts.state("web_0", "h1"), lambda found: found == RESTORED)
    world.read(world.problems, "h1", "exit status 3")
    assert firmware.runs() == 1
