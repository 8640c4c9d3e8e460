"""Replicas that take over under difficulties."""

import asyncio
import threading

import pytest

from forewarn.fleet.file import FleetText
from forewarn.service import limits
from forewarn.store.port import LostError
from tests.support import processes
from tests.support.loops import in_loop, until
from tests.unit.service.cluster.test_replicas import FLEET, Backend, eventually, pair

pytestmark = pytest.mark.system

WITHOUT_VMS = FLEET[: FLEET.index("[[vm]]")]


class BlindBackend(Backend):
    """A database of which a replica can lose the feed only."""

    is_blind = False

    def _fault(self, stage: str) -> None:
        super()._fault(stage)
        if self.is_blind and stage == "send follow":
            raise LostError(f"cut off: {stage}", hint="Connect it.")


@in_loop
async def test_new_leader_serves_no_vm_that_was_removed_while_it_could_not_follow() -> (
    None
):
    async with pair(BlindBackend) as (first, second):
        await eventually(second.is_served)
        assert isinstance(second.backend, BlindBackend)
        second.backend.is_blind = True
        await first.service.apply(FleetText(name="fleet.toml", text=WITHOUT_VMS))
        await first.service.stop()
        await until(lambda: second.leads)
        assert "web" not in second.service.endpoint.directory.by_vm


@in_loop
async def test_leader_whose_control_thread_does_not_end_keeps_the_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "THREAD_SECONDS", 0.05)
    async with pair() as (first, second):
        ended, released = threading.Event(), list[str]()
        first.backend.on_release = lambda: released.append("r1")
        deciding = first.service._deciding
        assert deciding is not None
        hanging = asyncio.create_task(
            deciding.runner.call(lambda _plane, _now: ended.wait(60))
        )
        await first.service.stop()
        assert released == []
        # The lease runs out.
        await until(lambda: second.leads)
        ended.set()
        await hanging
        # Another stop has nothing to release any more.
        await first.service.stop()
        assert released == []


@in_loop
async def test_stop_waits_only_once_for_a_control_thread_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A VM was seen, which the thread would store, and both roles end the thread."""
    monkeypatch.setattr(limits, "THREAD_SECONDS", 0.05)
    async with pair() as (first, _):
        await eventually(first.is_served)
        deciding, ended, waits = (
            first.service._deciding,
            threading.Event(),
            list[float](),
        )
        assert deciding is not None
        thread = deciding.runner._thread
        join = thread.join

        def recording(seconds: float) -> None:
            waits.append(seconds)
            join(seconds)

        monkeypatch.setattr(thread, "join", recording)
        hanging = asyncio.create_task(
            deciding.runner.call(lambda _plane, _now: ended.wait())
        )
        assert await first.get() == (200, {"DocumentIncarnation": 1, "Events": []})
        try:
            async with asyncio.timeout(processes.PATIENCE_SECONDS):
                await first.service.stop()
        finally:
            ended.set()
        assert waits
        assert sum(waits) <= limits.THREAD_SECONDS
        await hanging


@in_loop
async def test_reads_of_others_delay_neither_the_documents_nor_a_takeover() -> None:
    async with pair() as (first, second):
        replica, endpoint = second.service._replica, second.service.endpoint
        assert replica is not None
        # A question about the cluster that the database does not answer.
        async with replica._asker_turn:
            end = replica.answers_until
            await until(lambda: endpoint.is_open(end))
        free = threading.Event()
        for _ in range(limits.READERS):
            second.service._threads.submit(free.wait)
        try:
            end = replica.answers_until
            await until(lambda: endpoint.is_open(end))
            await first.service.stop()
            await until(lambda: second.leads)
        finally:
            free.set()
