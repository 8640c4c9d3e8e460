"""The gate beside a real Prometheus and a real Alertmanager, with one rule that fires.

Prometheus reads its rules again when a test changes them, and sends its alerts
to Alertmanager.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.alerts.server import AlertServer, AlertSummary
from forewarn.agent.core.model import Stage
from forewarn.agent.core.permits import GateAnswer
from forewarn.agent.settings_model import GateSettings
from forewarn.clock import SystemClock
from forewarn.instants import SECOND
from forewarn.protocol.errors import ForewarnError
from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import DRAIN, Ground, free_port, ground
from tests.support.processes import PATIENCE_SECONDS, eventually, http
from tests.support.unpacked import TOOLS, environment, find, is_unpacked, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    needing("prometheus", "prometheus-alertmanager"),
]

SHARED = TOOLS / "usr" / "share"

ROOM = (
    "unshare",
    "--mount",
    "sh",
    "-c",
    f'mount -t overlay none -o lowerdir="{SHARED}:/usr/share" /usr/share && exec "$@"',
    "sh",
)
"""Before a command: Debian's Alertmanager finds its templates in /usr/share only, so that
one which is only unpacked runs where what was unpacked seems to be there."""


def no_room() -> str:
    """Return why an Alertmanager that is only unpacked cannot run; empty: it can."""
    if not is_unpacked("prometheus-alertmanager"):
        return ""
    if not shutil.which("unshare"):
        return "needs unshare"
    done = subprocess.run([*ROOM, "true"], capture_output=True, text=True, check=False)
    return f"no room for it: {done.stderr.strip()}" if done.returncode else ""


CONFIG = """
global:
  scrape_interval: 1s
  evaluation_interval: 1s
rule_files: ["DIRECTORY/rules.yml"]
alerting:
  alertmanagers:
    - static_configs:
        - targets: ["127.0.0.1:ALERTS"]
"""
RULES = """
groups:
  - name: story
    rules:
      - alert: DiskFull
        expr: vector(1) > LIMIT
        labels: { severity: page }
      - alert: Watchdog
        expr: vector(1)
      - alert: Soon
        expr: vector(1)
        for: 1h
