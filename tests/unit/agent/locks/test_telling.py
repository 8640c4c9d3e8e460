"""Reports about the lock: the status, metrics, `check`, `try` and a dry run."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.__main__ import main
from forewarn.agent.checking import Finding, findings
from forewarn.agent.core import locking
from forewarn.agent.core.model import Input, Memory
from forewarn.agent.core.permits import (
    Lock,
    LockAnswer,
    LockResponse,
    LockState,
    ReleaseLock,
    TakeLock,
)
from forewarn.agent.core.policy import Approve, LockTerms, Policy, Rule
from forewarn.agent.core.underway import what
from forewarn.agent.dry import DryRun
from forewarn.agent.handlers.run_context import context_for
from forewarn.agent.journal import codec
from forewarn.agent.observability import metrics, status
from forewarn.agent.observability.metrics import Metrics
from forewarn.agent.outbound import look_at_lock
from forewarn.agent.settings import load_settings
from forewarn.agent.trying import attempt, words_of
from forewarn.agent.wire.endpoint import Endpoint
from forewarn.clock import SystemClock
from forewarn.instants import HOUR, SECOND
from tests.support.lock_benches import KINDS, bench_of, lock_of
from tests.support.scripted import plain, scripted
from tests.unit.agent.core.support import START, Life, notice

TERMS = LockTerms(label="lock web (consul)")
POLICY = Policy(rules=(Rule(name="rule 1", approve=Approve.AT_ONCE),), lock=TERMS)


def living(*answers: tuple[LockAnswer, str]) -> Life:
    """Return a life in which an event waits for the lock."""
    life = Life(POLICY, memory=Memory(lock=Lock(state=LockState.FREE)))
    life.poll(notice())
    for answer, detail in answers:
        while not life.memory.lock.is_asking:
            life.sleep(SECOND)
        life.lock_says(answer, detail=detail)
    return life


# The status


def test_status_shows_the_lock_and_the_last_refusal() -> None:
    life = living((LockAnswer.REFUSED, "vm7 has it"))
    document = status.document_of(life.memory, waits=tuple(life.waits.items()))
    assert document["lock"] == {
        "lock": "lock web (consul)",
        "id": "vm1",
        "state": "wanted",
        "since": "2026-03-02T12:00:00Z",
        "expires": None,
        "refusal": "vm7 has it",
        "trouble": "",
    }
    arguments = list(status.words_of(document, now=START))
    assert (
        "lock      wanted since 2026-03-02T12:00:00Z: lock web (consul); vm7 has it"
        in arguments
    )
    assert (
        "  approval    not yet: waits for the lock web (consul): vm7 has it; at "
        "2026-03-02T12:14:50Z the event is approved without it" in arguments
    )


def test_status_without_a_lock_omits_the_lock() -> None:
    document = status.document_of(Memory(name="vm1"))
    assert document["lock"] is None
    lines = status.words_of(document, now=START)
    assert not any(line.startswith("lock") for line in lines)
    del document["lock"]
    assert list(status.words_of(document, now=START))


def test_problems_include_an_unavailable_lock_server() -> None:
    life = living((LockAnswer.TROUBLE, "connection refused"))
    assert locking.problems(life.memory, POLICY) == [
        "the lock web (consul) gives no usable answer: connection refused"
    ]
    life.sleep(2 * SECOND)
    life.lock_says(LockAnswer.TAKEN)
    assert locking.problems(life.memory, POLICY) == []


def test_problems_include_a_lock_removed_from_the_settings() -> None:
    life = living((LockAnswer.TAKEN, ""))
    [problem] = locking.problems(life.memory, replace(POLICY, lock=None))
    assert problem == (
        "vm1 may still hold the lock web (consul), and the settings have no table [lock]: "
        "restore it, or release the lock by hand"
    )


def test_agent_that_holds_the_lock_is_not_idle() -> None:
    memory = Memory(lock=Lock(state=LockState.FREE))
    assert not what(memory)
    for state in LockState:
        idle = state in {LockState.UNKNOWN, LockState.FREE}
        assert bool(what(replace(memory, lock=Lock(state=state)))) is not idle


def test_journal_keeps_the_lock() -> None:
    life = living((LockAnswer.REFUSED, "vm7 has it"), (LockAnswer.TROUBLE, "500"))
    memory = codec.load(Memory, codec.dump(life.memory))
    assert memory == life.memory
    assert memory.lock.last is LockAnswer.TROUBLE


# Metrics


def shown(counted: Metrics, memory: Memory) -> list[str]:
    text = counted.text(metrics.now_of(memory))
    return [
        line for line in text.splitlines() if line.startswith("forewarn_agent_lock")
    ]


def test_metrics_count_requests_and_show_the_state() -> None:
    life = Life(POLICY, memory=Memory(lock=Lock(state=LockState.FREE)))
    counted = Metrics(life.memory)
    assert 'forewarn_agent_lock{state="free"} 0' in shown(counted, life.memory)
    life.poll(notice())
    counted.decided(life.memory)
    for answer in (LockAnswer.REFUSED, LockAnswer.TROUBLE, LockAnswer.TROUBLE):
        life.lock_says(answer)
        counted.decided(life.memory)
        life.sleep(10 * SECOND)
        counted.decided(life.memory)
    lines = shown(counted, life.memory)
    assert 'forewarn_agent_lock{state="wanted"} 1' in lines
    assert 'forewarn_agent_lock{state="held"} 0' in lines
    assert 'forewarn_agent_lock_requests_total{result="refused"} 1' in lines
    assert 'forewarn_agent_lock_requests_total{result="trouble"} 2' in lines
    assert "forewarn_agent_lock_fault 1" in lines
    life.lock_says(LockAnswer.TAKEN)
    counted.decided(life.memory)
    lines = shown(counted, life.memory)
    assert 'forewarn_agent_lock{state="held"} 1' in lines
    assert "forewarn_agent_lock_fault 0" in lines


def test_metrics_exclude_requests_before_the_start() -> None:
    life = living((LockAnswer.REFUSED, ""))
    counted = Metrics(life.memory)
    life.restart()
    counted.decided(life.memory)
    lines = shown(counted, life.memory)
    assert 'forewarn_agent_lock_requests_total{result="refused"} 0' in lines


# `agent check`


def found_of(directory: Path, settings: str, look: Callable[[], str]) -> list[Finding]:
    file = directory / "agent.toml"
    file.write_text(f'listen = ""\nstate = "{directory}/agent.db"\n{settings}')
    document = plain(b'{"DocumentIncarnation":1,"Events":[]}')
    with scripted(document, document) as server:
        endpoint = Endpoint(lambda: (server.url,), clock=SystemClock())
        all_findings = list(
            findings(
                load_settings(file=str(file), environ={}, flags={}),
                endpoint=endpoint,
                checks=(),
                look_at_lock=look,
            )
        )
        endpoint.close()
    return [finding for finding in all_findings if finding.subject.startswith("lock")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_check_reports_the_lock_holder_or_why_it_is_unknown(
    kind: str, tmp_path: Path
) -> None:
    with bench_of(kind, tmp_path) as bench:
        lock = bench.settings()
        keys: dict[str, Any] = {
            key: getattr(lock, key)
            for key in ("kind", "url", "path", "group", "kubeconfig", "namespace")
            if getattr(lock, key)
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        text = "\n".join(["[lock]", *lines, ""])
        file = tmp_path / "looked.toml"
        file.write_text(text)
        settings = load_settings(file=str(file), environ={}, flags={})

        def look() -> str:
            return look_at_lock(settings, {}, SystemClock())

        [finding] = found_of(tmp_path, text, look)
        assert finding.is_well
        assert finding.text.startswith(f"web ({kind}")
        real_lock = lock_of(bench)
        real_lock.take("web_7", context_for(30, SystemClock()))
        [finding] = found_of(tmp_path, text, look)
        assert finding.is_well
        assert "web_7" in finding.text or kind == "fleetlock"
        with bench.away():
            [finding] = found_of(tmp_path, text, look)
        assert not finding.is_well
        assert bench.holders() == {"web_7"}


def test_check_reports_a_token_file_that_others_can_read(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    token.chmod(0o644)
    text = f'[lock]\nkind = "consul"\ntoken_file = "{token}"\n'
    lock_findings = found_of(tmp_path, text, lambda: "the lock is free")
    assert [(finding.subject, finding.is_well) for finding in lock_findings] == [
        ("lock", True),
        ("lock.token_file", False),
    ]
    assert lock_findings[1].text == f"other users can read {token}: run chmod 600 on it"


# `agent try`

WAITING = "  now      take the lock web (consul); if it is not had at NotBefore - 10s, "


def tried(policy: Policy, *notices: Any) -> list[str]:
    trial = attempt(policy, notices, name="vm1", now=START)
    return list(words_of(trial, notices, name="vm1", now=START))


@pytest.mark.parametrize(
    ("withholds", "then"),
    [(False, "approve without it"), (True, "leave it to NotBefore")],
)
def test_try_shows_the_lock_and_the_action_at_its_deadline(
    withholds: bool, then: str
) -> None:
    policy = replace(POLICY, lock=replace(TERMS, withholds=withholds, ttl=HOUR))
    assert tried(policy, notice())[2:] == [f"{WAITING}{then}", "  now      approve"]


def test_try_shows_no_end_of_the_wait_without_not_before() -> None:
    assert tried(POLICY, notice(not_before=None))[2:] == [
        "  now      take the lock web (consul)",
        "  now      approve",
    ]


def test_try_shows_an_event_that_does_not_wait_for_the_lock() -> None:
    due = notice(not_before=START + 5 * SECOND)
    assert tried(POLICY, due, notice("E2")) == [
        "Reboot Scheduled E1",
        "  matches  rule 1",
        "  now      approve",
        "  now      ask for the lock web (consul) too, so that others wait",
        "Reboot Scheduled E2",
        "  matches  rule 1",
        f"{WAITING}approve without it",
        "  now      approve",
    ]


def test_try_command_shows_the_lock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "agent.toml"
    settings.write_text(
        '[lock]\nkind = "fleetlock"\nurl = "http://192.0.2.1:3333"\n'
        '[[rule]]\napprove = "at once"\n'
    )
    events = tmp_path / "events.json"
    members = {
        "EventId": "E1",
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["vm1"],
        "NotBefore": "Mon, 02 Mar 2026 12:15:00 GMT",
    }
    events.write_text(json.dumps({"DocumentIncarnation": 1, "Events": [members]}))
    arguments = ["try", str(events), "--at", "2026-03-02T12:00:00Z"]
    assert main([*arguments, "--config", str(settings)]) == 0
    assert (
        "take the lock default (fleetlock at http://192.0.2.1:3333); if it is not had "
        "at NotBefore - 10s, approve without it" in capsys.readouterr().out
    )


# A dry run


def test_dry_run_logs_lock_requests_and_sends_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inputs: list[Input] = []
    dry = DryRun(inputs.append)
    with caplog.at_level("INFO", logger="forewarn.agent.dry"):
        dry.ask_lock(TakeLock(number=1, holder="vm1"))
        dry.ask_lock(ReleaseLock(number=2, holder="vm1"))
    assert caplog.messages == [
        "dry run: the lock would be taken now",
        "dry run: the lock would be released now",
    ]
    assert inputs == [
        LockResponse(number=1, answer=LockAnswer.TAKEN, detail="dry run: not run"),
        LockResponse(number=2, answer=LockAnswer.RELEASED, detail="dry run: not run"),
    ]
