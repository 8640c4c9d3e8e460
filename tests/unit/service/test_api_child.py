"""Calls of the operator API's process to the service."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from forewarn.control.gateway import BusyError
from forewarn.protocol.errors import BadRequestError
from forewarn.service import limits
from forewarn.service.api_channel import (
    HEAD_BYTES_MAX,
    VALUES_MAX,
    Channel,
    question,
    statement,
)
from forewarn.service.api_child import Service
from forewarn.service.readings import Watchers
from tests.support.loops import in_loop


class Other:
    """The service at the other end."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def asked(self) -> tuple[dict[str, Any], bytes]:
        """Return the next call."""
        head, payload = await asyncio.wait_for(self._channel.receive(), 20)
        return question(head), payload

    async def ping(self) -> None:
        await self._channel.send(statement(("ping",)))

    async def answer(self, number: int, value: object) -> None:
        await self._channel.send(statement(("answer", number, value)))


@contextlib.asynccontextmanager
async def asking(*reaches: bool) -> AsyncGenerator[tuple[Service, Other]]:
    ours, theirs = [await Channel.over(end) for end in socket.socketpair()]
    service = Service(ours, Watchers())
    reached = iter(reaches)

    async def is_reached() -> bool:
        return next(reached)

    listening = asyncio.create_task(service.listen(is_reached=is_reached))
    yield service, Other(theirs)
    theirs.close()
    await listening
    ours.close()


@in_loop
async def test_ping_is_answered_only_if_operators_can_connect() -> None:
    async with asking(False, True) as (service, other):
        await other.ping()
        # Responses come in order, so the ping before it got none.
        asking_it = asyncio.create_task(service.ask("health"))
        message, _ = await other.asked()
        assert message["ask"] == "health"
        await other.answer(message["number"], None)
        await asking_it
        await other.ping()
        assert (await other.asked())[0] == {"ask": "pong"}


@in_loop
async def test_waiting_calls_fail_when_the_service_stops() -> None:
    async with asking() as (service, other):
        waiting = asyncio.create_task(service.ask("order"))
        await other.asked()
        service.give_up()
        with pytest.raises(BusyError, match="stopping"):
            await waiting


@in_loop
async def test_fleet_files_are_sent_one_at_a_time() -> None:
    async with asking() as (service, other):
        first, second = (
            asyncio.create_task(service.ask_with_fleet("merge", payload))
            for payload in (b"first", b"second")
        )
        message, payload = await other.asked()
        assert payload == b"first"
        # Other calls continue meanwhile.
        third = asyncio.create_task(service.ask("health"))
        health, _ = await other.asked()
        assert health["ask"] == "health"
        await other.answer(health["number"], "well")
        assert await third == "well"
        await other.answer(message["number"], 1)
        assert await first == 1
        message, payload = await other.asked()
        assert payload == b"second"
        await other.answer(message["number"], 2)
        assert await second == 2


@in_loop
async def test_abandoned_fleet_file_keeps_its_turn() -> None:
    async with asking() as (service, other):
        first = asyncio.create_task(service.ask_with_fleet("merge", b"first"))
        message, _ = await other.asked()
        first.cancel()
        second = asyncio.create_task(service.ask_with_fleet("merge", b"second"))
        # It starts to wait with the usual limit.
        await asyncio.sleep(0)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(limits, "API_FLEET_TURN_SECONDS", 0.01)
            with pytest.raises(BusyError):
                await service.ask_with_fleet("merge", b"impatient")
        await other.answer(message["number"], 1)
        message, payload = await other.asked()
        assert payload == b"second"
        await other.answer(message["number"], 2)
        assert await second == 2


@in_loop
async def test_number_of_waiting_fleet_files_is_bounded() -> None:
    async with asking() as (service, other):
        first = asyncio.create_task(service.ask_with_fleet("merge", b"first"))
        message, _ = await other.asked()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(limits, "API_FLEETS_WAITING_MAX", 0)
            with pytest.raises(BusyError, match="other fleet files"):
                await service.ask_with_fleet("merge", b"second")
        await other.answer(message["number"], 1)
        assert await first == 1


@in_loop
@pytest.mark.parametrize("name", ["," * VALUES_MAX, "x" * HEAD_BYTES_MAX])
async def test_too_large_request_fails_without_affecting_others(name: str) -> None:
    async with asking() as (service, other):
        # The request contained its commas only in escaped form.
        assert json.loads(json.dumps(name).replace(",", "\\u002c")) == name
        with pytest.raises(BadRequestError):
            await service.ask("order", order={"vms": [name]})
        task = asyncio.create_task(service.ask("health"))
        message, _ = await other.asked()
        await other.answer(message["number"], "well")
        assert await task == "well"
