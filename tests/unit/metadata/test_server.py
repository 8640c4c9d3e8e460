"""The server's HTTP on real sockets of the loopback interface."""

import asyncio
import errno
import socket
from typing import cast

import pytest

from forewarn.metadata import limits
from forewarn.metadata.connection import Connection
from forewarn.metadata.limits import Limits
from forewarn.metadata.server import Server
from tests.support.loops import until
from tests.support.open_files import no_more_files
from tests.unit.metadata.support import (
    EMPTY,
    EVENT,
    EVENT_ID,
    GET,
    INSTANCE,
    NEWEST,
    NOW,
    PATH,
    POST,
    Gate,
    Play,
    approval,
    looks,
    published,
    raw,
    running,
    snapshot,
)

pytestmark = pytest.mark.system

CONTINUE = "Expect: 100-continue"


def test_get_post_and_instance_requests_share_one_connection(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            wire = await world.connect()
            for _ in range(3):
                wire.send(GET)
                assert (await wire.answer()).json == EMPTY
            wire.send(POST)
            answer = await wire.answer()
            assert (answer.status, answer.body) == (200, b"")
            assert world.gateway.approved == [("w1", (EVENT_ID,))]
            wire.send(INSTANCE)
            assert (await wire.answer()).body == b"WestNO_0"
            world.gateway.refusal = "No such event"
            wire.send(POST)
            assert (await wire.answer()).json == {"error": "No such event"}
            assert world.endpoint.counters.responses == {200: 5, 400: 1}
            assert world.endpoint.take_last_seen() == {"west": NOW}
            assert world.server.open_connections == 1

    play(story)


@pytest.mark.clause("1.10")
def test_cached_response_reflects_every_change(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            wire = await world.connect()
            tagged = raw("GET", f"{PATH}?{NEWEST}", 'If-None-Match: "1"')
            statuses: list[int] = []
            for publication in [None, None, None, published(snapshot(2, EVENT)), None]:
                if publication is not None:
                    world.endpoint.publish(publication)
                wire.send(tagged)
                statuses.append((await wire.answer()).status)
            assert statuses == [200, 304, 304, 200, 200]

    play(story)


def test_answers_come_in_the_order_of_the_requests(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            gate = Gate()
            world.gateway.before = gate.wait
            wire = await world.connect()
            wire.send(GET + POST + GET + INSTANCE + raw("PUT") + GET)
            assert (await wire.answer()).json == EMPTY
            await gate.is_reached()
            gate.set()
            answers = [await wire.answer() for _ in range(5)]
            assert [a.status for a in answers] == [200, 200, 200, 405, 200]
            assert [a.body[:8] for a in answers[:3]] == [b"", b'{"Docume', b"WestNO_0"]

    play(story)


def test_requests_split_anywhere_get_the_same_answers(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            data = GET + POST
            wire = await world.connect()
            for at in range(1, len(data)):
                wire.send(data[:at])
                await asyncio.sleep(0)
                wire.send(data[at:])
                assert (await wire.answer()).json == EMPTY
                assert (await wire.answer()).body == b""

    play(story)


def test_requests_above_the_pipeline_limit_are_all_answered(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            gate = Gate()
            world.gateway.before = gate.wait
            wire = await world.connect()
            count = limits.PIPELINE_MAX * 3
            for _ in range(count):
                wire.send(POST)
                await asyncio.sleep(0)
            await gate.is_reached()
            gate.set()
            statuses = [(await wire.answer()).status for _ in range(count)]
            assert statuses == [200] * count

    play(story)


def test_burst_is_answered_in_order_wherever_it_is_split(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            paths = (PATH, "/nothing", "/metadata/versions")
            gets = [raw("GET", f"{path}?{NEWEST}") for path in paths]
            for count, at in ((5_000, 0), (701, 20)):
                wire = await world.connect()
                burst = b"".join(gets[n % 3] for n in range(count))
                if at:
                    wire.send(burst[:at])
                    await looks()
                wire.send(burst[at:])
                bodies = [(await wire.answer()).json for _ in range(count)]
                assert bodies[0] == EMPTY
                assert bodies[1] == {"error": "Not found"}
                assert "apiVersions" in bodies[2]
                assert all(body == bodies[n % 3] for n, body in enumerate(bodies))

    play(story)


def test_answers_to_a_slow_reader_are_paused(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            wire = await world.connect()
            transport = cast("asyncio.Transport", wire.writer.transport)
            transport.pause_reading()
            events = [EVENT] * 200
            world.endpoint.publish(published(snapshot(2, *events)))
            count = 400
            wire.send(GET * count)
            (connection,) = world.server._hub.connections
            assert isinstance(connection, Connection)
            await until(lambda: not connection.is_free)
            await looks(100)
            assert not connection.is_free
            assert world.endpoint.counters.responses[200] < count
            transport.resume_reading()
            for _ in range(count):
                assert (await wire.answer()).status == 200

    play(story)


def test_client_that_never_reads_is_disconnected(play: Play) -> None:
    async def story() -> None:
        async with running(bounds=Limits(write_seconds=0.02)) as world:
            wire = await world.connect()
            transport = cast("asyncio.Transport", wire.writer.transport)
            transport.pause_reading()
            world.endpoint.publish(published(snapshot(2, *[EVENT] * 200)))
            wire.send(GET * 400)
            await asyncio.wait_for(world.server._hub.is_empty.wait(), 60)

    play(story)


# -- HTTP


def test_http_1_0_connection_closes_without_keep_alive(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            old = GET.replace(b"HTTP/1.1", b"HTTP/1.0")
            wire = await world.connect()
            wire.send(old.replace(b"Host: x", b"Connection: keep-alive"))
            answer = await wire.answer()
            assert (answer.json, answer.headers["Connection"]) == (EMPTY, "keep-alive")
            wire.send(old)
            assert (await wire.answer()).headers["Connection"] == "close"
            assert await wire.is_closed()

    play(story)


def test_connection_close_or_end_of_input_closes_after_the_answer(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            wire = await world.connect()
            wire.send(raw("GET", f"{PATH}?{NEWEST}", "Connection: close"))
            assert (await wire.answer()).headers["Connection"] == "close"
            assert await wire.is_closed()
            for data in (GET, POST, POST + GET, b"", GET[:20], POST + GET[:20]):
                wire = await world.connect()
                wire.send(data)
                wire.writer.write_eof()
                for _ in range(data.count(b"\r\n\r\n")):
                    assert (await wire.answer()).status == 200
                assert await wire.is_closed()

    play(story)


@pytest.mark.clause("1.2")
def test_head_is_answered_without_a_body(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            wire = await world.connect()
            wire.send(raw("HEAD") + GET)
            answer = await wire.answer(bodiless=True)
            assert answer.status == 405
            assert int(answer.headers["Content-Length"]) > 0
            assert (await wire.answer()).json == EMPTY

    play(story)


@pytest.mark.clause("1.12")
def test_100_continue_is_sent_only_for_an_acceptable_request(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            body = approval(EVENT_ID).encode()
            lines = ("Expect: 100-continue", f"Content-Length: {len(body)}")
            wire = await world.connect()
            # In its turn: not before the answer to what came ahead of it.
            wire.send(POST + raw("POST", f"{PATH}?{NEWEST}", *lines))
            assert (await wire.answer()).status == 200
            assert await wire.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
            wire.send(body)
            assert (await wire.answer()).status == 200
            for target, header, status in [
                (f"{PATH}?{NEWEST}", "X-Forwarded-For: a", 400),
                (PATH, "x: y", 400),
                ("/", "x: y", 404),
                ("/metadata/versions", "x: y", 405),
                (f"{PATH}?{NEWEST}", "Expect: more", 417),
            ]:
                wire = await world.connect()
                wire.send(raw("POST", target, *lines, header))
                assert (await wire.answer()).status == status
                assert await wire.is_closed()

    play(story)


@pytest.mark.clause("1.12", "3.1")
@pytest.mark.parametrize(
    "content_type", ["application/json", "application/x-www-form-urlencoded", "x", ""]
)
def test_a_posts_content_type_is_not_examined(content_type: str, play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            lines = [f"Content-Type: {content_type}"] if content_type else []
            data = raw("POST", f"{PATH}?{NEWEST}", *lines, body=approval(EVENT_ID))
            assert (await world.ask(data)).status == 200

    play(story)


def test_chunked_body_is_accepted(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            head = raw("POST", f"{PATH}?{NEWEST}", "Transfer-Encoding: chunked")
            body = approval(EVENT_ID).encode()
            chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
            assert (await world.ask(head + chunks)).status == 200
            assert world.gateway.approved == [("w1", (EVENT_ID,))]

    play(story)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01 noise", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (raw("GET", "/" + "x" * 9000), 414),
        (raw("GET", "/", "x: " + "v" * 40_000), 431),
        (raw("POST", "/", "Content-Length: 999999999"), 413),
        (raw("POST", "/", "Content-Length: 1", "Transfer-Encoding: chunked"), 400),
    ],
)
def test_refused_request_gets_the_reason_and_its_connection_closes(
    data: bytes, status: int, play: Play
) -> None:
    async def story() -> None:
        async with running(bounds=Limits(linger_seconds=0.05)) as world:
            wire = await world.connect()
            wire.send(GET)
            assert (await wire.answer()).json == EMPTY
            # It gets the response even while it continues to send.
            wire.send(data + b"x" * 100_000)
            answer = await wire.answer()
            assert answer.status == status
            assert answer.headers["Connection"] == "close"
            assert "error" in answer.json
            wire.send(b"more")
            assert await wire.is_closed()

    play(story)


# -- who asks


@pytest.mark.clause("1.2", "1.6")
@pytest.mark.parametrize("verb", ["FOO", "get", "Post", "!x"])
@pytest.mark.parametrize(
    ("target", "metadata", "status"),
    [
        (f"{PATH}?{NEWEST}", "true", 405),
        (f"{PATH}?{NEWEST}", "false", 400),
        ("/", "true", 404),
        ("/", "false", 400),
    ],
)
def test_unknown_verb_is_checked_in_the_usual_order(
    verb: str, target: str, metadata: str, status: int, play: Play
) -> None:
    async def story() -> None:
        async with running() as world:
            wire = await world.connect()
            data = raw(verb, target).replace(b": true", f": {metadata}".encode())
            wire.send(data + GET)
            answer = await wire.answer()
            assert answer.status == status
            assert ("Allow" in answer.headers) is (status == 405)
            assert (await wire.answer()).json == EMPTY

    play(story)


@pytest.mark.clause("1.1", "1.6")
@pytest.mark.parametrize(
    ("data", "closes"),
    [
        (raw("FOO", "/"), True),
        (b"\x16\x03\x01 noise", True),
        (b"GET / HTTP/1.1\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost", True),
        (raw("GET", "/" + "x" * 9000), True),
        (raw("GET", "/", "x: " + "v" * 40_000), True),
        (raw("POST", "/", "Content-Length: 999999999"), True),
        (raw("POST", PATH, "Content-Length: 5"), True),
        (raw("POST", f"{PATH}?{NEWEST}", "Content-Length: 5", CONTINUE), True),
        (raw("POST", PATH, "Expect: something"), True),
    ],
)
def test_unknown_caller_gets_404_for_any_input(
    data: bytes, closes: bool, play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        bounds = Limits(head_seconds=0.02, body_seconds=0.02, linger_seconds=0.02)
        async with running(bounds=bounds) as world:
            world.endpoint.directory.drop("w1")
            caplog.clear()
            wire = await world.connect()
            wire.send(data)
            answer = await wire.answer()
            assert (answer.status, answer.json) == (404, {"error": "Not found"})
            assert (answer.headers.get("Connection") == "close") is closes
            if closes:
                assert await wire.is_closed()
            assert world.endpoint.counters.unknown_callers == 1
            assert ["unknown caller" in text for text in caplog.messages] == [True]

    play(story)


@pytest.mark.clause("1.1")
def test_each_vm_can_have_a_separate_listener(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            any_port = ("127.0.0.1", 0)
            server = world.server
            assert await server.set_guest_listeners({"alone": any_port}) == {}
            ports = server.addresses()
            assert ports.keys() == {"", "alone"}
            assert ports[""] == ("127.0.0.1", world.port)
            wire = await world.connect(ports["alone"][1])
            wire.send(GET)
            assert (await wire.answer()).json == EMPTY
            assert world.gateway.enabled == ["alone"]
            # The same request again changes nothing; another listener is added.
            wishes = {"alone": any_port, "w0": any_port}
            assert await server.set_guest_listeners(wishes) == {}
            assert server.addresses()["alone"] == ports["alone"]
            wire.send(GET)
            assert (await wire.answer()).json == EMPTY
            taken = ("127.0.0.1", world.port)
            failed = await server.set_guest_listeners({"w0": any_port, "w1": taken})
            assert failed.keys() == {"w1"}
            assert server.addresses().keys() == {"", "w0"}
            assert await wire.is_closed()
            with pytest.raises(OSError):
                await asyncio.open_connection(*ports["alone"])

    play(story)


def test_file_limit_prevents_only_the_new_listener(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            server, any_port = world.server, ("127.0.0.1", 0)
            await server.serve_guest("alone", *any_port)
            wishes = {"alone": any_port, "w0": any_port}
            with no_more_files():
                failed = await server.set_guest_listeners(wishes)
                assert failed["w0"].errno == errno.EMFILE
                assert server.addresses().keys() == {"", "alone"}
            assert await server.set_guest_listeners(wishes) == {}
            assert server.addresses().keys() == {"", "alone", "w0"}

    play(story)


@pytest.mark.clause("1.1")
def test_server_works_with_only_guest_listeners(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            server = Server(
                endpoint=world.endpoint, gateway=world.gateway, clock=world.clock
            )
            for vm in ("w0", "w1"):
                await server.serve_guest(vm, "127.0.0.1", 0)
            ports = server.addresses()
            wires = [await world.connect(ports[vm][1]) for vm in ("w0", "w1")]
            for wire in wires:
                wire.send(GET)
                assert (await wire.answer()).json == EMPTY
            await server.set_guest_listeners({"w1": ("127.0.0.1", 0)})
            assert server.addresses() == {"w1": ports["w1"]}
            assert await wires[0].is_closed()
            wires[1].send(GET)
            assert (await wires[1].answer()).json == EMPTY
            await server.stop(grace_seconds=5)
            assert await wires[1].is_closed()

    play(story)


@pytest.mark.clause("1.1")
def test_identity_is_looked_up_for_each_request(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            wire = await world.connect()
            for _ in range(2):
                wire.send(GET)
                assert (await wire.answer()).status == 200
            world.endpoint.directory.drop("w1")
            wire.send(GET)
            assert (await wire.answer()).status == 404

    play(story)


def test_listener_uses_reno_congestion_control(play: Play) -> None:
    async def story() -> None:
        async with running() as world:
            shared = world.server._shared
            assert shared is not None
            way = shared.sockets[0].getsockopt(
                socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16
            )
            assert way.rstrip(b"\0") == b"reno"

    play(story)
