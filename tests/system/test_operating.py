"""Operation of a real process: supervisor, log, metrics and backups."""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked import ran
from tests.support.processes import PATIENCE_SECONDS, Serving, eventually, http
from tests.system.test_serve import FLEET

pytestmark = [pytest.mark.system, pytest.mark.slow]

Start = Callable[..., Serving]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Serving] = []

    def begin(directory: str = "here", **settings: Any) -> Serving:
        started.append(Serving(tmp_path / directory, FLEET, **settings))
        return started[-1]

    yield begin
    for service in started:
        service.process.kill()
        service.process.wait()


def forewarn(directory: Path, *words: str) -> tuple[int, str]:
    """Return the status and the output of a command in `directory`."""
    done = ran(words, cwd=directory)
    return done.returncode, done.stdout + done.stderr


def test_store_is_copied_and_checked_while_in_use(start: Start, tmp_path: Path) -> None:
    service, here = start(timing_speed="600").wait_ready(), tmp_path / "here"
    assert service.document("web_0")["DocumentIncarnation"] == 1
    for number in range(5):
        service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "freeze"})
        status, output = forewarn(here, "store", "backup", f"copy{number}.db", "--json")
        assert status == 0, output
        assert json.loads(output)["bytes"] > 0
        for file in ((), (f"copy{number}.db",)):
            status, output = forewarn(here, "store", "check", *file)
            assert (status, "no violations" in output) == (0, True), output
        eventually(
            lambda: service.document("web_0")["Events"],
            lambda events: not events,
            what="the end of the maintenance",
        )
    service.kill()
    # Restored in another place, it continues from the same state.
    there = tmp_path / "there"
    there.mkdir()
    (here / "copy4.db").rename(there / "forewarn.db")
    again = start("there", timing_speed="600").wait_ready()
    eventually(lambda: again.document("web_0")["Events"], lambda events: not events)
    status, output = forewarn(there, "store", "check")
    assert status == 0, output


def test_supervisor_is_notified_of_the_service_state(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"forewarn-system-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(f"\0{name}")
        heard.settimeout(PATIENCE_SECONDS)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        monkeypatch.setenv("WATCHDOG_USEC", "300000")
        service = start()
        assert heard.recv(1000) == b"READY=1"
        for _ in range(3):
            assert heard.recv(1000).startswith(b"WATCHDOG=1\nSTATUS=serving 2 VMs")
        service.process.send_signal(signal.SIGTERM)
        while (data := heard.recv(1000)).startswith(b"WATCHDOG=1"):
            pass
        assert data.startswith(b"STOPPING=1")
        assert service.ended() == 0


def is_lost(service: Serving, verb: str) -> bool:
    """Send a request; return whether the stopping service rejected it."""
    try:
        status, _ = http(f"{service.urls['operators']}/v1/{verb}", {"names": ["web_0"]})
    except OSError:
        return True
    assert status in {200, 201, 503}
    return status == 503


def test_moved_store_file_is_named_in_the_final_error(
    start: Start, tmp_path: Path
) -> None:
    service, here = start().wait_ready(), tmp_path / "here"
    (here / "forewarn.db").rename(here / "elsewhere.db")
    assert is_lost(service, "fail")
    assert service.ended() == 1
    *log, said, hint = service.log().splitlines()
    gone = f"the store's file {here / 'forewarn.db'} was removed"
    assert said == f"forewarn: {gone}: No such file or directory"
    assert hint.startswith(
        "  hint: Stop the service before you move or replace a store."
    )
    [end] = [line for line in log if " CRITICAL " in line]
    assert gone in end
    assert "Traceback" not in service.log()


STORE_BYTES_MAX = 2 * 1024 * 1024
"""Maximum file size in bytes: enough for an empty store and some requests."""

FILES_OF_BYTES = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_store_that_cannot_grow_is_reported_at_exit(start: Start) -> None:
    bound = (sys.executable, "-c", FILES_OF_BYTES, str(STORE_BYTES_MAX))
    service = start(under=bound).wait_ready()
    eventually(lambda: is_lost(service, "fail") or is_lost(service, "restore"), bool)
    assert service.ended() == 1
    *_, said, hint = service.log().splitlines()
    assert said.startswith("forewarn: the store ")
    assert said.endswith("forewarn.db cannot do its work: disk I/O error")
    assert hint == "  hint: Check its disk and the system's log."
    assert "Traceback" not in service.log()


def test_log_is_json_without_a_terminal(start: Start) -> None:
    service = start(log_format="auto")
    log = eventually(service.log, lambda log: '"ready; ' in log)
    lines = [json.loads(line) for line in log.splitlines()]
    assert {"time", "level", "logger", "message"} <= set(lines[0])
    [url] = [
        line["message"].rpartition(" ")[2]
        for line in lines
        if line["message"].startswith("serving operators at")
    ]
    _, response = http(f"{url}/v1/maintain", {"hosts": ["h1"], "impact": "reboot"})
    operation = response["operations"][0]["operation"]
    message = eventually(service.log, lambda log: log.count(operation) >= 2)
    assert all(json.loads(line) for line in message.splitlines())
    assert service.terminate() == 0
    assert json.loads(service.log().splitlines()[-1])["message"] == "stopping"
