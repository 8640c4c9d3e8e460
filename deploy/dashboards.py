"""Generate the Grafana dashboards of service and agent, deploy/grafana/*.json.

This module lists the panels; the rest of the JSON is the same for all. A test compares
the files with this module (`pytest --rewrite` renews them), and the queries with the
existing metrics.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).resolve().parent / "grafana"

CHART = Path(__file__).resolve().parent / "helm" / "forewarn-agent"

SCHEMA = 39
"""The schema version of Grafana 11, which newer versions can read."""

COLUMNS = 24
"""Columns of Grafana's grid."""

HEIGHT = 8
"""Height of a panel with a graph, in rows of the grid."""

STAT_HEIGHT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One PromQL expression with the name of its series."""

    text: str
    legend: str = ""
    """The name, with `{{label}}`; empty: the default name of Prometheus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel: a graph over time, a number, or a table of current values."""

    title: str
    about: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    """`timeseries`, `stat` or `table`."""
    unit: str = "short"
    width: int = 8
    bad_from: float | None = None
    """The value from which a number is red; None: never."""

    @property
    def height(self) -> int:
        """Return the height in rows of the grid."""
        return STAT_HEIGHT if self.kind == "stat" else HEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One dashboard, in one file."""

    name: str
    """The name of the file, also used in Grafana's links."""
    title: str
    about: str
    job: str
    """The metric whose `job` and `instance` the user can select."""
    panels: tuple[Panel, ...]


def _panel(
    title: str, about: str, *queries: str | tuple[str, str], **more: Any
) -> Panel:
    made = [
        Query(text=query)
        if isinstance(query, str)
        else Query(text=query[0], legend=query[1])
        for query in queries
    ]
    return Panel(title=title, about=about, queries=tuple(made), **more)


CHOSEN = 'job=~"$job",instance=~"$instance"'
"""The label selector of every query."""

EVERY = "$__rate_interval"


def _rate(metric: str, *labels: str, by: str = "") -> str:
    inner = ",".join([*labels, CHOSEN])
    total = f"sum by ({by})" if by else "sum"
    return f"{total} (rate({metric}{{{inner}}}[{EVERY}]))"


def _hourly(metric: str, *labels: str, by: str) -> str:
    inner = ",".join([*labels, CHOSEN])
    return f"sum by ({by}) (increase({metric}{{{inner}}}[1h]))"


def _quantile(part: str, metric: str, by: str = "") -> str:
    kept = f"le, {by}" if by else "le"
    return (
        f"histogram_quantile({part}, "
        f"sum by ({kept}) (rate({metric}_bucket{{{CHOSEN}}}[{EVERY}])))"
    )


def _now(metric: str, *labels: str, how: str = "sum", by: str = "") -> str:
    inner = ",".join([*labels, CHOSEN])
    total = f"{how} by ({by})" if by else how
    return f"{total} ({metric}{{{inner}}})"


