"""Tests of worlds that end during a wait, in a fork, or by garbage collection."""

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
import unittest
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from forewarn.protocol.errors import RefusedError
from forewarn.testing import ScheduledEvents
from forewarn.testing.client import HttpClient
from forewarn.testing.kit.ending import SharedLoop
from forewarn.testing.kit.failure_report import NotSeenError
from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.support.programs import Program


def test_closing_a_world_frees_all_resources() -> None:
    before = threading.active_count()
    with ScheduledEvents() as one:
        port = int(one.vm("web_0").url.rpartition(":")[2])
        with ScheduledEvents() as other:
            assert one.vm("web_0").url != other.vm("web_0").url
            assert threading.active_count() <= before + 1
        one.close()
        one.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
    assert threading.active_count() == before
    gc.collect()


def test_closed_world_refuses_calls() -> None:
    with ScheduledEvents() as world:
        event = world.vm("web_0").reboot()
    questions: list[Callable[[], object]] = [
        event.wait_for_approval,
        event.start,
        world.vm("web_1").preempt,
        lambda: world.run_scenario("rollout"),
        lambda: world.journal,
    ]
    for ask in questions:
        with pytest.raises(RefusedError, match="this world is closed"):
            ask()
    assert event.id in repr(event)


def test_loop_ends_with_its_last_lease() -> None:
    shared = SharedLoop()
    before = threading.active_count()
    first = shared.lease()
    assert shared.lease() is first
    shared.give_back()
    assert threading.active_count() == before + 1
    shared.give_back()
    assert threading.active_count() == before


def test_closing_a_world_ends_a_blocking_wait() -> None:
    world = ScheduledEvents(clock="virtual")
    event = world.vm("web_0").reboot()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(event.wait_for_approval, PATIENCE_SECONDS)
        _until_somebody_waits(world)
        world.close()
        with pytest.raises(RefusedError, match=r"closed while this waited\nhint: "):
            waiting.result(PATIENCE_SECONDS)


def test_closing_a_world_ends_an_awaited_wait() -> None:
    async def main() -> None:
        world = ScheduledEvents(clock="virtual")
        event = world.vm("web_0").reboot()
        waiting = asyncio.create_task(event.aio.wait_for_approval(PATIENCE_SECONDS))
        await asyncio.to_thread(_until_somebody_waits, world)
        await asyncio.to_thread(world.close)
        with pytest.raises(RefusedError, match="closed while this waited"):
            await waiting

    asyncio.run(main())


def test_cancelled_wait_raises_cancelled_error() -> None:
    async def main() -> None:
        with ScheduledEvents(clock="virtual") as world:
            event = world.vm("web_0").reboot()
            waiting = asyncio.create_task(event.aio.wait_for_approval(60))
            await asyncio.to_thread(_until_somebody_waits, world)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(main())


def _until_somebody_waits(world: ScheduledEvents) -> None:
    bell = world._core.bell
    eventually(lambda: bell._waiters, bool)


FORK = """
import os, sys
from forewarn.protocol.errors import RefusedError
from forewarn.testing import ScheduledEvents
from tests.support.programs import Program

with ScheduledEvents(vms=1) as world:
    event = world.vm("web_0").reboot()
    child = os.fork()
    if not child:
        for ask in (lambda: event.status, event.wait_for_approval, world.vm("web_0").freeze):
            try:
                ask()
            except RefusedError as error:
                print(error, flush=True)
        with ScheduledEvents(vms=1) as own:
            print(own.vm("web_0").reboot().status, flush=True)
        world.close()
        del world, event
        os._exit(0)
    os.waitpid(child, 0)
    print(event.status, len(Program(world.vm("web_0").url).events()))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_cannot_use_the_parents_world() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == 8, lines
    for sentence, hint in (lines[0:2], lines[2:4], lines[4:6]):
        assert sentence.startswith("this world belongs to process ")
        assert sentence.endswith(", a fork of it")
        assert (
            hint == "hint: Begin another world here, or use its VMs through their URLs."
        )
    assert lines[6:] == ["Scheduled", "Scheduled 1"]


def test_collected_world_is_reported_and_ended() -> None:
    gc.collect()
    files, threads = _open_files(), threading.active_count()
    held = [ScheduledEvents(scenario="user-reboot").vm("web_0").freeze()]
    gc.collect()
    # Its VMs and events hold a reference to it.
    assert held[0].status == "Scheduled"
    with pytest.warns(ResourceWarning, match="^unclosed <ScheduledEvents web_0, web_1"):
        _drop(held)
    eventually(threading.active_count, lambda count: count <= threads)
    eventually(_open_files, lambda count: count <= files)


@pytest.mark.slow
def test_dropped_world_with_an_operator_api_is_closed() -> None:
    with ScheduledEvents(vms=1, clock="virtual") as other:
        files = _open_files()
        held = [ScheduledEvents(vms=1)]
        assert held[0].api_url
        with pytest.warns(ResourceWarning, match="^unclosed <ScheduledEvents web_0>"):
            _drop(held)
        eventually(_open_files, lambda count: count <= files)
        assert Program(other.vm("web_0").url).events() == []


def test_closed_world_is_not_reported() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        ScheduledEvents(vms=1).close()
        with pytest.raises(RefusedError):
            ScheduledEvents(vms=0)
        gc.collect()


def _drop(held: list[Any]) -> None:
    held.clear()
    gc.collect()


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_closing_a_world_judges_it_first() -> None:
    world = ScheduledEvents(scenario="user-reboot")
    with pytest.raises(NotSeenError, match="a client asks for its events"):
        world.close()
    assert not world.is_open
    world.close()
    with pytest.raises(RefusedError, match="this world is closed"):
        world.judge()


def test_world_closed_inside_its_with_block_is_judged_once() -> None:
    messages: list[str] = []
    with ScheduledEvents(vms=1, profile="strict") as world:
        HttpClient(world.vms[0].url, timeout_seconds=5).ask("GET", "/metadata/nothing")
        try:
            world.close()
        except NotSeenError as error:
            messages.append(error.message)
    assert "clients deviated from the protocol" in messages[0]


def test_failed_test_reports_only_its_own_failure() -> None:
    with pytest.raises(ZeroDivisionError), ScheduledEvents(scenario="user-reboot"):
        raise ZeroDivisionError
    world = ScheduledEvents(scenario="user-reboot")
    world.close(judge=False)
    assert not world.is_open


def test_unittest_cleanup_judges_the_world() -> None:
    class Closing(unittest.TestCase):
        def test_it(self) -> None:
            world = ScheduledEvents(scenario="user-reboot")
            self.addCleanup(world.close)

    result = unittest.TestResult()
    Closing("test_it").run(result)
    [(_, told)] = result.failures
    assert "a client asks for its events" in told
