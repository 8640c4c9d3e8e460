"""Waits on real sockets: changes, deadlines, lost clients, and the stop."""

import gc
import hmac
import socket
from dataclasses import replace

import pytest

from forewarn.instants import SECOND
from forewarn.metadata.connection import Connection
from forewarn.metadata.limits import Limits
from forewarn.metadata.waiting import Waits
from forewarn.protocol.published import Publication
from tests.support.loops import until
from tests.unit.metadata.support import (
    EMPTY,
    EVENT,
    GET,
    GUESTS,
    NEWEST,
    NOW,
    PATH,
    Play,
    Wire,
    World,
    looks,
    published,
    raw,
    running,
    snapshot,
)

pytestmark = pytest.mark.system

HERE = GUESTS[1]
"""The guest at this machine's own address."""


def wait(
    seconds: int = 60, tag: str = "1", *headers: str, version: str = "1.1"
) -> bytes:
    data = raw(
        "GET", f"{PATH}?{NEWEST}&wait={seconds}", f'If-None-Match: "{tag}"', *headers
    )
    return data.replace(b"HTTP/1.1", f"HTTP/{version}".encode(), 1)


def pushing(**options: int) -> Waits:
    return Waits(longest_seconds=60, **options)


async def waiting(world: World, *, count: int = 1, data: bytes = b"") -> Wire:
    """Return a connection whose request waits; there are `count` of those then."""
    wire = await world.connect()
    wire.send(GET)
    assert (await wire.answer()).json == EMPTY
    wire.send(data or wait())
    await settled(world, count)
    return wire


async def settled(world: World, count: int) -> None:
    """Return when so many requests wait."""
    await until(lambda: len(world.endpoint.waits) == count)


def change(world: World, incarnation: int = 2) -> None:
    world.endpoint.publish(published(snapshot(incarnation, EVENT)))


