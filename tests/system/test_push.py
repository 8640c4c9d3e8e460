"""Push with a real service: changes within a round trip, and the stop."""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from forewarn.clock import SystemClock
from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PATH = "/metadata/scheduledevents?api-version=2020-07-01"

AT_ONCE_SECONDS = 2.0
"""Maximum seconds until a change arrives. It takes a few milliseconds, but a busy machine
is slower; a poller would be this fast only by chance."""

FLEET = """
[[scope]]
name = "web"
kind = "availability-set"
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
scope = "web"
spot = true
listen = "127.0.0.1:0"
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path, FLEET, metadata_push="true").wait_ready()
    yield serving
    serving.process.kill()
    serving.process.wait()


@pytest.fixture
def vm(service: Serving) -> Iterator["Vm"]:
    vm = Vm(service)
    yield vm
    vm.connection.close()


class Vm:
    """A VM's program with one persistent connection."""

    def __init__(self, service: Serving) -> None:
        address = urlsplit(service.urls["VM web_0"]).netloc
        self.connection = HTTPConnection(address, timeout=30)

    def ask(self, *, wait: int, tag: str = "") -> tuple[HTTPResponse, bytes, float]:
        """Return the response, its body and its time."""
        headers = {"Metadata": "true", "If-None-Match": tag}
        self.connection.request("GET", f"{PATH}&wait={wait}", headers=headers)
        answer = self.connection.getresponse()
        body = answer.read()
        return answer, body, SystemClock().monotonic()


def wait_until_waiting(service: Serving, count: int = 1) -> None:
    url = f"{service.urls['operators']}/metrics"

    def metrics() -> str:
        connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    eventually(metrics, lambda text: f"metadata_waiters {float(count)}\n" in text)


def test_preempt_reaches_a_waiting_vm_at_once(service: Serving, vm: Vm) -> None:
    first, body, _ = vm.ask(wait=30)
    assert (first.status, first.getheader("Forewarn-Wait")) == (200, "60")
    assert json.loads(body)["Events"] == []
    tag = first.getheader("ETag") or ""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(vm.ask, wait=30, tag=tag)
        wait_until_waiting(service)
        ordered = SystemClock().monotonic()
        service.admin("/v1/evict", {"vms": ["web_0"]})
        answer, body, came = waiting.result()
    assert answer.status == 200
    [event] = json.loads(body)["Events"]
    assert event["EventType"] == "Preempt"
    assert came - ordered < AT_ONCE_SECONDS


def test_stop_answers_waiting_requests(service: Serving, vm: Vm) -> None:
    first, _, _ = vm.ask(wait=30)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(vm.ask, wait=30, tag=first.getheader("ETag") or "")
        wait_until_waiting(service)
        service.process.send_signal(signal.SIGTERM)
        answer, _, _ = waiting.result()
    assert (answer.status, answer.getheader("Connection")) == (304, "close")
    assert service.ended() == 0
    assert "Traceback" not in service.log()


def test_documented_push_client_works(service: Serving, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "extensions.md").read_text(encoding="utf-8")
    match = re.search(r"```bash\n(.*?)```", page, re.DOTALL)
    assert match is not None
    script = tmp_path / "client.sh"
    script.write_text(match[1], encoding="utf-8")
    client = subprocess.Popen(
        ["bash", str(script)],
        env={**os.environ, "FOREWARN_ENDPOINT": service.urls["VM web_0"]},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert client.stdout is not None
    lines: list[str] = []
    reading = threading.Thread(target=lines.extend, args=[client.stdout])
    reading.start()
    try:
        wait_until_waiting(service)
        service.admin("/v1/evict", {"vms": ["web_0"]})
        eventually(lambda: len(lines), lambda count: count >= 2)
        wait_until_waiting(service)
    finally:
        os.killpg(client.pid, signal.SIGTERM)
        client.wait()
        reading.join()
        client.stdout.close()
    incarnations = [json.loads(line)["DocumentIncarnation"] for line in lines]
    assert incarnations[:2] == [1, 2]
    assert len(incarnations) == len({*incarnations}), "nothing is printed twice"
