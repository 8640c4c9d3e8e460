"""Notifications to systemd, and the watchdog, which follows the control thread."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn import supervisor
from forewarn.fleet.file import FleetText
from forewarn.service import assembly, limits
from forewarn.service.assembly import feed_watchdog
from forewarn.supervisor import Supervisor, supervisor_of
from tests.support.loops import in_loop, until
from tests.unit.service.test_service import FLEET, service_of


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.setblocking(False)
        yield receiver


def told(heard: socket.socket) -> list[str]:
    messages: list[str] = []
    while True:
        try:
            messages.append(heard.recv(4096).decode())
        except BlockingIOError:
            return messages


def test_supervisor_is_read_from_the_environment(tmp_path: Path) -> None:
    assert supervisor_of({}) == Supervisor()
    from_environment = supervisor_of(
        {
            "NOTIFY_SOCKET": "/run/notify",
            "WATCHDOG_USEC": "30000000",
            "WATCHDOG_PID": str(os.getpid()),
        }
    )
    assert from_environment == Supervisor(address="/run/notify", watchdog_seconds=30)
    for strange in (
        {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "soon"},
    ):
        assert supervisor_of(strange) == Supervisor()


def test_supervisor_is_notified_by_path_and_abstract_name(heard: socket.socket) -> None:
    Supervisor(address=heard.getsockname()).notify("READY=1", "STATUS=well")
    assert told(heard) == ["READY=1\nSTATUS=well"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        name = f"forewarn-test-{os.getpid()}"
        receiver.bind(f"\0{name}")
        Supervisor(address=f"@{name}").notify("READY=1")
        assert receiver.recv(100) == b"READY=1"


def test_missing_supervisor_is_not_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Supervisor().notify("READY=1")
    assert caplog.records == []
    Supervisor(address=str(tmp_path / "gone")).notify("READY=1")
    assert "cannot notify the supervisor" in caplog.text


@pytest.mark.system
@in_loop
async def test_watchdog_is_notified_only_while_the_service_is_alive() -> None:
    fed: list[tuple[str, ...]] = []

    class Hearing(Supervisor):
        def notify(self, *lines: str) -> None:
            fed.append(lines)

    alive, asked = True, 0

    def is_alive() -> bool:
        nonlocal asked
        asked += 1
        return alive

    telling = asyncio.create_task(
        feed_watchdog(
            Hearing(address="x", watchdog_seconds=0.003),
            is_alive,
            lambda: "well",
        )
    )
    await until(lambda: len(fed) >= 3)
    assert set(fed) == {("WATCHDOG=1", "STATUS=well")}
    alive = False
    count, before = len(fed), asked
    await until(lambda: asked >= before + 3)
    assert len(fed) == count
    telling.cancel()


@pytest.mark.system
@in_loop
async def test_service_notifies_ready_watchdog_and_stopping(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.bind(f"\0forewarn-service-{os.getpid()}")
    heard.setblocking(False)
    one = Supervisor(address=f"@forewarn-service-{os.getpid()}", watchdog_seconds=0.03)
    service = service_of()
    serving = asyncio.create_task(
        assembly._serve(service, FleetText(name="fleet.toml", text=FLEET), one)
    )
    lines: list[str] = []

    def has_fed_it_twice() -> bool:
        lines.extend(told(heard))
        return len(lines) > 2

    await until(has_fed_it_twice)
    assert lines[0] == "READY=1"
    assert lines[1] == "WATCHDOG=1\nSTATUS=serving 1 VMs; 0 open operations"
    before = limits.STUCK_SECONDS
    try:
        limits.STUCK_SECONDS = -1
        await until(lambda: "the watchdog is not notified" in caplog.text)
        told(heard)
        caplog.clear()
        await until(lambda: caplog.text.count("the watchdog is not notified") >= 3)
        assert told(heard) == []
    finally:
        limits.STUCK_SECONDS = before
    service._fail(RuntimeError("it is enough"))
    assert await serving == 1
    assert told(heard)[-1] == "STOPPING=1\nSTATUS=stopping"
    heard.close()
    assert supervisor.FEEDS_PER_WATCHDOG > 1
