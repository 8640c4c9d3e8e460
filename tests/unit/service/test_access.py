"""Access to the operator API of a running service, by its settings."""

import asyncio
import json
import logging
import os
import pwd
import socket
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest

from forewarn.admin.access import UnixPeer
from forewarn.metadata.server import Address
from forewarn.service import admin_connections, listening, secret_files, tls
from forewarn.service.admin import ApiHere
from forewarn.service.listening import StartError
from forewarn.service.settings import SettingsError
from forewarn.store.memory import MemoryStore
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.loops import in_loop, until
from tests.unit.service.test_service import running, service_of

ALICE = "alice-0123456789abcdef-0123"


async def ask(
    address: Address | str,
    method: str,
    path: str,
    *,
    token: str = "",
    body: Any = None,
    more: str = "",
    tls: ssl.SSLContext | None = None,
) -> tuple[int, Any]:
    """Return the status and the JSON of a response of the operator API."""
    reader, writer = (
        await asyncio.open_unix_connection(address)
        if isinstance(address, str)
        else await asyncio.open_connection(*address, ssl=tls)
    )
    text = "" if body is None else json.dumps(body)
    writer.write(
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(text)}\r\n"
        f"{f'Authorization: Bearer {token}' if token else 'X-None: x'}\r\n{more}\r\n"
        f"{text}".encode()
    )
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    head, _, found = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(found)


@in_loop
async def test_unauthenticated_token_ends_when_a_token_file_appears(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    async with running(service_of(store)) as service:
        response = await ask(service.admin_address, "POST", "/v1/tokens", body={})
        assert response[0] == 201
        token = response[1]["token"]
    async with running(service_of(store)) as service:
        assert (await ask(service.admin_address, "GET", "/v1/fleet", token=token))[
            0
        ] == 200
    (tmp_path / "tokens").write_text(f"alice:{ALICE}\n")
    guarded = service_of(store, admin__token_file=str(tmp_path / "tokens"))
    with caplog.at_level(logging.WARNING):
        async with running(guarded) as service:
            address = service.admin_address
            assert (await ask(address, "GET", "/v1/fleet", token=token))[0] == 401
            _, listed = await ask(address, "GET", "/v1/tokens", token=ALICE)
            _, history = await ask(address, "GET", "/v1/history", token=ALICE)
    assert listed["tokens"] == []
    assert [entry["what"] for entry in history["entries"]][-1] == "token revoked"
    assert "revoked 1 tokens whose creators were not authenticated" in caplog.text


def test_start_without_tokens_warns(tmp_path: Path) -> None:
    (warning,) = secret_files.open_doors(service_of().settings)
    assert "every user and program on this machine is an operator" in warning
    guarded = service_of(admin__token_file=str(tmp_path / "tokens"))
    assert list(secret_files.open_doors(guarded.settings)) == []


# A Unix socket


@in_loop
async def test_operators_need_no_token_at_the_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "api")
    service = service_of(admin__listen=f"unix:{path}")
    assert list(secret_files.open_doors(service.settings)) == []
    async with running(service):
        assert service.admin_url == f"unix:{path}"
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660  # noqa: PTH116
        status, made = await ask(path, "POST", "/v1/tokens", body={"name": "ci"})
        assert (status, made["unauthenticated"]) == (201, False)
        assert made["created_by"] == f"unix:{pwd.getpwuid(os.getuid()).pw_name}"
        _, history = await ask(path, "GET", "/v1/history", token=made["token"])
        (line,) = (e for e in history["entries"] if e["what"] == "token created")
        assert line["peer"] == f"pid {os.getpid()}, uid {os.getuid()}"
        # A proxy that can use the socket does not pass its permissions on.
        status, found = await ask(path, "GET", "/v1/fleet", more="Forwarded: x\r\n")
        assert (status, found["kind"]) == (403, "forbidden")
        assert (await ask(path, "GET", "/v1/fleet", token="wrong"))[0] == 401
    assert not os.path.exists(path)  # noqa: ASYNC240, PTH110


@in_loop
async def test_other_user_at_unix_socket_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "api")
    stranger = UnixPeer(
        name="unix:mallory", where="pid 7, uid 7", is_operator=False, wanted="forewarn"
    )
    monkeypatch.setattr(
        admin_connections.listening, "peer_of", lambda _connection: stranger
    )
    async with running(service_of(admin__listen=f"unix:{path}")):
        status, found = await ask(path, "POST", "/v1/tokens", body={})
        assert (status, found["error"]) == (401, "mallory is not in the group forewarn")
        assert (await ask(path, "GET", "/healthz"))[0] == 200


