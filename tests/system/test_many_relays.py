"""Many relays at a service with TLS, which leave its operators their places."""

import asyncio
import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from forewarn.admin.limits import RELAY_STREAMS_MAX
from forewarn.service import open_files
from forewarn.service.limits import ADMIN_TLS_CONNECTIONS_MAX
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.processes import PATIENCE_SECONDS, Serving

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.long, needs_openssl]

HOSTS = 300
"""Their streams are more than all other connections may be: those of 1,200 relays."""

TOGETHER = 25
"""Handshakes at once, fewer than one address may have."""

FLEET = "\n".join(f'[[host]]\nname = "h{number}"' for number in range(HOSTS))

TOKEN = "the-token-of-an-operator-0123456789"


def test_streams_of_1200_relays_fit_and_operators_get_answers(tmp_path: Path) -> None:
    open_files.allow()
    certificate = certificate_in(tmp_path)
    tokens = tmp_path / "tokens"
    tokens.write_text(f"alice:{TOKEN}\n")
    tokens.chmod(0o600)
    service = Serving(
        tmp_path,
        FLEET,
        admin_tls_certificate=str(certificate.certificate),
        admin_tls_key=str(certificate.key),
        admin_token_file=str(tokens),
    ).wait_ready()
    try:
        port = urlsplit(service.urls["operators"]).port or 0
        trusting = ssl.create_default_context(cafile=str(certificate.certificate))
        asyncio.run(_connect_all(port, trusting))
    finally:
        service.process.kill()
        service.process.wait()


async def _connect_all(port: int, trusting: ssl.SSLContext) -> None:
    async def begun(
        path: str, token: str, body: object = None
    ) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request over a new connection; return the head of its answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\n"
            f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        writer.write(head.encode() + data)
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await reader.readuntil(b"\r\n\r\n"), reader, writer

    async def stream(host: int) -> list[asyncio.StreamWriter]:
        """Open the streams of one host."""
        head, reader, writer = await begun(
            "/v1/tokens", TOKEN, {"relay": f"h{host}", "name": f"h{host}"}
        )
        assert b" 201 " in head
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        token = json.loads(await reader.readexactly(length))["token"]
        writer.transport.abort()
        writers: list[asyncio.StreamWriter] = []
        for _ in range(RELAY_STREAMS_MAX):
            head, _, writer = await begun("/v1/relay/stream", token)
            assert b" 200 " in head
            writers.append(writer)
        return writers

    writers: list[asyncio.StreamWriter] = []
    for first in range(0, HOSTS, TOGETHER):
        some = range(first, first + TOGETHER)
        for connected in await asyncio.gather(*map(stream, some)):
            writers += connected
    assert len(writers) == HOSTS * RELAY_STREAMS_MAX > ADMIN_TLS_CONNECTIONS_MAX
    for _ in range(TOGETHER):
        head, _, writer = await begun("/v1/operations", TOKEN)
        assert b" 200 " in head
        writers.append(writer)
    # TLS would let a socket stay open until the service has said goodbye.
    for writer in writers:
        writer.transport.abort()
    await asyncio.gather(*(writer.wait_closed() for writer in writers))
