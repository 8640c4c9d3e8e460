"""`store check`, `store backup` and `completion`, as they are typed."""

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.cli.commands import COMMANDS
from tests.unit.cli.conftest import Ended
from tests.unit.store.written import write_a_life

Forewarn = Callable[..., Ended]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("store") / "forewarn.db"
    write_a_life(file)
    return file


@pytest.fixture
def file(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(written, tmp_path / "forewarn.db"))


@pytest.mark.usefixtures("file")
def test_check_of_a_valid_store_reports_no_violations(forewarn: Forewarn) -> None:
    for arguments in ((), ("forewarn.db",)):
        ended = forewarn("store", "check", *arguments)
        assert (ended.status, ended.out) == (0, "forewarn.db: no violations\n")


def test_violations_are_printed_and_set_the_exit_status(
    file: Path, forewarn: Forewarn
) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE vms SET tenant = 'bank' WHERE name = 'idle'")
    connection.close()
    ended = forewarn("store", "check")
    assert ended.status == 1
    assert ended.out == (
        "VM idle is of tenant bank, but its scope is of shop\n"
        "VM idle does not have exactly one open span in scope idle\n"
        "forewarn.db: 2 violations\n"
    )
    ended = forewarn("store", "check", str(file), "--json")
    assert ended.status == 1
    assert json.loads(ended.out) == {
        "file": str(file),
        "violations": [
            "VM idle is of tenant bank, but its scope is of shop",
            "VM idle does not have exactly one open span in scope idle",
        ],
    }


def test_backup_copies_the_configured_store(
    file: Path, tmp_path: Path, forewarn: Forewarn
) -> None:
    ended = forewarn("store", "backup", "copy.db")
    assert ended.status == 0
    assert ended.out.startswith("copy.db is a complete copy of forewarn.db, ")
    again = forewarn("store", "backup", "copy.db")
    assert again.status == 1
    assert "copy.db exists already" in again.err
    (tmp_path / "other.toml").write_text(f'[store]\nurl = "sqlite:///{file}"\n')
    ended = forewarn("store", "backup", "two.db", "--config", "other.toml", "--json")
    assert json.loads(ended.out)["of"] == str(file)


def test_path_that_is_not_a_store_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forewarn: Forewarn
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = forewarn("store", "check", "missing.db")
    assert (ended.status, ended.err) == (2, "forewarn: there is no file missing.db\n")
    ended = forewarn("store", "check", str(tmp_path))
    assert ended.status == 2
    assert f"{tmp_path} is a directory; name a file in it" in ended.err
    (tmp_path / "nothing.db").touch()
    ended = forewarn("store", "check", "nothing.db")
    assert ended.status == 1
    assert "nothing.db is empty: no service has used it yet" in ended.err
    assert forewarn("store", "backup", "copy.db").status == 1
    monkeypatch.setenv("FOREWARN_STORE_URL", "memory://")
    ended = forewarn("store", "backup", "copy.db")
    assert ended.status == 2
    assert "is not a file or a database (environment FOREWARN_STORE_URL)" in ended.err
    (tmp_path / "text").write_text("this is not a database, and long enough" * 9)
    ended = forewarn("store", "check", "text")
    assert ended.status == 1
    assert "Traceback" not in ended.err


# Completion

CASES: dict[tuple[str, ...], set[str]] = {
    ("",): {"fleet", "serve", "maintain", "store", "--url", "--help"},
    ("fle",): {"fleet"},
    ("fleet", ""): {"validate", "apply", "show", "export"},
    ("fleet", "a"): {"apply"},
    ("fleet", "apply", "--d"): {"--dry-run"},
    ("maintain", "h1", "--impact", ""): {
        "freeze",
        "live-migrate",
        "reboot",
        "redeploy",
    },
    ("--url", "fleet", "maint"): {"maintain"},
    ("maintain", "--impact", "reboot", "--em"): {"--emergency"},
    ("operations", "--state", "r"): {"ready", "recovering"},
    ("resolve", "op-1", "d"): {"done"},
    ("store", "c"): {"check", "copy"},
    ("completion", ""): {"bash", "zsh", "fish"},
    ("serve", "--config", "forewarn."): {"forewarn.toml"},
    ("serve", "--driver-attempts", ""): set(),
}


def script(forewarn: Forewarn, shell: str, directory: Path) -> Path:
    ended = forewarn("completion", shell)
    assert ended.status == 0
    file = directory / f"completion.{shell}"
    file.write_text(ended.out)
    (directory / "forewarn.toml").touch()
    return file


def run(shell: str, text: str, directory: Path) -> list[str]:
    """Return the lines that a shell prints."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [program, *flags, "-c", text],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "HOME": str(directory), "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_bash_completion_works(
    words: tuple[str, ...], forewarn: Forewarn, tmp_path: Path
) -> None:
    file = script(forewarn, "bash", tmp_path)
    quoted = " ".join(f"'{word}'" for word in ("forewarn", *words))
    completions = run(
        "bash",
        f"source {file}; complete -p forewarn >/dev/null\n"
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _forewarn\n"
        'printf "%s\\n" "${COMPREPLY[@]}"',
        tmp_path,
    )
    assert CASES[words] <= set(completions)
    if words[-1] or not CASES[words]:
        assert set(filter(None, completions)) == CASES[words]


def test_bash_completion_has_every_command(forewarn: Forewarn, tmp_path: Path) -> None:
    file = script(forewarn, "bash", tmp_path)
    text = file.read_text()
    for command in COMMANDS:
        assert f"'{command.name}')" in text or f" {command.name})" in text
    assert run("bash", f"bash -n {file} && echo sound", tmp_path) == ["sound"]


def test_zsh_completion_works(forewarn: Forewarn, tmp_path: Path) -> None:
    file = script(forewarn, "zsh", tmp_path)
    lines = run(
        "zsh",
        "autoload -Uz compinit; compinit -u -D\n"
        f"source {file}; echo $_comps[forewarn]\n"
        "setopt ksharrays; COMP_WORDS=(forewarn store c); COMP_CWORD=2; _forewarn\n"
        'echo "${COMPREPLY[@]}"',
        tmp_path,
    )
    assert "_forewarn" in lines[0]
    assert "check" in lines[1]


@pytest.mark.slow
def test_fish_completion_works(forewarn: Forewarn, tmp_path: Path) -> None:
    file = script(forewarn, "fish", tmp_path)
    commands = ("store c", "maintain h1 --impact ", "fleet apply --d")
    lines = [f"complete -C 'forewarn {command}'" for command in commands]
    completions = run("fish", "\n".join((f"source {file}", *lines)), tmp_path)
    assert [line.partition("\t")[0] for line in completions] == [
        "check",
        "copy",
        "freeze",
        "live-migrate",
        "reboot",
        "redeploy",
        "--dry-run",
    ]
