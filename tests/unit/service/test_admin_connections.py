"""Limits of connections to the operator API before authentication."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from forewarn.metadata import limits as metadata_limits
from forewarn.metadata.limits import Limits
from forewarn.service.admin import AdminServer
from forewarn.service.admin_door import Door
from tests.support.loops import in_loop, until

QUICK = Limits(
    head_seconds=0.3,
    body_seconds=0.4,
    write_seconds=0.4,
    linger_seconds=0.3,
    connections=20,
    connections_per_source=5,
)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Reject /refused after its head, send a large body for /much, read other bodies."""
    text = b"read"
    if scope["path"] == "/refused":
        text = b"refused"
    elif scope["path"] == "/much":
        text = b"x" * (32 << 20)
    elif scope["path"] == "/some":
        text = b"x" * (1 << 20)
    else:
        while (await receive()).get("more_body", False):
            pass
    headers = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


@contextlib.asynccontextmanager
async def serving(
    bounds: Limits = QUICK, served: ASGIApp = app
) -> AsyncGenerator[AdminServer]:
    server = AdminServer(served, grace_seconds=1, bounds=bounds)
    await server.start("127.0.0.1:0")
    try:
        yield server
    finally:
        await server.stop()


class Client:
    """A connection, used byte by byte."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, server: AdminServer) -> "Client":
        return cls(
            *await asyncio.open_connection(
                server.listener.address[0], server.listener.address[1]
            )
        )

    async def said(self, data: bytes = b"") -> bytes:
        """Send data; return everything until the connection is closed."""
        self.writer.write(data)
        try:
            return await asyncio.wait_for(self.reader.read(), 20)
        except ConnectionError:
            return b"reset"
        finally:
            self.writer.close()

    async def answer(self, data: bytes) -> bytes:
        """Send a request; return its head."""
        self.writer.write(data)
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 20)
        await self.reader.readexactly(int(_header(head, b"content-length")))
        return head


def _header(head: bytes, name: bytes) -> bytes:
    (found,) = [
        value.strip()
        for line in head.split(b"\r\n")
        for key, _, value in [line.partition(b":")]
        if key.lower() == name
    ]
    return found


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@in_loop
async def test_connection_stays_open_after_a_response() -> None:
    async with serving() as server:
        client = await Client.of(server)
        for request in (
            GET,
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd",
            GET,
        ):
            assert (await client.answer(request)).startswith(b"HTTP/1.1 200")
        assert server.door.open == 1
        client.writer.close()


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"\r\n",
        b"GET / HTTP/1.1\r\nHost",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        GET + b"GET / HT",
    ],
)
@in_loop
async def test_incomplete_request_times_out(begun: bytes) -> None:
    async with serving() as server:
        client = await Client.of(server)
        text = await client.said(begun)
        assert (b"408" in text) is (begun.strip() != b"")
        await until(lambda: not server.door.open)


@in_loop
async def test_slow_bytes_do_not_extend_the_timeout() -> None:
    async with serving() as server:
        client = await Client.of(server)
        client.writer.write(b"GET / HTTP/1.1\r\n")

        loop = asyncio.get_running_loop()

        def drip() -> None:
            client.writer.write(b"X-A: 1\r\n")
            nonlocal dripping
            dripping = loop.call_later(QUICK.head_seconds / 20, drip)

        dripping = loop.call_soon(drip)
        assert b"408" in await client.said()
        dripping.cancel()


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n" + b"X-A: 1\r\n" * 101 + b"\r\n",
        b"GET / HTTP/1.1\r\nX-A: " + b"a" * 33_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nX-A: " + b"a" * 33_000,
        b"GET /" + b"a" * 33_000 + b" HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
        + b"T: 1\r\n" * 101,
    ],
)
@in_loop
async def test_too_large_head_is_refused(head: bytes) -> None:
    async with serving() as server:
        text = await (await Client.of(server)).said(head)
        assert text.startswith(b"HTTP/1.1 431")
        await until(lambda: not server.door.open)


@in_loop
async def test_endless_head_is_not_buffered() -> None:
    async with serving() as server:
        client = await Client.of(server)
        client.writer.write(b"GET / HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                client.writer.write(b"X-A: b\r\n" * 1_000)
                await client.writer.drain()
        assert b"431" in await client.said()


@in_loop
async def test_client_that_is_still_sending_can_read_the_refusal() -> None:
    async with serving() as server:
        client = await Client.of(server)
        head = b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 40000000\r\n\r\n"
        client.writer.write(head)
        sent = 0
        with contextlib.suppress(ConnectionError):
            for _ in range(40):
                client.writer.write(b"[" * 100_000)
                sent += 1
                await client.writer.drain()
        text = await client.said()
        assert text.endswith(b"refused")
        assert sent == 40
        await until(lambda: not server.door.open)


@in_loop
async def test_client_that_does_not_read_is_disconnected() -> None:
    async with serving() as server:
        client = await Client.of(server)
        client.writer.write(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(client.reader.readexactly(12), 20)
        transport = client.writer.transport
        assert isinstance(transport, asyncio.ReadTransport)
        transport.pause_reading()
        await until(lambda: not server.door.open)
        transport.abort()


@in_loop
@pytest.mark.parametrize("path", ["/much", "/some"])
async def test_closing_client_that_does_not_read_is_disconnected(
    path: str,
) -> None:
    """A complete response waits in the process until the client reads it."""
    async with serving() as server:
        with socket.socket() as asking:
            # Small windows, as over a network.
            asking.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
            asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            asking.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(asking, server.listener.address)
            head = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            await loop.sock_sendall(asking, head.encode())
            await until(lambda: server.door.open == 1)
            await until(lambda: server.door.open == 0)


@in_loop
async def test_invalid_http_is_refused_without_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as server:
        for data in (
            b"\x16\x03\x01\x02\x00",
            b"hello\r\n\r\n",
            b"GET / HTTP/9\r\n\r\n",
            b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        ):
            assert b"400" in await (await Client.of(server)).said(data)
    assert not caplog.records


@pytest.mark.parametrize("version", ["0.9", "2.0"])
@in_loop
async def test_other_http_versions_are_refused(version: str) -> None:
    async with serving() as server:
        request = f"GET / HTTP/{version}\r\nHost: x\r\n\r\n".encode()
        assert (await (await Client.of(server)).said(request)).startswith(
            b"HTTP/1.1 505"
        )


@in_loop
async def test_two_host_headers_are_refused() -> None:
    async with serving() as server:
        request = b"GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n"
        text = await (await Client.of(server)).said(request)
        assert text.startswith(b"HTTP/1.1 400")
        assert b"more than one Host header" in text


@pytest.mark.parametrize("host", ["Host: 127.0.0.1\r\n", ""])
@pytest.mark.parametrize(
    "target", ["http://evil.example:80/x", "http://evil.example:80?x"]
)
@in_loop
async def test_authority_of_the_target_replaces_the_host(
    target: str, host: str
) -> None:
    headers: list[tuple[bytes, bytes]] = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        headers.extend(scope["headers"])
        await app(scope, receive, send)

    async with serving(served=noting) as server:
        client = await Client.of(server)
        request = f"GET {target} HTTP/1.1\r\n{host}Connection: close\r\n\r\n"
        assert b"200" in await client.said(request.encode())
    assert headers == [(b"host", b"evil.example:80"), (b"connection", b"close")]


@in_loop
async def test_too_many_pipelined_requests_are_refused_without_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as server:
        client = await Client.of(server)
        text = await client.said(GET * 1000)
        assert text in (b"", b"reset") or text.startswith(b"HTTP/1.1 200")
        await until(lambda: not server.door.open)
    assert not caplog.records


@in_loop
async def test_each_pipelined_request_sees_the_disconnect() -> None:
    gone: list[str] = []

    async def waiting(scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.append(scope["path"])

    server = AdminServer(waiting, grace_seconds=1, bounds=QUICK)
    await server.start("127.0.0.1:0")
    client = await Client.of(server)
    client.writer.write(b"GET /first HTTP/1.1\r\nHost: x\r\n\r\n" + GET)
    await until(lambda: server.door.open == 1)
    client.writer.close()
    await until(lambda: gone == ["/first"])
    await server.stop()


@in_loop
async def test_rejected_connections_are_logged_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="forewarn.admin")
    async with serving() as server:
        # Loopback can be a proxy with many clients, so it gets half of all connections.
        most = QUICK.connections // 2
        clients = [await Client.of(server) for _ in range(most)]
        for client in clients:
            assert b"200" in await client.answer(GET)
        for _ in range(3):
            assert b"503" in await (await Client.of(server)).said()
        assert server.door.refused == {"source": 3}
        (record,) = caplog.records
        assert "127.0.0.1" in record.message
        clients[0].writer.close()
        await until(lambda: server.door.open < most)
        clients.append(await Client.of(server))
        assert b"200" in await clients[-1].answer(GET)
        for client in clients:
            client.writer.close()


def test_one_source_cannot_take_all_connections(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="forewarn.admin")
    now = 0.0
    door = Door(QUICK, monotonic=lambda: now)
    admitted = [door.admit("192.0.2.1") for _ in range(7)]
    assert admitted == [True] * 5 + [False] * 2
    others = [door.admit(f"192.0.2.{number}") for number in range(2, 20)]
    assert others == [True] * 15 + [False] * 3
    assert door.refused == {"source": 2, "all": 3}
    assert len(caplog.records) == 1
    now = 100.0
    assert not door.admit("192.0.2.99")
    assert len(caplog.records) == 2
    door.dismiss("192.0.2.1")
    assert door.admit("192.0.2.99")


def test_limits_equal_those_of_the_metadata_endpoint() -> None:
    ours, theirs = Limits(), metadata_limits
    assert (ours.head_seconds, theirs.HEAD_BYTES_MAX) == (10.0, 32 * 1024)