def test_change_ends_the_wait_at_once_and_keeps_the_connection(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            wires = [await waiting(world, count=number + 1) for number in range(5)]
            assert world.endpoint.counters.responses == {200: 5}
            change(world)
            for wire in wires:
                answer = await wire.answer()
                assert (answer.status, answer.headers["ETag"]) == (200, '"2"')
                assert answer.headers["Forewarn-Wait"] == "60"
                wire.send(wait(tag="2"))
            await settled(world, 5)
            change(world, 3)
            for wire in wires:
                assert (await wire.answer()).json["DocumentIncarnation"] == 3
            assert len(world.endpoint.waits) == 0

    play(story)


def test_wait_without_a_change_ends_with_304(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            wire = await waiting(world, data=wait(7))
            world.clock.advance_to(NOW + 6 * SECOND)
            world.server.wake()
            await looks()
            assert len(world.endpoint.waits) == 1
            world.clock.advance_to(NOW + 7 * SECOND)
            world.server.wake()
            answer = await wire.answer()
            assert (answer.status, answer.headers["ETag"]) == (304, '"1"')
            wire.send(GET)
            assert (await wire.answer()).json == EMPTY

    play(story)


def test_wait_ends_by_its_timer(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            wire = await waiting(world, data=wait(1))
            # The clock is ahead of the loop's timer, which is set for a second.
            world.clock.advance_to(NOW + SECOND)
            assert (await wire.answer()).status == 304

    play(story)


@pytest.mark.parametrize("is_half", [False, True], ids=["closes", "half-closes"])
def test_closed_wait_frees_its_slot_at_once(play: Play, is_half: bool) -> None:
    async def story() -> None:
        async with running(waits=pushing(per_vm=2)) as world:
            wires = [await waiting(world, count=number + 1) for number in range(2)]
            if is_half:
                wires[0].writer.write_eof()
                assert await wires[0].is_closed()
            else:
                wires[0].writer.transport.abort()
            await settled(world, 1)
            wire = await waiting(world, count=2)
            change(world)
            assert (await wire.answer()).status == 200

    play(story)


def test_client_that_closes_its_sending_side_does_not_wait(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            assert (await world.ask(GET)).json == EMPTY
            wire = await world.connect()
            wire.send(wait())
            wire.writer.write_eof()
            assert await wire.is_closed()
            await settled(world, 0)

    play(story)


def test_wait_above_the_limit_of_a_vm_gets_429(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing(per_vm=1)) as world:
            first = await waiting(world)
            second = await world.connect()
            second.send(wait())
            answer = await second.answer()
            assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
            second.send(raw("GET", f"{PATH}?{NEWEST}", 'If-None-Match: "1"'))
            assert (await second.answer()).status == 304
            change(world)
            second.send(wait())
            assert (await second.answer()).status == 200
            assert (await first.answer()).status == 200

    play(story)


def test_request_behind_a_wait_is_answered_after_it(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            wire = await waiting(world, data=wait() + GET + wait(60, "2") + GET)
            change(world)
            assert [(await wire.answer()).headers["ETag"] for _ in range(2)] == [
                '"2"',
                '"2"',
            ]
            await settled(world, 1)
            change(world, 3)
            assert (await wire.answer()).headers["Forewarn-Wait"] == "60"
            last = await wire.answer()
            assert (last.headers["ETag"], "Forewarn-Wait" in last.headers) == (
                '"3"',
                False,
            )

    play(story)


def test_http_1_0_and_closing_clients_can_wait(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            closing = await waiting(world, data=wait(60, "1", "Connection: close"))
            old = await waiting(world, count=2, data=wait(version="1.0"))
            data = wait(60, "1", "Connection: keep-alive", version="1.0")
            kept_alive = await waiting(world, count=3, data=data)
            change(world)
            for wire in (closing, old):
                assert (await wire.answer()).headers["Connection"] == "close"
                assert await wire.is_closed()
            assert (await kept_alive.answer()).headers["Connection"] == "keep-alive"

    play(story)


def test_wait_parameter_is_checked_with_expect_100_continue(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            for text, status in (("x", 400), ("0", 200)):
                target = f"{PATH}?{NEWEST}&wait={text}"
                answer = await world.ask(raw("GET", target, "Expect: 100-continue"))
                assert answer.status == status

    play(story)


def test_waiting_vm_that_is_deleted_gets_404(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            wire = await waiting(world)
            world.endpoint.publish(Publication(guests_gone=("w1",)))
            assert (await wire.answer()).status == 404

    play(story)


def test_waiting_vm_that_moves_gets_the_document_of_its_new_view(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            wire = await waiting(world)
            # This is the first request for that view: it enables the view, as any GET does.
            world.endpoint.publish(
                Publication(guests=(replace(HERE, view_id="alone"),))
            )
            assert (await wire.answer()).json == EMPTY
            assert world.gateway.enabled == ["w1"]

    play(story)


def test_new_epoch_ends_a_wait_even_with_the_same_incarnation(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            wire = await waiting(world)
            world.endpoint.publish(published(snapshot(1, epoch=2)))
            assert (await wire.answer()).json == EMPTY

    play(story)


def test_wait_on_a_reassigned_address_answers_for_the_new_vm(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            wire = await waiting(world)
            taken = replace(GUESTS[0], addresses=("127.0.0.1",), view_id="alone")
            world.endpoint.publish(
                Publication(
                    guests=(taken,),
                    views=(snapshot(9, EVENT, view="alone", epoch=1),),
                )
            )
            assert (await wire.answer()).json["DocumentIncarnation"] == 9

    play(story)


def test_signed_proxy_request_waits_for_the_signed_vm(play: Play) -> None:
    async def story() -> None:
        secret = b"between us"
        guest = GUESTS[0]
        signature = hmac.digest(secret, guest.vm_id.encode(), "sha256").hex()
        signed = (
            f"X-Instance-ID: {guest.vm_id}",
            f"X-Instance-ID-Signature: {signature}",
        )
        async with running(waits=pushing(), secret=secret) as world:
            wire = await world.connect()
            wire.send(raw("GET", f"{PATH}?{NEWEST}&wait=60", *signed))
            assert (await wire.answer()).headers["Forewarn-Wait"] == "60"
            wire.send(wait(60, "1", *signed))
            await settled(world, 1)
            world.endpoint.publish(Publication(guests_gone=("w1",)))
            change(world)
            assert (await wire.answer()).headers["ETag"] == '"2"'

    play(story)


def test_stop_answers_all_waits_and_closes_connections(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            wires = [await waiting(world, count=number + 1) for number in range(3)]
            await world.server.stop(grace_seconds=5)
            for wire in wires:
                answer = await wire.answer()
                assert (answer.status, answer.headers["Connection"]) == (304, "close")
                assert await wire.is_closed()
            assert len(world.endpoint.waits) == 0

    play(story)


def test_no_timeout_ends_a_waiting_connection(play: Play) -> None:
    async def story() -> None:
        bounds = Limits(idle_seconds=0.02, head_seconds=0.02)
        async with running(waits=pushing(), bounds=bounds) as world:
            quiet = await waiting(world)
            # The beginning of its next request is there already.
            slow = await waiting(world, count=2, data=wait() + GET[:20])
            # When this one is closed, the bounds are over for the others as well.
            idle = await world.connect()
            assert await idle.is_closed()
            assert len(world.endpoint.waits) == 2
            change(world)
            assert (await quiet.answer()).status == 200
            assert (await slow.answer()).status == 200
            # Then the normal timeout applies to the rest.
            assert (await slow.answer()).status == 408

    play(story)


def test_keepalive_detects_vanished_clients(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            wire = await waiting(world)
            [connection] = world.server._hub.connections
            assert isinstance(connection, Connection)
            assert connection._transport is not None
            end = connection._transport.get_extra_info("socket")
            assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
            del connection, end
            wire.writer.close()

    play(story)


def test_ended_waits_leave_no_state(play: Play) -> None:
    async def story() -> None:
        async with running(waits=pushing()) as world:
            for kind in ("news", "goes", "over"):
                wire = await waiting(world)
                if kind == "news":
                    change(world)
                elif kind == "over":
                    world.clock.advance_to(NOW + 60 * SECOND)
                    world.server.wake()
                wire.writer.close()
                await settled(world, 0)
                world.endpoint.publish(published(snapshot(1, epoch=len(kind) + 9)))
                await until(lambda: world.server.open_connections == 0)
                await looks()
            gc.disable()
            try:
                living = [e for e in gc.get_objects() if isinstance(e, Connection)]
                assert not living
            finally:
                gc.enable()

    play(story)
