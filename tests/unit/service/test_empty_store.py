"""A start with an empty store next to a driver memory that has calls."""

import asyncio
import contextlib
import shlex
import subprocess
from pathlib import Path

import pytest

from forewarn.drivers.journal import FileJournal
from forewarn.drivers.port import Call, CallVm
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.operations import Action
from forewarn.service.assembly import Service
from forewarn.service.settings import load_settings
from forewarn.store.open import open_store
from forewarn.store.port import StoreError
from tests.support.loops import in_loop
from tests.unit.service.test_service import FLEET, running

CALL = Call(
    operation_id="op-1",
    generation=1,
    action=Action.REBOOT,
    host="h1",
    vms=(CallVm(vm="web_0", to_host=""),),
    duration_seconds=-1,
)


def service_at(directory: Path, driver: str) -> Service:
    flags = {
        "metadata.listen": "",
        "admin.listen": "127.0.0.1:0",
        "store.url": f"sqlite:///{directory / 'forewarn.db'}",
        "driver.kind": driver,
        "driver.command.reboot": "true",
    }
    if driver == "simulated":
        del flags["driver.command.reboot"]
    return Service(load_settings(file=None, environ={}, flags=flags))


def make_memory(directory: Path, driver: str) -> Path:
    """Create the memory of a driver with one call; return its name."""
    if driver == "simulated":
        memory = directory / "forewarn.db.simulated"
        earlier = SimulatedDriver(journal=FileJournal(memory))
        earlier.begin(CALL, now=0)
        earlier.close()
    else:
        memory = directory / "forewarn.db.command"
        (memory / "op-1.1").mkdir(parents=True)
    return memory


def lose_store(store: Path, how: str) -> None:
    match how:
        case "missing":
            pass
        case "0 bytes":
            store.touch()
        case _:
            open_store(f"sqlite:///{store}").close()


async def refusal_of(service: Service) -> StoreError:
    """Return the error of a service that does not start."""
    with pytest.raises(StoreError) as caught:
        await service.start()
    return caught.value


@pytest.mark.parametrize("driver", ["simulated", "command"])
@pytest.mark.parametrize("how", ["missing", "0 bytes", "no record"])
@in_loop
async def test_empty_store_next_to_calls_is_refused_until_they_are_moved(
    tmp_path: Path, driver: str, how: str
) -> None:
    directory = tmp_path / "a b"
    directory.mkdir()
    memory = make_memory(directory, driver)
    store = directory / "forewarn.db"
    lose_store(store, how)
    before = memory.read_bytes() if memory.is_file() else list(memory.iterdir())
    hints: set[str] = set()
    for _ in range(2):
        refusal = await refusal_of(service_at(directory, driver))
        assert f"the store {store} is empty" in refusal.message
        assert f"{driver} driver's memory {memory}" in refusal.message
        hints.add(refusal.hint)
    after = memory.read_bytes() if memory.is_file() else list(memory.iterdir())
    assert after == before

    [hint] = hints
    command = hint.rpartition("run: ")[2]
    await asyncio.to_thread(subprocess.run, shlex.split(command), check=True)
    async with running(service_at(directory, driver)):
        pass


@pytest.mark.parametrize("driver", ["simulated", "command"])
@in_loop
async def test_store_with_a_fleet_is_accepted_next_to_calls(
    tmp_path: Path, driver: str
) -> None:
    async with running(service_at(tmp_path, driver)):
        pass
    make_memory(tmp_path, driver)
    async with running(service_at(tmp_path, driver)):
        pass


@in_loop
async def test_empty_memory_next_to_an_empty_store_is_accepted(tmp_path: Path) -> None:
    for driver in ("simulated", "command"):
        for _ in range(2):
            service = service_at(tmp_path, driver)
            with contextlib.suppress(StoreError):
                await service.start()
            assert service.health().ready, driver
            await service.stop()


@in_loop
async def test_records_in_another_directory_are_checked(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "op-1.1").mkdir(parents=True)
    flags = {
        "metadata.listen": "",
        "admin.listen": "127.0.0.1:0",
        "store.url": f"sqlite:///{tmp_path / 'forewarn.db'}",
        "driver.kind": "command",
        "driver.command.reboot": "true",
        "driver.command.records": str(elsewhere),
    }
    service = Service(load_settings(file=None, environ={}, flags=flags))
    with pytest.raises(StoreError, match=str(elsewhere)):
        await service.start()


@in_loop
async def test_store_in_memory_is_accepted_next_to_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "forewarn.command" / "op-1.1").mkdir(parents=True)
    flags = {
        "metadata.listen": "",
        "admin.listen": "127.0.0.1:0",
        "store.url": "memory://",
        "driver.kind": "command",
        "driver.command.reboot": "true",
    }
    service = Service(load_settings(file=None, environ={}, flags=flags))
    async with running(service, FLEET):
        assert service.health().ready