def test_operators_are_identified_by_peer_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        peer = listening.peer_of(ours)
        assert peer.is_operator
        assert peer.where == f"pid {os.getpid()}, uid {os.getuid()}"
        # The service has another user and group, so only root is an operator.
        monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
        monkeypatch.setattr(os, "getegid", lambda: 4_000_000)
        assert listening.peer_of(ours).is_operator is (os.getuid() == 0)
        monkeypatch.setattr(listening, "_CREDENTIALS", _Other())
        stranger = listening.peer_of(ours)
        assert not stranger.is_operator
        assert (stranger.name, stranger.wanted) == ("unix:65530", "4000000")


class _Other:
    """Credentials of a process of another user."""

    size = 12

    def unpack(self, _raw: bytes) -> tuple[int, int, int]:
        return 7, 65_530, 65_530


@in_loop
async def test_only_the_socket_of_a_killed_service_is_replaced(
    tmp_path: Path,
) -> None:
    path = tmp_path / "api"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    async with running(service_of(admin__listen=f"unix:{path}")):
        assert (await ask(str(path), "GET", "/readyz"))[0] == 200
        second = service_of(admin__listen=f"unix:{path}")
        with pytest.raises(StartError, match="another program listens at this socket"):
            await second.start()
        assert (await ask(str(path), "GET", "/readyz"))[0] == 200
    path.write_text("mine")
    with pytest.raises(StartError, match="not a socket"):
        await service_of(admin__listen=f"unix:{path}").start()
    assert path.read_text() == "mine"


# TLS


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


@needs_openssl
@in_loop
async def test_tls_certificate_is_renewed_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for path in (old, new):
        path.mkdir()
    first, second = certificate_in(old), certificate_in(new)
    trusts_first, trusts_second = (
        trusting(certificate.certificate) for certificate in (first, second)
    )
    service = service_of(
        admin__tls_certificate=str(first.certificate), admin__tls_key=str(first.key)
    )
    with pytest.MonkeyPatch.context() as patched, caplog.at_level(logging.INFO):
        patched.setattr(tls, "LOOK_SECONDS", 0.02)
        async with running(service):
            assert service.admin_url.startswith("https://127.0.0.1:")
            address = service.admin_address

            async def shows(context: ssl.SSLContext) -> bool:
                try:
                    status, _ = await ask(address, "GET", "/v1/fleet", tls=context)
                except ssl.SSLError:
                    return False
                return status == 200

            assert await shows(trusts_first)
            assert not await shows(trusts_second)
            # A later renewal does not affect an open connection.
            reader, writer = await asyncio.open_connection(*address, ssl=trusts_first)
            # The two files are replaced one after the other.
            first.certificate.write_bytes(second.certificate.read_bytes())
            await until(lambda: "cannot use the new certificate" in caplog.text)
            assert await shows(trusts_first)
            first.key.write_bytes(second.key.read_bytes())
            await until(lambda: "reloaded the certificate" in caplog.text)
            assert await shows(trusts_second)
            assert not await shows(trusts_first)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in await asyncio.wait_for(reader.readline(), 30)
            writer.close()


@needs_openssl
@in_loop
async def test_client_without_handshake_is_counted_and_dropped(
    tmp_path: Path,
) -> None:
    certificate = certificate_in(tmp_path)
    service = service_of(
        admin__tls_certificate=str(certificate.certificate),
        admin__tls_key=str(certificate.key),
    )
    async with running(service):
        assert isinstance(service._api, ApiHere)
        assert service._api.server is not None
        door = service._api.server.door
        _reader, writer = await asyncio.open_connection(*service.admin_address)
        await until(lambda: door.open == 1)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: door.open == 0)
        writer.close()
        _reader, writer = await asyncio.open_connection(*service.admin_address)
        await until(lambda: door.open == 1)
        writer.close()
        await until(lambda: door.open == 0)


@needs_openssl
def test_inconsistent_tls_settings_are_refused(tmp_path: Path) -> None:
    certificate = certificate_in(tmp_path)
    with pytest.raises(SettingsError, match=r"tls-key: needs admin\.tls_certificate"):
        service_of(admin__tls_key=str(certificate.key))
    with pytest.raises(SettingsError, match="cannot be used with a Unix socket"):
        service_of(
            admin__listen="unix:/run/x",
            admin__tls_certificate=str(certificate.certificate),
            admin__tls_key=str(certificate.key),
        )
    for bad in ("unix:", "unix:relative", "unix:/" + "x" * 107):
        with pytest.raises(SettingsError):
            service_of(admin__listen=bad)
    for file in (tmp_path / "none", certificate.key):
        settings = service_of(
            admin__tls_certificate=str(file), admin__tls_key=str(certificate.key)
        ).settings
        with pytest.raises(SettingsError, match="cannot be used"):
            tls.certificate_of(settings)
