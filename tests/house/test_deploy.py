"""What is deployed with the service: the unit, and the alerts with their tests.

The rules' own tests need promtool, of Debian's package `prometheus`; that every
name in them exists, and that each alert is tested and explained, needs nothing.
"""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from forewarn.service import catalog

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "forewarn.rules.yml"
TESTS = DEPLOY / "prometheus" / "tests.yml"
GUIDE = ROOT / "docs" / "operations.md"
UNIT = DEPLOY / "systemd" / "forewarn.service"

ALERT = re.compile(r"^ +- alert: (\w+)$", re.MULTILINE)
METRIC = re.compile(r"\b(?:forewarn|process)_[a-z_]+\b")
SERIES = re.compile(r"\b((?:forewarn|process)_[a-z_]+)\{([^}]*)\}")
LABEL = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')


def names() -> set[str]:
    known: set[str] = set()
    for meter in catalog.METERS:
        suffixes = ("_bucket", "_count", "_sum") if meter.buckets else ("",)
        known.update(f"{meter.name}{suffix}" for suffix in suffixes)
    return known


def families() -> set[str]:
    return {meter.name for meter in catalog.METERS}


def alerts() -> list[str]:
    return ALERT.findall(RULES.read_text())


def promtool(*words: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: apt install prometheus)")
    done = subprocess.run(
        [program, *words],
        cwd=RULES.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_metric_that_is_named_exists() -> None:
    for file in (RULES, TESTS):
        assert set(METRIC.findall(file.read_text())) <= names(), file
    for file in (GUIDE, ROOT / "docs" / "metrics.md"):
        assert set(METRIC.findall(file.read_text())) <= names() | families(), file


def test_every_label_that_is_asked_for_can_be() -> None:
    meters = {meter.name: meter for meter in catalog.METERS}
    for file in (RULES, TESTS):
        for name, labels in SERIES.findall(file.read_text()):
            meter = meters[re.sub(r"_(bucket|count|sum)$", "", name)]
            for label, how, value in LABEL.findall(labels):
                if label in {"instance", "le"}:
                    continue
                assert label in meter.labels, (file, name, label)
                # A label without known values has names of the settings.
                if how == "=" and meter.labels[label]:
                    assert value in meter.labels[label], (file, name, value)


def test_every_alert_is_tested_and_explained() -> None:
    found = alerts()
    assert len(found) == len(set(found)) > 10
    tests, guide = TESTS.read_text(), GUIDE.read_text()
    for alert in found:
        assert alert in tests, alert
        assert f"### {alert}\n" in guide, alert
    explained = re.findall(r"^### (Forewarn\w+)$", guide, re.MULTILINE)
    assert explained == found


def test_the_rules_are_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", RULES.name)


@pytest.mark.slow
def test_the_alerts_ring_when_they_should_and_not_before() -> None:
    assert "SUCCESS" in promtool("test", "rules", TESTS.name)


def test_the_unit_says_what_the_service_does() -> None:
    unit = configparser.RawConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    unit.read(UNIT)
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert service["Restart"] == "always"
    assert service["WatchdogSec"]
    assert "forewarn serve --config /etc/forewarn/forewarn.toml" in service["ExecStart"]


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / "forewarn.service"
    # It looks whether the program is there.
    copy.write_text(UNIT.read_text().replace("/opt/forewarn/bin/forewarn", "/bin/true"))
    done = subprocess.run(
        [program, "verify", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