SERVICE = Dashboard(
    name="forewarn",
    title="forewarn: the service",
    about="Planned and running operations, the reasons of waiting ones, and the service's health.",
    job="forewarn_build_info",
    panels=(
        _panel(
            "Accepts requests",
            "1 while the service is ready. If it is not, GET /readyz has the reason.",
            _now("forewarn_ready", how="min"),
            kind="stat",
            width=4,
        ),
        _panel("VMs", "VMs in the fleet.", _now("forewarn_vms"), kind="stat", width=4),
        _panel(
            "VMs down",
            "VMs that are down because of a failure.",
            _now("forewarn_vms_down"),
            kind="stat",
            width=4,
            bad_from=1,
        ),
        _panel(
            "Late approvals",
            "Unapproved events with less than a fifth of their notice left.",
            _now("forewarn_approvals_late"),
            kind="stat",
            width=4,
            bad_from=1,
        ),
        _panel(
            "Timers overdue",
            "Time since the next timer was due, if it has not run yet.",
            _now("forewarn_timer_overdue_seconds", how="max"),
            kind="stat",
            width=4,
            unit="s",
            bad_from=5,
        ),
        _panel(
            "Store failures per hour",
            "Transactions that failed in the store.",
            f"sum (increase(forewarn_store_failures_total{{{CHOSEN}}}[1h]))",
            kind="stat",
            width=4,
            bad_from=1,
        ),
        _panel(
            "Open operations",
            "Operations that have not ended, by state.",
            (_now("forewarn_operations", by="state"), "{{state}}"),
        ),
        _panel(
            "Waiting operations by reason",
            "An operation counts once for each kind of reason.",
            (_now("forewarn_operations_held", by="reason"), "{{reason}}"),
        ),
        _panel(
            "Ended operations",
            "Per hour, by result.",
            (
                _hourly("forewarn_operations_ended_total", by="state"),
                "{{state}}",
            ),
        ),
        _panel(
            "Events in documents",
            "By type and status.",
            (_now("forewarn_events", by="type, status"), "{{type}} {{status}}"),
        ),
        _panel(
            "Time until approval",
            "Time from the publication of an event to its approval.",
            (_quantile("0.5", "forewarn_event_approval_seconds"), "median"),
            (_quantile("0.95", "forewarn_event_approval_seconds"), "95 %"),
            unit="s",
        ),
        _panel(
            "Starts of events",
            "Per hour: approved, or at NotBefore without approval.",
            (
                _hourly("forewarn_event_steps_total", 'step=~"started.*"', by="step"),
                "{{step}}",
            ),
        ),
        _panel(
            "Oldest operation",
            "By verb and state.",
            (
                _now("forewarn_operation_age_seconds", how="max", by="verb, state"),
                "{{verb}} {{state}}",
            ),
            unit="s",
        ),
        _panel(
            "Driver calls",
            "Per second, by result.",
            (
                _rate("forewarn_driver_results_total", by="action, verdict"),
                "{{action}} {{verdict}}",
            ),
            unit="cps",
        ),
        _panel(
            "Responses to VMs",
            "Per second, by HTTP status.",
            (_rate("forewarn_metadata_responses_total", by="status"), "{{status}}"),
            unit="reqps",
        ),
        _panel(
            "Responses of the operator API",
            "Per second, by HTTP status.",
            (_rate("forewarn_admin_responses_total", by="status"), "{{status}}"),
            unit="reqps",
        ),
        _panel(
            "Iterations and transactions",
            "99th percentile; approvals can wait for these.",
            (_quantile("0.99", "forewarn_control_turn_seconds"), "iteration"),
            (_quantile("0.99", "forewarn_store_transaction_seconds"), "transaction"),
            (_quantile("0.99", "forewarn_timer_late_seconds"), "timer late"),
            unit="s",
        ),
        _panel(
            "Webhooks",
            "Pending messages of each receiver.",
            (_now("forewarn_webhook_pending", by="receiver"), "{{receiver}}"),
        ),
        _panel(
            "Relays of hosts",
            "Relays that are connected, and those that planned work waits for.",
            (_now("forewarn_relays_connected"), "connected"),
            (_now("forewarn_relays_silent"), "silent"),
        ),
        _panel(
            "Roles of replicas",
            "Replicas in each role. One leads, except during a takeover.",
            (_now("forewarn_cluster_role", by="role"), "{{role}}"),
        ),
        _panel(
            "Replicas behind",
            "Time for which the documents of each replica have been incomplete.",
            (
                _now("forewarn_cluster_behind_seconds", how="max", by="instance"),
                "{{instance}}",
            ),
            unit="s",
        ),
        _panel(
            "Requests passed on to the leader",
            "Per second, by result. A VM gets 503 for an unavailable one, and repeats it.",
            (_rate("forewarn_cluster_passed_on_total", by="result"), "{{result}}"),
            unit="reqps",
        ),
        _panel(
            "Open campaigns",
            "Campaigns that have not ended, by state.",
            (_now("forewarn_campaigns", by="state"), "{{state}}"),
        ),
        _panel(
            "Hosts of open campaigns",
            "Hosts that are done, skipped, failed or left.",
            (_now("forewarn_campaign_hosts", by="state"), "{{state}}"),
        ),
        _panel(
            "Halted campaigns",
            "By the cause of the halt.",
            (_now("forewarn_campaigns_halted", by="cause"), "{{cause}}"),
        ),
        _panel(
            "Problems",
            "What `forewarn problems` lists, by kind.",
            (_now("forewarn_problems", by="kind") + " > 0", "{{kind}}"),
        ),
        _panel(
            "Progress of campaigns",
            "Longest time since a host of an open campaign was announced or ended.",
            (_now("forewarn_campaign_progress_age_seconds", how="max"), "campaigns"),
            unit="s",
        ),
        _panel(
            "Visits of hosts",
            "Visits that have not ended, by state, and those that are late.",
            (_now("forewarn_visits", by="state"), "{{state}}"),
            (_now("forewarn_visits_late"), "late"),
        ),
        _panel(
            "Host steps",
            "Mean time that visits were in each step.",
            (
                " / ".join(
                    _rate(f"forewarn_visit_{part}_total", by="step")
                    for part in ("step_seconds", "steps")
                ),
                "{{step}}",
            ),
            unit="s",
        ),
        _panel(
            "Failed host steps",
            "Per second, by step.",
            (_rate("forewarn_visit_steps_failed_total", by="step"), "{{step}}"),
        ),
    ),
)

