"""Limits of TLS handshakes with the operator API, for each way in which they end."""

import asyncio
import contextlib
import gc
import logging
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from forewarn.metadata.limits import Limits
from forewarn.metadata.server import Address
from forewarn.service import limits
from forewarn.service.admin import AdminServer
from forewarn.service.admin_connections import BoundedHttp
from forewarn.service.admin_door import door_limits
from forewarn.service.tls import Certificate, certificate_of
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.loops import until
from tests.unit.service.test_admin_connections import app
from tests.unit.service.test_service import service_of

pytestmark = needs_openssl

GET = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

RESET = struct.pack("ii", 1, 0)
"""The value of SO_LINGER that turns a close into a reset."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("certificate")
    certificate_in(path)
    return path


@pytest.fixture
def certificate(directory: Path) -> Certificate:
    files = directory / "certificate.pem", directory / "key.pem"
    settings = service_of(
        admin__tls_certificate=str(files[0]), admin__tls_key=str(files[1])
    ).settings
    loaded = certificate_of(settings)
    assert loaded is not None
    return loaded


@pytest.fixture
def trusting(directory: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(directory / "certificate.pem"))


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Disable the garbage collector, so that reference cycles are not freed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test on the event loop of the operator API's process."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test)


@contextlib.asynccontextmanager
async def serving(
    certificate: Certificate, bounds: Limits | None = None
) -> AsyncGenerator[AdminServer]:
    server = AdminServer(app, grace_seconds=1, bounds=bounds, tls=certificate)
    await server.start("127.0.0.1:0")
    try:
        yield server
    finally:
        await server.stop()


def hello(context: ssl.SSLContext) -> bytes:
    """Return the first message of a client."""
    out = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


def leave_after(address: Address, data: bytes, *, times: int, is_reset: bool) -> None:
    """Connect, send, and close, by a reset or as usual, so many times."""
    for _ in range(times):
        connection = socket.create_connection(address, timeout=20)
        if is_reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        connection.close()


async def connected(
    server: AdminServer, trusting: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = server.listener.address[0], server.listener.address[1]
    return await asyncio.open_connection(host, port, ssl=trusting)


async def answered(server: AdminServer, trusting: ssl.SSLContext) -> bytes:
    """Return the response to a valid client."""
    reader, writer = await connected(server, trusting)
    writer.write(GET)
    text = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return text


def handshakes() -> int:
    """Return the number of the loop's objects for TLS connections."""
    return sum(type(object_).__name__ == "SSLProtocol" for object_ in gc.get_objects())


BEGINNINGS: dict[str, Callable[[bytes], bytes]] = {
    "a whole hello": lambda said: said,
    "half a hello": lambda said: said[: len(said) // 2],
    "plain HTTP": lambda _said: GET,
    "nothing": lambda _said: b"",
}


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("is_reset", [True, False])
def test_disconnect_during_handshake_leaves_no_connection(
    certificate: Certificate,
    trusting: ssl.SSLContext,
    beginning: str,
    is_reset: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = BEGINNINGS[beginning](hello(trusting))

    async def story() -> None:
        async with serving(certificate) as server:
            await asyncio.to_thread(
                leave_after, server.listener.address, data, times=20, is_reset=is_reset
            )
            await until(lambda: server.door.open == 0)
            # Without the collector, which may not run during thousands of connections. And
            # before the handshake timeout, which a flood exploits.
            async with asyncio.timeout(server.door.bounds.head_seconds / 2):
                await until(lambda: handshakes() == 0)
            assert (await answered(server, trusting)).endswith(b"read")

    run(story())
    assert [record for record in caplog.records if record.levelno >= logging.INFO] == []


def test_pending_handshakes_are_bounded_and_others_are_served(
    certificate: Certificate,
    trusting: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "ADMIN_HANDSHAKES_PER_SOURCE_MAX", 3)

    async def story() -> None:
        async with serving(certificate) as server:
            secured = await connected(server, trusting)
            stalled = [await connected(server) for _ in range(3)]
            await until(lambda: server.door.handshakes == 3)
            with pytest.raises(ConnectionError):
                await connected(server, trusting)
            assert server.door.refused == {"source": 1}
            # A completed handshake no longer counts, and its connection continues.
            secured[1].write(GET)
            assert (await secured[0].read()).endswith(b"read")
            for _, writer in (*stalled, secured):
                writer.close()
            await until(lambda: server.door.handshakes == server.door.open == 0)
            assert (await answered(server, trusting)).endswith(b"read")

    run(story())


@pytest.mark.usefixtures("no_collector")
def test_memory_error_in_a_handshake_closes_only_its_connection(
    certificate: Certificate, trusting: ssl.SSLContext
) -> None:
    async def story() -> None:

        async def no_memory(*_args: object, **_more: object) -> None:
            raise MemoryError

        async with serving(certificate) as server:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(BoundedHttp, "_shake_hands", no_memory)
                reader, writer = await connected(server)
                assert await asyncio.wait_for(reader.read(), 20) == b""
                writer.close()
            assert server.door.open == server.door.handshakes == 0
            assert (await answered(server, trusting)).endswith(b"read")

    run(story())


def test_tls_connections_fit_the_memory_of_the_process() -> None:
    all_together = limits.ADMIN_TLS_CONNECTIONS_MAX * limits.ADMIN_TLS_BYTES
    assert all_together < limits.API_MEMORY_BYTES_MAX / 2
    assert door_limits(is_tls=True).connections <= limits.ADMIN_TLS_CONNECTIONS_MAX
    assert limits.ADMIN_HANDSHAKES_MAX < limits.ADMIN_TLS_CONNECTIONS_MAX
