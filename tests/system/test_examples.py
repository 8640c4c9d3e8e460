"""The clients in `examples/clients`, and the fleet in README."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "examples" / "clients"
SECONDS_MAX = 50
"""Maximum seconds of a client that ends after a few polls, for slow machines."""

BASH = ["bash", str(CLIENTS / "watch.sh")]
PYTHON = [sys.executable, str(CLIENTS / "watch.py")]


def _readme_fleet() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    match = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert match is not None, "README shows no fleet"
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", match.group(1))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    """README's fleet, at a speed that shortens 15 minutes to 30 seconds."""
    serving = Serving(tmp_path, _readme_fleet(), timing_speed="30").wait_ready()
    yield serving
    serving.kill()


def _run(command: list[str], service: Serving, vm: str, *, polls: int) -> str:
    url = service.urls[f"VM {vm}"]
    done = subprocess.run(
        command,
        env={**os.environ, "FOREWARN_ENDPOINT": url, "FOREWARN_POLLS": str(polls)},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.clause("9.3")
@pytest.mark.clause("9.3")
@pytest.mark.parametrize(
    ("client", "prepare"),
    [
        pytest.param(BASH, ['echo "preparing for a $FOREWARN_EVENT_TYPE"'], id="bash"),
        pytest.param(PYTHON, ["echo", "preparing for a Freeze"], id="python"),
    ],
)
def test_a_client_prepares_and_approves(
    service: Serving, client: list[str], prepare: list[str]
) -> None:
    service.document("web_0")
    order = service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "freeze"})
    [event] = service.document("web_0")["Events"]

    output = _run([*client, *prepare], service, "web_0", polls=2)

    assert "I am web_0" in output
    assert f"Freeze Scheduled {event['EventId']}" in output
    assert "preparing for a Freeze" in output
    assert f"approved {event['EventId']}" in output
    [operation] = order["operations"]
    path = f"/v1/operations/{operation['operation']}"
    [shown] = service.admin(path)["events"]
    assert shown["approved_by"] == "web_0"


@pytest.mark.clause("9.3")
@pytest.mark.parametrize("client", [BASH, PYTHON], ids=["bash", "python"])
def test_a_client_that_cannot_prepare_does_not_approve(
    service: Serving, client: list[str]
) -> None:
    service.document("web_0")
    service.admin("/v1/reboot", {"vms": ["web_0"]})

    output = _run([*client, "false"], service, "web_0", polls=1)

    assert "not prepared" in output
    [event] = service.document("web_0")["Events"]
    assert event["EventStatus"] == "Scheduled"


@pytest.mark.clause("9.3")
@pytest.mark.parametrize("client", [BASH, PYTHON], ids=["bash", "python"])
def test_client_ignores_events_of_other_vms(
    service: Serving, client: list[str]
) -> None:
    service.document("web_0")
    service.admin("/v1/reboot", {"vms": ["web_1"]})

    output = _run([*client, "true"], service, "web_0", polls=1)

    assert "Reboot" not in output
    [event] = service.document("web_0")["Events"]
    assert event["EventStatus"] == "Scheduled"


@pytest.mark.clause("9.3")
@pytest.mark.parametrize("client", [BASH, PYTHON], ids=["bash", "python"])
def test_client_matches_only_its_exact_name(tmp_path: Path, client: list[str]) -> None:
    """A dot matches only a dot: `axb` is not the VM `a.b`."""
    fleet = _readme_fleet().replace('"web_0"', '"a.b"').replace('"web_1"', '"axb"')
    service = Serving(tmp_path, fleet, timing_speed="30").wait_ready()
    try:
        service.document("a.b")
        service.admin("/v1/reboot", {"vms": ["axb"]})

        output = _run([*client, "true"], service, "a.b", polls=1)

        assert "Reboot" not in output
        [event] = service.document("axb")["Events"]
        assert event["EventStatus"] == "Scheduled"
    finally:
        service.kill()


@pytest.mark.clause("9.3")
@pytest.mark.parametrize("client", [BASH, PYTHON], ids=["bash", "python"])
def test_preparation_that_reads_its_input_loses_no_event(
    service: Serving, client: list[str]
) -> None:
    service.document("web_0")
    service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "freeze"})
    service.admin("/v1/reboot", {"vms": ["web_0"]})
    events = service.document("web_0")["Events"]

    output = _run([*client, "cat"], service, "web_0", polls=1)

    for event in events:
        assert f"approved {event['EventId']}" in output


def test_client_waits_for_a_service_that_is_not_running_yet(tmp_path: Path) -> None:
    serving = Serving(tmp_path, _readme_fleet()).wait_ready()
    url = serving.urls["VM web_0"]
    serving.kill()
    with subprocess.Popen(
        PYTHON,
        env={**os.environ, "FOREWARN_ENDPOINT": url, "FOREWARN_POLLS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdout is not None
        assert "waiting for the metadata service" in client.stdout.readline()
        port = url.rsplit(":", 1)[1]
        fleet = _readme_fleet().replace("127.0.0.1:0", f"127.0.0.1:{port}", 1)
        again = Serving(tmp_path / "again", fleet)
        try:
            status = eventually(client.poll, lambda status: status is not None)
            assert status == 0
            assert "I am web_0" in client.stdout.read()
        finally:
            client.kill()
            again.kill()


@pytest.mark.skipif(shutil.which("pwsh") is None, reason="PowerShell is not here")
def test_powershell_client_has_valid_syntax() -> None:
    check = f"[ScriptBlock]::Create((Get-Content -Raw '{CLIENTS / 'watch.ps1'}'))"
    done = subprocess.run(
        ["pwsh", "-NoProfile", "-Command", check], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
