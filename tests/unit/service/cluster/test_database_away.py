"""Replicas whose database is unreachable or full wait for it and do not end."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from forewarn.cluster import documents
from forewarn.cluster.port import LeaseRow
from forewarn.fleet.file import FleetText
from forewarn.service import limits
from forewarn.service.cluster import replica as replica_module
from forewarn.store.feed import LeaderStore
from forewarn.store.memory_cluster import MemoryLeaderStore, SharedMemory
from forewarn.store.port import NoSpaceError, StoreGoneError, Transaction
from tests.support.loops import in_loop, until
from tests.unit.service.cluster.test_replicas import (
    FLEET,
    LEASE,
    Backend,
    Replica,
    eventually,
    pair,
)

pytestmark = pytest.mark.system

T = TypeVar("T")

FULL = NoSpaceError("the store db/forewarn cannot do its work", hint="Free some space.")


class FailingStore(MemoryLeaderStore):
    """The store of a term, which fails on request."""

    fault: Exception | None = None

    def transact(self, work: Callable[[Transaction], T]) -> T:
        if self.fault is not None:
            raise self.fault
        return super().transact(work)


class FailingBackend(Backend):
    """A database whose stores fail on request."""

    fault: Exception | None = None
    """Why the next stores fail."""
    store: FailingStore

    def lead(self, row: LeaseRow) -> LeaderStore:
        self.store = FailingStore(self.shared, row.term)
        self.store.fault = self.fault
        return self.store


def failing(replica: Replica) -> FailingBackend:
    """Return the backend of a replica whose stores fail on request."""
    assert isinstance(replica.backend, FailingBackend)
    return replica.backend


@in_loop
async def test_replica_that_starts_waits_for_its_database(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "DATABASE_AGAIN_SECONDS", 0.01)
    replica = Replica("r1", Backend(SharedMemory()))
    replica.backend.is_cut = True
    start = asyncio.create_task(replica.service.start())
    try:
        await until(
            lambda: (
                "waiting for the database: cut off: prepare. Connect it." in caplog.text
            )
        )
        assert not start.done()
        replica.backend.is_cut = False
        await start
        await until(lambda: replica.leads)
        # Once for each reason, and not for each attempt.
        assert caplog.text.count("waiting for the database") == 1
    finally:
        await replica.service.stop()


async def begun(first: Replica, second: Replica) -> FailingBackend:
    """Let the second replica lead; return its backend, which fails on request."""
    backend = failing(second)
    first.backend.is_cut = True
    await until(lambda: second.leads)
    first.backend.is_cut = False
    await eventually(second.is_served)
    return backend


@in_loop
async def test_leader_without_work_says_that_its_database_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No request comes: the renewal of the lease notices it."""
    for module in (documents, replica_module):
        monkeypatch.setattr(module, "READ_LEASE", 3 * LEASE)
    only = Replica("r1", Backend(SharedMemory()))
    await only.service.start(fleet=FleetText(name="fleet.toml", text=FLEET))
    try:
        await until(lambda: only.leads)
        assert await eventually(lambda: is_ready(only))
        only.backend.is_cut = True
        await until(lambda: bool(only.service.health().problems))
        away = "the database does not answer: this replica cannot renew its lease"
        assert only.service.health().problems == (away,)
        await until(lambda: not only.service.health().ready)
        _, answer = await only.ask("/readyz")
        assert answer["problems"] == [f"{away}, and its documents may be old"]
        assert (await only.metrics())["ready",] == 0
        only.backend.is_cut = False
        assert await eventually(lambda: is_ready(only))
        assert only.service.health().problems == ()
    finally:
        await only.service.stop()


async def is_ready(replica: Replica) -> bool:
    return (await replica.ask("/readyz"))[0] == 200


@in_loop
async def test_leader_without_an_answer_of_its_database_follows_and_leads_again() -> (
    None
):
    async with pair(FailingBackend) as (first, second):
        backend = await begun(first, second)
        order = {"hosts": ["h1"], "impact": "freeze"}
        backend.store.fault = StoreGoneError("the store db/forewarn does not answer")
        status, answer = await second.ask("/v1/maintain", order)
        away = "the store cannot be written: the database does not answer"
        assert (status, answer["error"]) == (503, away)
        # A probe meanwhile must not restart it.
        row = second.service._led
        while second.service._lost is not row or not (first.leads or second.leads):
            assert second.service.health().alive
            await asyncio.sleep(0)
        assert second.service.failure is None


@in_loop
async def test_full_disk_of_the_database_refuses_requests_and_keeps_the_leader() -> (
    None
):
    # While the disk is full, the machine may not be late for the lease.
    async with pair(FailingBackend, cluster__lease="3s") as (first, second):
        backend = await begun(first, second)
        order = {"hosts": ["h1"], "impact": "freeze"}
        assert (await second.ask("/v1/maintain", order))[0] == 201
        [event] = await eventually(second.events)
        backend.store.fault = FULL
        status, answer = await second.ask("/v1/restore", {"names": ["h1"]})
        assert status == 503
        assert answer["error"] == "the store cannot be written: its disk is full"
        assert answer["hint"] == "Free some space. Then try again."
        for replica in (first, second):
            assert (await replica.approve(event["EventId"]))[0] == 503
            await eventually(replica.is_served)
        assert second.service.failure is None
        backend.store.fault = None
        await eventually(lambda: first.is_approved(event["EventId"]))


@in_loop
async def test_takeover_that_cannot_write_is_tried_again() -> None:
    async with pair(FailingBackend) as (first, second):
        backend = failing(second)
        backend.fault = FULL
        first.backend.is_cut = True
        await until(lambda: hasattr(backend, "store"))
        row = second.service._led
        await until(lambda: second.service._lost is not None)
        assert second.service._lost is row or row is None
        backend.fault = None
        await until(lambda: second.leads)
        assert second.service.failure is None
