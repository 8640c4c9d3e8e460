"""`forewarn simulate` as a real process: a CI test for a program in any language."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ET
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from forewarn import cli
from tests.support.forked import started
from tests.support.processes import PATIENCE_SECONDS, eventually, http
from tests.support.profiles import some

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "examples" / "clients" / "watch.py"
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"

MINE = """
name = "mine"
description = "A restart that must be approved."

[[step]]
maintain = "h0"
impact = "reboot"
as = "restart"

[[step]]
expect = { approved = true, event = "restart", within = "2s" }
"""

NEWS = re.compile(r"serving +(\S+) at (http://\S+)")


class Simulating:
    """A process of `forewarn simulate`."""

    def __init__(
        self, directory: Path, *arguments: str, prefix: tuple[str, ...] = ()
    ) -> None:
        """Start it in `directory`; what it prints is in a file there."""
        (directory / "mine.toml").write_text(MINE, encoding="utf-8")
        self._log = directory / "log"
        self._log.write_bytes(b"")
        arguments = ("simulate", *arguments)
        self.process = started(arguments, cwd=directory, log=self._log, under=prefix)
        self.urls: dict[str, str] = {}

    def log(self) -> str:
        """Return what it has printed."""
        return self._log.read_text(encoding="utf-8")

    def wait_ready(self) -> "Simulating":
        """Return when it serves; fail with what it printed if it ends instead."""
        log = eventually(
            self.log,
            lambda log: " ready" in log or self.process.poll() is not None,
            what="a simulator",
        )
        assert self.process.poll() is None, log
        self.urls = dict(NEWS.findall(log))
        return self

    def ended(self) -> int:
        """Return its exit status when it has ended."""
        status = self.process.wait(PATIENCE_SECONDS * 3)
        assert "Traceback" not in self.log()
        return status

    def document(self, vm: str = "web_0") -> dict[str, Any]:
        """Return a VM's document."""
        status, document = http(self.urls[vm] + EVENTS)
        assert status == 200, document
        return document


ANYWHERE = ("--listen=127.0.0.1:0", "--admin=127.0.0.1:0")
FAST = (*ANYWHERE, "--speed=600")

Start = Callable[..., Simulating]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Simulating] = []

    def begin(*words: str, prefix: tuple[str, ...] = ()) -> Simulating:
        started.append(Simulating(tmp_path, *words, prefix=prefix))
        return started[-1]

    yield begin
    for simulator in started:
        simulator.process.kill()
        simulator.process.wait()


