"""The front door: help, settings, extras, pipes, and the reference."""

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import forewarn as package
from deploy import cli_reference
from forewarn import cli
from forewarn.cli import parser, serve, settings
from forewarn.cli.client import Client
from forewarn.cli.command_table import Command, CommandError
from forewarn.cli.commands import COMMANDS
from forewarn.fleet.errors import FleetFileError
from forewarn.problems import Problem
from forewarn.protocol.errors import ForewarnError
from forewarn.service.option_table import OPTIONS
from forewarn.service.options import environment_name
from forewarn.supervisor import Supervisor
from tests.unit.cli.conftest import Ended, Served

ROOT = Path(__file__).resolve().parents[3]

Run = Callable[..., Ended]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_help_with_examples(forewarn: Run, command: Command) -> None:
    ended = forewarn(*command.path, "--help")
    assert ended.status == 0
    assert f"usage: forewarn {command.name}" in ended.out
    assert command.examples
    for example in command.examples:
        assert f"  {example}" in ended.out
    assert callable(parser.load(command.run))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_examples_of_each_command_parse(command: Command) -> None:
    for example in command.examples:
        example_words = shlex.split(example)[1:]
        arguments = parser.build(example_words).parse_args(example_words)
        assert isinstance(arguments, argparse.Namespace)
        assert arguments.chosen is command


def test_help_lists_commands_and_version_is_printed(forewarn: Run) -> None:
    ended = forewarn("--help")
    assert ended.status == 0
    for command in COMMANDS:
        assert f"    {command.path[0]}" in ended.out
    assert forewarn("--version").out == f"forewarn {package.__version__}\n"


