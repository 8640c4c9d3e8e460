"""Check the deployed files of service and agent: the units, and the alerts with their
tests.

The rules' own tests need promtool, of Debian's package `prometheus`; that every
name in them exists, and that each alert is tested and explained, needs nothing.
"""

import configparser
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from forewarn.agent import installing
from forewarn.agent.observability import metric_definitions as agent_catalog
from forewarn.service import metric_definitions
from tests.house.test_docs import anchors
from tests.support.profiles import some
from tests.support.unpacked import find, needs

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "forewarn.service"
AGENT_UNIT = DEPLOY / "systemd" / "forewarn-agent.service"

PROMTOOL_SECONDS = 300
"""Maximum time of promtool: it computes for seconds, next to all other tests."""

ALERT = re.compile(r"^ +- alert: (\w+)$", re.MULTILINE)
METRIC = re.compile(r"\b(?:forewarn|process)_[a-z_]+\b")
SERIES = re.compile(r"\b((?:forewarn|process)_[a-z_]+)\{([^}]*)\}")
LABEL = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')

AGENT_COMMAND = "/opt/forewarn/bin/forewarn agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A program's alerts, with the metrics that they may ask for."""

    rules: Path
    tests: tuple[Path, ...]
    guide: Path
    metrics: Path
    meters: Mapping[str, Mapping[str, Sequence[str]]]
    """The labels of each metric, with their values."""
    histograms: frozenset[str]

    def names(self) -> set[str]:
        """Return the names of all series in Prometheus."""
        known = set(self.meters) - self.histograms
        for name in self.histograms:
            known.update(f"{name}{suffix}" for suffix in ("_bucket", "_count", "_sum"))
        return known

    def alerts(self) -> list[str]:
        return ALERT.findall(self.rules.read_text())


SERVICE = Watched(
    rules=DEPLOY / "prometheus" / "forewarn.rules.yml",
    tests=(
        DEPLOY / "prometheus" / "tests.yml",
        DEPLOY / "prometheus" / "tests-of-hours.yml",
    ),
    guide=ROOT / "docs" / "how-to" / "operate" / "runbook.md",
    metrics=ROOT / "docs" / "reference" / "metrics.md",
    meters={meter.name: meter.labels for meter in metric_definitions.METERS},
    histograms=frozenset(
        meter.name for meter in metric_definitions.METERS if meter.buckets
    ),
)
AGENT = Watched(
    rules=DEPLOY / "prometheus" / "forewarn-agent.rules.yml",
    tests=(DEPLOY / "prometheus" / "agent-tests.yml",),
    guide=ROOT / "docs" / "how-to" / "operate" / "runbook.md",
    metrics=ROOT / "docs" / "reference" / "metrics.md",
    meters={meter.name: meter.labels for meter in agent_catalog.METERS},
    histograms=frozenset(meter.name for meter in agent_catalog.METERS if meter.buckets),
)
both = pytest.mark.parametrize("watched", [SERVICE, AGENT], ids=["service", "agent"])


def promtool(*words: str) -> str:
    if why := needs("promtool"):
        pytest.skip(why)
    done = subprocess.run(
        [find("promtool"), *words],
        cwd=DEPLOY / "prometheus",
        capture_output=True,
        text=True,
        timeout=PROMTOOL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@both
def test_every_named_metric_exists(watched: Watched) -> None:
    for file in (watched.rules, *watched.tests):
        assert set(METRIC.findall(file.read_text())) <= watched.names(), file


def test_every_metric_named_in_the_pages_exists() -> None:
    known = set[str]()
    for watched in (SERVICE, AGENT):
        known |= watched.names() | set(watched.meters)
    for file in (SERVICE.guide, SERVICE.metrics):
        assert set(METRIC.findall(file.read_text())) <= known, file


@both
def test_every_queried_label_exists(watched: Watched) -> None:
    for file in (watched.rules, *watched.tests):
        for name, labels in SERIES.findall(file.read_text()):
            known = watched.meters[re.sub(r"_(bucket|count|sum)$", "", name)]
            for label, how, value in LABEL.findall(labels):
                if label in {"instance", "job", "le"}:
                    continue
                assert label in known, (file, name, label)
                # A label without known values has names of the settings.
                if how == "=" and known[label]:
                    assert value in known[label], (file, name, value)


@both
def test_every_alert_is_tested_and_explained(watched: Watched) -> None:
    alerts = watched.alerts()
    assert len(alerts) == len(set(alerts)) > 10
    tests = "".join(file.read_text() for file in watched.tests)
    guide = watched.guide.read_text()
    for alert in alerts:
        assert alert in tests, alert
    explained = re.findall(r"^### (Forewarn\w+)$", guide, re.MULTILINE)
    assert [alert for alert in explained if alert in alerts] == alerts


def test_runbook_explains_exactly_the_alerts() -> None:
    guide = SERVICE.guide.read_text()
    explained = re.findall(r"^### (Forewarn\w+)$", guide, re.MULTILINE)
    assert explained == [*SERVICE.alerts(), *AGENT.alerts()]


@both
def test_each_alert_names_its_entry_in_the_runbook(watched: Watched) -> None:
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = watched.guide.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
    site = f"{about['urls']['Documentation']}{page}"
    parts = watched.rules.read_text().split("- alert: ")[1:]
    named = {part.split()[0]: re.findall(r"runbook_url: (\S+)", part) for part in parts}
    assert named == {alert: [f"{site}#{alert.lower()}"] for alert in watched.alerts()}
    assert {alert.lower() for alert in named} <= anchors(watched.guide)


@both
def test_rules_are_valid(watched: Watched) -> None:
    assert "SUCCESS" in promtool("check", "rules", watched.rules.name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "watched", some([SERVICE, AGENT], usual=[SERVICE]), ids=["service", "agent"]
)
def test_alerts_fire_only_when_they_should(watched: Watched) -> None:
    for file in watched.tests:
        assert "SUCCESS" in promtool("test", "rules", file.name)


def read_unit(path: Path) -> configparser.RawConfigParser:
    unit = configparser.RawConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    unit.read(path)
    return unit


def test_unit_file_matches_the_service() -> None:
    service = read_unit(UNIT)["Service"]
    assert service["Type"] == "notify"
    assert service["Restart"] == "always"
    # It never stays failed: tests/real/test_systemd.py has the story.
    assert read_unit(UNIT)["Unit"]["StartLimitIntervalSec"] == "0"
    assert service["RestartPreventExitStatus"] == "2"
    assert service["WatchdogSec"]
    assert "forewarn serve --config /etc/forewarn/forewarn.toml" in service["ExecStart"]


def test_agent_unit_equals_the_output_of_install(
    request: pytest.FixtureRequest,
) -> None:
    wanted = installing.unit(shlex.split(AGENT_COMMAND))
    if request.config.getoption("--rewrite"):
        AGENT_UNIT.write_text(wanted, encoding="utf-8")
    assert AGENT_UNIT.read_text(encoding="utf-8") == wanted
    service = read_unit(AGENT_UNIT)["Service"]
    assert service["ExecStart"] == AGENT_COMMAND
    assert service["Type"] == "notify"
    # A handler at work outlives the agent (clause 8.8).
    assert service["KillMode"] == "process"
    assert service["WatchdogSec"]


@pytest.mark.parametrize("unit", [UNIT, AGENT_UNIT], ids=["service", "agent"])
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / unit.name
    # It looks whether the program is there.
    copy.write_text(unit.read_text().replace("/opt/forewarn/bin/forewarn", "/bin/true"))
    done = subprocess.run(
        [program, "verify", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
