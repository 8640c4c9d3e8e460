"""Messages that the service accepts from its operator API's process, and rejects."""

import asyncio
import socket
import struct

import pytest

from forewarn.admin.errors import UnauthorizedError
from forewarn.control.requests.idempotency import RepeatedError, Result
from forewarn.fleet.errors import FleetFileError
from forewarn.problems import Problem
from forewarn.protocol.errors import ForewarnError, NotFoundError
from forewarn.service.api_channel import (
    VALUES_MAX,
    Channel,
    ChannelError,
    question,
    stated,
    statement,
)
from tests.support.loops import in_loop


@in_loop
async def test_messages_arrive_whole_and_in_order() -> None:
    ours, theirs = [await Channel.over(end) for end in socket.socketpair()]
    large = b"x" * 3_000_000
    await asyncio.gather(
        ours.send(b"first"), ours.send(b"second", large), ours.send(b""), _heard(theirs)
    )
    ours.close()
    with pytest.raises(EOFError):
        await theirs.receive()
    theirs.close()
    with pytest.raises(ConnectionError):
        await theirs.send(b"too late")


async def _heard(channel: Channel) -> None:
    assert await channel.receive() == (b"first", b"")
    head, payload = await channel.receive()
    assert (head, len(payload)) == (b"second", 3_000_000)
    assert await channel.receive() == (b"", b"")


@in_loop
@pytest.mark.parametrize("lengths", [(11, 0), (0, 11), (2**32 - 1, 2**32 - 1)])
async def test_too_long_message_is_rejected_before_its_body(
    lengths: tuple[int, int],
) -> None:
    ours, end = socket.socketpair()
    channel = await Channel.over(end)
    with ours:
        ours.sendall(struct.pack("!II", *lengths))
        with pytest.raises(ChannelError, match="too long"):
            await channel.receive(head_max=10, payload_max=10)
    channel.close()


@pytest.mark.parametrize(
    "head",
    [b"", b"{", b"[]", b"null", b"\xff", b"[" * 40_000, b"[" + b"1," * VALUES_MAX],
)
def test_invalid_call_is_refused(head: bytes) -> None:
    with pytest.raises(ChannelError):
        question(head)


@pytest.mark.parametrize(
    "error",
    [
        NotFoundError("there is no vm 'x'", hint="look"),
        UnauthorizedError("a token is needed"),
        RepeatedError(Result(value={"a": 1}, is_repeated=True)),
        FleetFileError([Problem(file="f", line=3, key="k", message="wrong")]),
    ],
)
def test_error_is_restored_after_the_channel(error: ForewarnError) -> None:
    again = stated(statement(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__
