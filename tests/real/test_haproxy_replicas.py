"""The examples of HAProxy in front of two real replicas: it leaves the one that is lost."""

import contextlib
import http.client
import json
import os
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import postgres
from tests.support.agents import free_port
from tests.support.processes import Serving, eventually
from tests.support.processes import http as http_of
from tests.support.unpacked import environment, find, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    postgres.needing_postgres,
    needing("haproxy"),
]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "haproxy"

TLS = " check-ssl verify required ca-file /etc/ssl/certs/ca-certificates.crt"
"""Lines of the example that the replicas of the test lack: they use plain HTTP."""

VM_URL = "VMs by source address"

VMS = {f"web_{number}": f"127.0.77.{number}" for number in range(1, 7)}
"""The addresses of the VMs: of this machine, so no route of the answers is needed."""

FLEET = "".join(
    f'[[host]]\nname = "h_{vm}"\n[[vm]]\nname = "{vm}"\nhost = "h_{vm}"\n'
    f'address = "{address}"\n'
    for vm, address in VMS.items()
)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Serving]]:
    with postgres.one_database(is_empty=True) as url:
        replicas = [
            Serving(
                tmp_path / name,
                FLEET,
                store_url=url,
                cluster_lease="1s",
                metadata_listen="127.0.0.1:0",
                driver_simulated_freeze="10m",
            ).wait_ready()
            for name in ("r1", "r2")
        ]
        yield replicas
        for replica in replicas:
            replica.process.kill()
            replica.process.wait()


@contextlib.contextmanager
def running(example: str, directory: Path, changes: dict[str, str]) -> Generator[None]:
    """Run HAProxy with an example and these changes, as `haproxy -c` accepts it."""
    text = (EXAMPLES / example).read_text("utf-8")
    for old, new in {TLS: "", **changes}.items():
        assert old in text, old
        text = text.replace(old, new)
    file = directory / example
    file.write_text(text, "utf-8")
    command = [find("haproxy"), "-f", str(file)]
    subprocess.run([*command, "-c"], env=environment("haproxy"), check=True)
    with subprocess.Popen([*command, "-db"], env=environment("haproxy")) as process:
        try:
            yield
        finally:
            process.kill()


def place_of(replica: Serving, name: str) -> str:
    return replica.urls[name].removeprefix("http://")


def test_operators_are_served_when_a_replica_is_lost(
    pair: list[Serving], tmp_path: Path
) -> None:
    front = free_port()

    def role() -> str | None:
        try:
            status, found = http_of(f"http://127.0.0.1:{front}/readyz")
        except OSError:
            return None
        return found["role"] if status == 200 else None

    changes = {
        "bind :8200": f"bind 127.0.0.1:{front}",
        "r1.example:8200": place_of(pair[0], "operators"),
        "r2.example:8200": place_of(pair[1], "operators"),
    }
    with running("operators.cfg", tmp_path, changes):
        assert eventually(role, bool) == "leads"
        pair[0].kill()
        # First no answer, then that of the replica that follows, which takes over.
        eventually(role, lambda found: found is None or found == "follows")
        eventually(role, lambda found: found == "leads")


def events_of(vm: str, front: int, body: object = None) -> Any:
    """Return what a VM gets through the front, or the status of its approval; None: nothing."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", front, timeout=10, source_address=(VMS[vm], 0)
    )
    with contextlib.closing(connection):
        try:
            connection.request(
                "GET" if body is None else "POST",
                "/metadata/scheduledevents?api-version=2020-07-01",
                body=None if body is None else json.dumps(body),
                headers={"Metadata": "true"},
            )
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            return None
    if body is not None:
        return answer.status
    return json.loads(text)["Events"] if answer.status == 200 else None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root connects from other addresses")
def test_each_vm_is_known_by_its_address_when_a_replica_is_lost(
    pair: list[Serving], tmp_path: Path
) -> None:
    front = free_port()
    checks = [place_of(each, "operators").rpartition(":")[2] for each in pair]
    changes = {
        "bind :80": f"bind 127.0.0.1:{front}",
        " check port 8200": " check",
        "r1.example:8080": f"{place_of(pair[0], VM_URL)} port {checks[0]}",
        "r2.example:8080": f"{place_of(pair[1], VM_URL)} port {checks[1]}",
    }
    with running("vms.cfg", tmp_path, changes):
        for vm in VMS:
            eventually(lambda vm=vm: events_of(vm, front), lambda found: found == [])
        for vm in VMS:
            pair[0].admin("/v1/maintain", {"hosts": [f"h_{vm}"], "impact": "freeze"})
        for vm in VMS:
            [event] = eventually(lambda vm=vm: events_of(vm, front), bool)
            assert event["Resources"] == [vm]
            approval = {"StartRequests": [{"EventId": event["EventId"]}]}
            assert events_of(vm, front, approval) == 200
        pair[0].kill()
        for vm in VMS:
            [event] = eventually(lambda vm=vm: events_of(vm, front), bool)
            assert (event["Resources"], event["EventStatus"]) == ([vm], "Started")
