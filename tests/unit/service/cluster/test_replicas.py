"""Two replicas of a service over one memory: they lead, follow and take over."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from forewarn.cluster import times
from forewarn.cluster.port import LeaseRow
from forewarn.fleet.file import FleetText
from forewarn.instants import SECOND
from forewarn.metadata.server import Address
from forewarn.service import limits
from forewarn.service.replicated import ReplicatedService
from forewarn.service.settings import load_settings
from forewarn.store.feed import FollowedCluster, LeaderStore
from forewarn.store.memory import MemoryStore
from forewarn.store.memory_cluster import (
    MemoryCluster,
    MemoryLeaderStore,
    SharedMemory,
)
from forewarn.store.port import LostError
from tests.support import processes
from tests.support.loops import in_loop, until

pytestmark = pytest.mark.system

LEASE = 0.5

FLEET = """\
[[tenant]]
name = "shop"

[[host]]
name = "h1"

[[vm]]
name = "web"
tenant = "shop"
host = "h1"
address = "127.0.0.2"
"""

PATH = "/metadata/scheduledevents?api-version=2020-07-01"
WEB = "127.0.0.2"


class Reader(MemoryStore):
    """A reader of the shared memory, which closing leaves to the others."""

    def close(self) -> None:
        pass


class Backend:
    """The shared memory, as one replica reaches it; the test can cut it off."""

    def __init__(self, shared: SharedMemory) -> None:
        self.shared = shared
        self.is_cut = False
        self.reads_after = 0.0
        """Seconds before each snapshot of this replica."""
        self.is_late = False
        """Whether another replica takes the lease just after the next takeover."""
        self.reads = threading.Event()
        """Each snapshot of this replica waits for it."""
        self.reads.set()
        self.on_release: Callable[[], None] = lambda: None
        """Called in the thread that releases the lease, before it does so."""

    def prepare(self) -> MemoryStore:
        self._fault("prepare")
        return Reader(state=self.shared.state)

    def connect(self) -> FollowedCluster:
        return MemoryCluster(self.shared, fault=self._fault)

    def lead(self, row: LeaseRow) -> LeaderStore:
        store = MemoryLeaderStore(self.shared, row.term)
        if self.is_late:
            self.is_late = False
            MemoryCluster(self.shared).take(self.shared.lease, holder="third", url="")
        return store

    def _fault(self, stage: str) -> None:
        if stage == "send release":
            self.on_release()
        if stage == "send follow":
            self.reads.wait(60)
            threading.Event().wait(self.reads_after)
        if self.is_cut:
            raise LostError(f"cut off: {stage}", hint="Connect it.")


class Replica:
    """A replica of the test."""

    def __init__(self, name: str, backend: Backend, **more: str) -> None:
        flags = {
            "metadata.listen": "127.0.0.1:0",
            "admin.listen": "127.0.0.1:0",
            "store.url": "memory://",
            "cluster.lease": f"{LEASE * 1000:g}ms",
            **{key.replace("__", "."): value for key, value in more.items()},
        }
        settings = load_settings(file=None, environ={}, flags=flags)
        named = replace(settings, cluster=replace(settings.cluster, name=name))
        self.name = name
        self.backend = backend
        self.service = ReplicatedService(named, self.backend)

    @property
    def leads(self) -> bool:
        return self.service.health().role == "leads"

    async def get(self, path: str = PATH, *, vm: str = WEB) -> tuple[int, Any]:
        return await exchange(self.service.addresses()[""], vm, "GET", path)

    async def approve(self, *event_ids: str, vm: str = WEB) -> tuple[int, Any]:
        body = {"StartRequests": [{"EventId": event_id} for event_id in event_ids]}
        address = self.service.addresses()[""]
        return await exchange(address, vm, "POST", PATH, json.dumps(body))

    async def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        method = "GET" if body is None else "POST"
        text = "" if body is None else json.dumps(body)
        return await exchange(
            self.service.admin_address, "127.0.0.1", method, path, text
        )

    async def metrics(self) -> dict[tuple[str, ...], float]:
        """Return the metrics by name and values of their labels."""
        samples: dict[tuple[str, ...], float] = {}
        for reading in await self.service.metrics.collect(self.service._parts()):
            name = reading.meter.name.removeprefix("forewarn_")
            label_values = reading.meter.keys()
            samples |= dict.fromkeys(((name, *key) for key in label_values), 0.0)
            values = reading.values
            for key, value in (
                values.items() if isinstance(values, Mapping) else [((), values)]
            ):
                labels = (key,) if isinstance(key, str) else key
                if isinstance(value, int | float):
                    samples[name, *labels] = value
        return samples

    async def events(self) -> list[dict[str, Any]]:
        """Return the events; none while VMs are asked to try again."""
        status, document = await self.get()
        assert status in {200, 429, 503}, document
        return document["Events"] if status == 200 else []

    async def is_served(self) -> bool:
        return (await self.get())[0] == 200

    async def is_approved(self, event_id: str) -> bool:
        """Approve, as a VM does that repeats what got 503; return whether it is done."""
        status, answer = await self.approve(event_id)
        assert status in {200, 429, 503}, answer
        return status == 200


async def exchange(
    address: Address, source: str, method: str, path: str, body: str = ""
) -> tuple[int, Any]:
    """Send a request from an address of this machine; return status and JSON."""
    reader, writer = await asyncio.open_connection(*address, local_addr=(source, 0))
    head = [
        f"{method} {path} HTTP/1.1",
        f"Host: 127.0.0.1:{address[1]}",
        "Metadata: true",
        "Connection: close",
    ]
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    writer.write("\r\n".join([*head, "", body]).encode())
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    first, _, rest = answer.partition(b"\r\n\r\n")
    return int(first.split()[1]), json.loads(rest) if rest else None


@contextlib.asynccontextmanager
async def pair(
    reach: Callable[[SharedMemory], Backend] = Backend, **more: str
) -> AsyncGenerator[tuple[Replica, Replica]]:
    """Run two replicas; the first one leads, and the second reaches the memory by `reach`."""
    shared = SharedMemory()
    first = Replica("r1", Backend(shared), **more)
    second = Replica("r2", reach(shared), **more)
    fleet = FleetText(name="fleet.toml", text=FLEET)
    try:
        await first.service.start(fleet=fleet)
        await until(lambda: first.leads)
        await until(lambda: "web" in first.service.endpoint.directory.by_vm)
        await second.service.start(fleet=fleet)
        yield first, second
    finally:
        await second.service.stop()
        await first.service.stop()


async def eventually(find: Callable[[], Awaitable[Any]]) -> Any:
    """Return the first result that is true, of an asynchronous question."""
    async with asyncio.timeout(60):
        for attempt in iter(find, None):
            if result := await attempt:
                return result
    raise AssertionError("the loop has no end")


@in_loop
async def test_follower_serves_what_the_leader_commits_and_passes_approvals_on() -> (
    None
):
    async with pair() as (first, second):
        assert first.leads
        assert not second.leads
        # The first request of the VM reaches the replica that follows.
        await eventually(second.is_served)
        assert await second.events() == []
        assert await first.get() == await second.get()
        order = {"hosts": ["h1"], "impact": "freeze"}
        assert (await first.ask("/v1/maintain", order))[0] == 201
        [event] = await eventually(second.events)
        assert event["EventStatus"] == "Scheduled"
        assert await second.approve(event["EventId"]) == (200, None)
        # It reads what it wrote.
        events = await second.events()
        assert events == [] or events[0]["EventStatus"] == "Started"
        assert await second.approve("1" * 36) == await first.approve("1" * 36)
        leads, follows = await first.metrics(), await second.metrics()
        assert leads["cluster_role", "leads"] == follows["cluster_role", "follows"] == 1
        assert leads["cluster_takeovers_total",] == leads["cluster_term",] == 1
        assert follows["cluster_takeovers_total",] == 0
        assert follows["cluster_replicas", "seen"] == 2
        assert follows["cluster_renewal_age_seconds",] == 0
        assert 0 < leads["cluster_renewal_age_seconds",] < LEASE
        assert leads["cluster_standby", "not set"] == 1
        passed = "cluster_passed_on_total"
        assert follows[passed, "enable", "accepted"] >= 1
        assert follows[passed, "approve", "accepted"] == 1


@in_loop
@pytest.mark.parametrize("reads_after", [0.2, 30.0])
async def test_approval_is_answered_when_the_other_replica_serves_it(
    monkeypatch: pytest.MonkeyPatch, reads_after: float
) -> None:
    """Or after a bound, since it is durable."""
    is_late = reads_after > 1
    bound = 0.3 if is_late else 20.0
    monkeypatch.setattr(limits, "SERVED_SECONDS", bound)
    async with pair() as (first, second):
        await eventually(second.is_served)
        order = {"hosts": ["h1"], "impact": "freeze"}
        assert (await first.ask("/v1/maintain", order))[0] == 201
        [event] = await eventually(second.events)
        second.backend.reads_after = min(reads_after, 2.0)
        assert await first.approve(event["EventId"]) == (200, None)
        [read] = await second.events()
        assert read["EventStatus"] == ("Scheduled" if is_late else "Started")
        second.backend.reads_after = 0.0
        # A refusal waits for nothing.
        assert (await first.approve("1" * 36))[0] == 400


@in_loop
async def test_replica_takes_over_when_the_leader_loses_the_database() -> None:
    async with pair() as (first, second):
        await eventually(second.is_served)
        order = {"hosts": ["h1"], "impact": "freeze"}
        assert (await first.ask("/v1/maintain", order))[0] == 201
        [event] = await eventually(second.events)
        first.backend.is_cut = True
        await until(lambda: second.leads)
        await eventually(lambda: second.is_approved(event["EventId"]))
        # It cannot know that another one leads, but VMs must not be sent to it.
        await until(lambda: not first.service.health().ready)
        assert first.service.health().alive
        first.backend.is_cut = False
        await until(lambda: not first.leads)
        assert (await first.get())[0] in {200, 503}
        await eventually(lambda: first_document(first, second))


@in_loop
async def test_replica_that_takes_over_stays_alive_and_ready() -> None:
    """A probe during the takeover must not restart it, or send VMs away."""
    async with pair() as (first, second):
        first.backend.is_cut = True
        while not second.leads:
            health = second.service.health()
            assert (health.alive, health.ready) == (True, True)
            await asyncio.sleep(0)
        assert second.service.health().ready


@in_loop
async def test_replica_that_is_too_late_with_its_takeover_follows_and_tries_again() -> (
    None
):
    """As after SIGSTOP: the control thread finds out, and no request has another error."""
    async with pair() as (first, second):
        second.backend.is_late = first.backend.is_cut = True
        await until(lambda: second.leads)
        assert not second.backend.is_late
        assert second.service.failure is None


async def first_document(first: Replica, second: Replica) -> bool:
    return await first.get() == await second.get()


@in_loop
async def test_leader_that_stops_answers_approvals_before_it_releases_the_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "SERVED_SECONDS", 20.0)
    async with pair() as (first, second):
        await eventually(second.is_served)
        order = {"hosts": ["h1"], "impact": "freeze"}
        assert (await first.ask("/v1/maintain", order))[0] == 201
        [event] = await eventually(second.events)
        second.backend.reads.clear()
        shared = first.backend.shared
        before = shared.lease.number
        approval = asyncio.create_task(first.approve(event["EventId"]))
        # It is durable, and waits for the other replica.
        await until(lambda: shared.lease.number > before)
        confirmed: list[int] = []

        def note() -> None:
            confirmed.extend(
                row.position for row in shared.replicas.values() if row.name == "r2"
            )

        first.backend.on_release = note
        stop = asyncio.create_task(first.service.stop())
        await until(lambda: not first.leads)
        second.backend.reads.set()
        assert await approval == (200, None)
        await stop
        assert len(confirmed) == 1
        assert confirmed[0] > before
        await until(lambda: second.leads)
        [event] = await eventually(second.events)
        assert event["EventStatus"] == "Started"


@in_loop
async def test_lease_that_was_released_is_taken_before_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The next look of the candidate would come when the lease has run out.
    monkeypatch.setattr(times, "LOOKS_PER_LEASE", 1)
    async with pair(cluster__lease="60s") as (first, second):
        await eventually(second.is_served)
        clock = second.service.clock
        began = clock.monotonic()
        await first.service.stop()
        await until(lambda: second.leads)
        assert clock.monotonic() - began < 30


@in_loop
async def test_operators_are_sent_to_the_leader() -> None:
    async with pair() as (first, second):
        order = {"hosts": ["h1"], "impact": "freeze"}

        async def names_the_leader() -> bool:
            status, answer = await second.ask("/v1/maintain", order)
            assert (status, answer["kind"]) == (503, "follows")
            return answer.get("leader") == first.service.admin_url

        await eventually(names_the_leader)
        assert (await second.ask("/v1/operations"))[1]["operations"] == []
        status, health = await second.ask("/readyz")
        assert (status, health["role"]) == (200, "follows")
        assert (await first.ask("/readyz"))[1]["role"] == "leads"


@in_loop
async def test_each_replica_shows_who_leads_and_who_is_behind() -> None:
    async with pair() as (first, second):
        for replica in (first, second):

            async def shown(asked: Replica = replica) -> Any:
                status, found = await asked.ask("/v1/cluster")
                assert status == 200
                roles = {one["name"]: one["role"] for one in found["replicas"]}
                is_known = roles == {"r1": "leads", "r2": "follows"}
                # The leader says so with its next beat.
                return is_known and found["led_for_seconds"] is not None and found

            report = await eventually(shown)
            assert (report["leader"], report["answered_by"]) == ("r1", replica.name)
            assert report["led_for_seconds"] > 0
            assert [one["url"] for one in report["replicas"]] == [
                first.service.admin_url,
                second.service.admin_url,
            ]
            assert report["synchronous_standby"] == "not set"
            leases = {one["lease_seconds"] for one in report["replicas"]}
            assert leases == {replica.service.settings.cluster.lease / SECOND}
            assert not report["leases_differ"]
        # A database that has lost transactions is neither followed nor led.
        shared = first.backend.shared
        shared.lease = replace(shared.lease, number=shared.lease.number - 1)

        async def refuses() -> bool:
            _, found = await second.ask("/v1/cluster")
            roles = {one["role"] for one in found["replicas"]}
            return found["leader"] is None and roles == {"refuses"}

        await eventually(refuses)
        assert not first.leads
        assert not second.leads


@in_loop
async def test_follower_that_is_cut_off_answers_503_instead_of_old_documents() -> None:
    async with pair() as (_, second):
        assert (await second.get())[0] == 200
        second.backend.is_cut = True
        replica = second.service._replica
        assert replica is not None
        end = replica.answers_until
        clock = second.service.clock
        await until(lambda: clock.monotonic() >= end)
        assert (await second.get())[0] == 503
        assert (await second.ask("/readyz"))[0] == 503


@in_loop
async def test_replica_that_leads_again_at_once_decides_in_its_new_term() -> None:
    """Both news of the keeper come before the event loop looks at them."""
    async with pair() as (first, second):
        replica = first.service._replica
        assert replica is not None
        second.backend.is_cut = True
        cluster = MemoryCluster(first.backend.shared)
        other = cluster.take(cluster.lease(), holder="another", url="")
        assert other is not None
        cluster.release(other.term)
        old = first.service._deciding
        # The event loop waits here.
        processes.eventually(
            lambda: replica.keeper.lease_state.term, lambda term: term > other.term
        )
        await until(lambda: first.service._deciding not in {None, old})
        order = {"hosts": ["h1"], "impact": "freeze"}

        async def is_ordered() -> bool:
            return (await first.ask("/v1/maintain", order))[0] == 201

        await eventually(is_ordered)
        assert first.backend.shared.feed[-1].term == other.term + 1


@in_loop
async def test_takeover_does_not_bring_back_the_fleet_of_an_old_file() -> None:
    async with pair() as (first, second):
        more = FLEET + '[[host]]\nname = "h2"\n'
        await first.service.apply(FleetText(name="fleet.toml", text=more))
        await first.service.stop()
        await until(lambda: second.leads)

        async def hosts() -> list[str]:
            status, answer = await second.ask("/v1/fleet")
            assert status == 200
            return [host["name"] for host in answer["hosts"]]

        assert await hosts() == ["h1", "h2"]
        # The first request that it decides shows that it has begun.
        order = {"hosts": ["h2"], "impact": "freeze"}

        async def is_ordered() -> bool:
            return (await second.ask("/v1/maintain", order))[0] == 201

        await eventually(is_ordered)
        assert await hosts() == ["h1", "h2"]


@in_loop
async def test_replica_whose_tasks_fail_ends_instead_of_serving_half() -> None:
    async with pair() as (_, second):

        async def broken() -> None:
            raise ZeroDivisionError

        second.service._tell_leader = broken  # type: ignore[method-assign]
        assert isinstance(await second.service.wait_failed(), ZeroDivisionError)
        assert second.service.health().alive is False
