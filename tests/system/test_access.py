"""Commands over a Unix socket and over TLS with a real service process."""

import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.certificates import certificate_in, needs_openssl
from tests.support.forked import ran
from tests.support.processes import PATIENCE_SECONDS, Serving

pytestmark = [pytest.mark.system, pytest.mark.slow]

FLEET = '[[host]]\nname = "h1"\n'

TOKEN = "0123456789abcdef0123456789abcdef"


def command(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of forewarn."""
    environ = {
        name: text for name, text in os.environ.items() if "FOREWARN" not in name
    }
    return ran(words, cwd=Path(), environ={**environ, **variables})


@pytest.fixture
def services() -> Iterator[list[Serving]]:
    """Return a list of services that end with the test."""
    servings: list[Serving] = []
    yield servings
    for service in servings:
        service.process.kill()
        service.process.wait()


def test_commands_work_over_a_unix_socket(
    tmp_path: Path, services: list[Serving]
) -> None:
    url = f"unix:{tmp_path / 'api'}"
    for _ in range(2):
        services.append(Serving(tmp_path, FLEET, admin_listen=url).wait_ready())
        assert f"serving operators at {url}" in services[-1].log()
        ended = command("token", "create", "--expires-in=1h", FOREWARN_URL=url)
        assert ended.returncode == 0, ended.stderr
        # The next service finds the socket of this one.
        services[-1].kill()
    assert (tmp_path / "api").is_socket()


HANDSHAKES = 100
"""Some connect before the service accepts connections."""


def shake_hands_often(port: int, certificate: Path) -> None:
    context = ssl.create_default_context(cafile=str(certificate))
    for _ in range(HANDSHAKES):
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as wire,
            context.wrap_socket(wire, server_hostname="127.0.0.1"),
        ):
            pass


@needs_openssl
def test_commands_work_over_tls(tmp_path: Path, services: list[Serving]) -> None:
    certificate = certificate_in(tmp_path)
    tokens = tmp_path / "tokens"
    tokens.write_text(f"alice:{TOKEN}\n")
    tokens.chmod(0o600)
    services.append(
        Serving(
            tmp_path,
            FLEET,
            admin_tls_certificate=str(certificate.certificate),
            admin_tls_key=str(certificate.key),
            admin_token_file=str(tokens),
        ).wait_ready()
    )
    url = services[-1].urls["operators"]
    assert url.startswith("https://")
    shake_hands_often(urlsplit(url).port or 0, certificate.certificate)
    trusted = {"FOREWARN_URL": url, "FOREWARN_CA_FILE": str(certificate.certificate)}
    environ = {**trusted, "FOREWARN_TOKEN_FILE": str(tokens)}
    ended = command("maintain", "h1", "--impact=freeze", **environ)
    assert (ended.returncode, ended.stderr) == (0, "")
    ended = command("operations", FOREWARN_URL=url, FOREWARN_TOKEN=TOKEN)
    assert ended.returncode == 3
    assert "--ca-file" in ended.stderr
    ended = command("operations", **trusted)
    assert ended.returncode == 4
    assert "a valid bearer token is needed" in ended.stderr
