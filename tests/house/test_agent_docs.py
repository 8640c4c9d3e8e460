"""The pages about the agent are true: files, examples and outputs as they stand there."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.agent import front
from forewarn.agent.__main__ import main
from forewarn.agent.alerts.server import ALERTMANAGER_PATH, PROMETHEUS_PATH
from forewarn.agent.core.model import Note, NoteKind, Phase
from forewarn.agent.handlers.exec import variables
from forewarn.agent.handlers.port import Job, Worker
from forewarn.agent.handlers.webhook import usual_body
from forewarn.agent.locks.fleetlock import body_of
from forewarn.agent.option_table import LOCK_KINDS
from forewarn.agent.settings import load_settings
from forewarn.agent.settings_model import USUAL_ALERTS
from forewarn.agent.sinks.port import Notification
from forewarn.instants import MINUTE, parse_instant
from forewarn.protocol.decoder import decode
from forewarn.protocol.notices import Notice
from tests.support.recipes import (
    AGENT_PAGE,
    DECISIONS_PAGE,
    HANDLERS_PAGE,
    NOTES_PAGE,
    RULES_PAGE,
    settings_text,
)

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "agent"
PAGES = (AGENT_PAGE, DECISIONS_PAGE, NOTES_PAGE, RULES_PAGE, HANDLERS_PAGE)

NOW = parse_instant("2026-11-21T22:00:00Z")


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def notice() -> Notice:
    return decode((EXAMPLES / "events.json").read_bytes()).notices[0]


def job(handler: str) -> Job:
    run = f"{notice().event_id}.9c41e07b2d-1.1.prepare.1.{handler}"
    return Job(
        run_id=run,
        handler=handler,
        phase=Phase.PREPARE,
        attempt=1,
        notice=notice(),
        vm="web_0",
        stop_at=NOW + 2 * MINUTE,
        now=NOW,
    )


def rows(page: Path) -> Iterator[list[str]]:
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `FOREWARN_"):
            yield [cell.strip().strip("`") for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_shown_settings_are_valid(page: Path, tmp_path: Path) -> None:
    shown_blocks = blocks(page, "toml")
    assert shown_blocks
    for number, block in enumerate(shown_blocks):
        file = tmp_path / f"{number}.toml"
        file.write_text(settings_text(block))
        assert load_settings(file=str(file), environ={}, flags={}).warnings == ()


def test_agent_settings_in_the_readme_are_valid(tmp_path: Path) -> None:
    (block,) = [
        block for block in blocks(ROOT / "README.md", "toml") if "handler" in block
    ]
    file = tmp_path / "agent.toml"
    file.write_text(block)
    settings = load_settings(file=str(file), environ={}, flags={})
    assert [handler.name for handler in settings.handlers] == ["drain"]


@pytest.mark.parametrize(
    ("page", "language", "file"),
    [
        (AGENT_PAGE, "toml", "agent.toml"),
        (HANDLERS_PAGE, "sh", "handlers/pool.sh"),
        (HANDLERS_PAGE, "python", "handlers/checkpoint.py"),
    ],
)
def test_page_shows_the_example_file_unchanged(
    page: Path, language: str, file: str
) -> None:
    assert (EXAMPLES / file).read_text() in blocks(page, language)


def test_example_command_prints_the_documented_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(EXAMPLES)
    (shown,) = blocks(AGENT_PAGE, "console")
    command, _, output = shown.partition("\n")
    assert main(shlex.split(command.removeprefix("$ forewarn agent"))) == 0
    assert capsys.readouterr().out == output


def test_single_file_accepts_every_shown_command() -> None:
    """`forewarn agent check` is `forewarn-agent check` there, as the page says."""
    parser = front._parser()
    count = 0
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.splitlines():
                if line.startswith("forewarn agent"):
                    arguments = shlex.split(line, comments=True)[2:]
                    parser.parse_args(arguments)
                    count += 1
    assert count > 3


def test_table_of_variables_matches_the_program_environment() -> None:
    of_program = variables(job("pool"))
    shown = {name: value for name, value, *_ in rows(HANDLERS_PAGE)}
    long = {name for name in of_program if name.startswith("FOREWARN_EVENT_")}
    assert shown == {name: of_program[name] for name in long}
    short = {name.replace("EVENT_", "") for name in long}
    assert set(of_program) == long | short


def test_documented_json_matches_the_sent_json() -> None:
    event, posted = (json.loads(block) for block in blocks(HANDLERS_PAGE, "json"))
    raw = json.loads((EXAMPLES / "events.json").read_text())
    assert event == raw["Events"][0]
    sent = replace(job("balancer"), stop_at=NOW + MINUTE)
    assert posted == json.loads(usual_body(sent))

    (shown,) = blocks(NOTES_PAGE, "json")
    note = Note(
        at=parse_instant("2026-11-21T22:00:01Z"),
        kind=NoteKind.PREPARED,
        event_id=notice().event_id,
        notice=notice(),
    )
    assert json.loads(shown) == Notification(vm="web_0", note=note).as_json(17)


def test_shown_worker_protocol_matches_the_code() -> None:
    (shown,) = [
        block for block in blocks(HANDLERS_PAGE, "python") if "Protocol" in block
    ]
    methods = set(re.findall(r"def (\w+)\(", shown))
    assert methods == {name for name in vars(Worker) if not name.startswith("_")}


LOCKS_PAGE = ROOT / "docs" / "how-to" / "agent" / "lock.md"


@pytest.mark.parametrize(
    "text",
    [
        *(block for block in blocks(LOCKS_PAGE, "toml") if "airlock" not in block),
        (EXAMPLES / "lock.toml").read_text("utf-8"),
    ],
)
def test_shown_lock_settings_are_valid(text: str, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(text, encoding="utf-8")
    settings = load_settings(file=str(file), environ={}, flags={})
    assert settings.policy.lock is not None
    assert settings.warnings == ()


GATE_PAGE = ROOT / "docs" / "how-to" / "agent" / "alert-gate.md"


@pytest.mark.parametrize(
    "text", [*blocks(GATE_PAGE, "toml"), (EXAMPLES / "gate.toml").read_text("utf-8")]
)
def test_shown_gate_settings_are_valid(text: str, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(text, encoding="utf-8")
    settings = load_settings(file=str(file), environ={}, flags={})
    assert settings.policy.gate is not None
    assert settings.warnings == ()


def test_gate_page_shows_the_requests_and_the_ignored_alerts() -> None:
    text = GATE_PAGE.read_text("utf-8")
    assert f"`GET {PROMETHEUS_PATH}`" in text
    shown = ALERTMANAGER_PATH.replace("&unprocessed=true", "")
    assert f"`GET {shown}`" in text
    listed = ", ".join(f'"{alert}"' for alert in USUAL_ALERTS)
    assert f"The default of `ignore` is `[{listed}]`" in text


def test_documented_body_matches_the_sent_body() -> None:
    [shown] = blocks(LOCKS_PAGE, "json")
    assert shown.encode() == body_of("web_0", "default") + b"\n"


def test_each_lock_kind_has_its_section() -> None:
    text = LOCKS_PAGE.read_text("utf-8")
    for kind in LOCK_KINDS:
        assert f"| [`{kind}`](#{kind}) |" in text
        assert f"\n### {kind}\n" in text.lower()
        assert f"\n| `{kind}` | " in text.partition("## Release a lock by hand")[2]