@contextmanager
def client(endpoint: str, *words: str) -> Generator[None]:
    """Have the example client run in the VM at `endpoint`."""
    running = subprocess.Popen(
        [sys.executable, str(CLIENT), *words],
        env={**os.environ, "FOREWARN_ENDPOINT": endpoint},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        running.kill()
        running.wait()


@pytest.mark.long
def test_fleet_can_exceed_the_soft_limit_of_open_files(start: Start) -> None:
    """It has as many files open as the system allows, and says so where that is few."""
    few = ("bash", "-c", 'ulimit -Sn 100 && exec "$@"', "bash")
    simulator = start("--vms=150", *ANYWHERE, prefix=few).wait_ready()
    assert simulator.document("web_149") == {"DocumentIncarnation": 1, "Events": []}
    none = ("bash", "-c", 'ulimit -n 100 && exec "$@"', "bash")
    refused = start("--vms=150", *ANYWHERE, prefix=none)
    assert refused.ended() == 1
    assert "150 VMs need 214 open files; the limit is 100\n" in refused.log()
    assert "`ulimit -n`" in refused.log()


def test_approving_program_passes(start: Start, tmp_path: Path) -> None:
    simulator = start("mine.toml", *FAST, "--profile=strict", "--junit=report.xml")
    with client(simulator.wait_ready().urls["web_0"], "true"):
        assert simulator.ended() == 0, simulator.log()
    assert re.search(r"passed +mine: 1 expectation", simulator.log())
    suites = ET.parse(tmp_path / "report.xml").getroot()
    assert (suites.get("tests"), suites.get("failures")) == ("1", "0")


def test_program_that_only_watches_fails_with_a_reason(
    start: Start, tmp_path: Path
) -> None:
    simulator = start("mine.toml", *ANYWHERE, "--speed=300", "--junit=report.xml")
    with client(simulator.wait_ready().urls["web_0"]):
        assert simulator.ended() == 1, simulator.log()
    assert "mine.toml:10: no client approved restart within 2 s" in simulator.log()
    suites = ET.parse(tmp_path / "report.xml").getroot()
    assert suites.get("failures") == "1"


@pytest.mark.long
def test_strict_simulator_reports_deviations_that_lenient_accepts(start: Start) -> None:
    # The path in another case is answered, and a program had better not rely on it.
    for profile, status in (("lenient", 0), ("strict", 1)):
        arguments = ("live-migration", *FAST, f"--profile={profile}", "--expect=asked")
        simulator = start(*arguments).wait_ready()
        address = simulator.urls["web_0"] + EVENTS.replace("/sched", "/Sched")
        assert http(address)[0] == 200
        assert simulator.ended() == status, simulator.log()
        assert ("deviation web_0:" in simulator.log()) is (profile == "strict")


def test_scenarios_run_in_sequence_at_the_same_addresses(
    start: Start,
) -> None:
    arguments = ("live-migration", "hardware-failure", *ANYWHERE, "--speed=6000")
    simulator = start(*arguments, "--wait=0s", "--expect=none", "--json")
    assert simulator.ended() == 0, simulator.log()
    documents = [json.loads(line) for line in simulator.log().splitlines()]
    played = [document["scenario"] for document in documents if "failures" in document]
    assert played == ["live-migration", "hardware-failure"]
    assert documents[-1]["what"] == "end"
    assert documents[-1]["status"] == 0


def test_page_of_the_simulation_is_opened_in_the_browser(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" >{opened}\n', encoding="utf-8")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    simulator = start("--open", *ANYWHERE).wait_ready()
    text = eventually(
        lambda: opened.read_text(encoding="utf-8") if opened.exists() else "",
        bool,
        what="an opened page",
    )
    assert text.strip() == simulator.urls["operators"] + "/console/"


@pytest.mark.parametrize(
    "number",
    some([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], usual=[signal.SIGTERM]),
)
def test_signal_ends_the_simulator_cleanly(
    start: Start, number: signal.Signals
) -> None:
    simulator = start(*ANYWHERE).wait_ready()
    simulator.document()
    simulator.process.send_signal(number)
    assert simulator.ended() == 0
    assert simulator.log().splitlines()[-1].endswith("ended")


@pytest.mark.long
def test_signal_during_a_scenario_is_not_a_success(start: Start) -> None:
    simulator = start("mine.toml", *ANYWHERE, "--wait=10m").wait_ready()
    simulator.process.send_signal(signal.SIGTERM)
    assert simulator.ended() == 128 + signal.SIGTERM
    assert simulator.log().splitlines()[-1].endswith("interrupted by a signal")


@pytest.mark.long
def test_closed_terminal_ends_the_simulator_with_its_report(tmp_path: Path) -> None:
    """It sends SIGHUP, and once more when the shell has ended, and takes no lines."""
    ours, theirs = os.openpty()
    arguments = (
        "simulate",
        "user-reboot",
        *ANYWHERE,
        "--wait=10m",
        "--junit=report.xml",
    )
    running = subprocess.Popen(
        [sys.executable, "-m", "forewarn", *arguments],
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while b"FOREWARN_ENDPOINT" not in shown:
        shown += os.read(ours, 65536)
    os.close(ours)
    for _ in range(2):
        running.send_signal(signal.SIGHUP)
    assert running.wait(PATIENCE_SECONDS) == 128 + signal.SIGHUP
    report = (tmp_path / "report.xml").read_text(encoding="utf-8")
    assert "has not ended" not in report
    assert "user-reboot" in report
    assert "<error" in report


@pytest.mark.long
def test_simulator_that_ignores_sighup_continues(start: Start) -> None:
    simulator = start(*ANYWHERE, prefix=("nohup",)).wait_ready()
    simulator.process.send_signal(signal.SIGHUP)
    simulator.document()
    simulator.process.send_signal(signal.SIGTERM)
    assert simulator.ended() == 0


@pytest.mark.long
def test_simulator_continues_when_its_output_is_closed(tmp_path: Path) -> None:
    arguments = ("simulate", "live-migration", *ANYWHERE, "--speed=6000", "--wait=0s")
    arguments += ("--expect=none",)
    running = subprocess.Popen(
        [sys.executable, "-m", "forewarn", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert "serving" in running.stdout.readline()
    running.stdout.close()
    assert running.stderr is not None
    with running.stderr:
        assert running.stderr.read() == ""
    assert running.wait(PATIENCE_SECONDS) == 0


@pytest.mark.long
def test_simulator_loops_until_a_signal(start: Start) -> None:
    arguments = ("live-migration", *ANYWHERE, "--speed=6000", "--wait=0s", "--loop")
    simulator = start(*arguments, "--expect=none").wait_ready()
    eventually(simulator.log, lambda log: log.count("skipped   live-migration:") > 4)
    simulator.process.send_signal(signal.SIGTERM)
    assert simulator.ended() == 0


@pytest.mark.long
def test_real_profile_has_a_slow_start_and_a_rate_limit(start: Start) -> None:
    simulator = start(*ANYWHERE, "--profile=real", "--speed=600").wait_ready()
    assert simulator.document()["DocumentIncarnation"] == 1
    statuses = {http(simulator.urls["web_0"] + EVENTS)[0] for _ in range(30)}
    assert statuses == {200, 429}


def test_operator_commands_work_against_the_simulator(
    start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # At this speed, a busy machine does not end the notice before the approval.
    simulator = start(*ANYWHERE, "--speed=1").wait_ready()
    simulator.document()
    monkeypatch.setenv("FOREWARN_URL", simulator.urls["operators"])

    def forewarn(*words: str, status: int = 0) -> str:
        assert cli.main(words) == status, capsys.readouterr().err
        return capsys.readouterr().out

    forewarn("reboot", "web_0")
    forewarn("maintain", "h1", "--impact", "freeze")
    [event] = [
        event
        for event in simulator.document()["Events"]
        if event["Resources"] == ["web_0"]
    ]
    forewarn("approve", event["EventId"], "--as", "web_0")
    [waiting] = [
        operation
        for operation in json.loads(forewarn("operations", "--json"))
        if operation["state"] == "Announced"
    ]
    assert "tenant shop has not approved" in forewarn("explain", waiting["operation"])
    forewarn("sim", "move", waiting["operation"], "removed")
    assert "approved" in forewarn("history", "--vm", "web_0")
    forewarn("fail", "web_2", "--kind", "vm")
    forewarn("restore", "web_2", "--kind", "vm")
    forewarn("evict", "web_0", status=4)
    forewarn("sim", "vm", "add", "spot_0", "--spot")
    forewarn("evict", "spot_0")
    forewarn("redeploy", "web_1")
    forewarn("terminate", "web_2")
    assert "web_2" in forewarn("events")
    forewarn("sim", "reset")
    assert forewarn("events") == "no events\n"


# The real address

SERVICE = "169.254.169.254"
LINK = f"http://{SERVICE}{EVENTS}"

ASK = """
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
request = urllib.request.Request(sys.argv[1], headers={"Metadata": "true"})
print(opener.open(request, timeout=10).read().decode())
"""


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


@pytest.fixture
def netns() -> Iterator[str]:
    """Return a network namespace of this test's own, with nothing but loopback."""
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("needs root and iproute2, for a network namespace")
    name = f"forewarn-sim-{os.getpid()}"
    process = subprocess.run(
        ["ip", "netns", "add", name], capture_output=True, check=False
    )
    if process.returncode:
        pytest.skip("no network namespaces here")
    run("ip", "-n", name, "link", "set", "lo", "up")
    yield name
    run("ip", "netns", "delete", name)


def loopback(netns: str) -> str:
    return run("ip", "-n", netns, "address", "show", "dev", "lo")


def test_link_local_address_is_served_and_removed(start: Start, netns: str) -> None:
    simulator = start("--link-local", f"--netns={netns}").wait_ready()
    inside = ("ip", "netns", "exec", netns)
    assert simulator.urls["web_0"] == f"http://{SERVICE}:80"
    assert '"Events":[]' in run(*inside, sys.executable, "-I", "-c", ASK, LINK)
    second = subprocess.run(
        [*inside, sys.executable, "-m", "forewarn", "simulate", "--link-local"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 1
    assert f"process {simulator.process.pid} already serves {SERVICE}" in second.stderr
    simulator.process.send_signal(signal.SIGTERM)
    assert simulator.ended() == 0
    assert SERVICE not in loopback(netns)


def test_leftovers_of_a_killed_simulator_are_undone_at_the_next_start(
    start: Start, netns: str
) -> None:
    simulator = start("--link-local", f"--netns={netns}").wait_ready()
    simulator.process.kill()
    simulator.process.wait()
    assert SERVICE in loopback(netns)
    later = start(*ANYWHERE, f"--netns={netns}").wait_ready()
    assert SERVICE not in loopback(netns)
    later.process.send_signal(signal.SIGTERM)
    assert later.ended() == 0


@pytest.mark.long
def test_existing_link_local_address_is_kept(start: Start, netns: str) -> None:
    run("ip", "-n", netns, "address", "add", f"{SERVICE}/32", "dev", "lo")
    simulator = start("--link-local", f"--netns={netns}").wait_ready()
    simulator.process.send_signal(signal.SIGTERM)
    assert simulator.ended() == 0
    assert SERVICE in loopback(netns)


def test_link_local_without_root_is_refused(start: Start) -> None:
    if os.geteuid() or shutil.which("setpriv") is None:
        pytest.skip("needs root, to give it up")
    nobody = ("setpriv", "--reuid=65534", "--clear-groups")
    done = subprocess.run(
        [*nobody, sys.executable, "-m", "forewarn", "simulate", "--link-local"],
        capture_output=True,
        text=True,
        check=False,
    )
    if "Permission denied" in done.stderr:
        pytest.skip("this Python cannot be run by anybody else")
    assert done.returncode == 1
    assert "needs root" in done.stderr


# The package


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment of its own with the built wheel, and nothing else."""
    directory = tmp_path_factory.mktemp("package")
    wheels, environment = directory / "wheels", directory / "environment"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels))
    run(*pip, *build, str(ROOT))
    run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    # Without an index: the package alone needs nothing.
    install = ("install", "--no-index", f"--find-links={wheels}", "forewarn")
    run(*pip, "--python", str(environment / "bin" / "python"), *install)
    return environment


def with_server(environment: Path) -> None:
    """Have what `forewarn[server]` brings in reach, after the package's own."""
    [packages] = environment.glob("lib/python*/site-packages")
    ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "server.pth").write_text("\n".join(sorted(ours)), encoding="utf-8")


@pytest.mark.long
def test_built_package_contains_everything_for_the_quick_start(
    built: Path, tmp_path: Path
) -> None:
    def forewarn(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(built / "bin" / "forewarn"), *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS * 3,
        )

    alone = forewarn("simulate", "spot-preemption")
    assert alone.returncode != 0
    assert "forewarn[server]" in alone.stderr
    assert "Traceback" not in alone.stderr
    with_server(built)
    where = run(
        str(built / "bin" / "python"), "-c", "import forewarn; print(forewarn.__file__)"
    )
    assert where.startswith(str(built))
    listed = json.loads(forewarn("simulate", "--list", "--json").stdout)
    assert "spot-preemption" in {scenario["name"] for scenario in listed}
    arguments = (*readme_words(), *ANYWHERE, "--speed=6000", "--wait=0s")
    played = forewarn(*arguments)
    assert played.returncode == 1, played.stderr
    assert (
        "no client asked for the events of spot_0 (http://127.0.0.1:" in played.stdout
    )
    played = forewarn(*arguments, "--expect=none")
    assert played.returncode == 0, played.stderr
    assert "skipped   spot-preemption: NOT JUDGED" in played.stdout


def readme_words() -> list[str]:
    """Return what README's one-liner gives to `forewarn`."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [arguments] = re.findall(
        r"^pipx run --spec 'forewarn\[server\]' forewarn (.*)$", text, re.MULTILINE
    )
    return arguments.split()
