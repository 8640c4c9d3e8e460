"""A process of the operator API that does not answer pings is killed."""

import asyncio
import contextlib
import socket

import pytest

from forewarn.service import limits
from forewarn.service.api_channel import Channel, Setup, statement
from forewarn.service.api_process import ApiProcess
from forewarn.service.settings import load_settings
from tests.support.loops import in_loop


class _Clock:
    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> int:
        raise AssertionError("it must not be called")


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
    process = ApiProcess(
        Setup(settings=load_settings(file=None, environ={}, flags={}), tokens=None),
        clock=_Clock(),
    )
    ours, theirs = socket.socketpair()
    channel = await Channel.over(ours)
    process._answered_at = _Clock().monotonic()

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
