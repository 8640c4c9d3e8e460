"""The Grafana dashboards: their queries ask for metrics that are there, and are PromQL.

Grafana itself is not run: its JSON is compared with what the documentation of the
dashboard's form wants of each panel.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy import dashboards
from deploy.dashboards import AGENT, DASHBOARDS, SERVICE, Dashboard
from forewarn.agent.observability import metric_definitions as agent_catalog
from forewarn.service import metric_definitions
from tests.support.unpacked import find, needs

METERS = {
    SERVICE.name: {meter.name: meter for meter in metric_definitions.METERS},
    AGENT.name: {meter.name: meter for meter in agent_catalog.METERS},
}
NAME = re.compile(r"\bforewarn_[a-z_]+\b")
SUFFIXES = re.compile(r"_(?:bucket|count|sum)$")
SELECTED = re.compile(r"\b(forewarn_[a-z_]+)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
GROUPED = re.compile(r"\bby \(([^)]*)\)")
LEGEND = re.compile(r"\{\{(\w+)\}\}")
COMMON = {"job", "instance", "le"}

each_one = pytest.mark.parametrize(
    "dashboard", DASHBOARDS, ids=[dashboard.name for dashboard in DASHBOARDS]
)


def file_of(dashboard: Dashboard) -> Path:
    return dashboards.DIRECTORY / f"{dashboard.name}.json"


def queries(dashboard: Dashboard) -> list[dict[str, Any]]:
    """Return the targets of the file, each with its expression."""
    whole = json.loads(file_of(dashboard).read_text(encoding="utf-8"))
    return [target for panel in whole["panels"] for target in panel["targets"]]


@each_one
def test_dashboard_file_is_up_to_date(
    dashboard: Dashboard, request: pytest.FixtureRequest
) -> None:
    file, wanted = file_of(dashboard), dashboards.text(dashboard)
    if request.config.getoption("--rewrite"):
        file.write_text(wanted, encoding="utf-8")
        if dashboard is AGENT:
            # A chart reads only files of its own directory.
            (dashboards.CHART / "dashboard.json").write_text(wanted, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == wanted


@each_one
def test_every_metric_in_a_query_exists(dashboard: Dashboard) -> None:
    meters = METERS[dashboard.name]
    for target in queries(dashboard):
        names = NAME.findall(target["expr"])
        assert names, target
        for name in names:
            meter = meters.get(name) or meters[SUFFIXES.sub("", name)]
            is_part = name != meter.name
            assert is_part == bool(meter.buckets), (name, "a histogram has parts")


@each_one
def test_every_label_in_a_query_exists(dashboard: Dashboard) -> None:
    meters = METERS[dashboard.name]
    for target in queries(dashboard):
        selected = SELECTED.findall(target["expr"])
        assert len(selected) == len(NAME.findall(target["expr"])), target
        labels = set(COMMON)
        for name, matchers in selected:
            meter = meters.get(name) or meters[SUFFIXES.sub("", name)]
            labels |= set(meter.labels)
            for label, how, value in MATCHER.findall(matchers):
                assert label in labels, (target, label)
                known = meter.labels.get(label, ())
                if how == "=~" and known:
                    assert any(
                        re.fullmatch(value, label_value) for label_value in known
                    ), target
        for group in GROUPED.findall(target["expr"]):
            assert set(group.split(", ")) <= labels, target
        grouped_by = {
            label
            for group in GROUPED.findall(target["expr"])
            for label in group.split(", ")
        }
        for label in LEGEND.findall(target["legendFormat"]):
            assert label in (grouped_by or labels), (target, label)


@each_one
def test_counters_are_queried_with_rate_or_increase(dashboard: Dashboard) -> None:
    for target in queries(dashboard):
        for name in NAME.findall(target["expr"]):
            if name.endswith("_total"):
                assert re.search(rf"(?:rate|increase)\({name}\b", target["expr"])


@each_one
def test_the_queries_are_promql(dashboard: Dashboard, tmp_path: Path) -> None:
    if why := needs("promtool"):
        pytest.skip(why)
    # Grafana puts its variables in as text before Prometheus sees them.
    rules = [
        {"record": f"query:{number}", "expr": _filled(target["expr"])}
        for number, target in enumerate(queries(dashboard))
    ]
    file = tmp_path / "rules.yml"
    # JSON is YAML.
    file.write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
    done = subprocess.run(
        [find("promtool"), "check", "rules", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def _filled(query: str) -> str:
    for name in ("$job", "$instance"):
        query = query.replace(name, ".*")
    query = query.replace("$__rate_interval", "5m")
    assert "$" not in query
    return query


@each_one
def test_panels_do_not_overlap(
    dashboard: Dashboard,
) -> None:
    whole = json.loads(file_of(dashboard).read_text(encoding="utf-8"))
    taken: set[tuple[int, int]] = set()
    for panel in whole["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y)
            for x in range(place["w"])
            for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < dashboards.COLUMNS
        taken |= cells
    assert len({panel["id"] for panel in whole["panels"]}) == len(whole["panels"])
    variables = {variable["name"] for variable in whole["templating"]["list"]}
    assert variables == {"datasource", "job", "instance"}