"""
ALERTMANAGER = """
route: { receiver: nobody }
receivers: [{ name: nobody }]
"""


class Servers:
    """Both, with one rule that a test switches."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.prometheus_port, self.alerts_port = free_port(), free_port()
        self.prometheus = f"http://127.0.0.1:{self.prometheus_port}"
        self.alertmanager = f"http://127.0.0.1:{self.alerts_port}"
        config = CONFIG.replace("DIRECTORY", str(directory))
        config = config.replace("ALERTS", str(self.alerts_port))
        (directory / "prometheus.yml").write_text(config)
        (directory / "alertmanager.yml").write_text(ALERTMANAGER)
        self._write(fires=True)
        self.process = self._start(
            find("prometheus"),
            f"--config.file={directory}/prometheus.yml",
            f"--storage.tsdb.path={directory}/data",
            f"--web.listen-address=127.0.0.1:{self.prometheus_port}",
        )
        self.processes = [self.process]
        # Before it is ready, Prometheus ends of the signal that has it read again.
        self.wait_text("1 alert fires: DiskFull", prometheus=self.prometheus)

    def start_alertmanager(self) -> None:
        """Have the Alertmanager too, to which Prometheus sends its alerts."""
        room = ROOM if is_unpacked("prometheus-alertmanager") else ()
        process = self._start(
            *room,
            find("prometheus-alertmanager"),
            f"--config.file={self.directory}/alertmanager.yml",
            f"--storage.path={self.directory}/alerts",
            f"--web.listen-address=127.0.0.1:{self.alerts_port}",
            "--cluster.listen-address=",
        )
        self.processes.append(process)

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.directory / "log").open("ab") as log:
            return subprocess.Popen(
                words,
                env=environment("prometheus"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _write(self, *, fires: bool) -> None:
        limit = "0" if fires else "2"
        text = RULES.replace("LIMIT", limit)
        (self.directory / "rules.yml").write_text(text)

    def set(self, *, fires: bool) -> None:
        """Have the rule fire or not, from its next evaluation on."""
        self._write(fires=fires)
        self.process.send_signal(signal.SIGHUP)

    def found(self, **settings: Any) -> AlertSummary | None:
        """Return what a gate with these settings would see; None: no usable answer."""
        server = AlertServer(GateSettings(**settings), clock=SystemClock())
        try:
            return server.ask(5 * SECOND)
        except ForewarnError:
            return None

    def wait_text(self, wanted: str, **settings: Any) -> None:
        def text() -> str:
            assert not [process for process in self.processes if process.poll()], (
                self.log()
            )
            alert_summary = self.found(**settings)
            return alert_summary.text if alert_summary else self.log()

        eventually(text, wanted.__eq__)

    def log(self) -> str:
        return (self.directory / "log").read_text()[-2000:]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    new_servers = Servers(tmp_path_factory.mktemp("alerts"))
    yield new_servers
    new_servers.end()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Ground]:
    loop = LoopThread()
    try:
        with ground(loop, tmp_path, fleet=fleets.fleet_text(1)) as new_ground:
            yield new_ground
    finally:
        loop.close()


def test_prometheus_lists_firing_and_pending_alerts(servers: Servers) -> None:
    servers.set(fires=True)
    url = servers.prometheus
    servers.wait_text("1 alert fires: DiskFull", prometheus=url)
    servers.wait_text(
        "1 alert fires: DiskFull", prometheus=url, only=("severity=page",)
    )
    pending = "2 alerts fire or are pending: DiskFull, Soon"
    servers.wait_text(pending, prometheus=url, pending=True)
    servers.wait_text("2 alerts fire: DiskFull, Watchdog", prometheus=url, ignore=())
    alert_summary = servers.found(prometheus=url, ignore=("*",))
    assert alert_summary is not None
    assert (alert_summary.answer, alert_summary.all_alerts) == (GateAnswer.CLEAR, 3)


@pytest.mark.long
def test_alertmanager_omits_silenced_alerts(servers: Servers) -> None:
    if why := no_room():
        pytest.skip(why)
    servers.start_alertmanager()
    servers.set(fires=True)
    url = servers.alertmanager
    servers.wait_text("1 alert fires: DiskFull", alertmanager=url)
    servers.wait_text("2 alerts fire: DiskFull, Watchdog", alertmanager=url, ignore=())
    matcher = {
        "name": "alertname",
        "value": "DiskFull",
        "isRegex": False,
        "isEqual": True,
    }
    silence = {
        "matchers": [matcher],
        "startsAt": "2020-01-01T00:00:00Z",
        "endsAt": "2099-01-01T00:00:00Z",
        "createdBy": "a test",
        "comment": "a story",
    }
    status, made = http(f"{url}/api/v2/silences", silence)
    assert status == 200, json.dumps(made)
    servers.wait_text("no alert fires", alertmanager=url)
    alert_summary = servers.found(alertmanager=url)
    assert alert_summary is not None
    assert alert_summary.all_alerts == 1
    _, all_of_them = http(f"{url}/api/v2/alerts")
    assert len(all_of_them) == 2


def test_firing_rule_delays_the_approval_until_it_stops(
    servers: Servers, place: Ground
) -> None:
    servers.set(fires=True)
    servers.wait_text("1 alert fires: DiskFull", prometheus=servers.prometheus)
    table = (
        f'[gate]\nprometheus = "{servers.prometheus}"\nevery = "1s"\nclear_for = "2s"\n'
    )
    agent = place.agent(settings=table + DRAIN, pages=True).wait_ready()
    event = place.event()
    agent.wait_did("done prepare drain")
    agent.wait(lambda agent: "1 alert fires: DiskFull" in str(agent.status()["gate"]))
    assert place.posts(event) == []
    servers.set(fires=False)
    place.wait_approved(event, "web_0")
    agent.wait_stage(event, Stage.FINISHED)
    assert "no alert fires any longer" in agent.log()
