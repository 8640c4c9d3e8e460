"""The client for a monitor of QEMU, against a fake one that speaks QMP."""

import asyncio
import json
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.drivers.qemu import qmp
from forewarn.drivers.qemu.qmp import (
    ClosedError,
    CommandError,
    Event,
    Monitor,
    MonitorError,
    NoMonitorError,
    SlowError,
    open_monitor,
)
from tests.support.fake_qemu import FakeQemu
from tests.support.fake_qemus import FakeQemus

pytestmark = pytest.mark.system

GREETING = b'{"QMP": {"version": {}, "capabilities": []}}\r\n'


@pytest.fixture
def qemus(tmp_path: Path) -> Iterator[FakeQemus]:
    qemus = FakeQemus(tmp_path)
    yield qemus
    qemus.end()


LIVING: list[FakeQemu] = []
"""The fake QEMUs of the test that runs."""


async def living(directory: Path) -> Path:
    """Return the monitor of a fake QEMU in this process."""
    LIVING.append(FakeQemu())
    await LIVING[-1].listen(directory / "monitor")
    return directory / "monitor"


def run(work: Coroutine[Any, Any, None]) -> None:
    async def ended() -> None:
        try:
            await work
        finally:
            while LIVING:
                await LIVING.pop().close()

    asyncio.run(ended())


def test_command_returns_its_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with await open_monitor(await living(tmp_path)) as monitor:
            await monitor.execute("stop")
            assert (await monitor.execute("query-status"))["status"] == "paused"

    run(story())


def test_refused_command_has_the_class_and_text_of_the_error(tmp_path: Path) -> None:
    async def story() -> None:
        async with await open_monitor(await living(tmp_path)) as monitor:
            with pytest.raises(CommandError, match="qom-get: Device") as caught:
                await monitor.execute(
                    "qom-get", {"path": "/objects/none", "property": "identity"}
                )
            assert caught.value.kind == "DeviceNotFound"
            # The monitor serves further commands.
            assert (await monitor.execute("query-status"))["running"]

    run(story())


def test_events_are_values_in_their_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with await open_monitor(await living(tmp_path)) as monitor:
            for command in ("stop", "cont", "system_reset"):
                await monitor.execute(command)
            events = monitor.take_events()
            assert [event.name for event in events] == ["STOP", "RESUME", "RESET"]
            assert events[2].data["reason"] == "host-qmp-system-reset"
            assert 0 < events[0].at <= events[2].at
            assert monitor.take_events() == []

    run(story())


def test_waiting_for_an_event_drops_those_before_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with await open_monitor(await living(tmp_path)) as monitor:
            await monitor.execute("stop")
            await monitor.execute("cont")
            event = await monitor.wait_for({"RESUME"}, seconds=5)
            assert event is not None
            assert event.name == "RESUME"
            assert await monitor.wait_for({"RESUME"}, seconds=0.01) is None

    run(story())


def test_killed_qemu_ends_every_wait(qemus: FakeQemus) -> None:
    async def story() -> None:
        async with await open_monitor(qemus.start("web_0", "h1")) as monitor:
            waits = [
                asyncio.create_task(monitor.wait_for({"SHUTDOWN"}, seconds=60)),
                asyncio.create_task(monitor.execute("x-hang", seconds=60)),
                asyncio.create_task(monitor.news()),
            ]
            await asyncio.sleep(0)
            qemus.kill("web_0", "h1")
            ended = await asyncio.gather(*waits, return_exceptions=True)
            assert [type(error) for error in ended] == [
                ClosedError,
                ClosedError,
                ClosedError,
            ]
            assert monitor.has_ended
            with pytest.raises(ClosedError):
                await monitor.execute("query-status")

    run(story())


def test_command_without_an_answer_fails_at_its_deadline(tmp_path: Path) -> None:
    async def story() -> None:
        async with await open_monitor(await living(tmp_path)) as monitor:
            with pytest.raises(SlowError, match=r"x-hang: no answer within 0\.05 s"):
                await monitor.execute("x-hang", seconds=0.05)

    run(story())


def test_socket_of_a_killed_qemu_tells_that_it_does_not_run(qemus: FakeQemus) -> None:
    path = qemus.start("web_0", "h1")
    qemus.kill("web_0", "h1")

    async def story() -> None:
        for each_path in (path, path.with_name("none")):
            with pytest.raises(NoMonitorError, match="no QEMU listens on"):
                await open_monitor(each_path)

    run(story())


def test_second_client_of_a_monitor_is_told_so(tmp_path: Path) -> None:
    async def story() -> None:
        path = await living(tmp_path)
        async with await open_monitor(path):
            with pytest.raises(SlowError, match="another client may use it"):
                await open_monitor(path, seconds=0.05)
        async with await open_monitor(path) as monitor:
            assert (await monitor.execute("query-status"))["running"]

    run(story())


# Peers that do not speak QMP


async def meeting(tmp_path: Path, *said: bytes, answers: bytes = b"") -> Monitor:
    """Return a monitor at a peer that sends `said`, and then `answers` to a command."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.writelines(said)
        if GREETING not in said:
            writer.close()
            return
        while line := await reader.readline():
            number = json.loads(line)["id"]
            if number == 1:
                writer.write(b'{"return": {}, "id": 1}\n')
            else:
                writer.write(answers)
                break
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "peer")
    async with server:
        return await open_monitor(tmp_path / "peer", seconds=5)


@pytest.mark.parametrize("said", [b"", b"SSH-2.0\r\n", b"[]\n", b'{"QMX": 1}\n'])
def test_peer_without_a_greeting_is_no_monitor(tmp_path: Path, said: bytes) -> None:
    async def story() -> None:
        with pytest.raises(ClosedError):
            await meeting(tmp_path, said)

    run(story())


def test_message_that_is_too_long_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qmp, "LINE_BYTES_MAX", 1000)

    async def story() -> None:
        async with await meeting(tmp_path, GREETING, answers=b"1" * 5000) as monitor:
            with pytest.raises(ClosedError):
                await monitor.execute("query-status")

    run(story())


def test_invalid_message_ends_the_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with await meeting(tmp_path, GREETING, answers=b"{\n") as monitor:
            with pytest.raises(ClosedError):
                await monitor.execute("query-status")

    run(story())


def test_late_answer_is_dropped_and_newest_events_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qmp, "EVENTS_KEPT", 2)
    events = b"".join(b'{"event": "E%d", "data": 1}\n' % number for number in range(4))
    late = b'{"return": {}, "id": 77}\n'

    async def story() -> None:
        async with await meeting(tmp_path, GREETING, answers=late + events) as monitor:
            with pytest.raises(MonitorError):
                await monitor.execute("query-status")
            assert monitor.take_events() == [Event(name="E2"), Event(name="E3")]

    run(story())


def test_socket_that_cannot_be_reached_is_reported(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(
            MonitorError, match=r"AF_UNIX path too long|Not a directory"
        ):
            await open_monitor(Path(__file__) / "monitor")

    run(story())
