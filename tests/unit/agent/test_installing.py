"""The command `agent install`: the unit, the instructions and the warnings."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.agent import __main__ as front
from forewarn.agent import commands, installing

UNPREPARED = "the agent prepares nothing and approves by its default rules"
MISTYPED = 'there is no such setting (did you mean "poll"?)'

Say = Callable[[], tuple[int, str, str]]


@pytest.fixture
def agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Say:
    monkeypatch.chdir(tmp_path)

    def run() -> tuple[int, str, str]:
        status = front.main(["install", "--config", "agent.toml"])
        output = capsys.readouterr()
        return status, output.out, output.err

    return run


def test_the_unit_starts_this_agent(agent: Say, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text("")
    if not Path("/run/systemd/system").is_dir():
        unit = installing.unit(["/opt/a b", "--config", "/etc/%.toml"])
        assert "ExecStart='/opt/a b' --config /etc/%%.toml\n" in unit
    status, out, _ = agent()
    assert status == 0
    for line in ("Type=notify", "WatchdogSec=60s", "KillMode=process"):
        assert line in out.splitlines()
    assert "does not exist yet" not in out
    assert f"--config {tmp_path}/agent.toml" in out


def test_unit_for_a_missing_settings_file_has_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be written on another machine, or before the file; not without a word."""
    monkeypatch.setattr(installing, "UNIT_FILE", f"{tmp_path}/agent.service")
    missing = f"{tmp_path}/none.toml"
    command = ("install", "--config", missing)
    assert front.main([*command, "--write"]) == 0
    output = capsys.readouterr().out
    assert f"  write {missing}: without it the agent does not start\n" in output
    unit = (tmp_path / "agent.service").read_text()
    assert unit.startswith(
        f"# {missing} does not exist yet, and without it the agent does not start.\n"
    )
    assert f"--config {missing}\n" in unit


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "observe = false\n",
            "{file} has no handler: " + UNPREPARED,
        ),
        (
            'polll = "1s"\n',
            "the agent does not start: {file}:1: polll: " + MISTYPED,
        ),
        ("observe = true\n", ""),
        ("dry_run = true\n", ""),
        ('[[handler]]\nname = "drain"\nkind = "exec"\nprepare = "true"\n', ""),
    ],
)
def test_install_warns_of_settings_without_a_handler(
    agent: Say, tmp_path: Path, text: str, warning: str
) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    status, _, err = agent()
    assert status == 0
    wanted = f"forewarn: warning: {warning.format(file=file)}\n" if warning else ""
    assert err == wanted


def test_install_warns_of_a_missing_default_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "USUAL_FILE", f"{tmp_path}/none.toml")
    assert front.main(["install"]) == 0
    assert capsys.readouterr().err == (
        f"forewarn: warning: {tmp_path}/none.toml does not exist: {UNPREPARED}\n"
    )


@pytest.mark.parametrize(
    ("platform", "openrc", "word"),
    [
        ("darwin", False, "launchctl"),
        ("win32", False, "Task Scheduler"),
        ("linux", True, "rc-update"),
        ("linux", False, "supervisor"),
    ],
)
def test_other_systems_get_instructions(platform: str, openrc: bool, word: str) -> None:
    message = installing.advice(
        platform, ["/opt/x", "--config", "y"], has_openrc=openrc
    )
    assert word in message
    assert "/opt/x" in message
