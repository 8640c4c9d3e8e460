"""Failures of the operator API's process never affect VMs."""

import contextlib
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Generator, Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from forewarn.service import limits
from tests.support.processes import FreshServing, Serving, eventually, http

pytestmark = pytest.mark.system

FLEET = """
[[tenant]]
name = "shop"

[[host]]
name = "h1"

[[vm]]
name = "web_0"
host = "h1"
listen = "127.0.0.1:0"
"""

Start = Callable[..., Serving]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts services in one directory; all end afterwards."""
    with starts(tmp_path, FreshServing) as starting:
        yield starting


@pytest.fixture
def fork(tmp_path: Path) -> Iterator[Start]:
    """Return the same for tests of what the API's process does, not of its start."""
    with starts(tmp_path, Serving) as starting:
        yield starting


@contextlib.contextmanager
def starts(directory: Path, kind: type[Serving]) -> Generator[Start]:
    running: list[Serving] = []

    def starting(**settings: str) -> Serving:
        usual = {"store_url": "sqlite:///forewarn.db"}
        running.append(kind(directory, FLEET, **{**usual, **settings}))
        return running[-1].wait_ready()

    yield starting
    for service in running:
        if service.process.poll() is None:
            service.process.send_signal(signal.SIGCONT)
            service.kill()


def children(process: int) -> list[int]:
    """Return the running child processes of a process."""
    with contextlib.suppress(FileNotFoundError):
        text = Path(f"/proc/{process}/task/{process}/children").read_text("ascii")
        return [int(pid) for pid in text.split()]
    return []


def api_of(service: Serving) -> int:
    """Return the process of the service's operator API."""
    (process,) = eventually(
        lambda: children(service.process.pid), lambda pids: len(pids) == 1
    )
    return process


def is_gone(process: int) -> bool:
    """Return whether a process has ended, even if it is still a zombie."""
    try:
        status = Path(f"/proc/{process}/stat").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return status.rpartition(")")[2].split()[0] in "ZX"


def _status(url: str) -> int:
    """Return the status of a response; 0 if the connection was refused."""
    try:
        return http(url)[0]
    except (OSError, HTTPException):
        return 0


def answers(service: Serving) -> bool:
    """Return whether the VM gets its document."""
    return http(service.vm_url("web_0"))[0] == 200


def connected(service: Serving) -> socket.socket:
    """Return a connection to the operator API."""
    url = urlsplit(service.urls["operators"])
    assert url.hostname is not None
    return socket.create_connection((url.hostname, url.port or 0), timeout=20)


def test_killed_api_process_restarts_unnoticed_by_vms(fork: Start) -> None:
    service = fork()
    api = api_of(service)
    assert service.admin("/v1/operations") == {"operations": [], "next": None}
    for _ in range(2):
        os.kill(api, signal.SIGKILL)
        assert answers(service)
        # A request during the restart waits and is executed.
        response = service.admin("/v1/reboot", {"vms": ["web_0"]})
        assert answers(service)
        cancelled = service.admin("/v1/cancel", {"names": [response["request"]]})
        assert len(cancelled["cancelled"]) == 1
        api, before = api_of(service), api
        assert api != before
    assert "the process of the operator API ended (signal 9)" in service.log()
    assert service.terminate() == 0
    assert is_gone(api)


@pytest.mark.long
def test_api_that_accepts_no_connection_is_restarted(fork: Start) -> None:
    """It still answers pings but has no free file for a connection."""
    service = fork()
    api = api_of(service)
    used = {int(path.name) for path in Path(f"/proc/{api}/fd").iterdir()}
    first_free = next(number for number in range(len(used) + 1) if number not in used)
    _, hard = resource.prlimit(api, resource.RLIMIT_NOFILE)
    resource.prlimit(api, resource.RLIMIT_NOFILE, (first_free, hard))
    eventually(lambda: api_of(service), lambda now: now != api, what="another one")
    assert answers(service)
    assert "has not answered a ping for" in service.log()
    assert service.admin("/v1/operations") == {"operations": [], "next": None}


def test_api_process_ends_with_a_killed_service(fork: Start) -> None:
    service = fork()
    api = api_of(service)
    service.kill()
    eventually(lambda: is_gone(api), bool, what="the end of the API's process")
    # Nothing prevents the next start.
    assert answers(fork())


def test_health_reports_the_service_and_not_the_api(fork: Start) -> None:
    service = fork()
    url = service.urls["operators"]
    assert http(f"{url}/readyz")[0] == 200
    service.process.send_signal(signal.SIGSTOP)
    for path in ("/readyz", "/healthz"):
        status, body = http(url + path)
        assert status == 503
        assert "did not respond" in body["problems"][0]
    service.process.send_signal(signal.SIGCONT)
    eventually(lambda: http(f"{url}/readyz")[0], lambda status: status == 200)


