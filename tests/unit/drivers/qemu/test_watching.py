"""The program that watches all QEMUs: what it prints, and when."""

import asyncio
import json
from pathlib import Path
from typing import Any, Self

import pytest

from forewarn.drivers.qemu import watching
from forewarn.drivers.qemu.watching import Watching
from forewarn.drivers.qemu.work import carry_out
from forewarn.protocol.operations import Action
from tests.support.fake_qemus import FakeQemus
from tests.unit.drivers.qemu.living import Living, order_of

pytestmark = pytest.mark.system

KILLED = {
    "vm": "web_0",
    "running": False,
    "host": "h1",
    "cause": "failed",
    "text": "QEMU was killed or has crashed",
}


class Watched:
    """A watching program, and the lines that it prints."""

    def __init__(self, living: Living) -> None:
        self.lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        say = self.lines.put_nowait
        self.watching = Watching(living.places, lambda line: say(json.loads(line)))

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.watching.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(30):
            return await self.lines.get()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "SCAN_SECONDS", 0.02)


@pytest.fixture
def living(tmp_path: Path) -> Living:
    return Living(tmp_path)


def test_killed_qemu_is_seen_and_its_restart_too(tmp_path: Path) -> None:
    living, qemus = Living(tmp_path), FakeQemus(tmp_path)

    async def story() -> None:
        async with Watched(living) as watched:
            await asyncio.to_thread(qemus.start, "web_0", "h1")
            up = {"vm": "web_0", "running": True, "host": "h1"}
            assert await watched.next() == up
            qemus.kill("web_0", "h1")
            assert await watched.next() == KILLED
            await living.start()
            assert await watched.next() == up

    try:
        living.run(story())
    finally:
        qemus.end()


def test_qemu_that_was_killed_before_is_seen_at_the_start(tmp_path: Path) -> None:
    living, qemus = Living(tmp_path), FakeQemus(tmp_path)
    qemus.start("web_0", "h1")
    qemus.kill("web_0", "h1")

    async def story() -> None:
        async with Watched(living) as watched:
            assert await watched.next() == KILLED

    living.run(story())


@pytest.mark.parametrize("stays", [True, False])
def test_guest_that_shuts_itself_down_did_not_fail(
    living: Living, *, stays: bool
) -> None:
    async def story() -> None:
        fake = await living.start()
        fake.when_shut_down = "pause" if stays else "poweroff"
        async with Watched(living) as watched:
            await watched.next()
            fake.shut_down()
            message = await watched.next()
            assert (message["running"], message["cause"]) == (False, "shut-down")

    living.run(story())


def test_freeze_and_reset_are_no_news(living: Living) -> None:
    async def story() -> None:
        await living.start()
        async with Watched(living) as watched:
            await watched.next()
            for action in (Action.FREEZE, Action.REBOOT, Action.PAUSE, Action.RESUME):
                assert await carry_out(living.places, order_of(action)) == 0
            await living.start("web_1")
            assert (await watched.next())["vm"] == "web_1"

    living.run(story())


def test_migration_is_told_as_the_new_host(living: Living) -> None:
    async def story() -> None:
        source = await living.start()
        destination = await living.start(host="h2", incoming=True)
        async with Watched(living) as watched:
            assert (await watched.next())["host"] == "h1"
            uri = {"uri": living.places.migration_of("web_0", "h2")}
            await destination.do_migrate_incoming(uri)
            await source.do_migrate(uri)
            message = await watched.next()
            assert message == {"vm": "web_0", "running": True, "host": "h2"}
            source.quit("host-qmp-quit", guest=False)
            await living.start("web_1")
            assert (await watched.next())["vm"] == "web_1"

    living.run(story())


def test_socket_with_another_name_than_a_fleet_can_have_is_ignored(
    living: Living,
) -> None:
    async def story() -> None:
        await living.start("-rf")
        await living.start("web_0")
        async with Watched(living) as watched:
            assert (await watched.next())["vm"] == "web_0"

    living.run(story())
