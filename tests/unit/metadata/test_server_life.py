"""The server over time: waits, errors, stalled clients, limits, the stop."""

import asyncio
import hmac
import logging
import socket
import struct

import pytest

from forewarn.instants import SECOND
from forewarn.metadata import limits
from forewarn.metadata.endpoint import Approve
from forewarn.metadata.http import Response
from forewarn.metadata.limits import Limits
from forewarn.protocol.errors import ForewarnError
from tests.support.loops import until
from tests.unit.metadata.support import (
    EMPTY,
    EVENT_ID,
    GET,
    GUESTS,
    INSTANCE,
    NEWEST,
    NOW,
    PATH,
    POST,
    Gate,
    Play,
    Wire,
    World,
    approval,
    looks,
    post,
    published,
    raw,
    running,
    snapshot,
)

pytestmark = pytest.mark.system


# -- control


@pytest.mark.clause("7.1")
def test_first_answer_waits_until_ready_on_the_model_clock(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            world.endpoint.publish(published(snapshot(1, enabled=False)))
            world.gateway.enabled.append("an earlier epoch")
            world.gateway.ready_at = NOW + 120 * SECOND
            first, second, gone = [await world.connect() for _ in range(3)]
            for wire in (first, second, gone):
                wire.send(GET)
            await looks()
            gone.writer.transport.abort()
            await looks()
            assert world.endpoint.counters.responses == {}
            world.clock.advance_to(NOW + 120 * SECOND)
            world.server.wake()
            assert (await first.answer()).json == EMPTY
            assert (await second.answer()).json == EMPTY
            assert world.endpoint.counters.responses == {200: 2}

    play(story)


@pytest.mark.clause("7.1")
def test_client_that_closes_its_sending_side_is_not_delayed(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            ready_at = NOW + SECOND
            world.endpoint.publish(published(snapshot(1, enabled=False)))
            world.gateway.enabled.append("an earlier epoch")
            world.gateway.ready_at = ready_at
            gate = Gate()
            world.gateway.before = gate.wait
            wire = await world.connect()
            wire.send(GET)
            wire.writer.write_eof()
            await looks()
            gate.set()
            assert await wire.is_closed()

    play(story)


@pytest.mark.clause("7.1")
def test_delayed_answer_is_sent_by_its_timer(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            ready_at = NOW + SECOND
            world.endpoint.publish(published(snapshot(epoch=2, ready_at=ready_at)))
            wire = await world.connect()
            wire.send(GET)
            await looks()
            world.clock.advance_to(ready_at)
            assert (await wire.answer()).json == EMPTY

    play(story)


@pytest.mark.clause("1.8")
def test_busy_or_silent_control_causes_503(play: Play) -> None:
    async def story() -> None:
        async with running(bounds=Limits(gateway_seconds=0.02)) as world:

            def busy() -> None:
                raise ForewarnError("not now")

            for before in (busy, asyncio.Event().wait):
                world.gateway.before = before
                for data in (POST, INSTANCE):
                    answer = await world.ask(data)
                    assert answer.status == 503
                    assert answer.headers["Retry-After"] == "1"
                    assert "error" in answer.json

    play(story)


def test_control_that_never_publishes_causes_503(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            world.endpoint.publish(published(snapshot(1, enabled=False)))
            world.gateway.publishes = False
            assert (await world.ask(GET)).status == 503
            assert len(world.gateway.enabled) == limits.QUESTIONS_MAX

    play(story)


def test_vm_deleted_during_a_control_call_gets_404(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            world.endpoint.publish(published(snapshot(1, enabled=False)))
            world.gateway.publishes = False
            world.gateway.before = lambda: world.endpoint.directory.drop("w1")
            assert (await world.ask(GET)).status == 404

    play(story)


def test_approval_of_a_deleted_vm_is_404_and_not_passed_on(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            wire = await world.connect()
            wire.send(GET)
            assert (await wire.answer()).status == 200
            hub = world.server._hub
            (party,) = hub.connections
            world.endpoint.directory.drop("w1")
            question = Approve(vm="w1", event_ids=(EVENT_ID,))
            answer = await hub.resolve(post(approval(EVENT_ID)), party, question)
            assert isinstance(answer, Response)
            assert answer.status == 404
            assert world.gateway.approved == []

    play(story)


@pytest.mark.parametrize("where", ["control", "here"])
def test_internal_error_is_logged_and_the_client_gets_500(
    where: str, caplog: pytest.LogCaptureFixture, play: Play
) -> None:
    def fail(*_args: object, **_named: object) -> None:
        raise ZeroDivisionError

    async def story() -> None:
        async with running() as world:
            wire = await world.connect()
            wire.send(GET)
            assert (await wire.answer()).status == 200
            if where == "here":
                world.endpoint._views["west"].document = fail  # pyright: ignore[reportAttributeAccessIssue]
                wire.send(GET)
            else:
                world.gateway.before = fail
                wire.send(POST)
            answer = await wire.answer()
            assert answer.status == 500
            assert answer.json == {"error": "Internal server error"}
            assert await wire.is_closed()

    with caplog.at_level(logging.ERROR):
        play(story)
    (record,) = caplog.records
    assert record.name == "forewarn.metadata"
    assert record.exc_info


@pytest.mark.clause("3.2")
def test_approval_completes_after_its_client_disconnects(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            gate = Gate()
            world.gateway.before = gate.wait
            wire = await world.connect()
            wire.send(POST)
            await gate.is_reached()
            sock = wire.writer.get_extra_info("socket")
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            wire.writer.transport.abort()
            await asyncio.wait_for(world.server._hub.is_empty.wait(), 60)
            gate.set()
            await until(lambda: bool(world.gateway.approved))
            assert world.gateway.approved == [("w1", (EVENT_ID,))]

    play(story)


# -- time-outs and crowds


@pytest.mark.parametrize(
    ("data", "told"),
    [(b"", False), (GET[:30], True), (POST[:-3], True), (GET + GET[:5], True)],
)
def test_stalled_client_is_disconnected(data: bytes, told: bool, play: Play) -> None:
    async def story() -> None:
        bounds = Limits(head_seconds=0.03, body_seconds=0.03, linger_seconds=0.01)
        async with running(bounds=bounds) as world:
            wire = await world.connect()
            wire.send(data)
            if data.startswith(GET):
                assert (await wire.answer()).status == 200
            if told:
                assert (await wire.answer()).status == 408
            assert await wire.is_closed()

    play(story)


def test_slow_bytes_do_not_extend_the_timeout(play: Play) -> None:
    async def story() -> None:
        bounds = Limits(head_seconds=0.04, linger_seconds=0.01)
        async with running(bounds=bounds) as world:
            wire = await world.connect()
            answer = asyncio.ensure_future(wire.answer())
            for byte in GET[:40]:
                if answer.done():
                    break
                wire.send(bytes([byte]))
                await asyncio.wait({answer}, timeout=0.005)
            assert (await answer).status == 408

    play(story)


def test_idle_connection_is_closed_and_a_polling_one_is_kept(play: Play) -> None:
    async def story() -> None:
        bounds = Limits(head_seconds=0.1, idle_seconds=0.3)
        async with running(bounds=bounds) as world:
            wire = await world.connect()
            loop = asyncio.get_running_loop()
            end = loop.time() + 1.5 * bounds.idle_seconds
            while loop.time() < end:
                wire.send(GET)
                assert (await wire.answer()).status == 200
            assert await wire.is_closed()

    play(story)


def test_slow_control_does_not_count_against_client_timeouts(play: Play) -> None:
    async def story() -> None:
        bounds = Limits(head_seconds=1, body_seconds=1, idle_seconds=1)
        async with running(bounds=bounds) as world:
            gate = Gate()
            world.gateway.before = gate.wait
            wire = await world.connect()
            wire.send(POST + GET[:10])
            await gate.is_reached()
            # When this one is closed, the bounds are over for the other as well.
            idle = await world.connect()
            assert await idle.is_closed()
            gate.set()
            assert (await wire.answer()).status == 200
            wire.send(GET[10:])
            assert (await wire.answer()).status == 200

    play(story)


@pytest.mark.parametrize(
    ("bounds", "secret", "admitted"),
    [
        (Limits(connections_per_source=2), b"", 2),
        (Limits(connections=3), b"", 3),
        (Limits(connections=3, connections_per_source=2), b"proxy", 2),
    ],
)
def test_number_of_connections_is_limited(
    bounds: Limits, secret: bytes, admitted: int, play: Play
) -> None:
    async def story() -> None:
        async with running(bounds=bounds, secret=secret) as world:
            wires = [await world.connect() for _ in range(admitted)]
            for wire in wires:
                wire.send(GET)
                assert (await wire.answer()).status == 200
            extra = await world.connect()
            answer = await extra.answer()
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert await extra.is_closed()
            wires[0].writer.close()
            await until(lambda: world.server.open_connections < admitted)
            assert (await world.ask(GET)).status == 200

    play(story)


def signed_get(secret: bytes) -> bytes:
    vm_id = GUESTS[0].vm_id
    signature = hmac.digest(secret, vm_id.encode(), "sha256").hex()
    proof = (f"X-Instance-ID: {vm_id}", f"X-Instance-ID-Signature: {signature}")
    return raw("GET", f"{PATH}?{NEWEST}", *proof)


def test_only_an_identified_proxy_may_open_more_connections(play: Play) -> None:
    bounds = Limits(connections_per_source=2)

    async def status(wire: Wire, data: bytes = GET) -> int:
        wire.send(data)
        return (await wire.answer()).status

    async def close(world: World, *wires: Wire) -> None:
        """Close connections, and return when the server knows."""
        left = world.server.open_connections - len(wires)
        for wire in wires:
            wire.writer.close()
        await until(lambda: world.server.open_connections == left)

    async def story() -> None:
        async with running(bounds=bounds, secret=b"proxy") as world:
            guesser = await world.connect()
            assert await status(guesser, signed_get(b"guessed")) == 404
            assert await guesser.is_closed()
            await until(lambda: not world.server.open_connections)
            first, second = [await world.connect() for _ in range(2)]
            assert await status(first) == 200
            assert await status(await world.connect()) == 503
            assert await status(first, signed_get(b"proxy")) == 200
            third = await world.connect()
            assert await status(third) == 200
            # The proof counts as long as the proxy has a connection.
            await close(world, first)
            fourth = await world.connect()
            assert await status(fourth) == 200
            await close(world, second, third, fourth)
            fresh = [await world.connect() for _ in range(2)]
            assert [await status(wire) for wire in fresh] == [200, 200]
            assert await status(await world.connect()) == 503

    play(story)


@pytest.mark.clause("1.9")
def test_rate_limit_covers_all_connections_of_a_vm(play: Play) -> None:
    async def story() -> None:
        async with running(rate_limit=4) as world:
            statuses = [(await world.ask(GET)).status for _ in range(3)]
            wire = await world.connect()
            for _ in range(3):
                wire.send(GET)
                statuses.append((await wire.answer()).status)
            assert statuses == [200] * 4 + [429] * 2
            world.clock.advance_to(NOW + SECOND)
            wire.send(GET)
            assert (await wire.answer()).status == 200

    play(story)


# -- the end


def test_stop_finishes_running_requests(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            gate = Gate()
            world.gateway.before = gate.wait
            idle, busy, half = [await world.connect() for _ in range(3)]
            idle.send(GET)
            assert (await idle.answer()).status == 200
            half.send(GET[:20])
            busy.send(POST)
            await gate.is_reached()
            stop = asyncio.ensure_future(world.server.stop(grace_seconds=5))
            assert await idle.is_closed()
            assert not stop.done()
            half.send(GET[20:])
            assert (await half.answer()).headers["Connection"] == "close"
            gate.set()
            answer = await busy.answer()
            assert (answer.status, answer.headers["Connection"]) == (200, "close")
            await stop
            with pytest.raises(OSError):
                await world.connect()

    play(story)


def test_stop_answers_delayed_requests_and_closes_incomplete_ones(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            ready_at = NOW + SECOND
            world.endpoint.publish(published(snapshot(epoch=2, ready_at=ready_at)))
            held, endless = await world.connect(), await world.connect()
            held.send(GET)
            endless.send(GET[:20])
            await looks()
            await world.server.stop(grace_seconds=0.03)
            assert (await held.answer()).status == 503
            assert await endless.is_closed()

    play(story)