def test_api_process_is_limited_in_memory_and_priority(start: Start) -> None:
    service = start()
    api = api_of(service)
    bounds = Path(f"/proc/{api}/limits").read_text("ascii")
    (data,) = [line for line in bounds.splitlines() if line.startswith("Max data size")]
    assert data.split()[3] == str(limits.API_MEMORY_BYTES_MAX)
    assert os.getpriority(os.PRIO_PROCESS, api) >= limits.API_NICENESS
    held = Path(f"/proc/{api}/status").read_text("ascii")
    (used,) = [line for line in held.splitlines() if line.startswith("VmData:")]
    assert int(used.split()[1]) * 1024 < limits.API_MEMORY_BYTES_MAX / 2


def test_stream_reports_events_of_the_service(fork: Start) -> None:
    service = fork()
    with connected(service) as stream:
        host = urlsplit(service.urls["operators"]).netloc
        stream.sendall(
            f"GET /v1/watch?topics=events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        )
        received = b""
        while b"event: ready" not in received:
            received += stream.recv(65536)
        response = service.admin("/v1/reboot", {"vms": ["web_0"]})
        event = response["operations"][0]["events"][0]["EventId"]
        while event.encode() not in received:
            received += stream.recv(65536)


def test_fleet_file_and_refusals_and_metrics_pass_through(fork: Start) -> None:
    service = fork()
    url = service.urls["operators"]
    long = FLEET + "# comment\n" * 60_000
    for path, applied in (("plan", False), ("apply", True)):
        answer = service.admin(f"/v1/fleet/{path}", {"text": long})
        assert (answer["applied"], answer["is_empty"]) == (applied, True)
    status, body = http(f"{url}/v1/fleet/apply", {"text": FLEET + "[[host]]\n"})
    assert (status, body["kind"], body["problems"][0]["line"]) == (400, "bad-fleet", 12)
    status, body = http(f"{url}/v1/reboot", {"vms": ["nobody"]})
    assert (status, body["kind"]) == (404, "not-found")
    assert service.admin("/v1/webhooks") == {"webhooks": []}
    with connected(service) as client:
        host = urlsplit(url).netloc
        request = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        client.sendall(request.encode())
        text = b"".join(iter(lambda: client.recv(65536), b"")).decode()
    for line in (
        "forewarn_vms 1.0",
        "forewarn_admin_process_starts_total 1.0",
        'forewarn_admin_responses_total{status="404"} 1.0',
    ):
        assert line in text


def refusals(service: Serving, token: str, body: bytes) -> Iterator[tuple[str, float]]:
    """Send nested JSON with a token several times; yield status and seconds."""
    host = urlsplit(service.urls["operators"]).netloc
    head = (
        f"POST /v1/fleet/apply HTTP/1.1\r\nHost: {host}\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    for _ in range(3):
        began = time.monotonic()
        with connected(service) as client:
            client.sendall(head.encode())
            with contextlib.suppress(OSError):
                client.sendall(body[: 8 << 20])
            status = client.recv(65536).split(b"\r\n")[0].decode()
            yield status, time.monotonic() - began


def test_nested_json_of_a_read_only_token_is_refused_early(fork: Start) -> None:
    service = fork()
    response = service.admin("/v1/tokens", {"tenant": "shop", "read_only": True})
    body = b'{"text":' + b"[" * (60 << 20)
    memory = Path(f"/proc/{api_of(service)}/status")
    for status, _ in refusals(service, response["token"], body):
        assert status == "HTTP/1.1 403 Forbidden"
        assert answers(service)
    (peak,) = [
        line for line in memory.read_text("ascii").splitlines() if "VmHWM" in line
    ]
    assert int(peak.split()[1]) < 200 * 1024, peak


def test_operator_connections_do_not_use_up_file_descriptors_of_vms(
    tmp_path: Path,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = Serving(
        tmp_path,
        FLEET,
        under=("sh", "-c", 'ulimit -n 400; exec "$@"', "sh"),
        store_url="sqlite:///few.db",
    )
    try:
        few.wait_ready()
        with contextlib.ExitStack() as stack:
            assert min(soft, hard) > 700, "this test holds 600 connections"
            for _ in range(600):
                client = stack.enter_context(connected(few))
                with contextlib.suppress(OSError):
                    client.sendall(b"GET /v1/operations HTTP/1.1\r\nHost: lo")
            for _ in range(5):
                assert answers(few)
            log = eventually(few.log, lambda log: "rejected a connection" in log)
        # The API's process logs it.
        assert "process api" in log
        # One address got half of the connections that the limit of files allows.
        eventually(
            lambda: _status(few.urls["operators"] + "/readyz"),
            lambda status: status == 200,
        )
    finally:
        few.kill()


def test_memory_store_runs_without_an_api_process(fork: Start) -> None:
    service = fork(store_url="memory://")
    assert children(service.process.pid) == []
    assert service.admin("/v1/operations")["operations"] == []
