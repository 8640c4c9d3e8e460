"""The drivers, each of which keeps the contract."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.drivers.journal import FileJournal, MemoryJournal
from forewarn.drivers.libvirt import workers
from tests.contract.drivers.libvirt_world import LibvirtWorld
from tests.contract.drivers.qemu_world import QemuWorld
from tests.contract.drivers.worlds import CommandWorld, SimulatedWorld, World
from tests.support.processes import PATIENCE_SECONDS

SYSTEM, SLOW = pytest.mark.system, pytest.mark.slow


@pytest.fixture(
    params=[
        "memory",
        "file",
        pytest.param("command", marks=[SYSTEM, SLOW]),
        pytest.param("qemu", marks=[SYSTEM, SLOW]),
        pytest.param("libvirt", marks=[SYSTEM, SLOW]),
    ]
)
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    journal = MemoryJournal()
    new_world: World
    if request.param == "command":
        new_world = CommandWorld(tmp_path)
    elif request.param == "qemu":
        new_world = QemuWorld(tmp_path)
    elif request.param == "libvirt":
        # A worker starts slowly on a busy machine.
        monkeypatch.setattr(workers, "ASK_SECONDS", PATIENCE_SECONDS)
        new_world = LibvirtWorld(tmp_path)
    elif request.param == "file":
        file = tmp_path / "journal"
        new_world = SimulatedWorld(lambda: FileJournal(file), file.unlink)
    else:
        new_world = SimulatedWorld(lambda: journal, journal.clear)
    yield new_world
    new_world.pass_long()
    new_world.driver.close()
    new_world.end()
