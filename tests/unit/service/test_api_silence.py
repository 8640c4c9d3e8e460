"""A process of the operator API that does not start or answer pings is killed."""

import asyncio
import contextlib
import socket

import pytest

from forewarn.service import limits
from forewarn.service.api_channel import Channel, Setup, statement
from forewarn.service.api_process import ApiProcess
from forewarn.service.listening import StartError
from forewarn.service.settings import load_settings
from tests.support.loops import in_loop


class _Clock:
    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> int:
        raise AssertionError("it must not be called")


def _api_process() -> ApiProcess:
    settings = load_settings(file=None, environ={}, flags={})
    return ApiProcess(Setup(settings=settings, tokens=None), clock=_Clock())


@pytest.mark.parametrize("messages", [0, 2_000])
@in_loop
async def test_unread_messages_do_not_delay_the_ping_timeout(
    messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ping waits behind messages that fill the socket."""
    monkeypatch.setattr(limits, "API_PING_SECONDS", 0.01)
    monkeypatch.setattr(limits, "API_SILENT_SECONDS", 0.05)
    killed = asyncio.Event()
    monkeypatch.setattr(ApiProcess, "_kill", lambda _self: killed.set())
    process = _api_process()
    ours, theirs = socket.socketpair()
    channel = await Channel.over(ours)
    process._serves, process._answered_at = True, _Clock().monotonic()

    async def tell() -> None:
        for number in range(messages):
            await channel.send(statement(("changed", (f"op-{number:010d}",) * 50)))

    telling = asyncio.create_task(tell())
    pinging = asyncio.create_task(process._ping(channel))
    async with asyncio.timeout(20):
        await killed.wait()
    assert telling.done() is not bool(messages)
    for task in (telling, pinging):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    theirs.close()
    channel.close()


@pytest.mark.parametrize(
    ("serves", "said"),
    [
        (False, "has not served operators for"),
        (True, "has not answered a ping for"),
    ],
)
@in_loop
async def test_process_that_starts_has_its_own_limit(
    serves: bool,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The pings of a start are not answered, and only the other limit ends a start."""
    limit, other = "API_START_SECONDS", "API_SILENT_SECONDS"
    if serves:
        limit, other = other, limit
    monkeypatch.setattr(limits, "API_PING_SECONDS", 0.001)
    monkeypatch.setattr(limits, limit, 0.05)
    monkeypatch.setattr(limits, other, 0.0)
    killed = asyncio.Event()
    monkeypatch.setattr(ApiProcess, "_kill", lambda _self: killed.set())
    process, clock = _api_process(), _Clock()
    ours, theirs = socket.socketpair()
    channel = await Channel.over(ours)
    began = clock.monotonic()
    process._serves, process._answered_at = serves, began
    async with asyncio.timeout(20):
        await process._ping(channel)
    assert killed.is_set()
    assert clock.monotonic() - began >= 0.05
    assert said in caplog.text
    theirs.close()
    channel.close()


@in_loop
async def test_each_start_that_takes_too_long_gives_the_next_one_twice_the_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "API_PING_SECONDS", 0.001)
    monkeypatch.setattr(limits, "API_START_SECONDS", 0.01)
    monkeypatch.setattr(limits, "API_START_SECONDS_MAX", 0.03)
    monkeypatch.setattr(ApiProcess, "_kill", lambda _self: None)
    process, clock = _api_process(), _Clock()
    for given, following in ((0.01, 0.02), (0.02, 0.03), (0.03, 0.03)):
        ours, theirs = socket.socketpair()
        channel = await Channel.over(ours)
        process._answered_at = began = clock.monotonic()
        async with asyncio.timeout(20):
            await process._ping(channel)
        assert clock.monotonic() - began >= given
        assert f"for {given:g} s, so it is killed" in caplog.text
        assert caplog.messages[-1].endswith(f"its next start has {following:g} s")
        channel.close()
        theirs.close()
    process._ready = asyncio.get_running_loop().create_future()
    ours, theirs = socket.socketpair()
    channel, other = await Channel.over(ours), await Channel.over(theirs)
    await other.send(b'{"ask":"ready"}')
    other.close()
    with pytest.raises(EOFError):
        await process._receive(channel)
    assert process._start_seconds == 0.01, (
        "it serves, so the next start has the usual time"
    )
    channel.close()


@in_loop
async def test_start_that_takes_too_long_says_how_the_process_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "API_READY_SECONDS", 0.01)
    process = _api_process()
    process._ready = asyncio.get_running_loop().create_future()
    with pytest.raises(StartError) as first:
        await process.ready()
    assert first.value.message == (
        "the process of the operator API did not start within 0.01 s"
    )
    process._ends += ["signal 9"]
    with pytest.raises(StartError) as once:
        await process.ready()
    assert once.value.message.endswith(": it ended once before that, with signal 9")
    process._ends += ["signal 11"]
    with pytest.raises(StartError) as twice:
        await process.ready()
    assert twice.value.message.endswith(
        "2 times before that, the last time with signal 11"
    )
