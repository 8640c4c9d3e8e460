"""More than a hundred driver calls at once in a process with few open files."""

import http.client
import itertools
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

CALLS = 120
OPEN_FILES = 400
CONNECTIONS = 280
"""Open connections of VMs: nearly the maximum of the service with so few files
(400, without a reserve of 96)."""

FLEET = "".join(
    f"""
[[host]]
name = "h{number}"
[[vm]]
name = "vm_{number}"
host = "h{number}"
address = "127.0.1.{number + 1}"
"""
    for number in range(CALLS)
)
ASKED_TOGETHER = 20
"""Connections that send a GET between two checks of the operations."""
PATH = "/metadata/scheduledevents?api-version=2020-07-01"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    shell = f'ulimit -n {OPEN_FILES}; exec "$@"'
    # The observations of many calls overlap, each with a slow program.
    slow = shlex.join(["/bin/sh", "-c", "sleep 0.1"])
    program = shlex.join(["/bin/sh", "-c", "exit 0"])
    started = Serving(
        tmp_path,
        FLEET,
        ("/bin/sh", "-c", shell, "limited"),
        metadata_listen="127.0.0.1:0",
        driver_kind="command",
        driver_command_freeze=program,
        driver_command_observe=slow,
        timing_speed="600",
        timing_recovery="1s",
    )
    yield started
    started.process.kill()
    started.process.wait()


def connect(service: Serving, number: int) -> http.client.HTTPConnection:
    """Return a connection from a VM's address."""
    url = service.urls["VMs by source address"]
    host, _, port = url.removeprefix("http://").partition(":")
    return http.client.HTTPConnection(
        host, int(port), timeout=10, source_address=(f"127.0.1.{number % CALLS + 1}", 0)
    )


def get(connection: http.client.HTTPConnection) -> int:
    connection.request("GET", PATH, headers={"Metadata": "true"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_many_calls_fail_no_calls_and_no_vm_requests(service: Serving) -> None:
    service.wait_ready()
    with ExitStack() as stack:
        vms = [
            stack.enter_context(closing(connect(service, number)))
            for number in range(CONNECTIONS)
        ]
        assert {get(vm) for vm in vms} == {200}
        order = {
            "hosts": [f"h{number}" for number in range(CALLS)],
            "impact": "freeze",
            "at_once": CALLS,
        }
        service.admin("/v1/maintain", order)
        asking = itertools.cycle(vms)

        def is_open() -> bool:
            some = list(itertools.islice(asking, ASKED_TOGETHER))
            assert {get(vm) for vm in some} == {200}
            return bool(service.admin("/v1/operations?limit=1")["operations"])

        eventually(
            is_open, lambda operations: not operations, what="the end of all calls"
        )
    operations = service.admin("/v1/operations?all=true&limit=1000")["operations"]
    assert [operation["state"] for operation in operations] == ["Done"] * CALLS
    log = service.log()
    assert "Traceback" not in log
    assert "open files" not in log
    assert "driver failed" not in log
