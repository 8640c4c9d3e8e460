"""`forewarn serve` as a real process: requests, crashes and stops."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE_SECONDS, Serving, eventually, http
from tests.support.profiles import some

pytestmark = [pytest.mark.system, pytest.mark.slow]

STOP_SECONDS = 60
"""Maximum seconds of a stop. It takes 0.3 s, and longer on a busy machine, but must not
wait for the two minutes of a delayed response."""

FLEET = """
[[scope]]
name = "web"
kind = "availability-set"
[[host]]
name = "h1"
[[host]]
name = "h2"
[[vm]]
name = "web_0"
host = "h1"
scope = "web"
listen = "127.0.0.1:0"
[[vm]]
name = "web_1"
host = "h2"
scope = "web"
fault_domain = 1
listen = "127.0.0.1:0"
"""

Start = Callable[..., Serving]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Serving] = []

    def begin(fleet: str = FLEET, **settings: str) -> Serving:
        started.append(Serving(tmp_path, fleet, **settings))
        return started[-1]

    yield begin
    for service in started:
        service.process.kill()
        service.process.wait()


def test_maintenance_runs_from_request_to_end(start: Start) -> None:
    service = start(timing_speed="600").wait_ready()
    assert service.document("web_0") == {"DocumentIncarnation": 1, "Events": []}
    service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "reboot"})
    [event] = service.document("web_1")["Events"]
    assert event["EventStatus"] == "Scheduled"
    assert event["Resources"] == ["web_0"]
    assert service.approve("web_1", event["EventId"]) == 200
    [started] = service.document("web_0")["Events"]
    assert started["EventStatus"] == "Started"
    eventually(lambda: service.document("web_0")["Events"], lambda events: not events)
    assert service.document("web_0") == {"DocumentIncarnation": 4, "Events": []}
    assert service.admin("/readyz")["ready"] is True
    assert service.terminate() == 0
    assert "Traceback" not in service.log()


def test_a_second_service_on_the_same_file_is_refused(start: Start) -> None:
    first = start().wait_ready()
    second = start()
    assert second.ended() == 1
    assert f"is in use by process {first.process.pid}" in second.log()
    assert "Traceback" not in second.log()
    assert http(first.vm_url("web_0"))[0] == 200


def test_service_files_are_accessible_only_to_its_user(
    start: Start, tmp_path: Path
) -> None:
    before = os.umask(0o022)
    try:
        service = start().wait_ready()
        service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "reboot"})
    finally:
        os.umask(before)
    modes = {
        file.name: file.stat().st_mode & 0o777
        for file in tmp_path.iterdir()
        if file.name.startswith("forewarn.db")
    }
    # The store, its log and index, lock, the driver's memory, and the VMs' marks.
    assert len(modes) == 6, modes
    assert set(modes.values()) == {0o600}, modes


def test_invalid_fleet_prevents_the_start(start: Start) -> None:
    service = start(FLEET.replace('host = "h2"', 'host = "h3"'))
    assert service.ended() == 2
    assert "fleet.toml:16: vm.host" in service.log()
    assert "Traceback" not in service.log()


def test_port_in_use_prevents_the_start(start: Start) -> None:
    first = start().wait_ready()
    taken = first.urls["operators"].removeprefix("http://")
    second = start(admin_listen=taken, store_url="memory://")
    assert second.ended() == 1
    assert f"cannot listen at {taken}" in second.log()
    assert "Traceback" not in second.log()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "postgresql://u:s3cret@db/x",
            "flag --store-url: a password in the URL would be shown in messages",
        ),
        (
            "sqlite:////nowhere/forewarn.db",
            "flag --store-url: there is no directory /nowhere",
        ),
    ],
)
def test_impossible_store_url_is_a_settings_error(
    start: Start, url: str, said: str
) -> None:
    service = start(store_url=url)
    assert service.ended() == 2
    assert said in service.log()
    assert "s3cret" not in service.log()
    assert "Traceback" not in service.log()


@pytest.mark.parametrize(
    "number", some([signal.SIGTERM, signal.SIGINT], usual=[signal.SIGTERM])
)
def test_service_stops_at_once_during_a_request(
    start: Start, number: signal.Signals
) -> None:
    service = start(metadata_first_answer_delay="2m").wait_ready()
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(http, service.vm_url("web_0"))
        # The request runs after the scope is enabled.
        eventually(
            lambda: service.admin("/v1/history?vm=web_0"),
            lambda history: "scope enabled" in str(history),
        )
        began = time.monotonic()
        service.process.send_signal(number)
        assert held.result(timeout=PATIENCE_SECONDS)[0] == 503
        assert service.ended() == 0
    assert time.monotonic() - began < STOP_SECONDS
    assert "Traceback" not in service.log()


def test_open_watch_does_not_delay_the_shutdown(start: Start) -> None:
    service = start().wait_ready()
    url = service.urls["operators"].removeprefix("http://")
    connection = HTTPConnection(url, timeout=PATIENCE_SECONDS)
    connection.request("GET", "/v1/watch?topics=operations")
    answer = connection.getresponse()
    assert answer.readline().startswith(b"id: ")
    assert answer.readline() == b"event: ready\n"
    began = time.monotonic()
    assert service.terminate() == 0
    assert time.monotonic() - began < STOP_SECONDS
    answer.read()
    connection.close()
    assert "Traceback" not in service.log()


def test_requested_maintenance_survives_a_restart(start: Start) -> None:
    service = start().wait_ready()
    before = service.document("web_0")
    service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "freeze"})
    ordered = service.document("web_0")
    assert ordered["DocumentIncarnation"] == before["DocumentIncarnation"] + 1
    service.terminate()
    assert start().wait_ready().document("web_0") == ordered


def _many(vms: int) -> str:
    return "".join(
        f'[[host]]\nname = "h{number}"\n[[vm]]\nname = "vm_{number}"\n'
        f'host = "h{number}"\nlisten = "127.0.0.1:0"\n'
        for number in range(vms)
    )


def test_acknowledged_approval_survives_a_crash(start: Start) -> None:
    fleet, count = _many(40), 40
    fast = {"driver_simulated_reboot": "1s", "timing_recovery": "200ms"}
    service = start(fleet, **fast).wait_ready()
    names = [f"vm_{number}" for number in range(count)]
    for name in names:
        service.document(name)
    service.admin(
        "/v1/maintain",
        {
            "hosts": [f"h{number}" for number in range(count)],
            "impact": "reboot",
            "at_once": count,
        },
    )
    documents = {
        name: eventually(
            lambda name=name: service.document(name),
            lambda document: document["Events"],
            what=f"the event of {name}",
        )
        for name in names
    }
    events = {name: documents[name]["Events"][0]["EventId"] for name in names}
    acknowledged: list[str] = []
    some = threading.Event()

    def approve(name: str) -> None:
        try:
            status = service.approve(name, events[name])
        except (OSError, HTTPException):
            return
        if status == 200:
            acknowledged.append(name)
        if len(acknowledged) >= count // 4:
            some.set()

    with ThreadPoolExecutor(8) as clients:
        for name in names:
            clients.submit(approve, name)
        assert some.wait(PATIENCE_SECONDS)
        service.kill()
    assert len(acknowledged) < count, "the crash came too late to tell anything"
    service = start(fleet, **fast).wait_ready()
    approved = {
        event["EventId"]
        for event in service.admin("/v1/events?all=true&limit=100")["events"]
        if event["approved_by"]
    }
    assert {events[name] for name in acknowledged} <= approved
    for name in names:
        now = service.document(name)
        if now["Events"] == documents[name]["Events"]:
            assert now == documents[name], name
        else:
            assert events[name] in approved
            assert now["DocumentIncarnation"] > documents[name]["DocumentIncarnation"]
    for name in acknowledged:
        eventually(
            lambda name=name: service.document(name)["Events"],
            lambda events: not events,
            what=f"the end of the maintenance of {name}",
        )
    assert "Traceback" not in service.log()


def test_impact_continues_while_the_service_is_down(start: Start) -> None:
    fast = {"timing_recovery": "10s", "driver_simulated_reboot": "1s"}
    service = start(**fast).wait_ready()
    service.document("web_0")
    service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "reboot"})
    [event] = service.document("web_0")["Events"]
    assert service.approve("web_0", event["EventId"]) == 200
    service.kill()
    service = start(**fast).wait_ready()
    [event] = service.document("web_0")["Events"]
    assert event["EventStatus"] == "Started"
    eventually(lambda: service.document("web_0")["Events"], lambda events: not events)
    history = str(service.admin("/v1/history?vm=web_0"))
    assert "driver done" in history
    assert "driver failed" not in history
