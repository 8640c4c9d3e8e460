"""The example of HAProxy in front of two real replicas: it leaves the one that is lost."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.agents import free_port
from tests.support.processes import Serving, eventually, http
from tests.support.unpacked import environment, find, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    postgres.needing_postgres,
    needing("haproxy"),
]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "haproxy" / "operators.cfg"

TLS = " check-ssl verify required ca-file /etc/ssl/certs/ca-certificates.crt"
"""What the example has more than the replicas of the test, which use plain HTTP."""

FLEET = '[[host]]\nname = "h1"\n'


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Serving]]:
    with postgres.one_database(is_empty=True) as url:
        made = [
            Serving(
                tmp_path / name, FLEET, store_url=url, cluster_lease="1s"
            ).wait_ready()
            for name in ("r1", "r2")
        ]
        yield made
        for each in made:
            each.process.kill()
            each.process.wait()


def test_operators_are_served_when_a_replica_is_lost(
    pair: list[Serving], tmp_path: Path
) -> None:
    front = free_port()
    text = EXAMPLE.read_text("utf-8")
    assert TLS in text
    text = text.replace(TLS, "").replace("bind :8200", f"bind 127.0.0.1:{front}")
    for name, each in zip(("r1", "r2"), pair, strict=True):
        address = each.urls["operators"].removeprefix("http://")
        text = text.replace(f"{name}.example:8200", address)
    file = tmp_path / "haproxy.cfg"
    file.write_text(text, "utf-8")
    program = find("haproxy")
    with subprocess.Popen(
        [program, "-db", "-f", str(file)], env=environment("haproxy")
    ) as running:
        try:

            def role() -> str | None:
                try:
                    status, found = http(f"http://127.0.0.1:{front}/readyz")
                except OSError:
                    return None
                return found["role"] if status == 200 else None

            assert eventually(role, bool) == "leads"
            pair[0].kill()
            # First no answer, then that of the replica that follows, which takes over.
            eventually(role, lambda found: found is None or found == "follows")
            eventually(role, lambda found: found == "leads")
        finally:
            running.kill()
