"""The operator API behind a real nginx, with the configuration of its page.

Only addresses and directories are others: ports of loopback, and a certificate of the test.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import free_port
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.processes import PATIENCE_SECONDS, Serving, eventually
from tests.support.unpacked import environment, find, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    needing("nginx"),
    needs_openssl,
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "nginx" / "forewarn.conf"

TOKEN = "0123456789abcdef0123456789abcdef"

FLEET = '[[host]]\nname = "h1"\n[[tenant]]\nname = "shop"\n' + "".join(
    f'[[vm]]\nname = "web_{number}"\nhost = "h1"\ntenant = "shop"\n'
    for number in range(3)
)

MAIN = """
daemon off;
pid DIRECTORY/nginx.pid;
error_log DIRECTORY/error.log;
events {}
http {
    access_log off;
    client_body_temp_path DIRECTORY/body;
    proxy_temp_path DIRECTORY/proxy;
    fastcgi_temp_path DIRECTORY/fastcgi;
    uwsgi_temp_path DIRECTORY/uwsgi;
    scgi_temp_path DIRECTORY/scgi;
EXAMPLE
}
"""


class Behind:
    """A service with nginx in front of it."""

    def __init__(self, directory: Path, *tokens: str) -> None:
        """Start both; without `tokens` the service needs none."""
        self.certificate = certificate_in(directory)
        file = directory / "tokens"
        file.write_text("".join(f"{token}\n" for token in tokens))
        file.chmod(0o600)
        settings = {"admin_token_file": str(file)} if tokens else {}
        self.service = Serving(directory / "service", FLEET, **settings).wait_ready()
        port = free_port()
        self.url = f"https://127.0.0.1:{port}"
        text = EXAMPLE.read_text("utf-8")
        for old, new in (
            ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
            ("/etc/nginx/forewarn.crt", str(self.certificate.certificate)),
            ("/etc/nginx/forewarn.key", str(self.certificate.key)),
            ("http://127.0.0.1:8200", self.service.urls["operators"]),
        ):
            assert old in text
            text = text.replace(old, new)
        file = directory / "nginx.conf"
        main = MAIN.replace("DIRECTORY", str(directory)).replace("EXAMPLE", text)
        # Its workers would be another user, who may not read this directory.
        file.write_text(f"user root;\n{main}" if os.getuid() == 0 else main)
        with (directory / "stderr").open("wb") as errors:
            self.process = subprocess.Popen(
                [find("nginx"), "-p", str(directory), "-c", str(file)],
                env=environment("nginx"),
                stderr=errors,
            )
        eventually(
            lambda: self.command("fleet", "show").returncode != 3,
            lambda is_there: is_there,
            what="nginx",
        )

    def variables(self, **more: str) -> dict[str, str]:
        inherited = {
            name: t for name, t in os.environ.items() if "FOREWARN" not in name
        }
        return {
            **inherited,
            "FOREWARN_URL": self.url,
            "FOREWARN_CA_FILE": str(self.certificate.certificate),
            **more,
        }

    def command(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command of forewarn through nginx."""
        return subprocess.run(
            [sys.executable, "-m", "forewarn", *words],
            env=self.variables(**more),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS * 3,
            check=False,
        )

    def end(self) -> None:
        """End both."""
        self.process.terminate()
        self.process.wait(PATIENCE_SECONDS)
        self.service.process.kill()
        self.service.process.wait()


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Behind]:
    new_behind = Behind(tmp_path, TOKEN)
    yield new_behind
    new_behind.end()


def test_orders_and_streams_work_through_nginx(behind: Behind) -> None:
    token = {"FOREWARN_TOKEN": TOKEN}
    watching = subprocess.Popen(
        [sys.executable, "-m", "forewarn", "operations", "--watch", "--json"],
        env=behind.variables(**token),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    lines: list[str] = []
    reading = threading.Thread(target=lambda: lines.extend(watching.stdout or ()))
    reading.start()
    try:
        for number in range(3):
            ended = behind.command("reboot", f"web_{number}", **token)
            assert (ended.returncode, ended.stderr) == (0, "")
            # Each change comes by itself: nothing waits for a full buffer.
            eventually(
                lambda number=number: any(f"web_{number}" in line for line in lines),
                lambda has_come: has_come,
                what=f"the change of web_{number}",
            )
        assert sum(map(len, lines)) < 64_000
    finally:
        watching.terminate()
        watching.wait(PATIENCE_SECONDS)
        reading.join(PATIENCE_SECONDS)
        watching.stdout.close()


def test_unauthorized_caller_and_large_fleet_file_through_nginx(
    behind: Behind, tmp_path: Path
) -> None:
    assert behind.command("operations").returncode == 4
    assert behind.command("operations", FOREWARN_TOKEN="wrong").returncode == 4
    file = tmp_path / "fleet.toml"
    file.write_text(FLEET + "# a line that says nothing at all\n" * 60_000)
    ended = behind.command(
        "fleet", "apply", str(file), "--dry-run", FOREWARN_TOKEN=TOKEN
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_service_without_tokens_refuses_what_nginx_forwards(tmp_path: Path) -> None:
    behind = Behind(tmp_path)
    try:
        ended = behind.command("operations")
        assert ended.returncode == 4
        assert "token_file" in ended.stderr
    finally:
        behind.end()