def test_cli_reference_is_up_to_date(request: pytest.FixtureRequest) -> None:
    file = ROOT / "docs" / "reference" / "cli.md"
    if request.config.getoption("--rewrite"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(cli_reference.markdown(), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == cli_reference.markdown(), (
        "renew it with `pytest tests/unit/cli --rewrite`"
    )


@pytest.mark.system
@pytest.mark.slow
def test_package_without_extras_shows_help_and_checks_files_and_endpoints(
    tmp_path: Path,
) -> None:
    """Without an extra: whatever is not ours or Python's cannot be imported."""
    file = tmp_path / "fleet.toml"
    file.write_text('[[host]]\nname = "h1"\n')
    program = (
        "import sys\n"
        "class Bare:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in {'httpx2', 'rich', 'fastapi', 'uvicorn',"
        " 'uvloop', 'httptools', 'pydantic', 'starlette'}:\n"
        "            raise ModuleNotFoundError(f'No module {name}', name=name)\n"
        "sys.meta_path.insert(0, Bare())\n"
        "from forewarn import cli\n"
        "sys.exit(cli.main())\n"
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    assert run("--help").returncode == 0
    assert run("serve", "--help").returncode == 0
    assert "is valid" in run("fleet", "validate", str(file)).stdout
    nobody = run("conform", "http://127.0.0.1:9")
    assert (nobody.returncode, "cannot reach" in nobody.stderr) == (3, True)
    for command in (["serve"], ["operations"], ["reboot", "web_0"]):
        ended = run(*command)
        assert ended.returncode == 2
        assert "which is not installed" in ended.stderr
        assert "pip install 'forewarn[server]'" in ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.system
@pytest.mark.slow
def test_closed_output_pipe_causes_no_error() -> None:
    """`forewarn config show | true` must say nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        ended = subprocess.run(
            [sys.executable, "-m", "forewarn", "config", "show"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=120,
        )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_ctrl_c_returns_the_interrupted_status(
    forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_call: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(parser, "load", lambda _reference: interrupted)
    assert forewarn("fleet", "validate").status == cli.INTERRUPTED


def test_missing_own_module_is_not_reported_as_a_missing_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_reference: str) -> None:
        raise ModuleNotFoundError("No module", name="forewarn.cli.nothing")

    monkeypatch.setattr(parser, "load", broken)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["fleet", "validate"])


# Settings


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty directory, with no setting in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in OPTIONS:
        monkeypatch.delenv(environment_name(name), raising=False)
    return tmp_path


def test_config_show_prints_the_origin_of_each_setting(
    here: Path, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "forewarn.toml").write_text(
        "[timing]\nspeed = 2\nrecovery = '1m'\nfreeze_notice = '2m'\n"
    )
    monkeypatch.setenv("FOREWARN_TIMING_RECOVERY", "2m")
    monkeypatch.setenv("FOREWARN_TIMING_SPEED", "3")
    ended = forewarn("config", "show", "--timing-speed", "4", "--json")
    rows = {row["key"]: (row["value"], row["origin"]) for row in json.loads(ended.out)}
    assert rows["timing.speed"] == ("4", "flag --timing-speed")
    assert rows["timing.recovery"] == ("2m", "environment FOREWARN_TIMING_RECOVERY")
    assert rows["timing.freeze_notice"] == ("2m", "forewarn.toml:4")
    assert rows["admin.listen"] == ("127.0.0.1:8200", "default")
    shown = forewarn("config", "show").out
    assert len(shown.splitlines()) == len(rows)
    assert "timing.speed = 3" in shown


def test_all_invalid_settings_are_reported(here: Path, forewarn: Run) -> None:
    (here / "other.toml").write_text("[timing]\nspeed = 'fast'\nspede = 1\n")
    for command in (["config", "show"], ["serve"]):
        ended = forewarn(*command, "--config", "other.toml", "--timing-recovery", "x")
        assert (ended.status, ended.out) == (2, "")
        assert "other.toml:2" in ended.err
        assert "other.toml:3" in ended.err
        assert "flag --timing-recovery: " in ended.err
        # A command that reads these settings is refused too, and cannot be the hint.
        assert "`forewarn config" not in ended.err
        assert "hint: See the page 'Settings of the service'" in ended.err
    ended = forewarn("config", "show", "--config", "none.toml")
    assert ended.status == 2


def test_misspelled_variable_is_reported(
    here: Path, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREWARN_TIMING_SPED", "3")
    ended = forewarn("config", "show")
    assert "FOREWARN_TIMING_SPED" in ended.err


def test_every_setting_has_a_flag() -> None:
    flags = {option.name for option in settings.options()}
    assert len(flags) == len(OPTIONS)
    assert "--driver-simulated-live-migrate" in flags


def test_serve_runs_with_the_settings_and_the_fleet(
    here: Path, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[float, Path | None]] = []

    def run(
        found: settings.Settings, *, fleet: Path | None, supervisor: Supervisor
    ) -> int:
        assert supervisor == Supervisor(address="/run/notify")
        ran.append((found.timing.speed, fleet))
        return 0

    monkeypatch.setattr(serve, "run", run)
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/notify")
    assert forewarn("serve").status == 0
    assert forewarn("serve", "--fleet", "f.toml", "--timing-speed", "9").status == 0
    assert ran == [(1.0, None), (9.0, Path("f.toml"))]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (FleetFileError([Problem(file="f", line=1, key="k", message="m")]), 2),
        (serve.TokenFileError("no token", hint="write one"), 2),
        (ForewarnError("the address is taken", hint="another"), 1),
    ],
)
def test_start_failure_sets_the_exit_status(
    here: Path,
    forewarn: Run,
    monkeypatch: pytest.MonkeyPatch,
    error: ForewarnError,
    status: int,
) -> None:
    def run(_settings: object, *, fleet: Path | None, supervisor: object) -> int:
        raise error

    monkeypatch.setattr(serve, "run", run)
    ended = forewarn("serve")
    assert ended.status == status
    assert error.message in ended.err


@pytest.mark.usefixtures("service")
def test_token_with_roles_does_only_their_work(
    forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = forewarn("token", "create", "--role", "approve", "--role", "plan")
    assert "plan, approve" in forewarn("token", "list").out
    monkeypatch.setenv("FOREWARN_TOKEN", output.out)
    assert forewarn("operations").status == 0
    refused = forewarn("maintain", "h1", "--impact", "freeze")
    assert refused.status == 4
    assert "needs the role run; this token has only view, plan, approve" in refused.err
    assert "token create --role plan --role run --role approve" in refused.err
    assert forewarn("token", "create", "--role", "king").status == 2


def test_a_token_reaches_the_service(
    service: Served, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = forewarn("token", "create", "--tenant", "shop", "--name", "ci")
    assert output.out.startswith("fw_")
    assert "tenant shop" in output.err
    monkeypatch.setenv("FOREWARN_TOKEN", output.out)
    assert forewarn("operations").status == 0
    refused = forewarn("maintain", "h1", "--impact", "freeze")
    assert refused.status == 4
    assert "this token belongs to tenant" in refused.err
    monkeypatch.delenv("FOREWARN_TOKEN")
    (listed,) = json.loads(forewarn("token", "list", "--json").out)
    assert listed["id"] in forewarn("token", "list", "--tenant", "shop").out
    assert forewarn("token", "revoke", listed["id"]).status == 0
    monkeypatch.setenv("FOREWARN_TOKEN", output.out)
    assert forewarn("operations").status == 4
    with pytest.raises(CommandError, match="characters"):
        Client(service.url, "a\nb")
