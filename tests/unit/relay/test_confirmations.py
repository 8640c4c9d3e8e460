"""A relay confirms what it has applied, and tells the service that it is there."""

import asyncio
import json
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from forewarn.clock import SystemClock
from forewarn.relay import limits, messages
from forewarn.relay.memory import Memory
from forewarn.relay.process import Relay
from tests.unit.relay.service import Service
from tests.unit.relay.test_process import (
    WHOLE,
    change,
    knowing,
    relaying,
    settings_of,
    until,
)

FIRST, SECOND = "3.7.abc", "3.8.abc"
"""The positions of the whole and of a change after it."""

EMPTY = json.dumps({"position": SECOND, "since": 7}) + "\n"


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_each_position_with_content_is_confirmed_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with knowing(tmp_path) as (service, relay):
            await until(lambda: service.confirmed == [FIRST])
            service.tell(change(9))
            await until(lambda: service.confirmed == [FIRST, SECOND])
            # A line without content only says that nothing has changed.
            service.tell(EMPTY)
            service.tell(change(10, number=9).replace('"since": 7', '"since": 8'))
            await until(lambda: len(service.confirmed) == 3)
            assert service.confirmed[-1] == "3.9.abc"
            assert relay.knowledge.position.text == "3.9.abc"

    run(story())


def test_position_is_confirmed_only_after_it_is_in_the_file_and_served(
    tmp_path: Path,
) -> None:
    file = tmp_path / "relay.json"

    class Slow(Memory):
        """A file whose disk waits for the test."""

        def write(self, knowledge: Any) -> None:
            is_writing.set()
            asyncio.run_coroutine_threadsafe(disk.wait(), loop).result()
            super().write(knowledge)

    async def story() -> None:
        async with Service() as service:
            relay = Relay(
                settings_of(tmp_path, service.url), memory=Slow(file), draw=lambda: 0.0
            )
            await relay.start()
            await service.stream()
            service.tell(WHOLE)
            await until(is_writing.is_set)
            assert service.confirmed == []
            assert not file.exists()
            disk.set()
            await until(lambda: service.confirmed == [FIRST])
            assert relay.endpoint.is_open(SystemClock().monotonic())
            assert messages.line_of(file.read_bytes()).position.text == FIRST
            await relay.stop()

    async def begin() -> None:
        nonlocal loop, disk
        loop, disk = asyncio.get_running_loop(), asyncio.Event()
        await story()

    loop: Any = None
    disk: Any = None
    is_writing = threading.Event()
    run(begin())


def test_changes_that_follow_soon_are_confirmed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONFIRM_SPREAD_SECONDS", 0.2)

    async def story() -> None:
        async with Service() as service:
            relay = Relay(settings_of(tmp_path, service.url), draw=lambda: 1.0)
            # Only the first connection waits for the draw.
            monkeypatch.setattr(limits, "FIRST_PAUSE_SECONDS", 0.0)
            await relay.start()
            await service.stream()
            service.tell(WHOLE)
            service.tell(change(9))
            await until(lambda: service.confirmed != [])
            assert service.confirmed == [SECOND]
            await relay.stop()

    run(story())


def test_confirmation_that_is_not_taken_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONFIRM_SECONDS", 0.0)

    async def story() -> None:
        async with Service() as service, relaying(settings_of(tmp_path, service.url)):
            service.confirms_with = 503
            await service.stream()
            service.tell(WHOLE)
            await until(lambda: service.confirmed[:2] == [FIRST, FIRST])
            service.confirms_with = 200
            service.confirmed.clear()
            await until(lambda: service.confirmed != [])

    run(story())


def test_service_of_an_earlier_version_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONFIRM_SECONDS", 0.0)

    async def story() -> None:
        async with Service() as service, relaying(settings_of(tmp_path, service.url)):
            service.confirms_with = 404
            await service.stream()
            service.tell(WHOLE)
            await until(lambda: service.confirmed == [FIRST])
            service.tell(change(9))
            await until(lambda: len(service.confirmed) == 2)
            assert service.confirmed == [FIRST, SECOND]

    run(story())


def test_relay_without_requests_of_vms_tells_that_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SEEN_SECONDS", 0.01)

    async def story() -> None:
        async with knowing(tmp_path) as (service, _):
            await until(lambda: service.confirmed[:2] == [FIRST, FIRST])

    run(story())
