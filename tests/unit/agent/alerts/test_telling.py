"""Reports about the gate: settings, the status, metrics, `check`, `try`, a dry run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.__main__ import main
from forewarn.agent.core.model import Memory
from forewarn.agent.core.permits import Gate, GateAnswer
from forewarn.agent.core.policy import Approve, GateTerms, Policy, Rule
from forewarn.agent.observability import metrics, status
from forewarn.agent.observability.metrics import Metrics
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.agent.settings_model import USUAL_ALERTS, Settings
from forewarn.agent.trying import attempt, words_of
from forewarn.instants import MINUTE, SECOND
from tests.unit.agent.core.support import START, Life, notice

GATE = GateTerms(label="Prometheus at http://p")
POLICY = Policy(rules=(Rule(name="rule 1", approve=Approve.AT_ONCE),), gate=GATE)
FIRES = "2 alerts fire: DiskFull, NodeDown"


def living(*answers: tuple[GateAnswer, str]) -> Life:
    """Return a life in which an event waits for the gate."""
    life = Life(POLICY)
    life.poll(notice())
    for answer, detail in answers:
        while not life.memory.gate.is_asking:
            life.sleep(SECOND)
        life.gate_says(answer, detail, alerts=2 if answer is GateAnswer.ALERTS else 0)
    return life


# Settings


def loaded(directory: Path, text: str, **environ: str) -> Settings:
    file = directory / "agent.toml"
    file.write_text(text)
    return load_settings(file=str(file), environ=environ, flags={})


def test_settings_define_the_gate_terms(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        '[gate]\nalertmanager = "https://a.example.com/am/"\nunknown = "go"\n'
        'every = "10s"\nclear_for = "5m"\ntimeout = "2s"\nonly = "severity=page"\n',
    )
    assert settings.policy.gate == GateTerms(
        label="Alertmanager at https://a.example.com/am/",
        every=10 * SECOND,
        clear_for=5 * MINUTE,
        goes_unknown=True,
        timeout=2 * SECOND,
    )
    assert settings.gate.only == ("severity=page",)
    assert settings.gate.ignore == USUAL_ALERTS


def test_without_a_url_there_is_no_gate(tmp_path: Path) -> None:
    assert loaded(tmp_path, "").policy.gate is None


def test_gate_can_be_set_by_environment_variables(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        "",
        FOREWARN_AGENT_GATE_PROMETHEUS="http://p:9090",
        FOREWARN_AGENT_GATE_IGNORE="Watchdog, severity=info",
    )
    assert settings.gate.ignore == ("Watchdog", "severity=info")
    assert settings.policy.gate is not None


def test_ignore_list_may_be_empty(tmp_path: Path) -> None:
    settings = loaded(tmp_path, '[gate]\nprometheus = "http://p"\nignore = []\n')
    assert settings.gate.ignore == ()


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ('only = ["A"]', "gate.prometheus: is missing, and so is alertmanager"),
        (
            'prometheus = "http://p"\nalertmanager = "http://a"',
            "gate.alertmanager: write prometheus or alertmanager, not both",
        ),
        (
            'prometheus = "http://u:s3cret@p"',
            "user names and passwords are not allowed",
        ),
        ('prometheus = "http://p/?a=b"', "must not have a query"),
        ('prometheus = "http://p/x/api/v1/alerts"', "'http://p/x'"),
        ('alertmanager = "http://a/api/v2/"', "must be without /api/v2"),
        ('prometheus = "http://p"\nonly = ["A{}"]', "gate.only: "),
        ('prometheus = "http://p"\nignore = ["a!=b"]', "the only operator is ="),
        (
            'alertmanager = "http://a"\npending = true',
            "gate.pending: is only for prometheus",
        ),
        ('prometheus = "http://p"\nunknown = "open"', "must be one of hold, go"),
        ('prometheus = "http://p"\nevery = "10ms"', "must be at least 1s"),
        ('prometheus = "http://p"\nkey_file = "k"', "has no effect without cert_file"),
        ('prometheus = "p:9090"', "is not a URL"),
        ('promtheus = "http://p"', "did you mean"),
    ],
)
def test_invalid_gate_setting_is_reported(
    tmp_path: Path, keys: str, fault: str
) -> None:
    with pytest.raises(AgentSettingsError) as caught:
        loaded(tmp_path, f"[gate]\n{keys}\n")
    assert fault in caught.value.message.replace('"', "'")
    assert "s3cret" not in caught.value.message


def test_gate_option_of_a_rule_without_a_gate_causes_a_warning(
    tmp_path: Path,
) -> None:
    rule = '[[rule]]\napprove = "at once"\ngate = false\n'
    [warning] = loaded(tmp_path, rule).warnings
    assert warning == "rule 1: gate has no effect without a table [gate]"
    settings = loaded(tmp_path, f'[gate]\nprometheus = "http://p"\n{rule}')
    assert settings.warnings == ()
    assert settings.policy.rules[0].gate is False


# The status


def test_status_shows_the_gate_and_the_delayed_events() -> None:
    life = living((GateAnswer.ALERTS, FIRES))
    document = status.document_of(life.memory, waits=tuple(life.waits.items()))
    assert document["gate"] == {
        "server": "Prometheus at http://p",
        "answer": "alerts",
        "since": "2026-03-02T12:00:00Z",
        "asked": "2026-03-02T12:00:00Z",
        "alerts": 2,
        "detail": FIRES,
        "holds": ["E1"],
    }
    arguments = list(status.words_of(document, now=START))
    assert (
        "gate      alerts since 2026-03-02T12:00:00Z: 2 alerts fire: DiskFull, NodeDown "
        "(Prometheus at http://p)" in arguments
    )
    assert (
        "  approval    not yet: held back while 2 alerts fire: DiskFull, NodeDown "
        "(Prometheus at http://p); at 2026-03-02T12:15:00Z it starts without an approval"
    ) in arguments


def test_status_without_an_answer_or_delayed_events() -> None:
    document = status.document_of(living().memory)
    assert "gate      no answer yet: Prometheus at http://p" in list(
        status.words_of(document, now=START)
    )
    document = status.document_of(Memory(name="vm1", gate=Gate(label="x")))
    assert document["gate"] is None
    # An agent of an earlier version says nothing of it.
    del document["gate"]
    assert not any(
        line.startswith("gate") for line in status.words_of(document, now=START)
    )


# Metrics


def shown(counted: Metrics, memory: Memory) -> list[str]:
    text = counted.text(metrics.now_of(memory))
    return [
        line.removeprefix("forewarn_agent_gate_")
        for line in text.splitlines()
        if line.startswith("forewarn_agent_gate")
    ]


def test_metrics_count_gate_requests_and_show_delayed_events() -> None:
    life = Life(POLICY)
    counted = Metrics(life.memory)
    assert shown(counted, life.memory) == [
        "held 0",
        "alerts 0",
        *(f'requests_total{{result="{kind}"}} 0' for kind in ("clear", "alerts")),
        'requests_total{result="trouble"} 0',
        "fault 0",
    ]
    life.poll(notice())
    counted.decided(life.memory)
    for answer in (GateAnswer.TROUBLE, GateAnswer.ALERTS, GateAnswer.ALERTS):
        life.gate_says(answer, alerts=7)
        counted.decided(life.memory)
        lines = shown(counted, life.memory)
        is_trouble = answer is GateAnswer.TROUBLE
        assert f"fault {int(is_trouble)}" in lines
        assert f"alerts {0 if is_trouble else 7}" in lines
        assert "held 1" in lines
        life.sleep(30 * SECOND)
    for _ in range(3):
        life.gate_says(GateAnswer.CLEAR)
        counted.decided(life.memory)
        life.sleep(30 * SECOND)
    assert life.sent[:1] == ["E1"]
    lines = shown(counted, life.memory)
    assert {"held 0", "alerts 0", "fault 0"} <= set(lines)
    assert 'requests_total{result="clear"} 3' in lines
    assert 'requests_total{result="alerts"} 2' in lines
    assert 'requests_total{result="trouble"} 1' in lines


# `agent try` and a dry run


def test_try_shows_when_alerts_are_queried() -> None:
    trial = attempt(POLICY, [notice()], name="vm1", now=START)
    lines = list(words_of(trial, [notice()], name="vm1", now=START))
    assert lines[2:] == [
        f"  now      ask {GATE.label} which alerts fire; while one does, the event is not approved",
        "  now      approve",
    ]
    without = replace(POLICY, gate=None)
    trial = attempt(without, [notice()], name="vm1", now=START)
    assert [happening.text for happening in trial.happenings] == ["approve"]


def test_effective_settings_show_the_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('[gate]\nprometheus = "http://p"\ntoken_file = "/t"\n')
    assert main(["settings", "--json", "--config", str(file)]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    settings_of_gate = {
        row["key"]: row["value"] for row in rows if row["key"].startswith("gate.")
    }
    assert settings_of_gate["gate.prometheus"] == "http://p"
    assert settings_of_gate["gate.ignore"] == "Watchdog, InfoInhibitor, Forewarn*"
    assert settings_of_gate["gate.token_file"] == "/t"
