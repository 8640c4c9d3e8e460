"""When the command line becomes the agent's own program, and how that is started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.cli.exec_agent import become_agent, is_run


@pytest.mark.parametrize(
    "words",
    [
        "agent",
        "agent --config a.toml",
        "agent --config=a.toml --log-level debug",
        "agent --poll=2s --endpoint http://127.0.0.1:1",
    ],
)
def test_run_command_is_recognized(words: str) -> None:
    assert is_run(words.split())


@pytest.mark.parametrize(
    "words",
    [
        "",
        "serve --config a.toml",
        "agent check",
        "agent --config a.toml status",
        "agent --help",
        "agent --config",
        "agent --config --poll",
        "agent --pol 2s",
        "agent a.toml",
    ],
)
def test_other_commands_are_not_run_commands(words: str) -> None:
    assert not is_run(words.split())


def test_agent_starts_with_a_safe_import_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, words: started.append(words))
    become_agent(["agent", "--config", "a.toml"], program="/usr/bin/forewarn")
    become_agent(["agent"], program="/src/forewarn/__main__.py")
    become_agent(["agent", "check"], program="/usr/bin/forewarn")
    become_agent(["agent", "--dry-run", "check"], program="/usr/bin/forewarn")
    become_agent(["agent", "--observe", "--push", "no"], program="/usr/bin/forewarn")
    first, second, third = started
    assert third[-3:] == ["--observe=true", "--push", "no"]
    assert first[0] == sys.executable
    assert first[-4:] == ["-m", "forewarn.agent", "--config", "a.toml"]
    assert "-P" in first
    assert second[-2:] == ["-m", "forewarn.agent"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--config", "none.toml"], "none.toml: cannot be read"),
        (["--poll", "never"], "flag --poll"),
        (["--pol", "2s"], "usage: forewarn agent"),
    ],
)
def test_errors_of_the_started_agent_are_reported_as_usual(
    flags: list[str], said: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "forewarn", "agent", *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr
