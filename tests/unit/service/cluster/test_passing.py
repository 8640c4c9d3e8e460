"""A replica that follows passes the requests of VMs on to the leader."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from forewarn.agent.wire.urls import parse_url
from forewarn.clock import VirtualClock
from forewarn.forwarding.wire import UnreachableError
from forewarn.metadata.connection import Connection
from forewarn.metadata.passed_on import replica_key
from forewarn.service import limits
from forewarn.service.cluster.passing import FollowerGuests, LeaderDoor
from forewarn.service.readings import Readings
from forewarn.store.port import StoreError
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.loops import in_loop
from tests.unit.metadata.support import EVENT_ID, NOW, Gate, World, running

pytestmark = pytest.mark.system

KEY = replica_key("secret", 3)


class Follower:
    """The gateway of a follower; the test says who leads."""

    def __init__(
        self, world: World, url: str = "", tls: ssl.SSLContext | None = None
    ) -> None:
        self.door: LeaderDoor | None = LeaderDoor(
            url=parse_url(url or f"http://127.0.0.1:{world.port}"), key=KEY
        )
        self.caught_up = 0
        self.is_database_away = False
        self.guests = FollowerGuests(
            door=lambda: self.door,
            caught_up=self._catch_up,
            readings=cast("Readings", None),
            clock=VirtualClock(NOW),
            sender="b 1",
            tls=tls,
        )

    async def _catch_up(self) -> None:
        self.caught_up += 1
        if self.is_database_away:
            raise StoreError("the database does not answer")


async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        target.write(data)
    target.close()


@asynccontextmanager
async def before_tls(world: World, tls: ssl.SSLContext) -> AsyncGenerator[str]:
    """Run a TLS proxy before the endpoint of the leader; yield its URL."""
    pumps: set[asyncio.Task[None]] = set()

    async def pass_on(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        theirs, ours = await asyncio.open_connection("127.0.0.1", world.port)
        pumps.add(asyncio.create_task(pump(reader, ours)))
        pumps.add(asyncio.create_task(pump(theirs, writer)))

    proxy = await asyncio.start_server(pass_on, "localhost", 0, ssl=tls)
    try:
        yield f"https://localhost:{proxy.sockets[0].getsockname()[1]}"
    finally:
        proxy.close()
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


@needs_openssl
@in_loop
async def test_leader_behind_tls_is_asked_only_with_a_valid_certificate(
    tmp_path: Path,
) -> None:
    certificate = certificate_in(tmp_path)
    trusting = ssl.create_default_context(cafile=certificate.certificate)
    async with running() as world, before_tls(world, certificate.server()) as url:
        world.endpoint.directory.trust_replicas(KEY)
        follower = Follower(world, url, trusting)
        assert await follower.guests.approve("w0", (EVENT_ID,)) is None
        assert world.gateway.approved == [("w0", (EVENT_ID,))]
        follower.guests.close()
        other = Follower(world, url, ssl.create_default_context())
        with pytest.raises(UnreachableError, match="its certificate is not valid"):
            await other.guests.approve("w0", (EVENT_ID,))
        assert len(world.gateway.approved) == 1


@asynccontextmanager
async def leading() -> AsyncGenerator[tuple[World, Follower]]:
    async with running() as world:
        world.endpoint.directory.trust_replicas(KEY)
        follower = Follower(world)
        try:
            yield world, follower
        finally:
            follower.guests.close()


@in_loop
async def test_approval_is_passed_on_and_answered_when_it_is_served_here() -> None:
    async with leading() as (world, follower):
        assert await follower.guests.approve("w0", (EVENT_ID,)) is None
        assert world.gateway.approved == [("w0", (EVENT_ID,))]
        assert follower.caught_up == 1


@in_loop
async def test_durable_approval_is_answered_although_the_database_is_away() -> None:
    """The leader has answered it with 200 already."""
    async with leading() as (_, follower):
        follower.is_database_away = True
        assert await follower.guests.approve("w0", (EVENT_ID,)) is None
        assert follower.caught_up == 1


@in_loop
async def test_refusal_of_the_leader_is_that_of_the_follower() -> None:
    async with leading() as (world, follower):
        world.gateway.refusal = "no such event"
        assert await follower.guests.approve("w1", (EVENT_ID,)) == "no such event"
        assert follower.guests.passed_on == {("approve", "refused"): 1}


@in_loop
async def test_many_approvals_share_a_bounded_number_of_connections() -> None:
    async with leading() as (world, follower):
        gate = Gate()
        world.gateway.before = gate.wait
        tasks = [
            asyncio.create_task(follower.guests.approve("w0", (EVENT_ID,)))
            for _ in range(3 * limits.PASSED_ON_TOGETHER_MAX)
        ]
        await gate.is_reached()
        gate.set()
        assert await asyncio.gather(*tasks) == [None] * len(tasks)
        assert len(world.gateway.approved) == len(tasks)
        assert world.server.open_connections <= limits.PASSED_ON_TOGETHER_MAX


@in_loop
async def test_first_request_of_a_vm_enables_its_scope_at_the_leader() -> None:
    async with leading() as (world, follower):
        await follower.guests.enable("alone")
        assert world.gateway.enabled == ["alone"]
        assert follower.caught_up == 1


@in_loop
async def test_without_a_leader_nothing_is_answered() -> None:
    async with leading() as (world, follower):
        follower.door = None
        with pytest.raises(UnreachableError, match="no replica leads now"):
            await follower.guests.approve("w0", (EVENT_ID,))
        assert world.gateway.approved == []
        assert follower.guests.passed_on == {("approve", "unavailable"): 1}


@in_loop
async def test_replica_that_does_not_lead_any_more_approves_nothing() -> None:
    """Its key is gone, so it knows no caller: the VM gets 503 and asks again."""
    async with leading() as (world, follower):
        assert await follower.guests.approve("w0", (EVENT_ID,)) is None
        world.endpoint.directory.trust_replicas(b"")
        with pytest.raises(UnreachableError, match="status 4"):
            await follower.guests.approve("w1", (EVENT_ID,))
        assert len(world.gateway.approved) == 1


@in_loop
async def test_views_in_use_are_told_by_a_few_tasks() -> None:
    """There are up to a million of them."""
    async with leading() as (world, follower):
        guests, tasks = follower.guests, 0
        door = follower.door

        def counting() -> LeaderDoor | None:
            nonlocal tasks
            tasks = max(tasks, len(asyncio.all_tasks()))
            return door

        guests._door = counting
        before = len(asyncio.all_tasks())
        await guests.tell_seen(["w0", "w1", "alone"] * 50)
        assert world.gateway.enabled.count("alone") > 0
        # A connection at the leader has tasks, too.
        assert tasks <= before + 4 * limits.SEEN_TOLD_TOGETHER_MAX


@in_loop
async def test_leader_that_changes_gets_the_next_request() -> None:
    async with leading() as (first, follower), running() as second:
        assert await follower.guests.approve("w0", (EVENT_ID,)) is None
        key = replica_key("secret", 4)
        second.endpoint.directory.trust_replicas(key)
        url = parse_url(f"http://127.0.0.1:{second.port}")
        follower.door = LeaderDoor(url=url, key=key)
        assert await follower.guests.approve("w0", (EVENT_ID,)) is None
        assert (len(first.gateway.approved), len(second.gateway.approved)) == (1, 1)


@in_loop
async def test_leader_that_hangs_is_left_in_time() -> None:
    async with leading() as (world, follower):
        world.gateway.before = Gate().wait
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "PASSED_ON_SECONDS", 0.05)
            with pytest.raises(UnreachableError, match="did not answer in time"):
                await follower.guests.approve("w0", (EVENT_ID,))


@in_loop
async def test_connection_that_the_leader_closed_is_replaced() -> None:
    async with leading() as (world, follower):
        assert await follower.guests.approve("w0", (EVENT_ID,)) is None
        for connection in list(world.server._hub.connections):
            assert isinstance(connection, Connection)
            assert connection._transport is not None
            connection._transport.close()
        assert await follower.guests.approve("w0", (EVENT_ID,)) is None
        assert len(world.gateway.approved) == 2


@in_loop
async def test_request_that_was_read_on_the_network_is_answered_only_once() -> None:
    async with leading() as (world, follower):
        sent: list[bytes] = []

        async def read_along(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            theirs, ours = await asyncio.open_connection("127.0.0.1", world.port)
            sent.append(await reader.read(65_536))
            ours.write(sent[0])
            writer.write(await theirs.read(65_536))
            ours.close()
            writer.close()

        listener = await asyncio.start_server(read_along, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        follower.door = LeaderDoor(url=parse_url(f"http://127.0.0.1:{port}"), key=KEY)
        async with listener:
            assert await follower.guests.approve("w0", (EVENT_ID,)) is None
        assert b"StartRequests" in sent[0]
        answer = await world.ask(sent[0])
        assert answer.status == 404
        assert len(world.gateway.approved) == 1