AGENT = Dashboard(
    name="forewarn-agent",
    title="forewarn: the agents in VMs",
    about="The events of VMs, their NotBefore, and the health of the agents.",
    job="forewarn_agent_build_info",
    panels=(
        _panel(
            "Agents",
            "Agents whose threads run.",
            _now("forewarn_agent_alive"),
            kind="stat",
            width=4,
        ),
        _panel(
            "Not ready",
            "Agents that could not act on an event; GET /readyz of each has the reason.",
            f"count (forewarn_agent_ready{{{CHOSEN}}} == 0) or vector(0)",
            kind="stat",
            width=4,
            bad_from=1,
        ),
        _panel(
            "Withheld",
            "Events without approval because their preparation failed.",
            _now("forewarn_agent_withheld"),
            kind="stat",
            width=4,
            bad_from=1,
        ),
        _panel(
            "Pending recoveries",
            "Removed events whose recovery is not complete.",
            _now("forewarn_agent_recoveries_pending"),
            kind="stat",
            width=4,
            bad_from=1,
        ),
        _panel(
            "Next event",
            "Time until the next NotBefore of any VM.",
            f"min (forewarn_agent_not_before_timestamp_seconds{{{CHOSEN}}} > 0) - time()",
            kind="stat",
            width=4,
            unit="s",
        ),
        _panel(
            "Oldest endpoint response",
            "Longest time since an agent last received a document.",
            _now("forewarn_agent_good_poll_age_seconds", how="max"),
            kind="stat",
            width=4,
            unit="s",
            bad_from=180,
        ),
        _panel(
            "Upcoming events",
            "Events of VMs that have not started, with their NotBefore.",
            (
                f"forewarn_agent_not_before_timestamp_seconds{{{CHOSEN}}} * 1000 > 0",
                "{{instance}} {{type}}",
            ),
            kind="table",
            unit="dateTimeAsIso",
            width=12,
        ),
        _panel(
            "Current events",
            "By type and status.",
            (_now("forewarn_agent_events", by="type, status"), "{{type}} {{status}}"),
            width=12,
        ),
        _panel(
            "Notice",
            "Time from the first sight of an event to its NotBefore, 10th percentile.",
            (_quantile("0.1", "forewarn_agent_notice_seconds", by="type"), "{{type}}"),
            unit="s",
        ),
        _panel(
            "Runs of handlers",
            "Per hour, by handler and result.",
            (
                _hourly("forewarn_agent_handler_runs_total", by="handler, result"),
                "{{handler}} {{result}}",
            ),
        ),
        _panel(
            "Duration of handlers",
            "95th percentile.",
            (
                _quantile(
                    "0.95", "forewarn_agent_handler_seconds", by="handler, phase"
                ),
                "{{handler}} {{phase}}",
            ),
            unit="s",
        ),
        _panel(
            "Approvals",
            "Per hour, by the endpoint's response.",
            (
                _hourly("forewarn_agent_approvals_total", by="result"),
                "{{result}}",
            ),
        ),
        _panel(
            "Polls",
            "Per second, by result.",
            (_rate("forewarn_agent_polls_total", by="result"), "{{result}}"),
            unit="reqps",
        ),
        _panel(
            "Stages of events",
            "Events in the agents' memory, by stage.",
            (_now("forewarn_agent_tasks", by="stage"), "{{stage}}"),
        ),
    ),
)

DASHBOARDS = (SERVICE, AGENT)


def text(dashboard: Dashboard) -> str:
    """Return the JSON of a dashboard, as Grafana imports it."""
    whole = {
        "uid": dashboard.name,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["forewarn"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables(dashboard)},
        "panels": _placed(dashboard.panels),
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _variables(dashboard: Dashboard) -> list[dict[str, Any]]:
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    return [
        source,
        _choice("job", f"label_values({dashboard.job}, job)"),
        _choice("instance", f'label_values({dashboard.job}{{job=~"$job"}}, instance)'),
    ]


def _choice(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": query,
        "refresh": 2,
        "sort": 1,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _placed(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Return the panels, from left to right and down."""
    found: list[dict[str, Any]] = []
    x = y = height = 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > COLUMNS:
            x, y, height = 0, y + height, 0
        place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
        found.append(_json(panel, number, place))
        x, height = x + panel.width, max(height, panel.height)
    return found


def _json(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_from is not None:
        steps.append({"color": "red", "value": panel.bad_from})
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": source,
            "expr": query.text,
            "legendFormat": query.legend or "__auto",
            **(
                {"instant": True, "format": "table"}
                if panel.kind == "table"
                else {"range": True}
            ),
        }
        for index, query in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "gridPos": place,
        "datasource": source,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "thresholds": {"mode": "absolute", "steps": steps},
            },
            "overrides": [],
        },
        "targets": targets,
    }
