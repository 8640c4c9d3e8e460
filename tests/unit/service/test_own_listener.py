"""The operator API's process asks its own listener whether it takes connections."""

import asyncio
import socket
from pathlib import Path

import pytest

from forewarn.metadata.limits import Limits
from forewarn.service import limits
from forewarn.service.admin_door import Door, OwnListener
from tests.support.loops import in_loop


class _Taking(asyncio.Protocol):
    """Reports each connection to the door, as the API does."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._door.came.set()
        transport.close()


def listener_at(place: str, directory: Path) -> socket.socket:
    """Return a listener at an address or path."""
    if place == "unix":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(directory / "api"))
    else:
        family = socket.AF_INET6 if ":" in place else socket.AF_INET
        listener = socket.socket(family)
        listener.bind((place, 0))
    listener.setblocking(False)
    listener.listen()
    return listener


@pytest.mark.parametrize("place", ["127.0.0.1", "0.0.0.0", "::1", "::", "unix"])
@in_loop
async def test_served_listener_accepts_connections(place: str, tmp_path: Path) -> None:
    door = Door(Limits(), monotonic=lambda: 0.0)
    with listener_at(place, tmp_path) as listener:
        own = OwnListener(listener, door)
        loop = asyncio.get_running_loop()
        if place == "unix":
            server = await loop.create_unix_server(lambda: _Taking(door), sock=listener)
        else:
            server = await loop.create_server(lambda: _Taking(door), sock=listener)
        async with server:
            assert await own.takes_connections()
            assert await own.takes_connections(), "also the second time"


@in_loop
async def test_slow_iteration_of_the_loop_does_not_hide_a_served_listener(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The timeout ends before the loop looks at the listener.
    monkeypatch.setattr(limits, "API_REACH_SECONDS", 0.0)
    door = Door(Limits(), monotonic=lambda: 0.0)
    with listener_at("127.0.0.1", tmp_path) as listener:
        loop = asyncio.get_running_loop()
        async with await loop.create_server(lambda: _Taking(door), sock=listener):
            assert await OwnListener(listener, door).takes_connections()


@in_loop
async def test_unserved_listener_takes_no_connections(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(limits, "API_REACH_SECONDS", 0.05)
    door = Door(Limits(), monotonic=lambda: 0.0)
    with listener_at("127.0.0.1", tmp_path) as listener:
        own = OwnListener(listener, door)
        assert not await own.takes_connections()
        # A connection of another client makes the check unnecessary.
        door.came.set()
        assert await own.takes_connections()
        assert not await own.takes_connections()
